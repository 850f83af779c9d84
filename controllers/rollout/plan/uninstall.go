package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// uninstallHelp says what to do about an uninstall that failed for good.
const uninstallHelp = "an uninstall failed (mend its cause and ask for a rerun, or set uninstall.enabled to false to leave the package on the host)"

// UninstallOf is what a plan has to know of the entry of a package that is to be
// taken off.
func UninstallOf(e *nodestate.PackageStatus) Uninstall {
	return Uninstall{
		Package: e.Name, Failed: e.Stage.Uninstalls() && e.State == nodestate.StateErroring,
		Reason: e.Reason, Message: e.Message,
	}
}

// failedUninstall is the first package whose uninstall has failed; nil for none.
func (m *member) failedUninstall() *Uninstall {
	for i := range m.Uninstalls {
		if m.Uninstalls[i].Failed {
			return &m.Uninstalls[i]
		}
	}
	return nil
}

// failedUninstalls are the nodes on which an uninstall has failed.
func (p *planner) failedUninstalls() []*member {
	var out []*member
	for i := range p.members {
		if m := &p.members[i]; !m.Ignored && m.failedUninstall() != nil {
			out = append(out, m)
		}
	}
	return out
}

func uninstallDetail(m *member) Detail {
	u := m.failedUninstall()
	return Detail{Package: u.Package, Reason: u.Reason, Message: u.Message}
}

// toUninstall are the packages that the spec says to take off, split into those
// that are on nodes still and those that are on none, and the nodes.
func (p *planner) toUninstall() (present, absent []string, on []*member) {
	found := map[string]bool{}
	for i := range p.members {
		m := &p.members[i]
		if !m.worksOn || len(m.Uninstalls) == 0 {
			continue
		}
		on = append(on, m)
		for _, u := range m.Uninstalls {
			found[u.Package] = true
		}
	}
	for _, name := range p.nw.Spec.PackageNames() {
		pkg := p.nw.Spec.Packages[name]
		switch {
		case found[name]:
			present = append(present, name)
		case pkg.Uninstalls() && !p.deleting():
			absent = append(absent, name)
		}
	}
	return present, absent, on
}

// absent says which packages that are to be uninstalled are on no node, be it
// that they were taken off or that they never were there.
func (p *planner) absent() string {
	_, absent, _ := p.toUninstall()
	if len(absent) == 0 {
		return ""
	}
	return fmt.Sprintf("; to be uninstalled and on no node: %s", strings.Join(absent, ", "))
}

// uninstallInProgress tells of packages that are to be uninstalled, also where
// there is nothing to do.
func (p *planner) uninstallInProgress(at standing) {
	present, absent, on := p.toUninstall()
	switch {
	case len(on) > 0:
		names := v1alpha1.Problem{Count: int32(len(on))}
		for _, m := range on[:min(len(on), v1alpha1.MaxProblemNodes)] {
			names.Nodes = append(names.Nodes, v1alpha1.ProblemNode{Name: m.Name})
		}
		reason := v1alpha1.ReasonUninstalling
		switch at.reason {
		case v1alpha1.ReasonPaused, v1alpha1.ReasonDisabled, v1alpha1.ReasonNotSupported, v1alpha1.ReasonInvalidSpec:
			reason = at.reason
		}
		p.set(v1alpha1.ConditionUninstallInProgress, true, reason, fmt.Sprintf("%s to be taken off %s: %s",
			strings.Join(present, ", "), nodes(len(on)), listNames(&names)))
	case len(absent) > 0:
		p.set(v1alpha1.ConditionUninstallInProgress, false, v1alpha1.ReasonNothingToUninstall,
			fmt.Sprintf("on no node: %s; uninstalled, or never installed", strings.Join(absent, ", ")))
	}
}

// tellWaits tells, once each, of what nodes wait for before they are interrupted.
func (p *planner) tellWaits() {
	old := nodesBlocked(&p.nw.Status)
	told := map[string]bool{}
	for _, n := range nodesBlocked(&p.out.Status) {
		switch n.Reason {
		case nodestate.SlotNonInterruptPods, nodestate.SlotLastReplica, nodestate.SlotInterruptWaits, nodestate.SlotNoBootID:
		default:
			continue
		}
		same := func(o v1alpha1.ProblemNode) bool { return o.Reason == n.Reason }
		if told[n.Reason] || slices.ContainsFunc(old, same) {
			continue
		}
		told[n.Reason] = true
		p.out.Events = append(p.out.Events, Event{Warning: true, Reason: n.Reason, Message: fmt.Sprintf("node %s: %s", n.Name, n.Message)})
	}
}

func nodesBlocked(s *v1alpha1.NodeWrightStatus) []v1alpha1.ProblemNode {
	for i := range s.Problems {
		if s.Problems[i].Type == v1alpha1.ConditionBlocked {
			return s.Problems[i].Nodes
		}
	}
	return nil
}
