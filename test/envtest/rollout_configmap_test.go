package envtest

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
)

// withConfig gives the package driver a configMap.
func withConfig(content string) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) {
		nw.Spec.Packages["driver"] = v1alpha1.Package{
			Version: "1.0.0", Image: "registry.example.com/driver", ConfigMap: map[string]string{"driver.conf": content},
		}
	}
}

func held(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "none" }

func configName(nw *v1alpha1.NodeWright, content string) string {
	return revision.ConfigMapName(nw.Name, nw.UID, "driver", revision.ConfigHash(map[string]string{"driver.conf": content}))
}

func (b *bed) configMap(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	cm := &corev1.ConfigMap{}
	err := b.admin.Get(t.Context(), types.NamespacedName{Namespace: b.namespace, Name: name}, cm)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return cm
}

func wantConfigMap(t *testing.T, cm *corev1.ConfigMap, nw *v1alpha1.NodeWright, content string) {
	t.Helper()
	if diff := cmp.Diff(map[string]string{"driver.conf": content}, cm.Data); diff != "" {
		t.Errorf("data (-want +got):\n%s", diff)
	}
	if !ptr.Deref(cm.Immutable, false) || len(cm.OwnerReferences) != 0 ||
		cm.Labels[packagejob.LabelName] != packagejob.LabelValue(nw.Name) {
		t.Errorf("immutable %v, owners %+v, labels %v", cm.Immutable, cm.OwnerReferences, cm.Labels)
	}
}

func TestConfigMapStandsBeforeTheGrant(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	nw := b.createNodeWright(t, "", withConfig("one"))
	b.awaitGrant(t, node, nw.Name)
	cm := b.configMap(t, configName(nw, "one"))
	if cm == nil {
		t.Fatal("a node holds a slot and the ConfigMap does not exist")
	}
	wantConfigMap(t, cm, nw, "one")
	if err := b.admin.Delete(t.Context(), cm); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted ConfigMap is back", func() bool {
		again := b.configMap(t, cm.Name)
		return again != nil && again.UID != cm.UID
	})
}

// UP-02, UP-03: a ConfigMap of an earlier operator, with other labels and
// another owner, is taken over where it stands.
func TestConfigMapIsAdopted(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) { withConfig("one")(nw); held(nw) })
	b.awaitStatus(t, nw.Name, nodestate.StatusBlocked)
	old := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: b.namespace, Name: configName(nw, "one"),
			Labels: map[string]string{"skyhook.nvidia.com/name": "old"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "skyhook.nvidia.com/v1alpha1", Kind: "Skyhook", Name: "old", UID: "old", Controller: ptr.To(true),
			}},
		},
		Data: map[string]string{"driver.conf": "one"},
	}
	if err := b.admin.Create(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "" })
	b.awaitGrant(t, node, nw.Name)
	cm := b.configMap(t, old.Name)
	wantConfigMap(t, cm, nw, "one")
	if cm.UID != old.UID {
		t.Error("the ConfigMap was replaced, want it adopted")
	}
}

// A ConfigMap under the name with another content cannot be changed: it is
// replaced, which is told of each package apart.
func TestConfigMapIsReplaced(t *testing.T) {
	b := newRolloutBed(t)
	node := b.createNode(t).Name
	nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) {
		withConfig("one")(nw)
		nw.Spec.Packages["tuning"] = nw.Spec.Packages["driver"]
		held(nw)
	})
	b.awaitStatus(t, nw.Name, nodestate.StatusBlocked)
	var wrong *corev1.ConfigMap
	for _, pkg := range []string{"tuning", "driver"} {
		wrong = &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: b.namespace,
				Name:      revision.ConfigMapName(nw.Name, nw.UID, pkg, revision.ConfigHash(map[string]string{"driver.conf": "one"})),
			},
			Immutable: ptr.To(true), Data: map[string]string{"driver.conf": "wrong"},
		}
		if err := b.admin.Create(t.Context(), wrong); err != nil {
			t.Fatal(err)
		}
	}
	b.edit(t, nw.Name, func(nw *v1alpha1.NodeWright) { nw.Spec.DeploymentPolicy = "" })
	b.awaitGrant(t, node, nw.Name)
	wantConfigMap(t, b.configMap(t, wrong.Name), nw, "one")
	want := []string{"ConfigMapReplaced spec.packages{driver}", "ConfigMapReplaced spec.packages{tuning}"}
	if diff := cmp.Diff(want, b.recorder.partsOf("ConfigMapReplaced")); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The API server refuses the name of a file: the NodeWright says so.
