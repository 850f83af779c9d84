package drain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// maxNamed is how many budgets of one pod a sentence names.
const maxNamed = 4

// blocked explains an answer that budgets may be the cause of. The API server
// names one budget in the cause, and none if there are several.
func (c *Client) blocked(ctx context.Context, pod *Pod, err error) Outcome {
	cause, byBudget := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	budgets, listErr := c.budgets(ctx, pod)
	out := Outcome{Kind: Blocked, RetryAfter: retryAfter(err), Err: err}
	switch {
	case len(budgets) > 1:
		out.Message = fmt.Sprintf("pod %s is in PodDisruptionBudgets %s: the API server evicts no pod that is in more than one, leave one of them",
			pod, names(budgets))
	case !byBudget:
		// An internal error of another kind.
		return failed(pod, err)
	case len(budgets) == 1:
		out.Message = fmt.Sprintf("pod %s waits for PodDisruptionBudget %s: %s%s", pod, budgets[0].Name, cause.Message, unhealthy(&budgets[0]))
	case listErr != nil:
		out.Message = fmt.Sprintf("pod %s waits for a PodDisruptionBudget: %s (its budgets cannot be read: %v)", pod, cause.Message, listErr)
	default:
		out.Message = fmt.Sprintf("pod %s waits for a PodDisruptionBudget: %s", pod, cause.Message)
	}
	return out
}

// unhealthy tells of pods that are not ready: a budget that counts them may
// never allow an eviction.
func unhealthy(b *policyv1.PodDisruptionBudget) string {
	count := b.Status.ExpectedPods - b.Status.CurrentHealthy
	if count <= 0 {
		return ""
	}
	text := fmt.Sprintf("; %d of its %d pods are not healthy", count, b.Status.ExpectedPods)
	if p := b.Spec.UnhealthyPodEvictionPolicy; p == nil || *p != policyv1.AlwaysAllow {
		text += ", which unhealthyPodEvictionPolicy: AlwaysAllow would let go"
	}
	return text
}

// budgets are those that select the pod, by name.
func (c *Client) budgets(ctx context.Context, pod *Pod) ([]policyv1.PodDisruptionBudget, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list policyv1.PodDisruptionBudgetList
	if err := c.live.List(ctx, &list, client.InNamespace(pod.Namespace)); err != nil {
		return nil, fmt.Errorf("list PodDisruptionBudgets of namespace %s: %w", pod.Namespace, err)
	}
	budgets := slices.DeleteFunc(list.Items, func(b policyv1.PodDisruptionBudget) bool {
		selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
		return err != nil || !selector.Matches(labels.Set(pod.labels))
	})
	slices.SortFunc(budgets, func(a, b policyv1.PodDisruptionBudget) int { return cmp.Compare(a.Name, b.Name) })
	return budgets, nil
}

func names(budgets []policyv1.PodDisruptionBudget) string {
	var all []string
	for i := range budgets[:min(len(budgets), maxNamed)] {
		all = append(all, budgets[i].Name)
	}
	text := strings.Join(all, ", ")
	if more := len(budgets) - len(all); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
