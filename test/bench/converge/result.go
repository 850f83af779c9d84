package main

import (
	"errors"
	"fmt"
	"slices"
)

// stages are the Jobs of one node: apply and config of each package; with
// interrupts, one for all packages and the post-interrupt of each.
func stages(packages int, interrupts bool) int {
	if interrupts {
		return 3*packages + 1
	}
	return 2 * packages
}

// Result is what a run measured. Times are seconds, medians over rounds.
type Result struct {
	Nodes    int `json:"nodes"`
	Packages int `json:"packages"`
	// Stages per node.
	Stages int `json:"stages"`
	Rounds int `json:"rounds"`
	// Seconds from kubectl apply to the NodeWright's Ready condition.
	Seconds float64 `json:"seconds"`
	// FloorSeconds is the bare client with the same Jobs in the same order.
	FloorSeconds float64 `json:"floorSeconds"`
	// RawSeconds is the same Jobs all at once.
	RawSeconds float64 `json:"rawSeconds"`
	// Ratio is the median of seconds by floorSeconds of each round.
	Ratio float64 `json:"ratio"`
	// Writes of the operator in the last round, leases and evictions apart, as its transport
	// counted and the API server's audit log confirmed.
	Writes       int `json:"writes"`
	WritesBudget int `json:"writesBudget"`
	// Evictions are requests to evict a pod, those that were refused included.
	Evictions int `json:"evictions"`
	// Conflicts are writes answered 409, and reconcile errors.
	Conflicts int `json:"conflicts"`
	// RSSMiB is the operator's highest resident memory.
	RSSMiB float64 `json:"rssMiB"`
	// CPUSeconds the operator used in the last round.
	CPUSeconds float64 `json:"cpuSeconds"`
	// StatusBytes is the size of the NodeWright's status at the end.
	StatusBytes int            `json:"statusBytes"`
	PerKind     map[string]int `json:"perKind"`
}

// check tells whether the run keeps what the project promises.
func (r *Result) check() error {
	var errs []error
	if r.Writes > r.WritesBudget {
		errs = append(errs, fmt.Errorf("%d writes are over the budget of %d", r.Writes, r.WritesBudget))
	}
	if r.Conflicts > 0 {
		errs = append(errs, fmt.Errorf("%d conflicts or reconcile errors", r.Conflicts))
	}
	if r.FloorSeconds > 1.3*r.RawSeconds {
		errs = append(errs, fmt.Errorf("floor of %.1fs is over 1.3 x raw %.1fs: the machine or the bare client is the limit, not the control plane",
			r.FloorSeconds, r.RawSeconds))
	}
	return errors.Join(errs...)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
