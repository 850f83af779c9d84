package node

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/drain"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// replicaTimeout bounds the list of the operator's own pods, a handful.
const replicaTimeout = 5 * time.Second

// Drainer reads and evicts the pods of a node. A client of
// controllers/node/drain is one.
type Drainer interface {
	List(ctx context.Context, node string, o *drain.Options) ([]drain.Pod, error)
	Evict(ctx context.Context, pod *drain.Pod, s *v1alpha1.DrainSettings) drain.Outcome
}

// seenPods are pods of a node as they were read for this pass, by NodeWright
// and UID.
type seenPods map[string]map[types.UID]*drain.Pod

// compute plans the node. Where pods decide, it reads those of the NodeWrights
// that the plan names and plans again, at most once for each of them.
func (r *Reconciler) compute(ctx context.Context, in *gathered) (*plan.Plan, error) {
	for range len(in.NodeWrights) + 1 {
		p := r.opts.Compute(in.Input)
		if len(p.Look) == 0 {
			r.refusals.keep(in.Node.Name, in.seen)
			return &p, nil
		}
		for _, name := range p.Look {
			if err := r.look(ctx, in, name); err != nil {
				return nil, fmt.Errorf("look at the pods of node %s for nodewright %s: %w", in.Node.Name, name, err)
			}
		}
	}
	return nil, fmt.Errorf("plan node %s: pods are asked for that were read", in.Node.Name)
}

// look reads the pods of the node for a NodeWright, and whether the node runs the
// last replica of the operator.
func (r *Reconciler) look(ctx context.Context, in *gathered, name string) error {
	nw := in.specs[name]
	if nw == nil {
		return fmt.Errorf("the input has no such nodewright")
	}
	pods, err := r.opts.Drain.List(ctx, in.Node.Name, r.drainOptions(nw))
	if err != nil {
		return err
	}
	if in.Pods == nil {
		in.Pods, in.seen = map[string][]plan.Pod{}, seenPods{}
		if in.LastReplica, err = r.lastReplica(ctx, in.Node.Name); err != nil {
			return err
		}
	}
	// There is an entry also where no pod is in the way: somebody looked.
	facts, seen := []plan.Pod{}, map[types.UID]*drain.Pod{}
	for i := range pods {
		if inTheWay(&pods[i]) {
			seen[pods[i].UID] = &pods[i]
			facts = append(facts, podFacts(&pods[i], r.refusals.of(in.Node.Name, name, pods[i].UID)))
		}
	}
	in.Pods[name], in.seen[name] = facts, seen
	return nil
}

func (r *Reconciler) drainOptions(nw *v1alpha1.NodeWright) *drain.Options {
	return &drain.Options{
		Namespace: r.opts.Jobs.Namespace, Settings: nw.Spec.DrainSettings(), NonInterrupt: nw.Spec.PodNonInterruptLabels,
	}
}

// inTheWay tells whether the drain has to do with the pod.
func inTheWay(p *drain.Pod) bool { return p.Class != drain.Exempt || p.NonInterrupt }

func podFacts(p *drain.Pod, last refusal) plan.Pod {
	facts := plan.Pod{
		Name: p.String(), UID: string(p.UID), NonInterrupt: p.NonInterrupt, Stays: p.Class == drain.Exempt,
		Terminating: p.Terminating, GraceSeconds: p.GraceSeconds,
		Refused: last.message, Blocked: last.kind == drain.Blocked, RetryAt: last.retryAt,
	}
	if p.Class == drain.Holds {
		facts.Holds = p.Reason
	}
	return facts
}

// lastReplica tells whether a replica of the operator is ready on the node, and
// on no other. It asks the API server, since the cache has package pods only.
//
// A replica on another node counts also if that one is being emptied: of two that
// wait for each other none would ever go. There the budget of the replicas decides.
func (r *Reconciler) lastReplica(ctx context.Context, node string) (bool, error) {
	if len(r.opts.Replicas) == 0 {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, replicaTimeout)
	defer cancel()
	var pods corev1.PodList
	err := r.opts.Live.List(ctx, &pods, client.InNamespace(r.opts.Jobs.Namespace), client.MatchingLabels(r.opts.Replicas))
	if err != nil {
		return false, fmt.Errorf("list the operator's own pods: %w", err)
	}
	here := false
	for i := range pods.Items {
		switch pod := &pods.Items[i]; {
		case !podReady(pod):
		case pod.Spec.NodeName != node:
			return false, nil
		default:
			here = true
		}
	}
	return here, nil
}

// podReady tells whether the pod serves, and goes on doing so.
func podReady(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp != nil || podEnded(pod) {
		return false
	}
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// mayInterrupt asks the API server, right before the Job of an interrupt is
// created, whether the node is still cordoned and empty: somebody may have taken
// the cordon off a moment ago.
func (r *Reconciler) mayInterrupt(ctx context.Context, in *gathered, nw *v1alpha1.NodeWright) (bool, error) {
	readCtx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var node corev1.Node
	err := r.opts.Live.Get(readCtx, client.ObjectKey{Name: in.Node.Name}, &node)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get node: %w", err)
	}
	if node.UID != in.view.Node.UID || !node.Spec.Unschedulable {
		return false, nil
	}
	pods, err := r.opts.Drain.List(ctx, in.Node.Name, r.drainOptions(nw))
	if err != nil {
		return false, err
	}
	for i := range pods {
		if inTheWay(&pods[i]) {
			return false, nil
		}
	}
	return true, nil
}
