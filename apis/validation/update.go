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
// whether they are ready or not. A record of an earlier operator counts until it
// was taken over, and one that cannot be read for all packages: any may be in it.
func HoldersOf(nodeWright string, packages []string, nodes []corev1.Node) Holders {
	out := Holders{}
	for i := range nodes {
		n := &nodes[i]
		entries, readable := earlierEntries(nodeWright, n.Annotations)
		for _, pkg := range packages {
			_, has := n.Annotations[nodestate.NewPackageKey(nodestate.KindNodeState, nodeWright, pkg).String()]
			inBlob := func(e nodestate.BlobEntry) bool { return strings.HasPrefix(e.Key, pkg+"|") }
			if has || !readable || slices.ContainsFunc(entries, inBlob) {
				out[pkg] = append(out[pkg], n.Name)
			}
		}
	}
	for _, names := range out {
		slices.Sort(names)
	}
	return out
}

// earlierEntries reads what earlier operators recorded for a NodeWright, under
// either prefix, as far as it was not taken over: from then on the keys of the
// packages say all, and the blob may lag.
func earlierEntries(nodeWright string, annotations map[string]string) (entries []nodestate.BlobEntry, readable bool) {
	seen := annotations[nodestate.NewKey(nodestate.KindLegacySeen, nodeWright).String()]
	key := nodestate.NewKey(nodestate.KindBlob, nodeWright).String()
	for _, key := range []string{key, nodestate.LegacyPrefix + strings.TrimPrefix(key, nodestate.Prefix)} {
		blob, there := annotations[key]
		if !there || nodestate.BlobHash(blob) == seen {
			continue
		}
		more, err := nodestate.ParseBlob(blob)
		if err != nil {
			return nil, false
		}
		entries = append(entries, more...)
	}
	return entries, true
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
	removable := was.Uninstall != nil && was.Uninstall.Enabled
	switch {
	case !kept && removable:
		return changeRemoval
	case !kept || nodestate.SameVersion(was.Version, is.Version):
		return ""
	case uninstalling(was) || uninstalling(is):
		return changeWhileGoing
	case removable && nodestate.HigherVersion(was.Version, is.Version):
		return changeDowngrade
	}
	return ""
}

func uninstalling(p *v1alpha1.Package) bool { return p.Uninstall != nil && p.Uninstall.Apply }

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
		if uninstalling(&was) && !uninstalling(&is) {
			out = append(out, at+".uninstall.apply is no longer true: the uninstall is cancelled, and nodes that it was done on get the package again")
		}
		if was.Version != is.Version && nodestate.SameVersion(was.Version, is.Version) {
			out = append(out, fmt.Sprintf("%s.version: %s and %s are of equal rank: nodes that have the package do not run it again", at, was.Version, is.Version))
		}
	}
	return out
}
