package system

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// badInputManifests: what is sound on all nodes, and an image that is not
// there on one.
const badInputManifests = `
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: sound
spec:
  packages:
    pa: {version: 1.0.0, image: nodewright.example/pa}
    pb: {version: 1.0.0, image: nodewright.example/pb}
---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: unpullable
spec:
  priority: 300
  nodeSelectors: {matchLabels: {example.com/unpullable: "true"}}
  packages:
    pm: {version: 1.0.0, image: nodewright.example/missing/pm}
---
apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: unsupported
spec:
  priority: 10
  deploymentPolicy: gradual
  packages:
    pi:
      version: 1.0.0
      image: nodewright.example/pi
`

const badInputConfiguration = managerConfiguration + "podStartGracePeriod: 1s\n"

// TestBadInput_ST13: whatever cannot be carried out has a clear reason on the object
// that a user looks at, and holds up nothing else.
func TestBadInput_ST13(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := startBed(ctx, t, badInputConfiguration)
	b.createNodes(ctx, t, 5)
	longName := strings.Repeat("a", 63) + "." + strings.Repeat("b", 63) + "." + strings.Repeat("c", 63) + "." + strings.Repeat("d", 61)
	b.createLongNode(ctx, t, longName)
	c := newClient(t, b.cp.Config())

	b.start(t)
	// Only who may break the glass gets such values in.
	pa := nodestate.NewPackageKey(nodestate.KindNodeState, "sound", "pa").String()
	b.annotate(ctx, t, b.nodes[0], pa, "{}")
	b.annotate(ctx, t, b.nodes[1], pa,
		`{"image":"r/p","name":"pa","nodewright":"sound","run":1,"stage":"foo","state":"complete","uid":"u","version":"1.0.0"}`)
	b.label(ctx, t, b.nodes[2], "example.com/unpullable")
	b.createUnreadableJob(ctx, t, b.nodes[3])
	b.fill(ctx, t, b.nodes[4], 700)
	b.apply(ctx, t, badInputManifests)

	b.wantCondition(ctx, t, c, "sound", v1alpha1.ConditionNodeStateMalformed, b.nodes[0], pa)
	b.wantCondition(ctx, t, c, "unpullable", v1alpha1.ConditionErroring, b.nodes[2], "pm", "ErrImagePull")
	b.wantCondition(ctx, t, c, "unsupported", v1alpha1.ConditionBlocked, "spec.deploymentPolicy")
	// ST-13: there is room for the grant, and not for the record.
	b.wantCondition(ctx, t, c, "sound", v1alpha1.ConditionBlocked, b.nodes[4], v1alpha1.ReasonNoRoom)
	b.patchNode(ctx, t, b.nodes[4], fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, filler))
	for _, node := range []string{b.nodes[2], b.nodes[3], b.nodes[4], longName} {
		b.wantComplete(ctx, t, node, "sound", "pa")
	}
	for _, node := range b.nodes[:2] {
		b.wantComplete(ctx, t, node, "sound", "pb")
		got := b.node(ctx, t, node)
		if got.Annotations[pa] == "" {
			t.Errorf("node %s: the value that cannot be read is gone", node)
		}
	}
	b.wantRecordedUnreadable(ctx, t)
}

func newClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	return c
}

