package rollout

import (
	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// uninstallKey is the key of the entry of a package that is to be taken off.
type uninstallKey struct {
	pkg  string
	key  nodestate.Key
	name string
}

// uninstallKeys are those of the packages that are to be taken off nodes, sorted
// by package: none for a NodeWright that asks for no uninstall, so that entries
// are read on no node of a fleet.
func uninstallKeys(nw *v1alpha1.NodeWright) []uninstallKey {
	var out []uninstallKey
	for _, pkg := range nw.Spec.PackageNames() {
		p := nw.Spec.Packages[pkg]
		if p.Uninstalls() || nw.DeletionTimestamp != nil && p.CanUninstall() {
			key := nodestate.NewPackageKey(nodestate.KindNodeState, nw.Name, pkg)
			out = append(out, uninstallKey{pkg: pkg, key: key, name: key.String()})
		}
	}
	return out
}

// readUninstalls reads what is to be taken off a node. An entry that cannot be
// read is left out: the node controller reports it, and it holds a deletion.
func readUninstalls(keys []uninstallKey, annotations map[string]string) []plan.Uninstall {
	var out []plan.Uninstall
	for i := range keys {
		value, ok := annotations[keys[i].name]
		if !ok {
			continue
		}
		e, err := nodestate.DecodePackageStatus(keys[i].key, value)
		if err != nil {
			continue
		}
		out = append(out, plan.UninstallOf(&e))
	}
	return out
}
