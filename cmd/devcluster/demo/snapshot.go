package demo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// watcher follows nodes and NodeWrights from a cache of its own.
type watcher struct {
	cache  cache.Cache
	ledger *ledger
	names  []string
	began  time.Time
}

// newWatcher watches until the context ends. Which NodeWrights, begin says.
func newWatcher(ctx context.Context, config *rest.Config) (*watcher, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("watch rollout: %w", err)
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("watch rollout: %w", err)
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, fmt.Errorf("watch rollout: %w", err)
	}
	c, err := cache.New(config, cache.Options{
		Scheme: scheme, Mapper: mapper, HTTPClient: httpClient,
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {
			Namespaces: map[string]cache.Config{workloadNamespace: {}}, Label: labels.SelectorFromSet(workloadLabels),
		}},
	})
	if err != nil {
		return nil, fmt.Errorf("watch rollout: %w", err)
	}
	w := &watcher{cache: c, ledger: newLedger()}
	nodes, pods := w.ledger.handlers()
	for _, kind := range []struct {
		object  client.Object
		handler toolscache.ResourceEventHandler
	}{{&corev1.Node{}, nodes}, {&corev1.Pod{}, pods}, {&v1alpha1.NodeWright{}, nil}} {
		informer, err := c.GetInformer(ctx, kind.object, cache.BlockUntilSynced(false))
		if err == nil && kind.handler != nil {
			_, err = informer.AddEventHandler(kind.handler)
		}
		if err != nil {
			return nil, fmt.Errorf("watch rollout: %w", err)
		}
	}
	go func() { _ = c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watch rollout: %w", context.Cause(ctx))
	}
	return w, nil
}

// begin says which NodeWrights roll out from now on.
func (w *watcher) begin(names []string) { w.names, w.began = names, time.Now() }

// snapshot is the rollout at one moment, one part per NodeWright.
type snapshot struct {
	elapsed time.Duration
	parts   []part
	facts   *facts
}

type part struct {
	name       string
	generation int64
	selector   labels.Selector
	nodes      int
	status     map[nodestate.StatusWord]int
	// waits counts nodes by what they say that they wait for.
	waits map[string]int
	// interrupts counts packages by the interrupt that they need.
	interrupts map[v1alpha1.InterruptType]int
	// uninstallable are packages that can be taken off the hosts and are not to be;
	// sorted.
	uninstallable []string
	// stages counts nodes per package and place; packages are sorted.
	stages map[string]map[string]int
	// retries counts attempts after a first one that nodes are at, by package.
	retries map[string]int
	ready   metav1.Condition
	current bool
	trouble []string
}

func (w *watcher) look(ctx context.Context) (*snapshot, error) {
	var nodes corev1.NodeList
	if err := w.cache.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	snap := &snapshot{elapsed: time.Since(w.began)}
	for _, name := range w.names {
		var nw v1alpha1.NodeWright
		if err := w.cache.Get(ctx, client.ObjectKey{Name: name}, &nw); err != nil {
			return nil, fmt.Errorf("get nodewright %s: %w", name, err)
		}
		selector, err := metav1.LabelSelectorAsSelector(&nw.Spec.NodeSelectors)
		if err != nil {
			return nil, fmt.Errorf("read selector of nodewright %s: %w", name, err)
		}
		snap.parts = append(snap.parts, newPart(&nw, nodes.Items, selector))
	}
	snap.facts = newFacts(nodes.Items, snap.parts)
	w.ledger.fill(snap.facts)
	return snap, nil
}

func newPart(nw *v1alpha1.NodeWright, nodes []corev1.Node, selector labels.Selector) part {
	p := part{
		name: nw.Name, generation: nw.Generation, selector: selector, status: map[nodestate.StatusWord]int{}, waits: map[string]int{},
		stages: map[string]map[string]int{}, retries: map[string]int{}, interrupts: map[v1alpha1.InterruptType]int{},
	}
	for name, pkg := range nw.Spec.Packages {
		p.stages[name] = map[string]int{}
		if pkg.Interrupt != nil {
			p.interrupts[pkg.Interrupt.Type]++
		}
		if u := pkg.Uninstall; u != nil && u.Enabled && !u.Apply {
			p.uninstallable = append(p.uninstallable, name)
		}
	}
	slices.Sort(p.uninstallable)
	for _, c := range nw.Status.Conditions {
		switch {
		case c.Type == v1alpha1.ConditionReady:
			p.ready = c
			p.current = nw.Status.ObservedGeneration == nw.Generation && c.ObservedGeneration == nw.Generation
		case c.Status == metav1.ConditionTrue && c.Type != v1alpha1.ConditionProgressing:
			p.trouble = append(p.trouble, fmt.Sprintf("%s: %s", c.Type, c.Message))
		}
	}
	for i := range nodes {
		if selector.Matches(labels.Set(nodes[i].Labels)) {
			p.add(&nodes[i], nw)
		}
	}
	slices.Sort(p.trouble)
	return p
}

func (p *part) add(node *corev1.Node, nw *v1alpha1.NodeWright) {
	p.nodes++
	rec := nodestate.Decode(node.Annotations, []string{nw.Name})
	word := rec.Status[nw.Name]
	if word == "" {
		word = nodestate.StatusWaiting
	}
	p.status[word]++
	if slot := rec.Slots[nw.Name]; slot.State == nodestate.SlotWorking && slot.Reason != "" && slot.Reason != nodestate.SlotPackageWaits {
		p.waits[slot.Reason]++
	}
	for pkg, places := range p.stages {
		e, ok := rec.Packages[nodestate.PackageRef{NodeWright: nw.Name, Package: pkg}]
		switch {
		case !ok:
			places["-"]++
		default:
			places[fmt.Sprintf("%s/%s", e.Stage, e.State)]++
			p.retries[pkg] += int(e.Failures)
		}
		if ok && e.State == nodestate.StateErroring && len(p.trouble) < 5 {
			p.trouble = append(p.trouble, fmt.Sprintf("node %s: package %s is %s at %s: %s: %s",
				node.Name, pkg, e.State, e.Stage, e.Reason, e.Message))
		}
	}
}

// complete tells whether the NodeWright says so itself, for its present spec, and
// every selected node does.
func (p *part) complete() bool {
	return p.current && p.ready.Status == metav1.ConditionTrue && p.status[nodestate.StatusComplete] == p.nodes
}

// missing says what is not complete, and is empty if everything is.
func (s *snapshot) missing() string {
	var out []string
	for i := range s.parts {
		p := &s.parts[i]
		if p.complete() {
			continue
		}
		out = append(out, fmt.Sprintf("NodeWright %s is complete on %d of %d nodes (%s)",
			p.name, p.status[nodestate.StatusComplete], p.nodes, cmp.Or(p.ready.Message, "no Ready condition yet")))
		out = append(out, p.trouble...)
	}
	return strings.Join(out, "; ")
}

func (p *part) packages() []string { return slices.Sorted(maps.Keys(p.stages)) }

// nodeWrightsIn are the names of the NodeWrights in a file.
func nodeWrightsIn(file string) ([]string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	var names []string
	dec := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(data), len(data)+1)
	for {
		var obj metav1.PartialObjectMetadata
		if err := dec.Decode(&obj); errors.Is(err, io.EOF) {
			return names, nil
		} else if err != nil {
			return nil, fmt.Errorf("read manifest %s: %w", file, err)
		}
		if obj.Kind == "NodeWright" {
			names = append(names, obj.Name)
		}
	}
}
