package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

func uninstallable(apply bool) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		p := nw.Spec.Packages["driver"]
		p.Uninstall = &v1alpha1.Uninstall{Enabled: true, Apply: apply}
		nw.Spec.Packages["driver"] = p
		nw.Spec.Packages["tuning"] = v1alpha1.Package{Version: "1.0.0", Image: "registry.example/tuning"}
	}
}

// recorded is a node with entries of both packages.
func recorded(name string, e nodestate.PackageStatus, labels ...string) *corev1.Node {
	tuning := entry(e.NodeWright, "tuning", nodestate.StateComplete)
	return node(name, annotations(map[nodestate.Owner]nodestate.Set{nodestate.OwnerNode: {
		Packages: map[nodestate.PackageRef]nodestate.PackageStatus{e.Ref(): e, tuning.Ref(): tuning},
	}}), labels...)
}

func TestCollectUninstalls(t *testing.T) {
	for _, name := range []string{"gpu", longName} {
		failed := entry(name, "driver", nodestate.StateErroring)
		failed.Stage = nodestate.StageUninstall
		present := plan.Uninstall{Package: "driver", Reason: failed.Reason, Message: failed.Message}
		broken := present
		broken.Failed = true
		for label, tc := range map[string]struct {
			change func(*v1alpha1.NodeWright)
			entry  nodestate.PackageStatus
			want   []plan.Uninstall
		}{
			"not asked for":        {uninstallable(false), failed, nil},
			"install failed":       {uninstallable(true), entry(name, "driver", nodestate.StateErroring), []plan.Uninstall{present}},
			"uninstall failed":     {uninstallable(true), failed, []plan.Uninstall{broken}},
			"deleted":              {func(nw *v1alpha1.NodeWright) { uninstallable(false)(nw); deleting(nw) }, failed, []plan.Uninstall{broken}},
			"deleted, has no such": {deleting, failed, nil},
		} {
			t.Run(name+"/"+label, func(t *testing.T) {
				nw := nodeWright(name, selecting("gpu"), tc.change)
				got := gathered([]corev1.Node{*recorded("n1", tc.entry, "gpu")}, nw, emptyMemory(nw))
				if diff := cmp.Diff(tc.want, got[0].Uninstalls, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("uninstalls (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// The end of an uninstall is seen even where the word stays.
func TestEntryThatIsUninstalledConcerns(t *testing.T) {
	before, after := recorded("n", entry("gpu", "driver", nodestate.StateComplete), "gpu"), node("n", nil, "gpu")
	for apply, want := range map[bool]int{true: 1, false: 0} {
		list := []v1alpha1.NodeWright{*nodeWright("gpu", selecting("gpu"), uninstallable(apply))}
		if got := concerned(before, after, list); len(got) != want {
			t.Errorf("with apply %t, the change concerns %v, want %d", apply, got, want)
		}
	}
}

// What an entry names is kept, wherever it is and whatever becomes of it.
func TestUsedConfigs(t *testing.T) {
	t.Run("UN-09", func(t *testing.T) {
		leaving := entry("gpu", "driver", nodestate.StateInProgress)
		leaving.Stage, leaving.ConfigHash = nodestate.StageUninstall, "old"
		nodes := []corev1.Node{*recorded("n1", leaving), *node("n2", nil, "gpu")}
		for label, change := range map[string]func(*v1alpha1.NodeWright){
			"not selected": selecting("gpu"), "uninstall": uninstallable(true), "deleted": deleting,
			"package left the spec": func(nw *v1alpha1.NodeWright) { nw.Spec.Packages = nil },
		} {
			used, certain := usedConfigs(nodes, nodeWright("gpu", change))
			if !used["old"] || !certain {
				t.Errorf("%s: used %v, certain %t", label, used, certain)
			}
		}
		if used, _ := usedConfigs(nodes[1:], nodeWright("gpu")); used["old"] {
			t.Error("a configuration is used that no entry names")
		}
	})
}
