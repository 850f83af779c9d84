package drain

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

const operatorNamespace = "nodewright"

// workload is a pod that a drain evicts: it runs, and a ReplicaSet owns it.
func workload() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-0", UID: "u1", Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{owner("apps/v1", "ReplicaSet")},
		},
		Spec:   corev1.PodSpec{NodeName: "n1"},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func owner(apiVersion, kind string) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Name: "it", UID: "o1", Controller: ptr.To(true)}
}

type edit func(*corev1.Pod, *Options)

// pod makes an edit of several that change the pod alone.
func pod(changes ...func(*corev1.Pod)) edit {
	return func(p *corev1.Pod, _ *Options) {
		for _, change := range changes {
			change(p)
		}
	}
}

func with(e edit, set func(*v1alpha1.DrainSettings)) edit {
	return func(p *corev1.Pod, o *Options) {
		e(p, o)
		set(&o.Settings)
	}
}

func daemon(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{owner("apps/v1", "DaemonSet")}
}
func unowned(p *corev1.Pod) { p.OwnerReferences = nil }
func mirror(p *corev1.Pod) {
	p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "hash"}
	p.OwnerReferences = []metav1.OwnerReference{owner("v1", "Node")}
}
func ended(phase corev1.PodPhase) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.Phase = phase }
}
func terminating(p *corev1.Pod) {
	p.DeletionTimestamp = ptr.To(metav1.NewTime(time.Unix(1000, 0)))
	p.DeletionGracePeriodSeconds = ptr.To[int64](45)
}
func emptyDir(p *corev1.Pod) {
	p.Spec.Volumes = []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
}
func tolerating(t corev1.Toleration) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Tolerations = append(p.Spec.Tolerations, t) }
}
func packagePod(p *corev1.Pod) {
	p.Namespace = operatorNamespace
	p.Labels = map[string]string{packagejob.LabelPackage: "driver-1.0.0"}
	p.OwnerReferences = []metav1.OwnerReference{owner("batch/v1", "Job")}
}

var (
	everything = corev1.Toleration{Operator: corev1.TolerationOpExists}
	cordoned   = corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
)

func noDaemonSets(s *v1alpha1.DrainSettings) { s.IgnoreDaemonSets = false }
func noForce(s *v1alpha1.DrainSettings)      { s.Force = false }
func noEmptyDir(s *v1alpha1.DrainSettings)   { s.DeleteEmptyDirData = false }

const (
	heldAsDaemon   = "pod shop/web-0 holds up the drain: it belongs to a DaemonSet, and drain.ignoreDaemonSets is false"
	heldAsUnowned  = "pod shop/web-0 holds up the drain: no controller would create it again, and drain.force is false"
	heldAsEmptyDir = "pod shop/web-0 holds up the drain: it has an emptyDir volume, whose data would be lost, and drain.deleteEmptyDirData is false"
	comesBack      = "it tolerates the taint of unschedulable nodes, so it would come straight back"
)

