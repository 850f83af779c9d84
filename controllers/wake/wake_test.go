package wake

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// Q1: Jobs are queued by the node of the pod template, never by a label.
func TestNodeOf(t *testing.T) {
	long := strings.Repeat("n", 253)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{packagejob.LabelNode: "other"}}}
	job.Spec.Template.Spec.NodeName = long
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: long}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: long}}
	for name, got := range map[string][]reconcile.Request{
		"job": NodeOfJob(t.Context(), job), "pod": NodeOfPod(t.Context(), pod), "node": Node(t.Context(), node),
	} {
		if len(got) != 1 || got[0].Name != long {
			t.Errorf("%s: %v", name, got)
		}
	}
	for name, got := range map[string][]reconcile.Request{
		"job without node": NodeOfJob(t.Context(), &batchv1.Job{}), "pod not bound": NodeOfPod(t.Context(), &corev1.Pod{}),
		"node for a job": NodeOfJob(t.Context(), client.Object(node)), "job for a pod": NodeOfPod(t.Context(), client.Object(job)),
	} {
		if len(got) != 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestKeysDiffer(t *testing.T) {
	entry := nodestate.NewPackageKey(nodestate.KindNodeState, "nw", "pa").String()
	batch := nodestate.NewKey(nodestate.KindBatch, "nw").String()
	tests := map[string]struct {
		a, b  map[string]string
		kinds []nodestate.Kind
		want  bool
	}{
		"nothing":             {nil, nil, nil, false},
		"same":                {map[string]string{entry: "x"}, map[string]string{entry: "x"}, nil, false},
		"added":               {nil, map[string]string{entry: "x"}, nil, true},
		"removed":             {map[string]string{entry: "x"}, nil, nil, true},
		"changed":             {map[string]string{entry: "x"}, map[string]string{entry: "y"}, nil, true},
		"empty value":         {map[string]string{entry: ""}, nil, nil, true},
		"key of a user":       {map[string]string{nodestate.Prefix + "my-team": "x"}, nil, nil, false},
		"foreign key":         {map[string]string{"example.com/a": "x"}, nil, nil, false},
		"of another kind":     {map[string]string{batch: "x"}, nil, []nodestate.Kind{nodestate.KindNodeState}, false},
		"of one of the kinds": {map[string]string{batch: "x"}, nil, []nodestate.Kind{nodestate.KindNodeState, nodestate.KindBatch}, true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := KeysDiffer(tc.a, tc.b, tc.kinds...); got != tc.want {
				t.Errorf("differ: %t, want %t", got, tc.want)
			}
		})
	}
}

func TestRateLimiterEnds(t *testing.T) {
	l := RateLimiter()
	req := Named("n1")[0]
	for range 30 {
		if wait := l.When(req); wait > MaxBackoff {
			t.Fatalf("waits %s, at most %s", wait, MaxBackoff)
		}
	}
	if wait := l.When(Named("n2")[0]); wait > minBackoff {
		t.Fatalf("another node waits %s", wait)
	}
}

func TestAt(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	for name, tc := range map[string]struct {
		next time.Time
		want time.Duration
	}{
		"nothing is due": {time.Time{}, 0},
		"later":          {now.Add(time.Minute), time.Minute},
		"now":            {now, time.Nanosecond},
		"overdue":        {now.Add(-time.Minute), time.Nanosecond},
	} {
		if got := At(tc.next, now).RequeueAfter; got != tc.want {
			t.Errorf("%s: after %s, want %s", name, got, tc.want)
		}
	}
}
