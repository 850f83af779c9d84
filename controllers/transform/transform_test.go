package transform_test

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/transform"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: operation, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields),
	}
}

func keys(key string) string {
	return fmt.Sprintf(`{"f:metadata":{"f:annotations":{"f:%s":{}}}}`, key)
}

// realistic is a node as a cluster has it: 50 images, 20 foreign annotations
// and labels, the managers of kubelet, cloud and network.
func realistic() *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n1", UID: "u1", ResourceVersion: "17", Labels: map[string]string{}, Annotations: map[string]string{},
	}}
	for i := range 20 {
		node.Labels[fmt.Sprintf("example.com/label-%d", i)] = "value"
		node.Annotations[fmt.Sprintf("example.com/annotation-%d", i)] = strings.Repeat("v", 40)
	}
	for i := range 6 {
		node.Annotations[fmt.Sprintf("%snodeState_tuning_package-%cx", nodestate.Prefix, 'a'+i)] = strings.Repeat("s", 350)
	}
	var foreign strings.Builder
	for i := range 60 {
		fmt.Fprintf(&foreign, `"f:example.com/field-%d":{},`, i)
	}
	status := `{"f:status":{` + strings.TrimSuffix(foreign.String(), ",") + `}}`
	node.ManagedFields = []metav1.ManagedFieldsEntry{
		entry("kubelet", metav1.ManagedFieldsOperationUpdate, status),
		entry("nodewright-node", metav1.ManagedFieldsOperationApply, keys(nodestate.Prefix+"nodeState_tuning_package-ax")),
		entry("kube-controller-manager", metav1.ManagedFieldsOperationUpdate, status),
		entry("cloud-controller-manager", metav1.ManagedFieldsOperationUpdate, status),
		entry("network-agent", metav1.ManagedFieldsOperationUpdate, status),
	}
	for i := range 50 {
		node.Status.Images = append(node.Status.Images, corev1.ContainerImage{
			Names: []string{
				fmt.Sprintf("registry.example/team/image-%d@sha256:%s", i, strings.Repeat("a", 64)),
				fmt.Sprintf("registry.example/team/image-%d:1.2.3", i),
			}, SizeBytes: 1 << 20,
		})
	}
	for _, kind := range []corev1.NodeConditionType{"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"} {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: kind, Status: "True", Reason: "KubeletReady", Message: "kubelet is posting ready status",
		})
	}
	node.Status.NodeInfo = corev1.NodeSystemInfo{BootID: "b1", KernelVersion: "6.1.0", KubeletVersion: "v1.37.2"}
	node.Status.VolumesInUse = []corev1.UniqueVolumeName{"v1"}
	node.Status.VolumesAttached = []corev1.AttachedVolume{{Name: "v1"}}
	node.Status.Capacity = corev1.ResourceList{"cpu": resource.MustParse("64"), "memory": resource.MustParse("512Gi")}
	return node
}

func TestNodeKeepsWhatControllersRead(t *testing.T) {
	t.Parallel()
	in := realistic()
	in.Spec = corev1.NodeSpec{Unschedulable: true, Taints: []corev1.Taint{{Key: "k", Effect: "NoSchedule"}}}
	out, err := transform.Node(in.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	want := in.DeepCopy()
	want.ManagedFields = want.ManagedFields[1:2]
	want.Status = corev1.NodeStatus{Conditions: in.Status.Conditions, NodeInfo: in.Status.NodeInfo}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("Node() (-want +got):\n%s", diff)
	}
	again, err := transform.Node(out.(*corev1.Node).DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out, again); diff != "" {
		t.Errorf("a second transform changes the node (-first +second):\n%s", diff)
	}
}