// Each rule stands next to the pod that it just does not apply to.
func TestClasses(t *testing.T) {
	tests := map[string]struct {
		edit   edit
		class  Class
		reason string
	}{
		"a pod of a ReplicaSet":         {pod(), Evict, ""},
		"a pod that waits for its node": {pod(ended(corev1.PodPending)), Evict, ""},
		"a pod of kube-system":          {pod(func(p *corev1.Pod) { p.Namespace = "kube-system" }), Evict, ""},

		"a pod that succeeded":                  {pod(ended(corev1.PodSucceeded)), Exempt, "it has ended"},
		"a pod that failed":                     {pod(ended(corev1.PodFailed)), Exempt, "it has ended"},
		"a pod that succeeded, without owner":   {with(pod(ended(corev1.PodSucceeded), unowned), noForce), Exempt, "it has ended"},
		"a pod that failed, still terminating":  {pod(ended(corev1.PodFailed), terminating), Exempt, "it has ended"},
		"a pod of unknown phase":                {pod(ended(corev1.PodUnknown)), Evict, ""},
		"a pod of a DaemonSet that has ended":   {with(pod(daemon, ended(corev1.PodFailed)), noDaemonSets), Exempt, "it has ended"},
		"a pod of a Job that runs":              {pod(func(p *corev1.Pod) { p.OwnerReferences[0] = owner("batch/v1", "Job") }), Evict, ""},
		"the manager, beside the packages":      {pod(func(p *corev1.Pod) { p.Namespace = operatorNamespace }), Evict, ""},
		"package labels in another namespace":   {pod(packagePod, func(p *corev1.Pod) { p.Namespace = "shop" }), Evict, ""},
		"DR-07 package pod":                     {pod(packagePod), Exempt, "it runs a package"},
		"DR-07 package pod tolerating all":      {pod(packagePod, tolerating(everything)), Exempt, "it runs a package"},
		"DR-07 package pod, strict settings":    {with(pod(packagePod, unowned, emptyDir), noForce), Exempt, "it runs a package"},
		"DR-03 package pod, terminating":        {pod(packagePod, terminating), Exempt, "it runs a package"},
		"DR-03 pod of a DaemonSet, terminating": {pod(daemon, terminating), Exempt, "it belongs to a DaemonSet"},
		"DR-03 mirror pod, terminating":         {pod(mirror, terminating), Exempt, "its kubelet runs it from a file of the host"},

		"a pod of a DaemonSet":                 {pod(daemon), Exempt, "it belongs to a DaemonSet"},
		"a pod of a DaemonSet of another API":  {pod(func(p *corev1.Pod) { p.OwnerReferences[0] = owner("apps.example.com/v1", "DaemonSet") }), Evict, ""},
		"ignoreDaemonSets false":               {with(pod(daemon), noDaemonSets), Holds, heldAsDaemon},
		"ignoreDaemonSets false, tolerating":   {with(pod(daemon, tolerating(cordoned)), noDaemonSets), Holds, heldAsDaemon},
		"ignoreDaemonSets false, a ReplicaSet": {with(pod(), noDaemonSets), Evict, ""},
		"ignoreDaemonSets false, ending":       {with(pod(daemon, terminating), noDaemonSets), Evict, ""},
		"a mirror pod":                         {pod(mirror), Exempt, "its kubelet runs it from a file of the host"},
		"a mirror pod, strict settings":        {with(pod(mirror, emptyDir), func(s *v1alpha1.DrainSettings) { *s = v1alpha1.DrainSettings{DeleteEmptyDirData: true} }), Exempt, "its kubelet runs it from a file of the host"},
		"a pod without owner":                  {pod(unowned), Evict, ""},
		"force false":                          {with(pod(unowned), noForce), Holds, heldAsUnowned},
		"force false, with owner":              {with(pod(), noForce), Evict, ""},
		"force false, owner is no controller":  {with(pod(func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }), noForce), Holds, heldAsUnowned},
		"a pod with emptyDir":                  {pod(emptyDir), Evict, ""},
		"deleteEmptyDirData false":             {with(pod(emptyDir), noEmptyDir), Holds, heldAsEmptyDir},
		"deleteEmptyDirData false, without":    {with(pod(), noEmptyDir), Evict, ""},

		"a pod that tolerates everything":               {pod(tolerating(everything)), Exempt, comesBack},
		"a pod that tolerates the taint":                {pod(tolerating(cordoned)), Exempt, comesBack},
		"a pod that tolerates its empty value":          {pod(tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable})), Exempt, comesBack},
		"a pod that tolerates another effect":           {pod(tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})), Evict, ""},
		"a pod that tolerates another taint":            {pod(tolerating(corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists})), Evict, ""},
		"a pod that tolerates another value":            {pod(tolerating(corev1.Toleration{Key: corev1.TaintNodeUnschedulable, Value: "true"})), Evict, ""},
		"a pod that tolerates everything, and emptyDir": {with(pod(tolerating(everything), emptyDir), noEmptyDir), Exempt, comesBack},

		"DR-02 a pod that is terminating":         {pod(terminating), Evict, ""},
		"DR-06 terminating, deletion not allowed": {with(pod(terminating, unowned), noForce), Evict, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p, got := classified(t, tc.edit)
			if got.Class != tc.class || got.Reason != tc.reason {
				t.Fatalf("class %s (%s), want %s (%s)", got.Class, got.Reason, tc.class, tc.reason)
			}
			if want := p.DeletionTimestamp != nil; got.Terminating != want {
				t.Errorf("terminating = %t, want %t", got.Terminating, want)
			}
			if got.Namespace != p.Namespace || got.Name != p.Name || got.UID != p.UID {
				t.Errorf("pod %s of UID %s is said to be %s of UID %s", p.Name, p.UID, got.Name, got.UID)
			}
		})
	}
}

