package sim

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// setUp makes the nodes and NodeWrights that a schedule begins with.
func (w *world) setUp() {
	w.flaky = pick(w, []float64{0, 0.1, 0.3, 0.6})
	if w.opts.Calm {
		w.flaky = 0
	}
	w.size = w.opts.Nodes
	if w.size == 0 {
		// A few worlds are so small that much happens to each of their nodes.
		if w.size = 3 + w.rng.IntN(MostNodes-2); w.chance(0.2) {
			w.size = 1 + w.rng.IntN(2)
		}
	}
	w.tainted = !w.opts.Doomed && w.chance(0.4)
	// Some of the nodes are there before the NodeWrights, the others join later.
	before := w.rng.IntN(w.size + 1)
	for i := range before {
		w.createNode(nodeName(i))
	}
	for i := range 1 + w.rng.IntN(3) {
		w.createNodeWright(fmt.Sprintf("w%c", 'a'+i))
	}
	for i := range w.size - before {
		w.createNode(nodeName(before + i))
	}
}

func nodeName(i int) string { return fmt.Sprintf("n%d", i+1) }

func (w *world) createNode(name string) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: w.api.uid("node"), Labels: map[string]string{labelPool: pick(w, []string{"a", "a", "b"})},
		CreationTimestamp: metav1.NewTime(w.now),
	}}
	n.Status.NodeInfo.BootID = string(w.api.uid("boot"))
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	w.taintNew(n)
	w.log("node %s joins, uid %s, pool %s, taints %v", name, n.UID, n.Labels[labelPool], named(n.Spec.Taints))
	w.api.put(kindNode, n)
}

func (w *world) createNodeWright(name string) {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{
		Name: name, UID: w.api.uid("nw"), Generation: 1, Annotations: map[string]string{}, CreationTimestamp: metav1.NewTime(w.now),
	}}
	s := &nw.Spec
	if w.chance(0.4) {
		s.NodeSelectors.MatchLabels = map[string]string{labelPool: "a"}
	}
	s.Serial = w.chance(0.3)
	if w.chance(0.5) {
		s.Priority = ptr.To(int32(100 + 50*w.rng.IntN(4)))
	}
	if w.opts.Doomed || w.chance(0.6) {
		s.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To(int32(1 + w.rng.IntN(max(2, w.size/4))))}
		if w.chance(0.4) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To(pick(w, []int32{1, 10, 25, 40, 70, 100}))}
		}
	}
	if w.chance(0.5) {
		s.Retry = &v1alpha1.Retry{Limit: ptr.To(int32(w.rng.IntN(3)))}
	}
	if !w.opts.Calm && w.chance(0.2) {
		s.StageTimeout = &metav1.Duration{Duration: pick(w, []time.Duration{0, 10 * time.Minute})}
	}
	if w.tainted && w.chance(0.6) {
		s.RuntimeRequired, s.AutoTaintNewNodes = true, w.chance(0.7)
	}
	if w.chance(0.2) {
		s.AdditionalTolerations = []corev1.Toleration{tolerateMaintenance}
	}
	s.Packages = map[string]v1alpha1.Package{}
	for i := range 1 + w.rng.IntN(3) {
		w.addPackage(s, fmt.Sprintf("p%c", 'a'+i))
	}
	w.log("NodeWright %s is created, uid %s: %s", name, nw.UID, describeSpec(s))
	w.api.put(kindNodeWright, nw)
}

// addPackage adds a package that may depend on others; a graph without cycles,
// since edges follow the order in which packages came.
func (w *world) addPackage(s *v1alpha1.NodeWrightSpec, name string) {
	p := v1alpha1.Package{Version: pick(w, []string{"1.0.0", "1.2", "v2.0.0"}), Image: "reg/" + name}
	for _, other := range s.PackageNames() {
		if w.chance(0.35) {
			if p.DependsOn == nil {
				p.DependsOn = map[string]string{}
			}
			p.DependsOn[other] = s.Packages[other].Version
		}
	}
	if w.chance(0.3) {
		p.ConfigMap = map[string]string{"a.conf": "1"}
		if w.chance(0.4) {
			p.ConfigInterrupts = map[string]v1alpha1.Interrupt{"*.conf": w.interrupt()}
		}
	}
	if w.chance(0.3) {
		interrupt := w.interrupt()
		p.Interrupt = &interrupt
	}
	if w.chance(0.3) {
		p.Uninstall = &v1alpha1.Uninstall{Enabled: true}
	}
	s.Packages[name] = p
}

func (w *world) interrupt() v1alpha1.Interrupt {
	return v1alpha1.Interrupt{Type: pick(w, []v1alpha1.InterruptType{
		v1alpha1.InterruptReboot, v1alpha1.InterruptReboot, v1alpha1.InterruptNoop, v1alpha1.InterruptRestartAllServices,
	})}
}

func describeSpec(s *v1alpha1.NodeWrightSpec) string {
	var b strings.Builder
	fmt.Fprintf(&b, "selects %v", s.NodeSelectors.MatchLabels)
	if s.Serial {
		b.WriteString(", serial")
	}
	if s.InterruptionBudget != nil {
		if percent := s.InterruptionBudget.Percent; percent != nil {
			fmt.Fprintf(&b, ", budget %d%%", *percent)
		} else {
			fmt.Fprintf(&b, ", budget %d", *s.InterruptionBudget.Count)
		}
	}
	if s.Retry != nil {
		fmt.Fprintf(&b, ", retries %d", *s.Retry.Limit)
	}
	if s.RuntimeRequired {
		fmt.Fprintf(&b, ", runtime required, auto taint %t", s.AutoTaintNewNodes)
	}
	if len(s.AdditionalTolerations) > 0 {
		b.WriteString(", tolerates maintenance")
	}
	fmt.Fprintf(&b, ", priority %d", s.PriorityOrDefault())
	for _, name := range s.PackageNames() {
		p := s.Packages[name]
		fmt.Fprintf(&b, "; %s %s %s env %d config %v needs %v", name, p.Version, p.Image, len(p.Env), p.ConfigMap, p.DependsOn)
		if p.Interrupt != nil {
			fmt.Fprintf(&b, " interrupt %s", p.Interrupt.Type)
		}
		if p.Uninstall != nil {
			fmt.Fprintf(&b, " uninstall %+v", *p.Uninstall)
		}
	}
	return b.String()
}
