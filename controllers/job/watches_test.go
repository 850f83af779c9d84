package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

const prefix = nodestate.Prefix

func TestNodeChanged(t *testing.T) {
	t.Parallel()
	ready := func(s corev1.ConditionStatus) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Conditions[0].Status = s }
	}
	set := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Annotations[key] = value }
	}
	for name, tc := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"heartbeat":                {change: func(n *corev1.Node) { n.Status.Conditions[0].LastHeartbeatTime = metav1.Now() }},
		"not ready":                {change: ready("False")},
		"unreachable":              {change: ready("Unknown"), want: true},
		"record moves on":          {change: set(prefix+"nodeState_a_pa", "2"), want: true},
		"record appears":           {change: set(prefix+"nodeState_a_pb", "1"), want: true},
		"record goes":              {change: func(n *corev1.Node) { delete(n.Annotations, prefix+"nodeState_a_pa") }, want: true},
		"somebody alters a report": {change: set(prefix+"jobState_a_pa", ""), want: true},
		"pod report":               {change: set(prefix+"podState_a_pa", "1")},
		"fence of another":         {change: set(prefix+"seq_node", "2")},
		"status word":              {change: set(prefix+"status_a", "complete")},
		"last key of a nodewright": {change: func(n *corev1.Node) { delete(n.Annotations, prefix+"status_a") }, want: true},
		"foreign annotation":       {change: set("example.com/x", "y")},
		"label":                    {change: func(n *corev1.Node) { n.Labels = map[string]string{"a": "b"} }},
		"another node":             {change: func(n *corev1.Node) { n.UID = "other" }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", Annotations: map[string]string{
					prefix + "nodeState_a_pa": "1", prefix + "status_a": "in_progress", prefix + "seq_job": "1",
				}},
				Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: "True"}}},
			}
			after := before.DeepCopy()
			tc.change(after)
			if got := nodeChanged().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("nodeChanged() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestJobChanged(t *testing.T) {
	t.Parallel()
	condition := func(kind batchv1.JobConditionType) func(*batchv1.Job) {
		return func(j *batchv1.Job) {
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: kind, Status: "True"})
		}
	}
	for name, tc := range map[string]struct {
		before, change func(*batchv1.Job)
		want           bool
	}{
		"pod becomes active":    {change: func(j *batchv1.Job) { j.Status.Active = 1 }},
		"fails":                 {change: condition(batchv1.JobFailed), want: true},
		"is about to fail":      {change: condition(batchv1.JobFailureTarget), want: true},
		"succeeds":              {change: condition(batchv1.JobComplete), want: true},
		"our own mark":          {change: func(j *batchv1.Job) { j.Annotations[packagejob.AnnotationRecorded] = "x" }},
		"mark removed":          {before: func(j *batchv1.Job) { j.Annotations[packagejob.AnnotationRecorded] = "x" }, change: func(j *batchv1.Job) { delete(j.Annotations, packagejob.AnnotationRecorded) }, want: true},
		"identity repaired":     {change: func(j *batchv1.Job) { j.Annotations[packagejob.AnnotationIdentity] = "{}" }, want: true},
		"of another namespace":  {before: func(j *batchv1.Job) { j.Namespace = "other" }, change: condition(batchv1.JobFailed)},
		"not of a package":      {before: func(j *batchv1.Job) { j.Labels = nil }, change: condition(batchv1.JobFailed)},
		"another job of a name": {change: func(j *batchv1.Job) { j.UID = "other" }, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Namespace: "sys", Name: "j", UID: "u", Labels: map[string]string{packagejob.LabelPackage: "p-1"},
				Annotations: map[string]string{},
			}}
			if tc.before != nil {
				tc.before(before)
			}
			after := before.DeepCopy()
			tc.change(after)
			if got := jobChanged("sys").Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.want {
				t.Errorf("jobChanged() = %t, want %t", got, tc.want)
			}
			ours := before.Namespace == "sys" && before.Labels != nil
			if got := jobChanged("sys").Create(event.CreateEvent{Object: before}); got != ours {
				t.Errorf("jobChanged() of a new Job = %t, want %t", got, ours)
			}
		})
	}
}

func TestPodDeleted(t *testing.T) {
	t.Parallel()
	before := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "sys", Labels: map[string]string{packagejob.LabelPackage: "p-1"}}}
	running, deleted := before.DeepCopy(), before.DeepCopy()
	running.Status.Phase = corev1.PodRunning
	deleted.DeletionTimestamp = ptr.To(metav1.Now())
	if podDeleted("sys").Update(event.UpdateEvent{ObjectOld: before, ObjectNew: running}) {
		t.Error("a pod that starts is let through")
	}
	if !podDeleted("sys").Update(event.UpdateEvent{ObjectOld: running, ObjectNew: deleted}) {
		t.Error("a pod that is deleted is not let through")
	}
	if podDeleted("other").Update(event.UpdateEvent{ObjectOld: running, ObjectNew: deleted}) {
		t.Error("a pod of another namespace is let through")
	}
	if podDeleted("sys").Update(event.UpdateEvent{ObjectOld: deleted, ObjectNew: deleted}) {
		t.Error("a pod is let through again while it ends")
	}
}
