package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

var (
	ourTaint     = corev1.Taint{Key: "nodewright.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
	kubeletTaint = corev1.Taint{Key: "skyhook.nvidia.com", Value: "runtime-required", Effect: corev1.TaintEffectNoSchedule}
)

func taintsOf(taints ...corev1.Taint) []corev1.Taint { return taints }

// required is a NodeWright that keeps workloads off.
func required(name string, change ...func(*NodeWright)) NodeWright {
	nw := makeNodeWright(name, makePackage("pa"))
	nw.RuntimeRequired = true
	for _, c := range change {
		c(&nw)
	}
	return nw
}

// newTaintWorld is a node that carries both taints, with a configuration that has
// them.
func newTaintWorld(t *testing.T, nws ...NodeWright) *world {
	t.Helper()
	w := newWorld(t, nws...)
	w.in.Config.Taints = taintsOf(ourTaint, kubeletTaint)
	w.in.Config.NewNode = 10 * time.Minute
	w.in.Taints = taintsOf(ourTaint, kubeletTaint)
	return w
}

// step passes, and plays the API server for taints and the number.
func (w *world) step() Plan {
	w.t.Helper()
	before := w.seq
	p := w.pass()
	if w.seq != before {
		w.in.Record.Seq = map[nodestate.Owner]int64{nodestate.OwnerNode: w.seq}
	}
	if p.Taints.Put != nil {
		w.in.Taints = append(slices.Clone(w.in.Taints), *p.Taints.Put)
	}
	w.in.Taints = slices.DeleteFunc(slices.Clone(w.in.Taints), func(t corev1.Taint) bool {
		return slices.Contains(p.Taints.Remove, t)
	})
	return p
}

func TestTaintsGo(t *testing.T) {
	incomplete := func(change ...func(*NodeWright)) func(*world) {
		return func(w *world) { w.in.NodeWrights = append(w.in.NodeWrights, required("late", change...)) }
	}
	complete := func(change func(*NodeWright)) func(*world) { return func(w *world) { change(w.nw("early")) } }
	both, ours := taintsOf(ourTaint, kubeletTaint), taintsOf(ourTaint)
	tests := map[string]struct {
		change func(*world)
		want   []corev1.Taint
		by     []string
	}{
		"all complete":                     {func(*world) {}, both, []string{"early"}},
		"one is not":                       {incomplete(), nil, nil},
		"that one does not require it":     {incomplete(func(n *NodeWright) { n.RuntimeRequired = false }), both, []string{"early"}},
		"that one does not select it":      {incomplete(func(n *NodeWright) { n.Selected = false }), both, []string{"early"}},
		"that one is being deleted":        {incomplete(func(n *NodeWright) { n.Deleting = true }), both, []string{"early"}},
		"that one is paused":               {incomplete(func(n *NodeWright) { n.Paused = true }), nil, nil},
		"that one is disabled":             {incomplete(func(n *NodeWright) { n.Disabled = true }), nil, nil},
		"that one is held":                 {incomplete(func(n *NodeWright) { n.Held = "not supported" }), nil, nil},
		"that one has no packages":         {incomplete(func(n *NodeWright) { n.Packages = nil }), both, []string{"early", "late"}},
		"held without packages":            {incomplete(func(n *NodeWright) { n.Packages, n.Held = nil, "not supported" }), nil, nil},
		"complete and paused":              {complete(func(n *NodeWright) { n.Paused = true }), both, []string{"early"}},
		"complete and held":                {complete(func(n *NodeWright) { n.Held = "not supported" }), nil, nil},
		"complete for an earlier version":  {complete(func(n *NodeWright) { n.Packages[0].Version = "2.0.0" }), nil, nil},
		"ignored":                          {func(w *world) { w.in.Node.Ignored = true }, nil, nil},
		"only the kubelet's stands":        {func(w *world) { w.in.Taints = taintsOf(kubeletTaint) }, taintsOf(kubeletTaint), []string{"early"}},
		"none stands":                      {func(w *world) { w.in.Taints = nil }, nil, nil},
		"none is configured":               {func(w *world) { w.in.Config.Taints = nil }, nil, nil},
		"none requires it any more":        {complete(func(n *NodeWright) { n.RuntimeRequired = false }), ours, nil},
		"none selects it any more":         {complete(func(n *NodeWright) { n.Selected = false }), ours, nil},
		"the only one is being deleted":    {complete(func(n *NodeWright) { n.Deleting = true }), ours, nil},
		"no more, and not ours":            {func(w *world) { w.in.NodeWrights, w.in.Taints = nil, taintsOf(kubeletTaint) }, nil, nil},
		"gone, with its record left":       {func(w *world) { w.in.NodeWrights, w.in.Gone = nil, []string{"early"} }, ours, nil},
		"came with ours before NodeWright": {func(w *world) { w.in.NodeWrights, w.in.Record = nil, nodestate.Record{} }, nil, nil},
	}
	for name, tc := range tests {
		t.Run("DR-18 "+name, func(t *testing.T) {
			w := newTaintWorld(t, required("early"))
			w.finishAll()
			w.in.Record.Seq = map[nodestate.Owner]int64{nodestate.OwnerNode: w.seq}
			tc.change(w)
			p := w.pass()
			if diff := cmp.Diff(Taints{Remove: tc.want, By: tc.by}, p.Taints); diff != "" {
				t.Fatalf("taints (-want +got):\n%s", diff)
			}
		})
	}
}

// Taints on an ignored node are left alone. If the last NodeWright goes meanwhile,
// the taint must go when the label is taken off, so the node has to stay known.
func TestIgnoredNodeWithOurTaintIsRemembered(t *testing.T) {
	tests := map[string]struct {
		change func(*Input)
		want   bool
	}{
		"ours stands":       {func(*Input) {}, true},
		"not ours":          {func(in *Input) { in.Taints = taintsOf(kubeletTaint) }, false},
		"never recorded":    {func(in *Input) { in.Record.Seq = nil }, false},
		"none configured":   {func(in *Input) { in.Config.Taints = nil }, false},
		"not ignored again": {func(in *Input) { in.Node.Ignored = false }, false},
	}
	for name, tc := range tests {
		t.Run("DR-18 "+name, func(t *testing.T) {
			w := newTaintWorld(t)
			w.in.Record = nodestate.Record{Seq: map[nodestate.Owner]int64{nodestate.OwnerNode: 3}}
			w.in.Node.Ignored = true
			tc.change(&w.in)
			p := Compute(w.in)
			if p.Remember != tc.want || (len(p.Taints.Remove) > 0) != (name == "not ignored again") {
				t.Fatalf("remember %t, taints %+v", p.Remember, p.Taints)
			}
		})
	}
}

// A value that cannot be read may stand for a package that is not there.
func TestTaintStaysWithUnreadableState(t *testing.T) {
	w := newTaintWorld(t, required("early"))
	w.finishAll()
	key := nodestate.NewPackageKey(nodestate.KindNodeState, "early", "pa").String()
	w.in.Record = nodestate.Decode(map[string]string{key: "junk"}, nil)
	w.grantSlot("early")
	if p := w.pass(); len(p.Taints.Remove) != 0 {
		t.Fatalf("took off %v", p.Taints.Remove)
	}
}

// eager is a NodeWright that wants new nodes to be tainted, older than the node.
func eager(w *world) *NodeWright {
	nw := w.nw("nw")
	nw.AutoTaint, nw.Created = true, w.in.Now.Add(-time.Hour)
	w.in.Node.Created = w.in.Now.Add(-time.Minute)
	return nw
}

func TestTaintIsPutOnNewNodesOnly(t *testing.T) {
	of := func(change func(*NodeWright)) func(*world) { return func(w *world) { change(w.nw("nw")) } }
	seq := func(owner nodestate.Owner) func(*world) {
		return func(w *world) { w.in.Record.Seq = map[nodestate.Owner]int64{owner: 3} }
	}
	tests := map[string]struct {
		change func(*world)
		want   bool
	}{
		"new":                               {func(*world) {}, true},
		"granted before it was seen":        {func(w *world) { w.grantSlot("nw"); seq(nodestate.OwnerRollout)(w) }, true},
		"has the kubelet's taint":           {func(w *world) { w.in.Taints = taintsOf(kubeletTaint) }, true},
		"has ours":                          {func(w *world) { w.in.Taints = taintsOf(ourTaint) }, false},
		"paused, as admission does":         {of(func(n *NodeWright) { n.Paused = true }), true},
		"created in the same second":        {func(w *world) { w.nw("nw").Created = w.in.Node.Created }, true},
		"DR-22a NodeWright came later":      {func(w *world) { w.nw("nw").Created = w.in.Node.Created.Add(time.Second) }, false},
		"DR-22b recorded once":              {seq(nodestate.OwnerNode), false},
		"a report stands":                   {seq(nodestate.OwnerJob), false},
		"a word stands":                     {func(w *world) { w.in.Record.Status = map[string]nodestate.StatusWord{"other": "complete"} }, false},
		"a legacy record stands":            {func(w *world) { w.in.Record.Blobs = map[string]string{"other": "{}"} }, false},
		"something unreadable stands":       {func(w *world) { w.in.Record.Malformed = []nodestate.Malformed{{Key: "k"}} }, false},
		"young enough":                      {func(w *world) { w.in.Node.Created = w.in.Now.Add(-10 * time.Minute) }, true},
		"runs workloads for long":           {func(w *world) { w.in.Node.Created = w.in.Now.Add(-10*time.Minute - time.Second) }, false},
		"of unknown age":                    {func(w *world) { w.in.Node.Created = time.Time{} }, false},
		"ignored":                           {func(w *world) { w.in.Node.Ignored = true }, false},
		"not selected":                      {of(func(n *NodeWright) { n.Selected = false }), false},
		"deleting":                          {of(func(n *NodeWright) { n.Deleting = true }), false},
		"held by what is not supported":     {of(func(n *NodeWright) { n.Held = "not supported" }), false},
		"not wanted":                        {of(func(n *NodeWright) { n.AutoTaint = false }), false},
		"means nothing without requirement": {of(func(n *NodeWright) { n.RuntimeRequired = false }), false},
		"complete without packages":         {of(func(n *NodeWright) { n.Packages = nil }), false},
		"none is configured":                {func(w *world) { w.in.Config.Taints = nil }, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTaintWorld(t, required("nw"))
			w.in.Record, w.in.Taints = nodestate.Record{}, nil
			eager(w)
			tc.change(w)
			p := w.step()
			want := Taints{}
			if tc.want {
				want = Taints{Put: &ourTaint, For: "nw"}
			}
			if diff := cmp.Diff(want, p.Taints); diff != "" {
				t.Fatalf("taints (-want +got):\n%s", diff)
			}
			// From now on the node is not new any more, granted or not.
			if tc.want && w.in.Record.Status["nw"] == "" {
				t.Fatal("the node is not recorded")
			}
		})
	}
}

