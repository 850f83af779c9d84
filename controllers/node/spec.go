package node

import (
	"fmt"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/apis/support"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// nodeWrightInput decodes a NodeWright for the planner.
func (r *Reconciler) nodeWrightInput(nw *v1alpha1.NodeWright, selected bool) (plan.NodeWright, error) {
	in := plan.NodeWright{
		Name: nw.Name, UID: string(nw.UID),
		Priority: nw.Spec.PriorityOrDefault(),
		Selected: selected,
		Deleting: nw.DeletionTimestamp != nil,
		Paused:   nw.Paused(), Disabled: nw.Disabled(),
		Held:       support.Obstacle(nw),
		Serial:     nw.Spec.Serial,
		Revision:   revision.Of(nw),
		RetryLimit: nw.Spec.RetryLimitOr(r.opts.RetryLimit),
	}
	for _, name := range nw.Spec.PackageNames() {
		p := nw.Spec.Packages[name]
		hash, err := stagejob.SpecHash(nw, &p)
		if err != nil {
			return plan.NodeWright{}, fmt.Errorf("read package %s of nodewright %s: %w", name, nw.Name, err)
		}
		in.Packages = append(in.Packages, plan.Package{
			Name: name, Version: p.Version, Image: p.Image, ContainerSHA: p.ContainerSHA,
			ConfigHash: revision.ConfigHash(p.ConfigMap), SpecHash: hash,
			StageTimeout: nw.Spec.StageTimeoutOf(name, r.opts.StageTimeout),
			DependsOn:    p.DependsOn,
		})
	}
	return in, nil
}
