package system

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
	"github.com/nodewright/nodewright/test/faults"
)

const (
	stressNodes = 50
	packages    = 4
	limit       = 5 * time.Minute
)

var nodeWrights = []string{"alpha", "beta"}

// TestStress is the claim of this project: whatever happens, no stage that was
// recorded complete runs again, and no key goes back.
func TestStress(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	for _, tc := range []struct {
		name string
		trouble
	}{
		{"restarts and a hostile writer", trouble{clean: true}},
		{"requests fail or lose their answer", trouble{plan: failing}},
		{"requests come late, and two managers lead", trouble{plan: late, twoLeaders: true}},
	} {
		t.Run(tc.name, func(t *testing.T) { stress(t, random, tc.trouble) })
	}
}

// trouble is what a run of the stress test has to bear besides restarts and the
// hostile writer.
type trouble struct {
	// plan of faults; nil for none.
	plan func(*rand.Rand) func(*http.Request) faults.Fault
	// twoLeaders says that a second manager works without asking for the lease.
	twoLeaders bool
	// clean says that no reconcile may fail at all.
	clean bool
}

// late lets one write of 10 come up to 4 seconds after its client was told that
// the connection broke, and went on.
func late(random *rand.Rand) func(*http.Request) faults.Fault {
	return func(req *http.Request) faults.Fault {
		if r := faults.Classify(req); !r.Writes() || random.IntN(10) != 0 {
			return faults.None
		}
		return faults.Late
	}
}

// failing lets one write of 12 fail: refused, answered 500, or cut off after
// it took effect.
func failing(random *rand.Rand) func(*http.Request) faults.Fault {
	kinds := []faults.Fault{faults.Fail, faults.Cut, faults.Refuse, faults.FailLate}
	return func(req *http.Request) faults.Fault {
		if r := faults.Classify(req); !r.Writes() || random.IntN(12) != 0 {
			return faults.None
		}
		return kinds[random.IntN(len(kinds))]
	}
}

func stress(t *testing.T, random *rand.Rand, tc trouble) {
	ctx, cancel := context.WithTimeout(t.Context(), limit+2*time.Minute)
	defer cancel()
	bed := startBed(ctx, t, managerConfiguration)
	bed.createNodes(ctx, t, stressNodes)
	if tc.plan != nil {
		delays := rand.New(rand.NewPCG(random.Uint64(), 3))
		bed.proxy.injector.Delay = func() time.Duration {
			return 500*time.Millisecond + time.Duration(delays.Int64N(int64(3500*time.Millisecond)))
		}
		bed.proxy.injector.Plan(tc.plan(random))
	}
	past := newHistory()
	if err := past.follow(ctx, bed.cs); err != nil {
		t.Fatal(err)
	}
	writer := &hostile{cs: bed.cs, nodes: bed.nodes, random: rand.New(rand.NewPCG(random.Uint64(), 2))}
	hostileCtx, stopHostile := context.WithCancel(ctx)
	defer stopHostile()
	go writer.run(hostileCtx)

	bed.start(t)
	if tc.twoLeaders {
		bed.startAnother(t)
	}
	bed.apply(ctx, t, manifests(random))

	bed.waitShare(ctx, t, 0.2)
	t.Log("stopping the operator and starting it again")
	if err := errors.Join(bed.op.Stop(), bed.op.Start()); err != nil {
		t.Fatal(err)
	}
	bed.waitShare(ctx, t, 0.6)
	t.Log("kill -9")
	if err := bed.op.Kill(); err != nil {
		t.Fatal(err)
	}
	bed.waitShare(ctx, t, 1)
	stopHostile()
	bed.checkLate(t, tc)
	bed.check(ctx, t, past, writer, tc.clean)
}

// manifests are two NodeWrights whose packages fail at random, once or twice,
// on some of the nodes.
func manifests(random *rand.Rand) string {
	var b strings.Builder
	for _, name := range nodeWrights {
		fmt.Fprintf(&b, "---\napiVersion: nodewright.nvidia.com/v1alpha1\nkind: NodeWright\nmetadata:\n  name: %s\nspec:\n  packages:\n", name)
		for i := range packages {
			fmt.Fprintf(&b, "    p%c:\n      version: 1.0.%d\n      image: nodewright.example/p%c\n", 'a'+i, i, 'a'+i)
			if i > 0 && random.IntN(2) == 0 {
				fmt.Fprintf(&b, "      dependsOn:\n        pa: 1.0.0\n")
			}
			outcome := []string{"fail", "fail", "reject"}[random.IntN(3)]
			fmt.Fprintf(&b, "      env:\n      - {name: SIM_OUTCOME, value: %s}\n      - {name: SIM_ATTEMPTS, value: \"1\"}\n"+
				"      - {name: SIM_NODES, value: \"%d$\"}\n      - {name: SIM_STAGES, value: %s}\n",
				outcome, random.IntN(10), []string{"apply", "config"}[random.IntN(2)])
		}
	}
	return b.String()
}

// waitShare waits until this share of all entries is complete at the last
// stage.
func (b *bed) waitShare(ctx context.Context, t *testing.T, share float64) {
	t.Helper()
	want := int(share * float64(stressNodes*packages*len(nodeWrights)))
	var complete int
	var open []string
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, limit, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-b.op.Failed():
			return false, err
		default:
		}
		nodes, err := b.cs.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		complete, open = count(nodes.Items)
		return complete >= want, nil
	})
	if err != nil {
		t.Fatalf("wait for %d complete entries, %d are: %v\nopen: %v\nlog of the operator: %s",
			want, complete, err, open[:min(len(open), 10)], b.op.LogTail())
	}
	t.Logf("%d entries are complete", complete)
}

