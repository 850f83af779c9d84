package plan_test

import (
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/job/plan"
)

var (
	ref     = nodestate.PackageRef{NodeWright: "tuning", Package: "driver"}
	created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ended   = created.Add(time.Minute)
)

func identity(change func(*packagejob.Identity)) packagejob.Identity {
	id := packagejob.Identity{
		Attempt: 1, Node: "n1", NodeUID: "node-uid", NodeWright: "tuning", NodeWrightUID: "nw-uid",
		Package: "driver", Run: 7, Stage: nodestate.StageConfig, Version: "1.2.3",
	}
	if change != nil {
		change(&id)
	}
	return id
}

func job(t testing.TB, id packagejob.Identity, outcome batchv1.JobConditionType, reason string) *batchv1.Job {
	t.Helper()
	value, err := id.Encode()
	if err != nil {
		t.Fatal(err)
	}
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: id.JobName(), UID: types.UID("uid-" + id.JobName()), Labels: id.Labels(),
		Annotations: map[string]string{packagejob.AnnotationIdentity: value}, CreationTimestamp: metav1.NewTime(created),
	}}
	j.Spec.Template.Spec.NodeName = id.Node
	j.Status.StartTime = ptr.To(metav1.NewTime(created))
	if outcome != "" {
		j.Status.Conditions = []batchv1.JobCondition{{
			Type: outcome, Status: "True", Reason: reason, LastTransitionTime: metav1.NewTime(ended),
		}}
	}
	return j
}

func entry(change func(*nodestate.PackageStatus)) nodestate.PackageStatus {
	e := nodestate.PackageStatus{
		Attempt: 1, Name: "driver", NodeWright: "tuning", Run: 7, Stage: nodestate.StageConfig,
		State: nodestate.StateInProgress, UID: "nw-uid", Version: "1.2.3",
	}
	if change != nil {
		change(&e)
	}
	return e
}

func record(entries ...nodestate.PackageStatus) nodestate.Record {
	rec := nodestate.Record{Seq: map[nodestate.Owner]int64{nodestate.OwnerNode: 9}}
	rec.Packages = map[nodestate.PackageRef]nodestate.PackageStatus{}
	for _, e := range entries {
		rec.Packages[e.Ref()] = e
	}
	return rec
}

func report(change func(*nodestate.JobReport)) nodestate.JobReport {
	r := nodestate.JobReport{
		Attempt: 1, FinishedAt: nodestate.FormatTime(ended), Job: identity(nil).JobName(), Name: "driver",
		NodeWright: "tuning", Reason: "Error", Run: 7, Stage: nodestate.StageConfig, Version: "1.2.3",
	}
	if change != nil {
		change(&r)
	}
	return r
}

// pod is a pod of the Job that ended with the status.
func pod(j *batchv1.Job, name string, status corev1.PodStatus) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, CreationTimestamp: metav1.NewTime(created),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "batch/v1", Kind: "Job", Name: j.Name, UID: j.UID, Controller: ptr.To(true),
			}},
		},
		Status: status,
	}
}

// exited is a status of a pod whose second init container ended with the code.
func exited(code int32, reason string) corev1.PodStatus {
	return corev1.PodStatus{
		Phase: corev1.PodFailed,
		InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "driver-init", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: "Completed"}}},
			{Name: "driver-config", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason},
			}},
		},
		ContainerStatuses: []corev1.ContainerStatus{
			{Name: "done", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "PodInitializing"}}},
		},
	}
}

func attempt(j *batchv1.Job) plan.Attempt { return plan.Attempt{Job: j, Identity: identity(nil)} }
