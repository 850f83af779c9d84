package rollout

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// describe fills in what is wrong on a node, from its records.
func describe(node *corev1.Node, nw *v1alpha1.NodeWright, n *plan.Node) {
	record, _ := recordOf(node.Annotations, nw.Name)
	for _, key := range unreadableKeys(&record, nw) {
		if !slices.Contains(n.Unreadable, key) {
			n.Unreadable = append(n.Unreadable, key)
		}
	}
	if entry := worst(&record, nw.Name, n.Word); entry != nil {
		n.Detail = plan.Detail{Package: entry.Name, Reason: entry.Reason, Message: entry.Message}
		return
	}
	if plan.Struggles(n.Slot) {
		if report := firstReport(&record, nw.Name); report != nil {
			n.Detail = plan.Detail{Package: report.Name, Reason: report.Reason, Message: report.Message}
		}
	}
}

// worst picks the entry that explains the word: the first by name.
func worst(record *nodestate.Record, nodeWright string, word nodestate.StatusWord) *nodestate.PackageStatus {
	explains := func(e *nodestate.PackageStatus) bool { return e.State == nodestate.StateErroring }
	switch word {
	case nodestate.StatusUnknown:
		explains = func(e *nodestate.PackageStatus) bool { return e.State == nodestate.StateUnknown }
	case nodestate.StatusInProgress:
		explains = func(e *nodestate.PackageStatus) bool { return e.State == nodestate.StateInProgress && e.Reason != "" }
	}
	var out *nodestate.PackageStatus
	for ref, entry := range record.Packages {
		if ref.NodeWright == nodeWright && explains(&entry) && (out == nil || entry.Name < out.Name) {
			out = &entry
		}
	}
	return out
}

// firstReport is of the first package by name whose pod does not start.
func firstReport(record *nodestate.Record, nodeWright string) *nodestate.PodReport {
	var out *nodestate.PodReport
	for ref, report := range record.PodReports {
		if ref.NodeWright == nodeWright && (out == nil || report.Name < out.Name) {
			out = &report
		}
	}
	return out
}