// Whoever holds something that the operator writes has to stay visible.
func TestNodeKeepsHoldersOfOurFields(t *testing.T) {
	t.Parallel()
	update, apply := metav1.ManagedFieldsOperationUpdate, metav1.ManagedFieldsOperationApply
	for name, tc := range map[string]struct {
		entry metav1.ManagedFieldsEntry
		want  bool
	}{
		"own manager":             {entry("nodewright-job", apply, keys(nodestate.Prefix+"seq_job")), true},
		"own manager, no fields":  {metav1.ManagedFieldsEntry{Manager: "nodewright-pod", Operation: apply}, true},
		"before-first-apply":      {entry("before-first-apply", update, keys(nodestate.Prefix+"nodeState_a_pa")), true},
		"ancient changes":         {entry("ancient-changes", update, keys(nodestate.Prefix+"status_a")), true},
		"kubectl with our label":  {entry("kubectl", update, `{"f:metadata":{"f:labels":{"f:nodewright.nvidia.com/status_a":{}}}}`), true},
		"kubectl with our own":    {entry("kubectl", apply, keys(nodestate.Prefix+"pause")), true},
		"kubectl with a cordon":   {entry("kubectl-cordon", update, `{"f:spec":{"f:unschedulable":{}}}`), true},
		"foreign prefix":          {entry("kubelet", update, keys("example.com/x")), false},
		"prefix within a prefix":  {entry("other", update, keys("x."+nodestate.Prefix+"nodeState_a_pa")), false},
		"legacy prefix":           {entry("other", update, keys(nodestate.LegacyPrefix+"nodeState_a")), false},
		"foreign, without fields": {metav1.ManagedFieldsEntry{Manager: "other", Operation: update}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := transform.Node(&corev1.Node{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{tc.entry}}})
			if err != nil {
				t.Fatal(err)
			}
			if got := len(out.(*corev1.Node).ManagedFields) == 1; got != tc.want {
				t.Errorf("entry kept = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestJobKeepsWhatControllersRead(t *testing.T) {
	t.Parallel()
	in := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name: "j", UID: "u", Labels: map[string]string{packagejob.LabelPackage: "p-1"},
			Annotations:   map[string]string{packagejob.AnnotationIdentity: "{}", packagejob.AnnotationSpecHash: "h"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("x", metav1.ManagedFieldsOperationUpdate, "{}")},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1), ActiveDeadlineSeconds: ptr.To[int64](60), Suspend: ptr.To(true),
			TTLSecondsAfterFinished: ptr.To[int32](5), PodFailurePolicy: &batchv1.PodFailurePolicy{},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"labels.json": strings.Repeat("x", 4096)}},
				Spec:       corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}},
			},
		},
		Status: batchv1.JobStatus{Failed: 1, Conditions: []batchv1.JobCondition{{Type: batchv1.JobFailed, Status: "True"}}},
	}
	want := in.DeepCopy()
	want.ManagedFields = nil
	want.Spec = batchv1.JobSpec{
		ActiveDeadlineSeconds: ptr.To[int64](60), Suspend: ptr.To(true), TTLSecondsAfterFinished: ptr.To[int32](5),
	}
	want.Spec.Template.Spec.NodeName = "n1"
	out, err := transform.Job(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("Job() (-want +got):\n%s", diff)
	}
}

func TestPodKeepsWhatControllersRead(t *testing.T) {
	t.Parallel()
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	in := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", UID: "u", OwnerReferences: []metav1.OwnerReference{{Name: "j", UID: "ju", Controller: ptr.To(true)}},
			Labels:        map[string]string{packagejob.LabelPackage: "p-1", batchv1.JobNameLabel: "j"},
			Annotations:   map[string]string{packagejob.AnnotationIdentity: "{}", "labels.json": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("x", metav1.ManagedFieldsOperationUpdate, "{}")},
		},
		Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "c"}}, HostPID: true},
		Status: corev1.PodStatus{
			Phase: corev1.PodPending, Reason: "r", Message: "m", PodIP: "10.0.0.1",
			Conditions:            []corev1.PodCondition{{Type: corev1.PodReady, Status: "False"}},
			InitContainerStatuses: []corev1.ContainerStatus{{Name: "i", Image: "img", ImageID: "id", State: waiting}},
			ContainerStatuses:     []corev1.ContainerStatus{{Name: "c", State: waiting, LastTerminationState: waiting}},
		},
	}
	want := in.DeepCopy()
	want.ManagedFields = nil
	delete(want.Annotations, "labels.json")
	want.Spec = corev1.PodSpec{NodeName: "n1"}
	want.Status.PodIP = ""
	want.Status.InitContainerStatuses[0].Image, want.Status.InitContainerStatuses[0].ImageID = "", ""
	out, err := transform.Pod(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("Pod() (-want +got):\n%s", diff)
	}
}

func TestOtherObjectsPass(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(any) (any, error){"node": transform.Node, "job": transform.Job, "pod": transform.Pod} {
		in := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
		if out, err := f(in); err != nil || out != any(in) {
			t.Errorf("%s transform of another kind = %v, %v", name, out, err)
		}
	}
}

func TestByObjectIsScoped(t *testing.T) {
	t.Parallel()
	for obj, by := range transform.ByObject("sys") {
		_, isNode := obj.(*corev1.Node)
		_, scoped := by.Namespaces["sys"]
		if by.Transform == nil || isNode == scoped || isNode != (by.Label == nil) {
			t.Errorf("%T: transform = %t, scoped = %t, label = %v", obj, by.Transform != nil, scoped, by.Label)
		}
	}
}

// A cached node must stay below a third of what it was.
func TestNodeGetsSmall(t *testing.T) {
	t.Parallel()
	size := func(o any) int {
		b, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	node := realistic()
	before := size(node)
	out, err := transform.Node(node)
	if err != nil {
		t.Fatal(err)
	}
	if after := size(out); after*3 > before {
		t.Errorf("node has %d of %d bytes left, want a third", after, before)
	}
}

// BenchmarkNodeMemory reports the heap that one cached node takes before and
// after the transform.
func BenchmarkNodeMemory(b *testing.B) {
	const nodes = 1000
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	raw, err := json.Marshal(realistic())
	if err != nil {
		b.Fatal(err)
	}
	for name, f := range map[string]func(any) (any, error){
		"before": func(o any) (any, error) { return o, nil }, "after": transform.Node,
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				start := heap()
				kept := make([]any, 0, nodes)
				for range nodes {
					node := &corev1.Node{}
					if err := json.Unmarshal(raw, node); err != nil {
						b.Fatal(err)
					}
					out, err := f(node)
					if err != nil {
						b.Fatal(err)
					}
					kept = append(kept, out)
				}
				b.ReportMetric(float64(heap()-start)/nodes, "B/node")
				runtime.KeepAlive(kept)
			}
		})
	}
}