func TestConfigMapThatCannotBeStored(t *testing.T) {
	b := newRolloutBed(t)
	nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) {
		nw.Spec.Packages["driver"] = v1alpha1.Package{
			Version: "1.0.0", Image: "registry.example.com/driver", ConfigMap: map[string]string{"no/such/name": "x"},
		}
	})
	got := b.awaitStatus(t, nw.Name, nodestate.StatusBlocked)
	if c := conditionOf(t, got, v1alpha1.ConditionBlocked); c.Reason != v1alpha1.ReasonInvalidSpec {
		t.Errorf("condition %+v", c)
	}
}

// ConfigMaps have no owner, so that no garbage collector takes them before their
// time: they go with the finalizer, and also where somebody took that off.
func TestConfigMapsGoWithTheNodeWright(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, b *bed, node string, nw *v1alpha1.NodeWright){
		"deleted": func(t *testing.T, b *bed, node string, nw *v1alpha1.NodeWright) {
			if err := b.admin.Delete(t.Context(), nw.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			b.settle(t)
			if b.configMap(t, configName(nw, "one")) == nil {
				t.Error("the ConfigMap is gone while a node has records")
			}
			b.forgetOn(t, node, nw.Name)
		},
		"finalizer taken off": func(t *testing.T, b *bed, _ string, nw *v1alpha1.NodeWright) { b.removeNodeWright(t, nw.Name) },
	} {
		t.Run(name, func(t *testing.T) {
			b := newRolloutBed(t)
			node := b.createNode(t).Name
			nw := b.createNodeWright(t, "", withConfig("one"))
			other := b.createNodeWright(t, "-b", withConfig("one"))
			for _, name := range []string{nw.Name, other.Name} {
				b.awaitGrant(t, node, name)
				b.answer(t, node, name, nodestate.SlotReleased, nodestate.StatusComplete)
			}
			end(t, b, node, nw)
			eventually(t, "NodeWright and ConfigMap are gone", func() bool {
				return b.nodeWright(t, nw.Name) == nil && b.configMap(t, configName(nw, "one")) == nil
			})
			if b.configMap(t, configName(other, "one")) == nil {
				t.Error("the ConfigMap of another NodeWright is gone")
			}
		})
	}
}

// Old contents go once all nodes are complete, but for those that a record
// names.
func TestConfigMapsAreSwept(t *testing.T) {
	for name, tc := range map[string]struct{ stillUsed bool }{
		"nobody names it":   {false},
		"a record names it": {true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newRolloutBed(t)
			node, other := b.createNode(t).Name, b.createNode(t).Name
			nw := b.createNodeWright(t, "", func(nw *v1alpha1.NodeWright) {
				withConfig("one")(nw)
				nw.Spec.NodeSelectors.MatchExpressions = []metav1.LabelSelectorRequirement{{
					Key: "example.com/out", Operator: metav1.LabelSelectorOpDoesNotExist,
				}}
			})
			roll := func(content string, nodes ...string) {
				t.Helper()
				entry := configured(nw, content)
				for _, n := range nodes {
					b.awaitGrant(t, n, nw.Name)
					b.answer(t, n, nw.Name, nodestate.SlotReleased, nodestate.StatusComplete, entry)
				}
				b.awaitStatus(t, nw.Name, nodestate.StatusComplete)
			}
			roll("one", node, other)
			if tc.stillUsed {
				// It is not selected any more, and keeps what it has.
				patch(t, other, "somebody", `{"metadata":{"labels":{"example.com/out":"true"}}}`)
			} else {
				deleteNode(t, other)
			}
			b.edit(t, nw.Name, withConfig("two"))
			eventually(t, "the new content is there", func() bool { return b.configMap(t, configName(nw, "two")) != nil })
			b.settle(t)
			if b.configMap(t, configName(nw, "one")) == nil {
				t.Fatal("the old content is gone while a node works")
			}
			roll("two", node)
			b.settle(t)
			if got := b.configMap(t, configName(nw, "one")) != nil; got != tc.stillUsed {
				t.Errorf("old content is there: %t, want %t", got, tc.stillUsed)
			}
			if b.configMap(t, configName(nw, "two")) == nil {
				t.Error("the present content is gone")
			}
		})
	}
}

// configured is the entry of a node that has the content.
func configured(nw *v1alpha1.NodeWright, content string) nodestate.PackageStatus {
	return entryOf(&packagejob.Identity{
		NodeWright: nw.Name, NodeWrightUID: nw.UID, Package: "driver", Version: "1.0.0", Stage: nodestate.StageConfig, Run: 1, Attempt: 1,
	}, func(e *nodestate.PackageStatus) {
		e.State, e.ConfigHash = nodestate.StateComplete, revision.ConfigHash(map[string]string{"driver.conf": content})
	})
}