// A node that waits and is of no interest to taints is still not written.
func TestWaitingNodeWithoutTaintIsNotRecorded(t *testing.T) {
	w := newTaintWorld(t, required("nw"))
	w.in.Record, w.in.Taints = nodestate.Record{}, nil
	if w.step(); w.seq != 7 {
		t.Fatalf("wrote %+v", w.in.Record.Set)
	}
}

// Whatever happens to a taint that was put, it does not come back. The keys are
// such that no annotation could be named after them.
func TestTaintNeverReturns(t *testing.T) {
	tests := map[string]struct {
		taint corev1.Taint
		then  func(*world)
	}{
		"user takes it off": {ourTaint, func(w *world) { w.in.Taints = nil }},
		"DR-19 complete":    {ourTaint, func(w *world) { w.grantSlot("nw"); w.finishAll(); w.step() }},
		"DR-21 key with prefix": {
			corev1.Taint{Key: "example.com/x", Value: "y", Effect: corev1.TaintEffectNoSchedule},
			func(w *world) { w.grantSlot("nw"); w.finishAll(); w.step() },
		},
		"DR-21 long key": {
			corev1.Taint{Key: strings.Repeat("k", 63), Value: "y", Effect: corev1.TaintEffectNoSchedule},
			func(w *world) { w.grantSlot("nw"); w.finishAll(); w.step() },
		},
		"DR-22b reset": {ourTaint, func(w *world) {
			w.grantSlot("nw")
			w.finishAll()
			w.step()
			clear(w.in.Record.Packages)
			clear(w.in.Record.Status)
		}},
		"DR-22c reboot": {ourTaint, func(w *world) { w.in.Taints = nil; w.in.Node.BootID = "boot-2" }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			w := newTaintWorld(t, required("nw"))
			w.in.Config.Taints = taintsOf(tc.taint, kubeletTaint)
			w.in.Record, w.in.Taints = nodestate.Record{}, nil
			eager(w)
			w.step()
			if diff := cmp.Diff(taintsOf(tc.taint), w.in.Taints); diff != "" {
				t.Fatalf("taints (-want +got):\n%s", diff)
			}
			tc.then(w)
			for range 3 {
				if p := w.step(); p.Taints.Put != nil || len(w.in.Taints) != 0 {
					t.Fatalf("plan %+v, node has %v", p.Taints, w.in.Taints)
				}
			}
		})
	}
}

// DR-23: a package that fails on a new node leaves it tainted, and says so.
func TestTaintStaysWhilePackageFails_DR23(t *testing.T) {
	w := newTaintWorld(t, required("nw"))
	w.nw("nw").RetryLimit = 0
	w.step()
	w.fail("nw", "pa", "Error", false)
	w.step()
	w.step()
	w.wantStatus("nw", nodestate.StatusErroring, nodestate.SlotReleased, ReasonSlotErroring)
	if len(w.in.Taints) != 2 {
		t.Fatalf("taints %v", w.in.Taints)
	}
}
