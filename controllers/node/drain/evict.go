package drain

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// OutcomeKind says what came of an eviction.
type OutcomeKind string

// The kinds of outcomes.
const (
	// Started: the end of the pod has begun, or is certain because its namespace is
	// being deleted. It has to be waited for.
	Started OutcomeKind = "Started"
	// Gone: there is no pod of this UID any more.
	Gone OutcomeKind = "Gone"
	// Blocked: PodDisruptionBudgets keep the pod. That is an expected wait.
	Blocked OutcomeKind = "Blocked"
	// Throttled: the API server asks to come back later. It says nothing about the
	// pod.
	Throttled OutcomeKind = "Throttled"
	// Forbidden: the operator lacks the right, or admission refused.
	Forbidden OutcomeKind = "Forbidden"
	// Failed: the answer is another error, or there was none. The end of the pod may
	// have begun.
	Failed OutcomeKind = "Failed"
)

// Outcome is what came of the eviction of one pod.
type Outcome struct {
	Kind OutcomeKind
	// Message is a sentence that names the pod; empty for Started and Gone.
	Message string
	// RetryAfter is how long the API server asks to wait, 0 if it does not say.
	RetryAfter time.Duration
	// Err is the answer as it came; nil for Started and Gone.
	Err error
}

// Evict asks once for the end of this very pod: a pod that came in its place
// under its name stays. It does not wait for the end.
func (c *Client) Evict(ctx context.Context, pod *Pod, s *v1alpha1.DrainSettings) Outcome {
	err := c.send(ctx, pod, s)
	switch {
	case err == nil:
		return Outcome{Kind: Started}
	case apierrors.IsNotFound(err):
		return Outcome{Kind: Gone}
	case apierrors.IsConflict(err):
		return c.conflict(ctx, pod, err)
	case apierrors.IsForbidden(err) && apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return Outcome{Kind: Started}
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), internal(err):
		return c.blocked(ctx, pod, err)
	case apierrors.IsTooManyRequests(err):
		return Outcome{
			Kind: Throttled, RetryAfter: retryAfter(err), Err: err,
			Message: fmt.Sprintf("pod %s is not evicted yet: the API server has too many requests", pod),
		}
	case apierrors.IsForbidden(err):
		return Outcome{Kind: Forbidden, Err: err, Message: fmt.Sprintf("pod %s must not be evicted: %v", pod, err)}
	default:
		return failed(pod, err)
	}
}

// internal tells whether the API server answered 500, with a reason or without.
func internal(err error) bool {
	var status apierrors.APIStatus
	return errors.As(err, &status) && status.Status().Code == http.StatusInternalServerError
}

func failed(pod *Pod, err error) Outcome {
	return Outcome{
		Kind: Failed, RetryAfter: retryAfter(err), Err: err,
		Message: fmt.Sprintf("the eviction of pod %s failed: %v", pod, err),
	}
}

func retryAfter(err error) time.Duration {
	seconds, _ := apierrors.SuggestsClientDelay(err)
	return time.Duration(seconds) * time.Second
}

// send sends the one request.
func (c *Client) send(ctx context.Context, pod *Pod, s *v1alpha1.DrainSettings) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	options := metav1.DeleteOptions{
		GracePeriodSeconds: evictionGrace(s),
		Preconditions:      &metav1.Preconditions{UID: &pod.UID},
	}
	var req *rest.Request
	if s.DisableEviction {
		req = c.rest.Delete().Resource("pods").Body(&options)
	} else {
		eviction := &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
			DeleteOptions: &options,
		}
		req = c.rest.Post().Resource("pods").SubResource("eviction").Body(eviction)
	}
	var answer metav1.Status
	if err := req.Namespace(pod.Namespace).Name(pod.Name).MaxRetries(0).Do(ctx).Into(&answer); err != nil {
		return err
	}
	// The API server says so under an HTTP code of success if the pod has more than
	// one budget.
	if answer.Status == metav1.StatusFailure {
		return &apierrors.StatusError{ErrStatus: answer}
	}
	return nil
}

// evictionGrace is the grace period that evictions ask for, nil for the pod's
// own. 0 becomes one second, which kills as well: at 0 the API server forgets
// the pod at once, while its containers may still run on a node that then looks
// empty.
func evictionGrace(s *v1alpha1.DrainSettings) *int64 {
	if s.GracePeriodSeconds == nil {
		return nil
	}
	return ptr.To(max(*s.GracePeriodSeconds, 1))
}

// conflict tells a pod that came in the place of ours, which is gone then, from
// one that somebody else changes.
func (c *Client) conflict(ctx context.Context, pod *Pod, err error) Outcome {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var present metav1.PartialObjectMetadata
	present.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	getErr := c.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: pod.Name}, &present)
	switch {
	case apierrors.IsNotFound(getErr), getErr == nil && present.UID != pod.UID:
		return Outcome{Kind: Gone}
	case getErr != nil:
		return failed(pod, errors.Join(err, getErr))
	default:
		return failed(pod, err)
	}
}
