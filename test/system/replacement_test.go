package system

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
	"github.com/nodewright/nodewright/test/poll"
)

// JB-30: two pods of a Job never share the directory of the host: the second one is
// created when the first has ended, not when its end was asked for. The Job is as
// it is built, the Job controller the real one, and there is no kubelet: the pod
// ends when the test says so.
// JB-09: what was disrupted counts for nothing, and is replaced some time later.
func TestSecondPodWaitsForTheFirst_JB30_JB09(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cp.Stop(); err != nil {
			t.Error(err)
		}
	})
	cs, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	job := runStage(ctx, t, cs)

	first := awaitPods(ctx, t, cs, job, 1)[0]
	first.Status = corev1.PodStatus{Phase: corev1.PodRunning}
	if _, err := cs.CoreV1().Pods(job.Namespace).UpdateStatus(ctx, &first, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := cs.CoreV1().Pods(job.Namespace).Delete(ctx, first.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](60)}); err != nil {
		t.Fatal(err)
	}
	// The Job controller has seen it, and waits.
	awaitJob(ctx, t, cs, job, func(s *batchv1.JobStatus) bool { return ptr.Deref(s.Terminating, 0) == 1 && s.Active == 0 })
	for since := time.Now(); time.Since(since) < 3*time.Second; time.Sleep(100 * time.Millisecond) {
		if pods := podsOf(ctx, t, cs, job); len(pods) != 1 || pods[0].UID != first.UID {
			t.Fatalf("%d pods while the first one ends", len(pods))
		}
	}

	ended, err := cs.CoreV1().Pods(job.Namespace).Get(ctx, first.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended.Status.Phase = corev1.PodFailed
	ended.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "TerminationByKubelet", LastTransitionTime: metav1.Now(),
	}}
	if _, err := cs.CoreV1().Pods(job.Namespace).UpdateStatus(ctx, ended, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	awaitJob(ctx, t, cs, job, func(s *batchv1.JobStatus) bool { return s.Active == 1 })
	if !slices.ContainsFunc(podsOf(ctx, t, cs, job), func(p corev1.Pod) bool { return p.UID != first.UID }) {
		t.Error("the Job is active without another pod")
	}
	now, err := cs.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if outcome, finished := packagejob.Finished(now); finished || now.Status.Failed != 0 {
		t.Errorf("the Job is %s with %d failures, and was only disrupted", outcome, now.Status.Failed)
	}
}

// runStage creates the Job of a stage, on a node that no kubelet serves.
func runStage(ctx context.Context, t *testing.T, cs kubernetes.Interface) *batchv1.Job {
	t.Helper()
	node, err := cs.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pkg := v1alpha1.Package{Version: "1.0.0", Image: "nodewright.example/pa"}
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
	nw.Spec.Packages = map[string]v1alpha1.Package{"pa": pkg}
	job, _, err := stagejob.Build(&stagejob.Settings{
		Namespace: metav1.NamespaceDefault, AgentImage: "nodewright.example/agent:7.0.0",
		CopyDirRoot: "/var/lib/skyhook", AgentLogRoot: "/var/log/skyhook", HostRoot: "/",
	}, &stagejob.Request{
		Identity: packagejob.Identity{
			Attempt: 1, Node: node.Name, NodeUID: node.UID, NodeWright: nw.Name, NodeWrightUID: nw.UID,
			Package: "pa", Run: 1, Stage: nodestate.StageApply, Version: pkg.Version,
		},
		NodeWright: nw, Package: &pkg, Image: pkg.Image, SpecHash: "h", BootID: "boot-1",
	})
	if err != nil {
		t.Fatal(err)
	}
	job.Spec.Template.Spec.ServiceAccountName = "default"
	if job, err = cs.BatchV1().Jobs(job.Namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return job
}

func podsOf(ctx context.Context, t *testing.T, cs kubernetes.Interface, job *batchv1.Job) []corev1.Pod {
	t.Helper()
	pods, err := cs.CoreV1().Pods(job.Namespace).List(ctx, metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + job.Name})
	if err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

func awaitPods(ctx context.Context, t *testing.T, cs kubernetes.Interface, job *batchv1.Job, n int) []corev1.Pod {
	t.Helper()
	var pods []corev1.Pod
	poll.Until(t, "the Job has pods", time.Minute, func() error {
		if pods = podsOf(ctx, t, cs, job); len(pods) != n {
			return fmt.Errorf("%d pods, want %d", len(pods), n)
		}
		return nil
	})
	return pods
}

func awaitJob(ctx context.Context, t *testing.T, cs kubernetes.Interface, job *batchv1.Job, done func(*batchv1.JobStatus) bool) {
	t.Helper()
	poll.Until(t, "the status of the Job", time.Minute, func() error {
		now, err := cs.BatchV1().Jobs(job.Namespace).Get(ctx, job.Name, metav1.GetOptions{})
		if err == nil && !done(&now.Status) {
			err = fmt.Errorf("it is %+v", now.Status)
		}
		return err
	})
}
