package plan

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// world plays API server, job controller and rollout for one node: it applies
// plans and lets Jobs end, so that tests speak about sequences.
type world struct {
	t     *testing.T
	in    Input
	seq   int64
	grant int
	// started lists every Job that was created, in order.
	started []string
	events  []Event
	// pods on the node that a drain has to do with, and whether somebody else
	// cordoned it. Evicted pods end at once, unless they are slow.
	pods    []Pod
	slow    bool
	foreign bool
}

func newWorld(t *testing.T, nws ...NodeWright) *world {
	t.Helper()
	w := &world{t: t, seq: 7, in: Input{
		Now:  time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC),
		Node: Node{Name: "n1", UID: "node-uid", BootID: "boot-1", Ready: true},
		Config: Config{
			PodStartGrace: 2 * time.Minute, BackoffBase: 10 * time.Second, BackoffMax: 5 * time.Minute,
		},
		NodeWrights: nws,
	}}
	for _, nw := range nws {
		w.grantSlot(nw.Name)
	}
	return w
}

func (w *world) nw(name string) *NodeWright {
	for i := range w.in.NodeWrights {
		if w.in.NodeWrights[i].Name == name {
			return &w.in.NodeWrights[i]
		}
	}
	w.t.Fatalf("no nodewright %s", name)
	return nil
}

func (w *world) pkg(nw, name string) *Package {
	n := w.nw(nw)
	for i := range n.Packages {
		if n.Packages[i].Name == name {
			return &n.Packages[i]
		}
	}
	w.t.Fatalf("no package %s", name)
	return nil
}

// grantSlot is what the rollout controller does.
func (w *world) grantSlot(nw string) {
	w.grant++
	batches := maps.Clone(w.in.Record.Batches)
	if batches == nil {
		batches = map[string]nodestate.Batch{}
	}
	batches[nw] = nodestate.Batch{ID: fmt.Sprint(w.grant), NodeWright: nw, Rollout: w.nw(nw).Revision, UID: w.nw(nw).UID, Order: 4}
	w.in.Record.Batches = batches
}

// pass computes and applies one plan.
func (w *world) pass() Plan {
	w.t.Helper()
	w.in.NextSeq = w.seq + 1
	w.in.Node.Unschedulable = w.foreign || len(w.in.Record.Cordons) > 0
	w.in.Pods = nil
	p := Compute(w.in)
	for range 5 {
		if len(p.Look) == 0 {
			break
		}
		w.in.Pods = map[string][]Pod{}
		for _, name := range p.Look {
			w.in.Pods[name] = w.pods
		}
		p = Compute(w.in)
	}
	again := Compute(w.in)
	if diff := cmp.Diff(p, again); diff != "" {
		w.t.Fatalf("equal inputs gave different plans:\n%s", diff)
	}
	w.apply(p)
	return p
}

func (w *world) apply(p Plan) {
	w.t.Helper()
	want, err := p.Set.Encode(nodestate.OwnerNode, w.in.NextSeq)
	if err != nil {
		w.t.Fatalf("plan cannot be written: %v", err)
	}
	have := newPlanner(&w.in).out.Set
	if was, err := have.Encode(nodestate.OwnerNode, w.in.NextSeq); err != nil || !cmp.Equal(was, want) {
		w.seq++
	}
	reports, pods, batches, malformed := w.in.Record.JobReports, w.in.Record.PodReports, w.in.Record.Batches, w.in.Record.Malformed
	w.in.Record.Set = p.Set
	w.in.Record.JobReports, w.in.Record.PodReports, w.in.Record.Batches, w.in.Record.Malformed = reports, pods, batches, malformed
	for _, d := range p.Delete {
		w.removeJob(d.UID)
	}
	for _, c := range p.Create {
		for _, j := range w.in.Jobs {
			if j.State == JobUnfinished && j.Identity.Ref() == c.Identity.Ref() {
				w.t.Fatalf("job %s is created while %s runs", c.Identity.JobName(), j.Name)
			}
		}
		w.checkQuiet(&c)
		name := c.Identity.JobName()
		w.in.Jobs = append(w.in.Jobs, Job{
			Name: name, UID: fmt.Sprintf("job-%d", len(w.started)+1), Identity: c.Identity, DeadlineSeconds: c.DeadlineSeconds,
		})
		w.started = append(w.started, fmt.Sprintf("%s/%s %s run %d attempt %d",
			c.Identity.NodeWright, c.Identity.Package, c.Identity.Stage, c.Identity.Run, c.Identity.Attempt))
	}
	for _, d := range p.Patch {
		for i := range w.in.Jobs {
			if w.in.Jobs[i].UID == d.UID {
				w.in.Jobs[i].DeadlineSeconds = d.DeadlineSeconds
			}
		}
	}
	for _, h := range p.Hold {
		for i := range w.in.Jobs {
			if w.in.Jobs[i].UID == h.UID {
				w.in.Jobs[i].Suspended, w.in.Jobs[i].Held = h.Suspend, h.Suspend
			}
		}
	}
	w.evict(p.Evict)
	w.events = append(w.events, p.Events...)
}

// checkQuiet fails where a node is disturbed that is not cordoned and empty, or
// interrupted while anything runs there.
func (w *world) checkQuiet(c *JobCreate) {
	w.t.Helper()
	interrupt := c.Identity.Interrupts()
	if interrupt != (c.Interrupt != nil) {
		w.t.Fatalf("job %s of stage %s has interrupt %v", c.Identity.JobName(), c.Identity.Stage, c.Interrupt)
	}
	if !interrupt {
		return
	}
	if !w.in.Node.Unschedulable || len(w.pods) > 0 {
		w.t.Fatalf("%s on a node that is not empty (cordoned: %t, pods: %v)", c.Identity.Stage, w.in.Node.Unschedulable, w.pods)
	}
	for _, j := range w.in.Jobs {
		if j.State == JobUnfinished && !j.Idle {
			w.t.Fatalf("%s while %s runs", c.Identity.Stage, j.Name)
		}
	}
}