func count(nodes []corev1.Node) (complete int, open []string) {
	for i := range nodes {
		rec := nodestate.Decode(nodes[i].Annotations, nodeWrights)
		for _, nw := range nodeWrights {
			for p := range packages {
				ref := nodestate.PackageRef{NodeWright: nw, Package: fmt.Sprintf("p%c", 'a'+p)}
				e, ok := rec.Packages[ref]
				if ok && e.Complete(nodestate.StageConfig) {
					complete++
				} else {
					open = append(open, fmt.Sprintf("%s %v %s %s %s", nodes[i].Name, ref, place(&e), e.Reason, e.Message))
				}
			}
		}
	}
	slices.Sort(open)
	return complete, open
}

// checkLate wants that late writes to nodes came, and that admission refused
// those that were overtaken: without it they would have put an old record back.
func (b *bed) checkLate(t *testing.T, tc trouble) {
	t.Helper()
	delivered := b.proxy.injector.Delivered()
	toNodes := func(code int) int {
		return delivered.Sum(func(r faults.Request) bool { return r.Name() == "nodes" && (code == 0 || r.Code == code) })
	}
	if !tc.twoLeaders {
		return
	}
	t.Logf("%d late requests, %d of them to nodes, of which %d were refused", delivered.Sum(func(faults.Request) bool { return true }),
		toNodes(0), toNodes(http.StatusForbidden))
	if toNodes(http.StatusForbidden) == 0 {
		t.Error("no late write to a node was refused: the fence was not put to the test")
	}
}

// check holds what was seen against what must be.
func (b *bed) check(ctx context.Context, t *testing.T, past *history, writer *hostile, clean bool) {
	t.Helper()
	b.checkJobs(ctx, t)
	past.mu.Lock()
	defer past.mu.Unlock()
	for i, fault := range past.faults {
		if i == 20 {
			t.Errorf("and %d more", len(past.faults)-i)
			break
		}
		t.Error(fault)
	}
	if n := writer.writes.Load(); n < 500 {
		t.Errorf("the hostile writer wrote %d times only", n)
	}
	if n := writer.errs.Load(); n > 0 {
		t.Errorf("the hostile writer failed %d times: somebody blocks writes of others", n)
	}
	if n := b.kills.Load(); n < 1 || clean && n > 1 {
		t.Errorf("the operator was started again %d times, want once after kill -9", n)
	}
	// A Job that was created right before the end of the operator is there already
	// when the next one creates it: 409 to a create is no conflict of writers.
	conflicts := b.proxy.counter.Snapshot().Sum(func(r faults.Request) bool {
		return r.Writes() && r.Verb != "create" && r.Code == http.StatusConflict
	})
	t.Logf("%d changes of nodes seen, hostile writer wrote %d times, %d conflicts", past.events, writer.writes.Load(), conflicts)
	if !clean {
		return
	}
	if conflicts > 0 {
		t.Errorf("%d writes were answered with a conflict", conflicts)
	}
	log, err := os.ReadFile(filepath.Join(b.cp.LogDir(), "manager.log"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(log)) {
		// What is under way when the operator is told to stop ends with its context.
		if strings.Contains(line, "Reconciler error") && !strings.Contains(line, "context canceled") {
			t.Errorf("reconcile error: %s", line)
		}
	}
}

// checkJobs wants one Job that succeeded for each stage on each node, and none
// that was created after it.
func (b *bed) checkJobs(ctx context.Context, t *testing.T) {
	t.Helper()
	jobs, err := b.cs.BatchV1().Jobs(operator.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	type stage struct {
		node, nodeWright, pkg string
		stage                 nodestate.Stage
	}
	succeeded := map[stage][]packagejob.Identity{}
	attempts := map[stage]int32{}
	for i := range jobs.Items {
		id, err := packagejob.Parse(&jobs.Items[i])
		if err != nil {
			t.Errorf("job %s: %v", jobs.Items[i].Name, err)
			continue
		}
		at := stage{id.Node, id.NodeWright, id.Package, id.Stage}
		attempts[at] = max(attempts[at], id.Attempt)
		if condition, _ := packagejob.Finished(&jobs.Items[i]); condition == batchv1.JobComplete {
			succeeded[at] = append(succeeded[at], id)
		}
	}
	if want := stressNodes * packages * len(nodeWrights) * 2; len(succeeded) != want {
		t.Errorf("%d stages have a job that succeeded, want %d", len(succeeded), want)
	}
	retried := 0
	for at, ids := range succeeded {
		if len(ids) != 1 {
			t.Errorf("stage %v ran to its end %d times: %v", at, len(ids), ids)
		}
		if ids[0].Attempt != attempts[at] {
			t.Errorf("stage %v succeeded at attempt %d, and attempt %d was started all the same", at, ids[0].Attempt, attempts[at])
		}
		if attempts[at] > 1 {
			retried++
		}
	}
	if retried == 0 {
		t.Error("no stage was retried: the simulation let nothing fail")
	}
	t.Logf("%d jobs, %d stages retried", len(jobs.Items), retried)
}