// createLongNode makes a simulated node whose name fits into no label.
func (b *bed) createLongNode(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	if len(name) != 253 {
		t.Fatalf("name has %d bytes, want 253", len(name))
	}
	_, err := controlplane.CreateNodes(ctx, b.cp.Config(), 1, controlplane.NodeOptions{
		Prefix: "template-", Change: func(_ int, node *corev1.Node) { node.Labels[corev1.LabelHostname] = "template" },
	})
	if err != nil {
		t.Fatal(err)
	}
	template := b.node(ctx, t, "template-0000")
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: template.Labels,
			Annotations: map[string]string{controlplane.FakeNodeAnnotation: controlplane.FakeNodeValue},
		},
		Status: corev1.NodeStatus{Capacity: template.Status.Capacity, Allocatable: template.Status.Allocatable},
	}
	if _, err := b.cs.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := b.cs.CoreV1().Nodes().Delete(ctx, template.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// createUnreadableJob makes a Job with the label of packages that does not say
// what it runs.
func (b *bed) createUnreadableJob(ctx context.Context, t *testing.T, node string) {
	t.Helper()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "unreadable", Namespace: operator.Namespace,
			Labels:      map[string]string{packagejob.LabelPackage: "pa-1.0.0"},
			Annotations: map[string]string{packagejob.AnnotationIdentity: "{"},
		},
		Spec: batchv1.JobSpec{
			BackoffLimit: ptr.To[int32](0),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{packagejob.LabelPackage: "pa-1.0.0"}},
				Spec: corev1.PodSpec{
					NodeName: node, RestartPolicy: corev1.RestartPolicyNever,
					Containers: []corev1.Container{{Name: "c", Image: "c"}},
				},
			},
		},
	}
	if _, err := b.cs.BatchV1().Jobs(operator.Namespace).Create(ctx, job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (b *bed) node(ctx context.Context, t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := b.cs.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}

// record is what stands on the node, as far as values and keys tell.
func (b *bed) record(ctx context.Context, node string) (nodestate.Record, error) {
	n, err := b.cs.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nodestate.Record{}, err
	}
	return nodestate.Decode(n.Annotations, nil), nil
}

func (b *bed) annotate(ctx context.Context, t *testing.T, node, key, value string) {
	t.Helper()
	b.patchNode(ctx, t, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

const filler = "example.com/filler"

// fill leaves this many bytes for annotations on the node.
func (b *bed) fill(ctx context.Context, t *testing.T, node string, room int) {
	t.Helper()
	room += len(filler)
	for key, value := range b.node(ctx, t, node).Annotations {
		room += len(key) + len(value)
	}
	b.annotate(ctx, t, node, filler, strings.Repeat("x", validation.TotalAnnotationSizeLimitB-room))
}

func (b *bed) label(ctx context.Context, t *testing.T, node, key string) {
	t.Helper()
	b.patchNode(ctx, t, node, fmt.Sprintf(`{"metadata":{"labels":{%q:"true"}}}`, key))
}

func (b *bed) patchNode(ctx context.Context, t *testing.T, node, patch string) {
	t.Helper()
	if _, err := b.cs.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

// eventually polls until check returns nothing.
func (b *bed) eventually(ctx context.Context, t *testing.T, check func(context.Context) (problem string, err error)) {
	t.Helper()
	var problem string
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := check(ctx)
		if err != nil {
			return false, err
		}
		problem = now
		return problem == "", nil
	})
	if err != nil {
		t.Fatalf("%s: %v\nlog of the operator: %s", problem, err, b.op.LogTail())
	}
}

func (b *bed) wantCondition(ctx context.Context, t *testing.T, c client.Client, name, condition string, words ...string) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		var nw v1alpha1.NodeWright
		if err := c.Get(ctx, client.ObjectKey{Name: name}, &nw); err != nil {
			return "", err
		}
		got := meta.FindStatusCondition(nw.Status.Conditions, condition)
		if got == nil || got.Status != metav1.ConditionTrue {
			return fmt.Sprintf("NodeWright %s: condition %s is not true: %v", name, condition, nw.Status.Conditions), nil
		}
		for _, word := range words {
			if !strings.Contains(got.Message, word) {
				return fmt.Sprintf("NodeWright %s: condition %s does not name %s: %s", name, condition, word, got.Message), nil
			}
		}
		return "", nil
	})
}

func (b *bed) wantComplete(ctx context.Context, t *testing.T, node, nw, pkg string) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		rec, err := b.record(ctx, node)
		if err != nil {
			return "", err
		}
		e, ok := rec.Packages[nodestate.PackageRef{NodeWright: nw, Package: pkg}]
		if !ok || !e.Complete(nodestate.StageConfig) {
			return fmt.Sprintf("node %s: package %s is at %s, want config/complete", node, pkg, place(&e)), nil
		}
		return "", nil
	})
}

func (b *bed) wantRecordedUnreadable(ctx context.Context, t *testing.T) {
	t.Helper()
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		job, err := b.cs.BatchV1().Jobs(operator.Namespace).Get(ctx, "unreadable", metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		if !packagejob.Recorded(job) || job.Spec.TTLSecondsAfterFinished == nil {
			return fmt.Sprintf("job unreadable has no recorded mark or no TTL: %v %v", job.Annotations, job.Spec.TTLSecondsAfterFinished), nil
		}
		return "", nil
	})
}
