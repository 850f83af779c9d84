package rollout

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
)

// longName is the name of a NodeWright whose keys are all shortened.
var longName = strings.Repeat("n", 60)

func nodeWright(name string, change ...func(*v1alpha1.NodeWright)) *v1alpha1.NodeWright {
	nw := &v1alpha1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1},
		Spec: v1alpha1.NodeWrightSpec{Packages: map[string]v1alpha1.Package{
			"driver": {Version: "1.0.0", Image: "registry.example/driver"},
		}},
	}
	for _, c := range change {
		c(nw)
	}
	return nw
}

func selecting(label string) func(*v1alpha1.NodeWright) {
	return func(nw *v1alpha1.NodeWright) { nw.Spec.NodeSelectors.MatchLabels = map[string]string{label: "true"} }
}

func deleting(nw *v1alpha1.NodeWright) { nw.DeletionTimestamp = &metav1.Time{} }

// annotations are what the sets of these owners are on a node.
func annotations(sets map[nodestate.Owner]nodestate.Set) map[string]string {
	out := map[string]string{}
	for owner, set := range sets {
		encoded, err := set.Encode(owner, 7)
		if err != nil {
			panic(err)
		}
		for key, value := range encoded.Annotations {
			out[key] = value
		}
	}
	return out
}

func node(name string, annotations map[string]string, labels ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1", Annotations: annotations, Labels: map[string]string{},
	}}
	for _, l := range labels {
		n.Labels[l] = "true"
	}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

func entry(nw, pkg string, state nodestate.State) nodestate.PackageStatus {
	return nodestate.PackageStatus{
		NodeWright: nw, Name: pkg, Version: "1.0.0", Image: "registry.example/" + pkg,
		Stage: nodestate.StageApply, State: state, Run: 1, Attempt: 1, Reason: "ExitCode", Message: "step failed",
	}
}

// fleet are n nodes in the middle of a rollout, with the records of three
// packages each.
func fleet(nw *v1alpha1.NodeWright, n int) []corev1.Node {
	words := []nodestate.StatusWord{nodestate.StatusComplete, nodestate.StatusInProgress, nodestate.StatusErroring, nodestate.StatusBlocked}
	out := make([]corev1.Node, 0, n)
	for i := range n {
		set := nodestate.Set{
			Status:   map[string]nodestate.StatusWord{nw.Name: words[i%len(words)]},
			Slots:    map[string]nodestate.Slot{nw.Name: {ID: "7", State: nodestate.SlotReleased, Reason: nodestate.SlotComplete}},
			Packages: map[nodestate.PackageRef]nodestate.PackageStatus{},
		}
		for _, pkg := range []string{"driver", "tuning", "tools"} {
			set.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: pkg}] = entry(nw.Name, pkg, nodestate.StateComplete)
		}
		out = append(out, *node(fmt.Sprintf("node-%05d", i), annotations(map[nodestate.Owner]nodestate.Set{
			nodestate.OwnerNode: set,
			nodestate.OwnerRollout: {Batches: map[string]nodestate.Batch{nw.Name: {
				ID: "7", Batch: 1, Order: int32(i), Rollout: revision.Of(nw), UID: string(nw.UID),
			}}},
		}), "gpu"))
	}
	return out
}
