package validation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// DependencyProblem says which dependency between packages can never be met,
// and what to do; it is empty if all can. The answer does not depend on the
// order of maps: the first problem by package name is told.
func DependencyProblem(packages map[string]v1alpha1.Package) string {
	if problems := dependencyProblems(packages); len(problems) > 0 {
		return fmt.Sprintf("spec.packages[%s].dependsOn[%s] %s", problems[0].pkg, problems[0].on, problems[0].detail)
	}
	if cycle := dependencyCycle(packages); cycle != nil {
		return "spec.packages " + cycleDetail(cycle)
	}
	return ""
}

// dependencies refuses what DependencyProblem tells of, all of it at once, but
// for circles, of which the first is named.
func dependencies(path *field.Path, packages map[string]v1alpha1.Package) field.ErrorList {
	var errs field.ErrorList
	for _, p := range dependencyProblems(packages) {
		errs = append(errs, field.Invalid(path.Key(p.pkg).Child("dependsOn").Key(p.on), packages[p.pkg].DependsOn[p.on], p.detail))
	}
	if cycle := dependencyCycle(packages); cycle != nil {
		errs = append(errs, field.Invalid(path, strings.Join(cycle, " -> "), cycleDetail(cycle)))
	}
	return errs
}

// dependencyProblem is a dependency that can never be met.
type dependencyProblem struct{ pkg, on, detail string }

// dependencyProblems are sorted by package, then by what it depends on.
func dependencyProblems(packages map[string]v1alpha1.Package) []dependencyProblem {
	var out []dependencyProblem
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		for _, on := range slices.Sorted(maps.Keys(packages[name].DependsOn)) {
			want := packages[name].DependsOn[on]
			dep, ok := packages[on]
			switch {
			case !ok:
				out = append(out, dependencyProblem{name, on, "names a package that is not in packages: add it, or remove the dependency"})
			case !nodestate.SameVersion(dep.Version, want):
				out = append(out, dependencyProblem{name, on, fmt.Sprintf("asks for version %s, and packages has %s: make them the same", want, dep.Version)})
			}
		}
	}
	return out
}

func cycleDetail(cycle []string) string {
	return fmt.Sprintf("depend on each other in a circle (%s): remove one of these dependencies", strings.Join(cycle, " -> "))
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
