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
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// watcher follows nodes and NodeWrights from a cache of its own.
type watcher struct {
	cache cache.Cache
	names []string
	began time.Time
}

func newWatcher(ctx context.Context, config *rest.Config, names []string) (*watcher, error) {
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
	c, err := cache.New(config, cache.Options{Scheme: scheme, Mapper: mapper, HTTPClient: httpClient})
	if err != nil {
		return nil, fmt.Errorf("watch rollout: %w", err)
	}
	for _, obj := range []client.Object{&corev1.Node{}, &v1alpha1.NodeWright{}} {
		if _, err := c.GetInformer(ctx, obj, cache.BlockUntilSynced(false)); err != nil {
			return nil, fmt.Errorf("watch rollout: %w", err)
		}
	}
	go func() { _ = c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watch rollout: %w", context.Cause(ctx))
	}
	return &watcher{cache: c, names: names, began: time.Now()}, nil
}

// snapshot is the rollout at one moment, one part per NodeWright.
type snapshot struct {
	elapsed time.Duration
	parts   []part
}

type part struct {
	name   string
	nodes  int
	status map[nodestate.StatusWord]int
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
	return snap, nil
}

func newPart(nw *v1alpha1.NodeWright, nodes []corev1.Node, selector labels.Selector) part {
	p := part{
		name: nw.Name, status: map[nodestate.StatusWord]int{},
		stages: map[string]map[string]int{}, retries: map[string]int{},
	}
	for name := range nw.Spec.Packages {
		p.stages[name] = map[string]int{}
	}
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

// complete tells whether every NodeWright says so itself, for its present
// spec, and every selected node does.
func (s *snapshot) complete() bool {
	for i := range s.parts {
		p := &s.parts[i]
		if !p.current || p.ready.Status != metav1.ConditionTrue || p.status[nodestate.StatusComplete] != p.nodes {
			return false
		}
	}
	return true
}

// reason says what is not complete.
func (s *snapshot) reason() string {
	if s == nil {
		return "nothing was seen"
	}
	var out []string
	for i := range s.parts {
		p := &s.parts[i]
		if p.current && p.ready.Status == metav1.ConditionTrue {
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
