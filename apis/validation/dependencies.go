package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// DependencyProblem says which dependency between packages can never be met,
// and what to do; it is empty if all can. The answer does not depend on the
// order of maps: the first problem by package name is told.
func DependencyProblem(packages map[string]v1alpha1.Package) string {
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		for _, on := range slices.Sorted(maps.Keys(packages[name].DependsOn)) {
			want := packages[name].DependsOn[on]
			dep, ok := packages[on]
			switch {
			case !ok:
				return fmt.Sprintf("spec.packages[%s].dependsOn[%s] names a package that is not in packages: add it, or remove the dependency", name, on)
			case !nodestate.SameVersion(dep.Version, want):
				return fmt.Sprintf("spec.packages[%s].dependsOn[%s] asks for version %s, and packages has %s: make them the same", name, on, want, dep.Version)
			}
		}
	}
	if cycle := dependencyCycle(packages); cycle != nil {
		return fmt.Sprintf("spec.packages depend on each other in a circle (%s): remove one of these dependencies", strings.Join(cycle, " -> "))
	}
	return ""
}

// dependencyCycle finds packages that wait for each other, the first by name,
// with the first again at the end; nil if there are none.
func dependencyCycle(packages map[string]v1alpha1.Package) []string {
	done := map[string]bool{}
	var path []string
	var visit func(string) []string
	visit = func(name string) []string {
		if at := slices.Index(path, name); at >= 0 {
			return append(slices.Clone(path[at:]), name)
		}
		if done[name] {
			return nil
		}
		path = append(path, name)
		for _, on := range slices.Sorted(maps.Keys(packages[name].DependsOn)) {
			if cycle := visit(on); cycle != nil {
				return cycle
			}
		}
		path, done[name] = path[:len(path)-1], true
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		if cycle := visit(name); cycle != nil {
			return cycle
		}
	}
	return nil
}
