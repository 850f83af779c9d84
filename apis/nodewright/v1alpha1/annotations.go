package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Annotations that users put on a NodeWright. Only the value "true" counts.
// Those under the older prefix are treated alike.
const (
	// AnnotationPause holds this NodeWright and all later ones on the nodes it
	// selects. Running steps are ended with SIGTERM.
	AnnotationPause = nodestate.Prefix + "pause"
	// AnnotationDisable holds this NodeWright; later ones go on. Running steps are
	// ended with SIGTERM.
	AnnotationDisable = nodestate.Prefix + "disable"
	// LegacyAnnotationPause is AnnotationPause as older manifests have it.
	LegacyAnnotationPause = nodestate.LegacyPrefix + "pause"
	// LegacyAnnotationDisable is AnnotationDisable as older manifests have it.
	LegacyAnnotationDisable = nodestate.LegacyPrefix + "disable"
)

// Labels that users put on a Node. Only the value "true" counts.
const (
	// LabelIgnore takes a node out of all rollouts until it is removed.
	LabelIgnore = nodestate.Prefix + "ignore"
	// LegacyLabelIgnore is LabelIgnore under the older prefix.
	LegacyLabelIgnore = nodestate.LegacyPrefix + "ignore"
)

// Finalizer holds a NodeWright that is being deleted until its keys are gone
// from all nodes. It is the one that existing objects of the group carry.
const Finalizer = nodestate.Prefix + "nodewright"

const isTrue = "true"

// Paused tells whether the NodeWright is paused by annotation.
func (n *NodeWright) Paused() bool {
	return n.Annotations[AnnotationPause] == isTrue || n.Annotations[LegacyAnnotationPause] == isTrue
}

// Disabled tells whether the NodeWright is disabled by annotation.
func (n *NodeWright) Disabled() bool {
	return n.Annotations[AnnotationDisable] == isTrue || n.Annotations[LegacyAnnotationDisable] == isTrue
}

// Selects tells whether the selector matches a node with these labels. A
// selector that cannot be read selects nothing.
func (n *NodeWright) Selects(nodeLabels map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(&n.Spec.NodeSelectors)
	return err == nil && selector.Matches(labels.Set(nodeLabels))
}

// NodeIgnored tells whether the labels of a node take it out of all rollouts.
func NodeIgnored(labels map[string]string) bool {
	return labels[LabelIgnore] == isTrue || labels[LegacyLabelIgnore] == isTrue
}