func (w *world) evict(all []Eviction) {
	w.t.Helper()
	for _, e := range all {
		if !w.in.Node.Unschedulable {
			w.t.Fatalf("pod %s is evicted from a node that is not cordoned", e.Pod)
		}
		i := slices.IndexFunc(w.pods, func(p Pod) bool { return p.UID == e.UID })
		w.pods = slices.Clone(w.pods)
		switch {
		case i < 0:
			w.t.Fatalf("pod %s is evicted that nobody saw", e.Pod)
		case w.slow:
			w.pods[i].Terminating = true
		default:
			w.pods = slices.Delete(w.pods, i, i+1)
		}
	}
}

// reboot brings the node up again with another boot ID.
func (w *world) reboot() { w.in.Node.BootID += "+" }

// told tells whether an event of the reason was told.
func (w *world) told(reason string) bool {
	return slices.ContainsFunc(w.events, func(e Event) bool { return e.Reason == reason })
}

func (w *world) removeJob(uid string) {
	for i := range w.in.Jobs {
		if w.in.Jobs[i].UID == uid {
			w.in.Jobs = append(w.in.Jobs[:i:i], w.in.Jobs[i+1:]...)
			return
		}
	}
	w.t.Fatalf("no job %s", uid)
}

// running is the unfinished Job of a package.
func (w *world) running(nw, pkg string) *Job {
	for i := range w.in.Jobs {
		j := &w.in.Jobs[i]
		if j.State == JobUnfinished && j.Identity.NodeWright == nw && j.Identity.Package == pkg {
			return j
		}
	}
	w.t.Fatalf("no job of %s/%s runs", nw, pkg)
	return nil
}

func (w *world) succeed(nw, pkg string) { w.t.Helper(); w.running(nw, pkg).State = JobSucceeded }

// fail ends the running Job and reports it, as Job controller and job
// controller do.
func (w *world) fail(nw, pkg, reason string, harmless bool) {
	w.t.Helper()
	j := w.running(nw, pkg)
	j.State = JobFailed
	w.report(j, reason, harmless)
}

func (w *world) report(j *Job, reason string, harmless bool) {
	reports := maps.Clone(w.in.Record.JobReports)
	if reports == nil {
		reports = map[nodestate.PackageRef]nodestate.JobReport{}
	}
	code := int32(3)
	id := j.Identity
	reports[id.Ref()] = nodestate.JobReport{
		Attempt: id.Attempt, ExitCode: &code, FinishedAt: nodestate.FormatTime(w.in.Now), Harmless: harmless, Job: j.Name,
		Name: id.Package, NodeWright: id.NodeWright, Reason: reason, Run: id.Run, Stage: id.Stage, Version: id.Version,
	}
	w.in.Record.JobReports = reports
}

// finishAll passes and lets every Job succeed until nothing changes.
func (w *world) finishAll() {
	w.t.Helper()
	quiet := 0
	for range 100 {
		w.pass()
		idle := true
		for i := range w.in.Jobs {
			if j := &w.in.Jobs[i]; j.State == JobUnfinished {
				j.State, idle = JobSucceeded, false
				if w.rebootsFor(j) {
					w.reboot()
				}
			}
		}
		// Cordon and drain are passes without a Job.
		if quiet++; !idle {
			quiet = 0
		}
		if quiet == 4 {
			return
		}
	}
	w.t.Fatal("the node never came to rest")
}

// rebootsFor tells whether the Job reboots the node.
func (w *world) rebootsFor(j *Job) bool {
	e := w.in.Record.Packages[j.Identity.Ref()]
	return j.Identity.Interrupts() && rebooting(&e)
}

func (w *world) at(nw, pkg string) string {
	e, ok := w.in.Record.Packages[nodestate.PackageRef{NodeWright: nw, Package: pkg}]
	if !ok {
		return "absent"
	}
	return fmt.Sprintf("%s/%s", e.Stage, e.State)
}

func (w *world) want(nw, pkg, at string) {
	w.t.Helper()
	if got := w.at(nw, pkg); got != at {
		w.t.Fatalf("%s/%s is at %s, want %s", nw, pkg, got, at)
	}
}

func (w *world) wantStatus(nw string, word nodestate.StatusWord, slot nodestate.SlotState, reason string) {
	w.t.Helper()
	if got := w.in.Record.Status[nw]; got != word {
		w.t.Fatalf("status of %s is %q, want %q", nw, got, word)
	}
	if got := w.in.Record.Slots[nw]; got.State != slot || got.Reason != reason {
		w.t.Fatalf("slot of %s is %q (%s), want %q (%s)", nw, got.State, got.Reason, slot, reason)
	}
}

func makeNodeWright(name string, pkgs ...Package) NodeWright {
	return NodeWright{
		Name: name, UID: name + "-uid", Priority: 200, Selected: true, Revision: "r1", RetryLimit: 3, Packages: pkgs,
	}
}

func makeInterrupting(name, kind string, dependsOn ...string) Package {
	p := makePackage(name, dependsOn...)
	p.Interrupt = &nodestate.Interrupt{Type: kind}
	return p
}

func makePackage(name string, dependsOn ...string) Package {
	p := Package{Name: name, Version: "1.0.0", Image: "reg/" + name, SpecHash: "s1", StageTimeout: time.Hour}
	for _, d := range dependsOn {
		if p.DependsOn == nil {
			p.DependsOn = map[string]string{}
		}
		p.DependsOn[d] = "1.0.0"
	}
	return p
}