func classified(t *testing.T, e edit) (*corev1.Pod, Pod) {
	t.Helper()
	p := workload()
	o := &Options{Namespace: operatorNamespace, Settings: (&v1alpha1.NodeWrightSpec{}).DrainSettings()}
	e(p, o)
	selector, err := nonInterruptSelector(&o.NonInterrupt)
	if err != nil {
		t.Fatal(err)
	}
	r := rules{namespace: o.Namespace, settings: &o.Settings, nonInterrupt: selector}
	before := p.DeepCopy()
	got := r.classify(p)
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("the pod was changed (-before +after):\n%s", diff)
	}
	return p, got
}

// DR-25: pods that must leave by themselves are told from the others, pending
// ones too.
func TestNonInterrupt_DR25(t *testing.T) {
	web := metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	labelled := func(s metav1.LabelSelector, changes ...func(*corev1.Pod)) edit {
		return func(p *corev1.Pod, o *Options) {
			o.NonInterrupt = s
			pod(changes...)(p, o)
		}
	}
	tests := map[string]struct {
		edit edit
		want bool
	}{
		"no selector":              {pod(), false},
		"selected":                 {labelled(web), true},
		"selected, pending":        {labelled(web, ended(corev1.PodPending)), true},
		"selected, terminating":    {labelled(web, terminating), true},
		"selected, of a DaemonSet": {labelled(web, daemon), true},
		"selected, tolerating":     {labelled(web, tolerating(everything)), true},
		"selected, has ended":      {labelled(web, ended(corev1.PodSucceeded)), false},
		"other value":              {labelled(metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}), false},
		"by expression": {labelled(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpExists},
		}}), true},
		"a package pod": {labelled(metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: packagejob.LabelPackage, Operator: metav1.LabelSelectorOpExists},
		}}, packagePod), false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, got := classified(t, tc.edit); got.NonInterrupt != tc.want {
				t.Fatalf("NonInterrupt = %t, want %t (class %s)", got.NonInterrupt, tc.want, got.Class)
			}
		})
	}
	if _, err := nonInterruptSelector(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: "app", Operator: "Likes"},
	}}); err == nil {
		t.Error("a selector that cannot be read selects nothing, without a word")
	}
}

// DR-27: how long the pod may take tells a drain timeout that cannot be met.
func TestGraceSeconds_DR27(t *testing.T) {
	long := func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1800) }
	settings := func(seconds int64) func(*v1alpha1.DrainSettings) {
		return func(s *v1alpha1.DrainSettings) { s.GracePeriodSeconds = &seconds }
	}
	tests := map[string]struct {
		edit edit
		want int64
	}{
		"default of pods":            {pod(), 30},
		"the pod's own":              {pod(long), 1800},
		"of the drain":               {with(pod(long), settings(60)), 60},
		"of the drain, 0 is not 0":   {with(pod(long), settings(0)), 1},
		"terminating":                {pod(long, terminating), 45},
		"terminating, of the drain":  {with(pod(long, terminating), settings(60)), 45},
		"the pod's own is 0 seconds": {pod(func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0) }), 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if _, got := classified(t, tc.edit); got.GraceSeconds != tc.want {
				t.Fatalf("%d seconds, want %d", got.GraceSeconds, tc.want)
			}
		})
	}
}
