package sim

import (
	"maps"
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// objects of one kind, sorted by name. What all gives stays as long as it is when
// objects come and go; those that are replaced meanwhile show as they are then.
type objects[T metav1.Object] struct{ sorted []T }

func (l *objects[T]) find(name string) (int, bool) {
	return slices.BinarySearchFunc(l.sorted, name, func(o T, name string) int { return strings.Compare(o.GetName(), name) })
}

// get gives nil where there is none of the name.
func (l *objects[T]) get(name string) (o T) {
	if i, ok := l.find(name); ok {
		return l.sorted[i]
	}
	return o
}

func (l *objects[T]) all() []T { return l.sorted }

func (l *objects[T]) put(o T) {
	i, there := l.find(o.GetName())
	if there {
		l.sorted[i] = o
		return
	}
	grown := make([]T, 0, len(l.sorted)+1)
	grown = append(append(append(grown, l.sorted[:i]...), o), l.sorted[i:]...)
	l.sorted = grown
}

func (l *objects[T]) remove(name string) {
	i, there := l.find(name)
	if !there {
		return
	}
	left := make([]T, 0, len(l.sorted))
	l.sorted = append(append(left, l.sorted[:i]...), l.sorted[i+1:]...)
}

// keep puts the object or takes it out.
func (l *objects[T]) keep(o T, yes bool) {
	if yes {
		l.put(o)
	} else {
		l.remove(o.GetName())
	}
}

func (l *objects[T]) clone() objects[T] { return objects[T]{slices.Clone(l.sorted)} }

// byNode has objects for each node that has any.
type byNode[T metav1.Object] map[string]*objects[T]

func (b byNode[T]) on(node string) []T {
	if l := b[node]; l != nil {
		return l.all()
	}
	return nil
}

func (b byNode[T]) put(node string, o T) {
	if b[node] == nil {
		b[node] = &objects[T]{}
	}
	b[node].put(o)
}

func (b byNode[T]) remove(node, name string) {
	if l := b[node]; l != nil {
		if l.remove(name); len(l.sorted) == 0 {
			delete(b, node)
		}
	}
}

func (b byNode[T]) clone() byNode[T] {
	out := maps.Clone(b)
	for node, l := range out {
		copied := l.clone()
		out[node] = &copied
	}
	return out
}

// store has the objects of all kinds, with the ways in which they are looked up:
// a look at all of them for each question would take most of the time.
type store struct {
	nodes       objects[*corev1.Node]
	jobs        objects[*batchv1.Job]
	pods        objects[*corev1.Pod]
	nodeWrights objects[*v1alpha1.NodeWright]
	jobsOn      byNode[*batchv1.Job]
	podsOn      byNode[*corev1.Pod]
	// openJobs have not ended, or are being deleted; openPods have not ended.
	openJobs objects[*batchv1.Job]
	openPods objects[*corev1.Pod]
}

func newStore() store {
	return store{jobsOn: byNode[*batchv1.Job]{}, podsOn: byNode[*corev1.Pod]{}}
}

func (s *store) clone() store {
	return store{
		nodes: s.nodes.clone(), jobs: s.jobs.clone(), pods: s.pods.clone(), nodeWrights: s.nodeWrights.clone(),
		jobsOn: s.jobsOn.clone(), podsOn: s.podsOn.clone(), openJobs: s.openJobs.clone(), openPods: s.openPods.clone(),
	}
}

// get gives an object, nil if there is none.
func (s *store) get(k kind, name string) metav1.Object {
	switch k {
	case kindNode:
		return orNil(s.nodes.get(name))
	case kindJob:
		return orNil(s.jobs.get(name))
	case kindPod:
		return orNil(s.pods.get(name))
	default:
		return orNil(s.nodeWrights.get(name))
	}
}

func orNil[T interface {
	comparable
	metav1.Object
}](o T) metav1.Object {
	var none T
	if o == none {
		return nil
	}
	return o
}

func (s *store) put(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Node:
		s.nodes.put(o)
	case *batchv1.Job:
		_, finished := packagejob.Finished(o)
		s.jobs.put(o)
		s.jobsOn.put(packagejob.NodeName(o), o)
		s.openJobs.keep(o, !finished || o.DeletionTimestamp != nil)
	case *corev1.Pod:
		s.pods.put(o)
		s.podsOn.put(o.Spec.NodeName, o)
		s.openPods.keep(o, !podEnded(o))
	case *v1alpha1.NodeWright:
		s.nodeWrights.put(o)
	}
}

func (s *store) remove(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Node:
		s.nodes.remove(o.Name)
	case *batchv1.Job:
		s.jobs.remove(o.Name)
		s.jobsOn.remove(packagejob.NodeName(o), o.Name)
		s.openJobs.remove(o.Name)
	case *corev1.Pod:
		s.pods.remove(o.Name)
		s.podsOn.remove(o.Spec.NodeName, o.Name)
		s.openPods.remove(o.Name)
	case *v1alpha1.NodeWright:
		s.nodeWrights.remove(o.Name)
	}
}
