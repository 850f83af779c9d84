package drain

import (
	"context"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	kubectl "k8s.io/kubectl/pkg/drain"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// verdict is what kubectl drain would do with a pod.
type verdict struct {
	class  Class
	reason string
	// daemonSet tells whether the pod is held up as one of a DaemonSet.
	daemonSet bool
}

// holders translate what kubectl says of pods that it refuses to delete: by the
// flag that kubectl names, the setting that would let the pod go.
var holders = []struct {
	flag, reason string
	daemonSet    bool
}{
	{"--ignore-daemonsets", "it belongs to a DaemonSet, and drain.ignoreDaemonSets is false", true},
	{"--delete-emptydir-data", "it has an emptyDir volume, whose data would be lost, and drain.deleteEmptyDirData is false", false},
	{"--force", "no controller would create it again, and drain.force is false", false},
}

// filter asks the filters of kubectl about one pod. They are reached through
// the listing of pods only, so they get a client that knows this pod and no
// other.
func filter(pod *corev1.Pod, s *v1alpha1.DrainSettings) verdict {
	helper := kubectl.Helper{
		Client: clientOf{pod: pod}, Force: s.Force, IgnoreAllDaemonSets: s.IgnoreDaemonSets, DeleteEmptyDirData: s.DeleteEmptyDirData,
	}
	list, errs := helper.GetPodsForDeletion(pod.Spec.NodeName)
	switch {
	case len(errs) > 0:
		words := errs[0].Error()
		for _, h := range holders {
			if strings.Contains(words, h.flag) {
				return verdict{class: Holds, reason: h.reason, daemonSet: h.daemonSet}
			}
		}
		return verdict{class: Holds, reason: words}
	case len(list.Pods()) > 0:
		return verdict{class: Evict}
	}
	if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return verdict{class: Exempt, reason: "its kubelet runs it from a file of the host"}
	}
	return verdict{class: Exempt, reason: "it belongs to a DaemonSet"}
}

// clientOf answers what the filters ask: the pods of the node, and whether the
// DaemonSet of a pod exists. It says that each does. Pods that a DaemonSet
// leaves behind have no owner any more, and the others of one that is gone are
// being deleted: so nothing is lost, and the operator needs no right on
// DaemonSets.
//
// Anything else would be a nil pointer; tests reach every filter.
type clientOf struct {
	kubernetes.Interface
	pod *corev1.Pod
}

func (c clientOf) CoreV1() coreclient.CoreV1Interface { return coreOf{pod: c.pod} }
func (c clientOf) AppsV1() appsclient.AppsV1Interface { return appsOf{} }

type coreOf struct {
	coreclient.CoreV1Interface
	pod *corev1.Pod
}

func (c coreOf) Pods(string) coreclient.PodInterface { return podsOf{pod: c.pod} }

type podsOf struct {
	coreclient.PodInterface
	pod *corev1.Pod
}

func (p podsOf) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: []corev1.Pod{*p.pod}}, nil
}

type appsOf struct{ appsclient.AppsV1Interface }

func (appsOf) DaemonSets(string) appsclient.DaemonSetInterface { return daemonSetsOf{} }

type daemonSetsOf struct{ appsclient.DaemonSetInterface }

func (daemonSetsOf) Get(context.Context, string, metav1.GetOptions) (*appsv1.DaemonSet, error) {
	return &appsv1.DaemonSet{}, nil
}
