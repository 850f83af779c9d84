package node

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
)

var (
	ourTaint     = corev1.Taint{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	kubeletTaint = corev1.Taint{Key: "skyhook.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
)

// sequence is a writer that notes in which order it was asked.
type sequence struct {
	*paper
	asked    []string
	taintErr error
	applyErr error
	outcome  apply.Outcome
}

func (s *sequence) Apply(ctx context.Context, view *apply.View, set nodestate.Set, unschedulable bool) (apply.Outcome, error) {
	s.asked = append(s.asked, "record")
	if s.applyErr != nil {
		return 0, s.applyErr
	}
	return s.paper.Apply(ctx, view, set, unschedulable)
}

func (s *sequence) Release(context.Context, *apply.View) (apply.Outcome, error) {
	s.asked = append(s.asked, "release")
	return apply.Written, nil
}

func (s *sequence) ChangeTaints(_ context.Context, _ *apply.View, change apply.TaintChange) (apply.Outcome, error) {
	if change.Put != nil {
		s.asked = append(s.asked, "put "+change.Put.Key)
	}
	for i := range change.Remove {
		s.asked = append(s.asked, "remove "+change.Remove[i].Key)
	}
	return s.outcome, s.taintErr
}

// What keeps workloads off comes before the record, what lets them in after it.
func TestOrderOfTaintsAndRecord(t *testing.T) {
	failed := errors.New("not now")
	nw := func(change func(*v1alpha1.NodeWright)) *v1alpha1.NodeWright {
		out := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid", CreationTimestamp: metav1.NewTime(start.Add(-time.Hour))}}
		out.Spec.RuntimeRequired = true
		change(out)
		return out
	}
	eager := nw(func(nw *v1alpha1.NodeWright) {
		nw.Spec.AutoTaintNewNodes = true
		nw.Spec.Packages = map[string]v1alpha1.Package{"pa": {Version: "1.0.0", Image: "reg/pa"}}
	})
	done := nw(func(*v1alpha1.NodeWright) {})
	recorded := nodestate.Record{Seq: map[nodestate.Owner]int64{nodestate.OwnerNode: 3}}
	tests := map[string]struct {
		nw     *v1alpha1.NodeWright
		record nodestate.Record
		taints []corev1.Taint
		set    func(*sequence)
		want   []string
		events int
		err    bool
	}{
		"put":               {eager, nodestate.Record{}, nil, nil, []string{"put nodewright.nvidia.com", "record"}, 1, false},
		"put, had it":       {eager, nodestate.Record{}, nil, func(s *sequence) { s.outcome = apply.Unchanged }, []string{"put nodewright.nvidia.com", "record"}, 0, false},
		"put fails":         {eager, nodestate.Record{}, nil, func(s *sequence) { s.taintErr = failed }, []string{"put nodewright.nvidia.com"}, 0, true},
		"put, node is gone": {eager, nodestate.Record{}, nil, func(s *sequence) { s.outcome = apply.NodeGone }, []string{"put nodewright.nvidia.com"}, 0, false},
		// One event that the node is complete, one for both taints.
		"complete":                       {done, recorded, []corev1.Taint{kubeletTaint, ourTaint}, nil, []string{"record", "remove nodewright.nvidia.com", "remove skyhook.nvidia.com"}, 2, false},
		"DR-19 complete, record fails":   {done, recorded, []corev1.Taint{ourTaint}, func(s *sequence) { s.applyErr = failed }, []string{"record"}, 0, true},
		"complete, removal fails":        {done, recorded, []corev1.Taint{ourTaint}, func(s *sequence) { s.taintErr = failed }, []string{"record", "remove nodewright.nvidia.com"}, 1, true},
		"complete, without taint":        {done, recorded, nil, nil, []string{"record"}, 1, false},
		"nobody requires it, ours first": {nil, recorded, []corev1.Taint{kubeletTaint, ourTaint}, nil, []string{"record", "remove nodewright.nvidia.com"}, 1, false},
		"nobody requires it, ours gone":  {nil, recorded, []corev1.Taint{kubeletTaint}, nil, []string{"release"}, 0, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var objects []client.Object
			if tc.nw != nil {
				objects = append(objects, tc.nw.DeepCopy())
			}
			f := newFixture(t, interceptor.Funcs{}, objects...)
			w := &sequence{paper: f.paper, outcome: apply.Written}
			if tc.set != nil {
				tc.set(w)
			}
			f.opts.Writer, f.opts.Taints = w, w
			f.opts.RuntimeRequired = []corev1.Taint{ourTaint, kubeletTaint}
			f.paper.view.Record = tc.record
			f.paper.view.Node.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
			f.paper.view.Node.Spec.Taints = slices.Clone(tc.taints)
			_, err := f.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "n1"}})
			if (err != nil) != tc.err {
				t.Fatalf("error %v", err)
			}
			if diff := cmp.Diff(tc.want, w.asked); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			if told := f.told(); told != tc.events {
				t.Errorf("%d events, want %d", told, tc.events)
			}
		})
	}
}

// Only what is configured counts, whenever it was added.
func TestStandingTaints(t *testing.T) {
	dated := ourTaint
	dated.TimeAdded = &metav1.Time{Time: start}
	otherValue, otherEffect := ourTaint, ourTaint
	otherValue.Value, otherEffect.Effect = "other", corev1.TaintEffectNoExecute
	got := standing([]corev1.Taint{otherValue, otherEffect, kubeletTaint, dated}, []corev1.Taint{ourTaint, kubeletTaint})
	if diff := cmp.Diff([]corev1.Taint{ourTaint, kubeletTaint}, got); diff != "" {
		t.Errorf("standing (-want +got):\n%s", diff)
	}
}
