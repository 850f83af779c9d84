package validation

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// maxNamedNodes is how many nodes a message names.
const maxNamedNodes = 10

// Holders are the names of nodes that have a package, by package, sorted.
type Holders map[string][]string

// HeldPackages are the packages of the old form about which an update can be
// judged only by who has them on its host, sorted: none for most updates.
func HeldPackages(before, after *v1alpha1.NodeWright) []string {
	var out []string
	for _, name := range before.Spec.PackageNames() {
		was := before.Spec.Packages[name]
		is, kept := after.Spec.Packages[name]
		if change := changeOf(&was, &is, kept); change != "" {
			out = append(out, name)
		}
	}
	return out
}

// HoldersOf finds the nodes that have packages of a NodeWright: those whose
// record says so, whether the NodeWright still selects them or not, and
// whether they are ready or not. A record of an earlier operator that cannot be
// read counts: the package may be in it.
func HoldersOf(nodeWright string, packages []string, nodes []corev1.Node) Holders {
	out := Holders{}
	for i := range nodes {
		n := &nodes[i]
		blob, hasBlob := n.Annotations[nodestate.NewKey(nodestate.KindBlob, nodeWright).String()]
		var entries []nodestate.BlobEntry
		var err error
		if hasBlob {
			entries, err = nodestate.ParseBlob(blob)
		}
		for _, pkg := range packages {
			_, has := n.Annotations[nodestate.NewPackageKey(nodestate.KindNodeState, nodeWright, pkg).String()]
			inBlob := func(e nodestate.BlobEntry) bool { return strings.HasPrefix(e.Key, pkg+"|") }
			if has || err != nil || slices.ContainsFunc(entries, inBlob) {
				out[pkg] = append(out[pkg], n.Name)
			}
		}
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}

// change is what an update does to a package that can be uninstalled.
type change string

const (
	changeRemoval    change = "removal"
	changeDowngrade  change = "downgrade"
	changeWhileGoing change = "version while uninstalling"
)

// changeOf tells what is done to a package; it is empty for what is always
// allowed. A package without uninstall stage may go to a lower version: so a
// rollback to an older manifest is possible.
func changeOf(was, is *v1alpha1.Package, kept bool) change {
	if was.Uninstall == nil || !was.Uninstall.Enabled {
		return ""
	}
	if !kept {
		return changeRemoval
	}
	if nodestate.SameVersion(was.Version, is.Version) {
		return ""
	}
	if was.Uninstall.Apply || is.Uninstall != nil && is.Uninstall.Apply {
		return changeWhileGoing
	}
	old, errOld := nodestate.ParseVersion(was.Version)
	now, errNow := nodestate.ParseVersion(is.Version)
	if errOld == nil && errNow == nil && now.LessThan(old) {
		return changeDowngrade
	}
	return ""
}

// NodeWrightUpdate checks what an update changes; holders say which nodes have
// the packages of HeldPackages. The new form is checked by NodeWright.
func NodeWrightUpdate(before, after *v1alpha1.NodeWright, holders Holders) field.ErrorList {
	path := field.NewPath("spec", "packages")
	var errs field.ErrorList
	for _, name := range before.Spec.PackageNames() {
		nodes := holders[name]
		if len(nodes) == 0 {
			continue
		}
		was := before.Spec.Packages[name]
		is, kept := after.Spec.Packages[name]
		at, have := path.Key(name), "still on "+nameNodes(nodes)
		switch changeOf(&was, &is, kept) {
		case changeRemoval:
			errs = append(errs, field.Forbidden(at, fmt.Sprintf(
				"cannot be removed, it is %s, and has uninstall.enabled: %s", have, howToUninstall(&was, "remove it"))))
		case changeDowngrade:
			errs = append(errs, field.Forbidden(at.Child("version"), fmt.Sprintf(
				"cannot go from %s down to %s, the package is %s, and has uninstall.enabled: %s",
				was.Version, is.Version, have, howToUninstall(&was, "set the lower version with apply: false"))))
		case changeWhileGoing:
			errs = append(errs, field.Forbidden(at.Child("version"), fmt.Sprintf(
				"cannot change from %s to %s together with or during an uninstall, the package is %s: wait until no node has it, or first set uninstall.apply: false alone, which cancels",
				was.Version, is.Version, have)))
		}
	}
	sortErrors(errs)
	return errs
}

// howToUninstall says what leads to the change that was refused.
func howToUninstall(p *v1alpha1.Package, then string) string {
	if p.Uninstall.Apply {
		return "it is being uninstalled, wait until no node has it, then " + then
	}
	return "first set uninstall.apply: true, wait until no node has it, then " + then
}

func nameNodes(nodes []string) string {
	noun := "node"
	if len(nodes) > 1 {
		noun = fmt.Sprintf("%d nodes:", len(nodes))
	}
	text := noun + " " + strings.Join(nodes[:min(len(nodes), maxNamedNodes)], ", ")
	if len(nodes) > maxNamedNodes {
		text += " and others"
	}
	return text
}

// NodeWrightUpdateWarnings says what is legal in an update and may not be meant.
func NodeWrightUpdateWarnings(before, after *v1alpha1.NodeWright) []string {
	var out []string
	for _, name := range before.Spec.PackageNames() {
		was := before.Spec.Packages[name]
		is, kept := after.Spec.Packages[name]
		if !kept {
			continue
		}
		at := "spec.packages[" + name + "]"
		if was.Uninstall != nil && was.Uninstall.Apply && (is.Uninstall == nil || !is.Uninstall.Apply) {
			out = append(out, at+".uninstall.apply is no longer true: the uninstall is cancelled, and nodes that it was done on get the package again")
		}
		if was.Version != is.Version && nodestate.SameVersion(was.Version, is.Version) {
			out = append(out, fmt.Sprintf("%s.version: %s and %s are of equal rank: nodes that have the package do not run it again", at, was.Version, is.Version))
		}
	}
	return out
}
