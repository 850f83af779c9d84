package sim

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/apis/support"
	"github.com/nodewright/nodewright/controllers/node/plan"
	"github.com/nodewright/nodewright/controllers/node/stagejob"
)

// generation is one state of the spec and annotations of a NodeWright.
type generation struct {
	uid types.UID
	n   int64
}

// spec is what follows from it.
type spec struct {
	selector labels.Selector
	// hashes of the configMaps of packages.
	hashes map[string]string
	// input is what the planner of nodes reads, but for the node.
	input plan.NodeWright
	// goes are the packages that are to be taken off, sorted.
	goes []string
	// obstacle says why nothing of it can start.
	obstacle string
}

// spec decodes a NodeWright, once for each generation of it.
func (w *world) spec(nw *v1alpha1.NodeWright) *spec {
	key := generation{nw.UID, nw.Generation}
	s, ok := w.specs[key]
	if !ok {
		s = decodeSpec(nw)
		w.specs[key] = s
	}
	return s
}

func decodeSpec(nw *v1alpha1.NodeWright) *spec {
	selector, err := metav1.LabelSelectorAsSelector(&nw.Spec.NodeSelectors)
	if err != nil {
		panic(err)
	}
	s := &spec{selector: selector, hashes: map[string]string{}, obstacle: support.Obstacle(nw)}
	for name, p := range nw.Spec.Packages {
		s.hashes[name] = revision.ConfigHash(p.ConfigMap)
	}
	s.input = plan.NodeWright{
		Name: nw.Name, UID: string(nw.UID), Priority: nw.Spec.PriorityOrDefault(),
		Deleting: nw.DeletionTimestamp != nil, Paused: nw.Paused(), Disabled: nw.Disabled(), Held: s.obstacle,
		AllFirst:        nw.Spec.SequencingOrDefault() == v1alpha1.SequencingAll,
		DrainTimeout:    nw.Spec.DrainSettings().Timeout,
		RuntimeRequired: nw.Spec.RuntimeRequired, AutoTaint: nw.Spec.AutoTaintNewNodes, Created: nw.CreationTimestamp.Time,
		Serial: nw.Spec.Serial, Revision: revision.Of(nw), RetryLimit: nw.Spec.RetryLimitOr(retryLimit),
	}
	for _, name := range nw.Spec.PackageNames() {
		p := nw.Spec.Packages[name]
		if uninstalls(nw, &p) {
			s.goes = append(s.goes, name)
		}
		hash, err := stagejob.SpecHash(nw, &p)
		if err != nil {
			panic(err)
		}
		s.input.Packages = append(s.input.Packages, plan.Package{
			Interrupt:    interruptOf(p.Interrupt),
			CanUninstall: p.CanUninstall(), Uninstall: p.Uninstalls(),
			Name: name, Version: p.Version, Image: p.Image, ContainerSHA: p.ContainerSHA,
			ConfigHash: s.hashes[name], SpecHash: hash,
			StageTimeout: nw.Spec.StageTimeoutOf(name, stageTimeout), DependsOn: p.DependsOn,
		})
	}
	return s
}

// selects tells whether the NodeWright selects the node.
func (w *world) selects(nw *v1alpha1.NodeWright, node *corev1.Node) bool {
	return w.spec(nw).selector.Matches(labels.Set(node.Labels))
}

// nodeWrightInput is what the planner of nodes reads of a NodeWright.
func (w *world) nodeWrightInput(nw *v1alpha1.NodeWright, selected bool) plan.NodeWright {
	in := w.spec(nw).input
	in.Selected, in.Everywhere = selected, everywhere(nw)
	return in
}
