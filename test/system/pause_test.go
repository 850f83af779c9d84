package system

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

const repairedManifest = `
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: long
spec:
  packages:
    pa:
      version: 1.0.0
      image: nodewright.example/pa
`

const hangingManifest = repairedManifest + "      env: [{name: SIM_OUTCOME, value: hang}]\n"

// TestPause_JB11_JB13_JB14: JB-11 what a pause ends is no failure, and goes on as the same Job;
// JB-14 with its whole time; JB-13 what was repaired meanwhile never runs as it was.
func TestPause_JB11_JB13_JB14(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := startBed(ctx, t, managerConfiguration)
	b.createNodes(ctx, t, 2)
	c := newClient(t, b.cp.Config())
	b.start(t)
	b.apply(ctx, t, hangingManifest)
	b.wantRunning(ctx, t, 2)
	began := b.jobs(ctx, t)

	b.annotateNodeWright(ctx, t, "pause=true")
	b.wantRunning(ctx, t, 0)
	b.wantWord(ctx, t, c, nodestate.StatusPaused)
	for uid, job := range b.jobs(ctx, t) {
		if began[uid].Name == "" || !ptr.Deref(job.Spec.Suspend, false) || job.Status.StartTime != nil {
			t.Errorf("paused: Job %s is suspended: %t, started: %v; want those that ran, suspended, with no time running",
				job.Name, ptr.Deref(job.Spec.Suspend, false), job.Status.StartTime)
		}
	}
	for _, node := range b.nodes {
		if e := b.entry(ctx, t, node); e.Reason != "Paused" || e.Failures != 0 || e.State != nodestate.StateInProgress {
			t.Errorf("node %s, paused: the record says %+v", node, e)
		}
	}

	b.annotateNodeWright(ctx, t, "pause-")
	b.wantRunning(ctx, t, 2)
	b.wantWord(ctx, t, c, nodestate.StatusInProgress)
	for uid, job := range b.jobs(ctx, t) {
		if began[uid].Name == "" || ptr.Deref(job.Spec.Suspend, false) {
			t.Errorf("after the pause: Job %s is another one, or still suspended", job.Name)
		}
	}

	b.annotateNodeWright(ctx, t, "disable=true")
	b.wantRunning(ctx, t, 0)
	b.apply(ctx, t, repairedManifest)
	b.annotateNodeWright(ctx, t, "disable-")
	for _, node := range b.nodes {
		b.wantComplete(ctx, t, node, "long", "pa")
		if e := b.entry(ctx, t, node); e.Failures != 0 {
			t.Errorf("node %s: %d failures are counted", node, e.Failures)
		}
	}
	b.wantNoneResumedSince(ctx, t, began)
	b.runAgain(ctx, t)
}

// runAgain asks one node for another run, and tells another to forget a record
// that cannot be read.
func (b *bed) runAgain(ctx context.Context, t *testing.T) {
	t.Helper()
	before := map[string]int64{}
	for _, node := range b.nodes {
		before[node] = b.entry(ctx, t, node).Run
	}
	key := nodestate.NewPackageKey(nodestate.KindNodeState, "long", "pa").String()
	request := nodestate.NewPackageKey(nodestate.KindPackageRequest, "long", "pa").String()
	b.annotate(ctx, t, b.nodes[1], key, "{}")
	b.annotate(ctx, t, b.nodes[0], request, `{"action":"rerun","id":"1","stage":"config"}`)
	b.annotate(ctx, t, b.nodes[1], request, `{"action":"reset","id":"1"}`)
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		for _, name := range b.nodes {
			rec, err := b.record(ctx, name)
			if err != nil {
				return "", err
			}
			e := rec.Packages[nodestate.PackageRef{NodeWright: "long", Package: "pa"}]
			if e.Run <= before[name] || !e.Complete(nodestate.StageConfig) || len(rec.Requests) != 0 || len(rec.Handled) != 0 {
				return fmt.Sprintf("node %s: %s run %d after run %d, requests %+v, handled %v", name, place(&e), e.Run, before[name],
					rec.Requests, rec.Handled), nil
			}
		}
		return "", nil
	})
	stages := map[string]int{}
	for _, job := range b.jobs(ctx, t) {
		if id, err := packagejob.Parse(&job); err == nil && id.Run > before[id.Node] {
			stages[id.Node+" "+string(id.Stage)]++
		}
	}
	want := map[string]int{b.nodes[0] + " config": 1, b.nodes[1] + " apply": 1, b.nodes[1] + " config": 1}
	if !maps.Equal(stages, want) {
		t.Errorf("Jobs of the new runs: %v, want %v", stages, want)
	}
}

// wantRunning waits for this many pods of packages that have not ended.
func (b *bed) wantRunning(ctx context.Context, t *testing.T, want int) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		pods, err := b.cs.CoreV1().Pods(operator.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		running, open := 0, 0
		for i := range pods.Items {
			status := &pods.Items[i].Status
			if status.Phase == corev1.PodSucceeded || status.Phase == corev1.PodFailed {
				continue
			}
			open++
			// A pod is Pending as long as its init containers run, which do the work.
			if slices.ContainsFunc(status.InitContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil }) {
				running++
			}
		}
		if open != want || running != want {
			return fmt.Sprintf("%d pods have not ended, %d run, want %d", open, running, want), nil
		}
		return "", nil
	})
}

func (b *bed) wantWord(ctx context.Context, t *testing.T, c client.Client, want nodestate.StatusWord) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		var nw v1alpha1.NodeWright
		if err := c.Get(ctx, client.ObjectKey{Name: "long"}, &nw); err != nil {
			return "", err
		}
		if nw.Status.Status != want {
			return fmt.Sprintf("status is %q, want %q", nw.Status.Status, want), nil
		}
		return "", nil
	})
}

// jobs are the Jobs of packages, by UID.
func (b *bed) jobs(ctx context.Context, t *testing.T) map[string]batchv1.Job {
	t.Helper()
	jobs, err := b.cs.BatchV1().Jobs(operator.Namespace).List(ctx, metav1.ListOptions{LabelSelector: packagejob.LabelPackage})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]batchv1.Job{}
	for _, job := range jobs.Items {
		out[string(job.UID)] = job
	}
	return out
}

func (b *bed) entry(ctx context.Context, t *testing.T, node string) nodestate.PackageStatus {
	t.Helper()
	rec := nodestate.Decode(b.node(ctx, t, node).Annotations, nil)
	return rec.Packages[nodestate.PackageRef{NodeWright: "long", Package: "pa"}]
}

func (b *bed) annotateNodeWright(ctx context.Context, t *testing.T, change string) {
	t.Helper()
	if _, err := b.op.Kubectl(ctx, "annotate", "nodewright", "long", nodestate.Prefix+change); err != nil {
		t.Fatal(err)
	}
}

// wantNoneResumedSince: a Job of the spec before the repair was deleted as it was.
func (b *bed) wantNoneResumedSince(ctx context.Context, t *testing.T, before map[string]batchv1.Job) {
	t.Helper()
	events, err := b.cs.EventsV1().Events(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	resumed := 0
	for i := range events.Items {
		if e := &events.Items[i]; e.Reason == "JobResumed" {
			resumed++
			if e.Series != nil {
				resumed += int(e.Series.Count) - 1
			}
		}
	}
	if resumed != len(before) {
		t.Errorf("%d times a Job went on, want %d: only after the first pause", resumed, len(before))
	}
	for uid, job := range b.jobs(ctx, t) {
		if _, old := before[uid]; old {
			t.Errorf("Job %s of the spec before the repair is still there", job.Name)
		}
	}
}
