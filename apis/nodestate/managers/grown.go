package managers

import (
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// Grown are those of the names that hold more by server-side apply after a write
// than before, in the order of the entries. What counts are fields of all kinds,
// protected or not: the next apply of such a manager removes what it holds and
// leaves out.
//
// The error names entries of these managers that cannot be read, and were not
// there before. Entries that did not change are not decoded.
func Grown(before, after []metav1.ManagedFieldsEntry, names []string) ([]string, error) {
	var (
		out  []string
		errs []error
	)
	for _, e := range newSide(after).beyond(newSide(before)) {
		if !slices.Contains(names, e.Manager) || of(e) != Applier(e.Manager) || slices.Contains(out, e.Manager) {
			continue
		}
		set, err := decode(e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if !set.Difference(appliedBy(before, e.Manager)).Empty() {
			out = append(out, e.Manager)
		}
	}
	return out, errors.Join(errs...)
}

// appliedBy is all that a manager holds by apply of the node, in any API version.
func appliedBy(entries []metav1.ManagedFieldsEntry, manager string) *fieldpath.Set {
	all := fieldpath.NewSet()
	for i := range entries {
		if of(&entries[i]) != Applier(manager) {
			continue
		}
		if set, err := decode(&entries[i]); err == nil {
			all = all.Union(set)
		}
	}
	return all
}
