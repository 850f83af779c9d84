package node

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/apis/support"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// specs remembers the decoded form of NodeWrights: each pass over each node
// needs it, and its hashes cover configMaps of a megabyte.
type specs struct {
	mu     sync.Mutex
	byName map[string]decoded
}

type decoded struct {
	uid        types.UID
	generation int64
	spec       plan.NodeWright
}

// of gives the NodeWright as the planner has it. Its packages are shared, and
// must not be changed.
func (s *specs) of(nw *v1alpha1.NodeWright, opts *Options) (plan.NodeWright, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, known := s.byName[nw.Name]
	if !known || d.uid != nw.UID || d.generation != nw.Generation {
		spec, err := decode(nw, opts)
		if err != nil {
			return plan.NodeWright{}, err
		}
		d = decoded{uid: nw.UID, generation: nw.Generation, spec: spec}
		if s.byName == nil {
			s.byName = map[string]decoded{}
		}
		s.byName[nw.Name] = d
	}
	out := d.spec
	out.Deleting = nw.DeletionTimestamp != nil
	out.Paused, out.Disabled = nw.Paused(), nw.Disabled()
	out.Everywhere = everywhere(nw)
	return out, nil
}

// keep forgets NodeWrights that are gone, once there are more of them than of
// those that are left.
func (s *specs) keep(all []v1alpha1.NodeWright) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.byName) <= 2*len(all) {
		return
	}
	before := s.byName
	s.byName = make(map[string]decoded, len(all))
	for i := range all {
		if d, ok := before[all[i].Name]; ok {
			s.byName[all[i].Name] = d
		}
	}
}

// decode reads what follows from the spec alone.
func decode(nw *v1alpha1.NodeWright, opts *Options) (plan.NodeWright, error) {
	in := plan.NodeWright{
		Name: nw.Name, UID: string(nw.UID),
		Priority:   nw.Spec.PriorityOrDefault(),
		Held:       support.Obstacle(nw),
		Serial:     nw.Spec.Serial,
		Revision:   revision.Of(nw),
		RetryLimit: nw.Spec.RetryLimitOr(opts.RetryLimit),

		RuntimeRequired: nw.Spec.RuntimeRequired, AutoTaint: nw.Spec.AutoTaintNewNodes,
		Created: nw.CreationTimestamp.Time,

		AllFirst: allFirst(nw), DrainTimeout: nw.Spec.DrainSettings().Timeout,
	}
	for _, name := range nw.Spec.PackageNames() {
		p := nw.Spec.Packages[name]
		hash, err := stagejob.SpecHash(nw, &p)
		if err != nil {
			return plan.NodeWright{}, fmt.Errorf("read package %s of nodewright %s: %w", name, nw.Name, err)
		}
		pkg := plan.Package{
			Name: name, Version: p.Version, Image: p.Image, ContainerSHA: p.ContainerSHA,
			ConfigHash: revision.ConfigHash(p.ConfigMap), SpecHash: hash,
			StageTimeout: nw.Spec.StageTimeoutOf(name, opts.StageTimeout),
			DependsOn:    p.DependsOn,
		}
		if p.Interrupt != nil {
			interrupt := interruptOf(p.Interrupt)
			pkg.Interrupt = &interrupt
		}
		pkg.CanUninstall, pkg.Uninstall = p.CanUninstall(), p.Uninstalls()
		in.Packages = append(in.Packages, pkg)
	}
	return in, nil
}

// interruptOf is an interrupt of a spec in the form that it is recorded in. Specs
// that say the same give the same.
func interruptOf(i *v1alpha1.Interrupt) nodestate.Interrupt {
	out, _ := nodestate.StrongestInterrupt([]nodestate.Interrupt{{Type: string(i.Type), Services: i.Services}})
	return out
}

// allFirst tells whether later NodeWrights wait until this one is complete on
// all nodes.
func allFirst(nw *v1alpha1.NodeWright) bool {
	return nw.Spec.SequencingOrDefault() == v1alpha1.SequencingAll
}

// everywhere tells whether the status says that the NodeWright is complete on all
// its nodes, for the spec of now.
func everywhere(nw *v1alpha1.NodeWright) bool {
	if nw.DeletionTimestamp != nil || nw.Status.ObservedGeneration != nw.Generation {
		return false
	}
	ready := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == nw.Generation
}
