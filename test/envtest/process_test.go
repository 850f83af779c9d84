package envtest

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/transform"
	"github.com/nodewright/nodewright/test/faults"
)

// namespace stands for that of the operator.
const namespace = "default"

// process stands for one process of the operator: a cache and a client of its
// own, with the transport under the control of the test.
type process struct {
	cache  cache.Cache
	client client.Client
	live   client.Client

	lag      *faults.Lag
	injector *faults.Injector
	counter  *faults.Counter
}

type processOptions struct {
	// config of another user than the administrator.
	config *rest.Config
	// plainReads makes the client without read-your-writes consistency.
	plainReads bool
}

// startProcess starts a process whose cache of nodes is in sync. It ends with
// the test.
func startProcess(t *testing.T, opts processOptions) *process {
	t.Helper()
	p := &process{lag: &faults.Lag{}, injector: &faults.Injector{}, counter: &faults.Counter{}}
	config := opts.config
	if config == nil {
		config = cluster.Config()
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return p.counter.Wrap(p.injector.Wrap(p.lag.Wrap(next)))
	})
	var err error
	// The cache drops what the operator's own one drops.
	p.cache, err = cache.New(config, cache.Options{Scheme: scheme.Scheme, ByObject: transform.ByObject(namespace)})
	if err != nil {
		t.Fatal(err)
	}
	if p.live, err = client.New(config, client.Options{Scheme: scheme.Scheme}); err != nil {
		t.Fatal(err)
	}
	p.client, err = client.New(config, client.Options{Scheme: scheme.Scheme, Cache: &client.CacheOptions{
		Reader: p.cache, EnableReadYourWritesConsistency: ptr.To(!opts.plainReads),
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- p.cache.Start(ctx) }()
	t.Cleanup(func() {
		p.lag.Set(0)
		cancel()
		if err := <-stopped; err != nil {
			t.Errorf("cache: %v", err)
		}
	})
	if _, err := p.cache.GetInformer(ctx, &corev1.Node{}); err != nil {
		t.Fatal(err)
	}
	if !p.cache.WaitForCacheSync(ctx) {
		t.Fatal("cache is not in sync")
	}
	return p
}

func (p *process) writer(owner nodestate.Owner, opts ...apply.Option) *apply.Writer {
	return apply.NewWriter(p.client, p.live, owner, append([]apply.Option{apply.PanicOnForeignKey()}, opts...)...)
}

// awaitCache waits until the cache shows this version of the node, or a newer
// one.
func (p *process) awaitCache(t *testing.T, node *corev1.Node) {
	t.Helper()
	eventually(t, "the cache has "+node.Name, func() bool {
		var has corev1.Node
		err := p.cache.Get(t.Context(), client.ObjectKeyFromObject(node), &has)
		if apierrors.IsNotFound(err) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		order, err := resourceversion.CompareResourceVersion(has.ResourceVersion, node.ResourceVersion)
		if err != nil {
			t.Fatal(err)
		}
		return has.UID == node.UID && order >= 0
	})
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("still not after 30s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

var names atomic.Int64

// admin is a client of an administrator, without cache.
func admin(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(cluster.Config(), client.Options{Scheme: scheme.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var notDNS = regexp.MustCompile(`[^a-z0-9]+`)

// dnsName is the name of the test as the name of an object.
func dnsName(t *testing.T) string {
	name := notDNS.ReplaceAllString(strings.ToLower(t.Name()), "-")
	return strings.Trim(name[:min(len(name), 50)], "-")
}

// createNode makes a node of a name of its own, which goes with the test.
func createNode(t *testing.T, change func(*corev1.Node)) *corev1.Node {
	t.Helper()
	name := dnsName(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name:        name + "-" + nodestate.FormatSeq(names.Add(1)),
		Labels:      map[string]string{"example.com/theirs": "label"},
		Annotations: map[string]string{"example.com/theirs": "annotation"},
	}}
	if change != nil {
		change(node)
	}
	if err := admin(t).Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { deleteNode(t, node.Name) })
	return node
}

func deleteNode(t *testing.T, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := admin(t).Delete(context.Background(), node); client.IgnoreNotFound(err) != nil {
		t.Error(err)
	}
}

// liveNode is the node as stored; nil if there is none.
func liveNode(t *testing.T, name string) *corev1.Node {
	t.Helper()
	var node corev1.Node
	err := admin(t).Get(t.Context(), types.NamespacedName{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	return &node
}

// patch changes a node as another manager does: a merge patch, or a JSON patch
// if it is an array. It is an Update in managedFields.
func patch(t *testing.T, name, manager, body string) {
	t.Helper()
	kind := types.MergePatchType
	if strings.HasPrefix(body, "[") {
		kind = types.JSONPatchType
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := admin(t).Patch(t.Context(), node, client.RawPatch(kind, []byte(body)), client.FieldOwner(manager))
	if err != nil {
		t.Fatalf("patch node %s as %s: %v", name, manager, err)
	}
}

// read reads a view that has to be there.
func read(t *testing.T, w *apply.Writer, name string) *apply.View {
	t.Helper()
	var view *apply.View
	// A node that was created a moment ago may not be in the cache yet.
	eventually(t, "the writer finds "+name, func() bool {
		v, found, err := w.Read(t.Context(), name, nil)
		if err != nil {
			t.Fatalf("read %s: %v", name, err)
		}
		view = v
		return found
	})
	return view
}

// bring reads a view, and applies the set to it with the outcome that is wanted.
func bring(t *testing.T, w *apply.Writer, name string, set nodestate.Set, want apply.Outcome) {
	t.Helper()
	bringCordon(t, w, name, set, false, want)
}

func bringCordon(t *testing.T, w *apply.Writer, name string, set nodestate.Set, cordon bool, want apply.Outcome) {
	t.Helper()
	outcome, err := w.Apply(t.Context(), read(t, w, name), set, cordon)
	if err != nil || outcome != want {
		t.Fatalf("apply to %s: outcome %s, want %s; error %v", name, outcome, want, err)
	}
}

const testNodeWright = "tuning"

// packages is a set with one entry of a stage per package.
func packages(stage nodestate.Stage, names ...string) nodestate.Set {
	set := nodestate.Set{Packages: make(map[nodestate.PackageRef]nodestate.PackageStatus)}
	for _, name := range names {
		set.Packages[nodestate.PackageRef{NodeWright: testNodeWright, Package: name}] = nodestate.PackageStatus{
			Image: "registry.example.com/" + name, Version: "1.0.0",
			Stage: stage, State: nodestate.StateInProgress, Run: 1, Attempt: 1,
		}
	}
	if len(names) > 0 {
		set.Status = map[string]nodestate.StatusWord{testNodeWright: nodestate.StatusInProgress}
	}
	return set
}

func stateKey(pkg string) string {
	return nodestate.NewPackageKey(nodestate.KindNodeState, testNodeWright, pkg).String()
}

var statusKey = nodestate.NewKey(nodestate.KindStatus, testNodeWright).String()

// wantKeys fails unless the node has exactly these annotations under our prefix.
func wantKeys(t *testing.T, name string, want ...string) {
	t.Helper()
	node := liveNode(t, name)
	if node == nil {
		t.Fatalf("node %s is gone", name)
	}
	has := make(map[string]bool)
	for key := range node.Annotations {
		has[key] = strings.HasPrefix(key, nodestate.Prefix)
	}
	for _, key := range want {
		if !has[key] {
			t.Errorf("node %s lacks %s", name, key)
		}
		has[key] = false
	}
	for key, extra := range has {
		if extra {
			t.Errorf("node %s has %s=%s", name, key, node.Annotations[key])
		}
	}
	if node.Annotations["example.com/theirs"] != "annotation" || node.Labels["example.com/theirs"] != "label" {
		t.Errorf("node %s lost what belongs to others: %v, %v", name, node.Annotations, node.Labels)
	}
}
