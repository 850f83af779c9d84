package controlplane

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

const (
	// RebootAnnotation on a simulated node reboots it once, see the package's documentation.
	RebootAnnotation = "sim.nodewright.nvidia.com/reboot"

	// nodeCreators is how many nodes are created at a time.
	nodeCreators = 32
	fieldManager = "devcluster"
)

// NodeOptions describe simulated nodes. The zero value is worker nodes of 8 CPUs and 64 GiB, called node-0000 and so on.
type NodeOptions struct {
	// Prefix starts the names; the number of the node follows with at least four digits. Default: node-.
	Prefix string
	// First is the number of the first node.
	First int
	// Labels and Annotations are set on each node, besides the usual ones.
	Labels, Annotations map[string]string
	// Change is called for each node before it is created, with its number counted from First. It must be safe for concurrent use.
	Change func(number int, node *corev1.Node)
	// KeepTaint says not to wait until the taint node.kubernetes.io/not-ready is gone, which the API server puts on new nodes and
	// the controller manager removes. Needed without a controller manager.
	KeepTaint bool
}

// CreateNodes creates n simulated nodes and waits until all are Ready. It returns their names in order.
func CreateNodes(ctx context.Context, config *rest.Config, n int, opts NodeOptions) ([]string, error) {
	config = rest.CopyConfig(config)
	config.QPS = -1 // no limit on this side
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create nodes: %w", err)
	}
	if opts.Prefix == "" {
		opts.Prefix = "node-"
	}
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%s%04d", opts.Prefix, opts.First+i)
	}
	if err := createAll(ctx, client, names, opts); err != nil {
		return nil, fmt.Errorf("create nodes: %w", err)
	}
	if err := waitForNodes(ctx, client, names, opts.KeepTaint); err != nil {
		return nil, fmt.Errorf("create nodes: %w", err)
	}
	return names, nil
}

func createAll(ctx context.Context, client corev1client.NodesGetter, names []string, opts NodeOptions) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	numbers := make(chan int)
	var group sync.WaitGroup
	for range min(nodeCreators, len(names)) {
		group.Go(func() {
			for i := range numbers {
				node := newNode(names[i], opts.First+i, opts)
				if _, err := client.Nodes().Create(ctx, node, metav1.CreateOptions{FieldManager: fieldManager}); err != nil {
					cancel(fmt.Errorf("create node %s: %w", names[i], err))
				}
			}
		})
	}
	for i := range names {
		select {
		case numbers <- i:
		case <-ctx.Done():
		}
	}
	close(numbers)
	group.Wait()
	return context.Cause(ctx)
}

func newNode(name string, number int, opts NodeOptions) *corev1.Node {
	capacity := corev1.ResourceList{
		corev1.ResourceCPU:              resource.MustParse("8"),
		corev1.ResourceMemory:           resource.MustParse("64Gi"),
		corev1.ResourcePods:             resource.MustParse("110"),
		corev1.ResourceEphemeralStorage: resource.MustParse("200Gi"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				corev1.LabelHostname:             name,
				corev1.LabelOSStable:             "linux",
				corev1.LabelArchStable:           "amd64",
				"node-role.kubernetes.io/worker": "",
			},
			Annotations: map[string]string{FakeNodeAnnotation: FakeNodeValue},
		},
		Status: corev1.NodeStatus{
			Capacity:    capacity,
			Allocatable: capacity,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", number>>16&127, number>>8&255, number&255)},
				{Type: corev1.NodeHostName, Address: name},
			},
		},
	}
	maps.Copy(node.Labels, opts.Labels)
	maps.Copy(node.Annotations, opts.Annotations)
	if opts.Change != nil {
		opts.Change(number, node)
	}
	return node
}

// waitForNodes waits until all named nodes are Ready.
func waitForNodes(ctx context.Context, client corev1client.CoreV1Interface, names []string, keepTaint bool) error {
	waiting := make(map[string]bool, len(names))
	for _, name := range names {
		waiting[name] = true
	}
	if len(waiting) == 0 {
		return nil
	}
	list := cache.NewListWatchFromClient(client.RESTClient(), "nodes", "", fields.Everything())
	_, err := watchtools.UntilWithSync(ctx, list, &corev1.Node{}, nil, func(event watch.Event) (bool, error) {
		node, ok := event.Object.(*corev1.Node)
		if !ok || event.Type == watch.Deleted || !nodeReady(node, keepTaint) {
			return false, nil
		}
		delete(waiting, node.Name)
		return len(waiting) == 0, nil
	})
	if err != nil {
		return fmt.Errorf("wait until %d more of %d nodes are ready, %s among them: %w",
			len(waiting), len(names), slices.Sorted(maps.Keys(waiting))[0], err)
	}
	return nil
}

func nodeReady(node *corev1.Node, keepTaint bool) bool {
	tainted := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeNotReady })
	return (keepTaint || !tainted) && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// Reboot asks a simulated node to reboot and does not wait for it.
func Reboot(ctx context.Context, config *rest.Config, node string) error {
	client, err := corev1client.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("reboot %s: %w", node, err)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"requested"}}}`, RebootAnnotation)
	_, err = client.Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return fmt.Errorf("reboot %s: %w", node, err)
	}
	return nil
}
