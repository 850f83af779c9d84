package node

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// jobRefusals remembers, by node and package, which Jobs the API server did not
// take. Who forgets it all, as a new leader does, asks once more.
type jobRefusals struct {
	mu     sync.Mutex
	byNode map[string]map[nodestate.PackageRef]jobRefusal
}

type jobRefusal struct {
	plan.Refusal
	// times in a row.
	times int
}

// keep forgets what is about packages that the node does not have, and gives the
// rest.
func (s *jobRefusals) keep(node string, packages map[nodestate.PackageRef]nodestate.PackageStatus) map[nodestate.PackageRef]plan.Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.byNode[node]
	maps.DeleteFunc(all, func(ref nodestate.PackageRef, _ jobRefusal) bool { _, there := packages[ref]; return !there })
	if len(all) == 0 {
		delete(s.byNode, node)
		return nil
	}
	out := make(map[nodestate.PackageRef]plan.Refusal, len(all))
	for ref, r := range all {
		out[ref] = r.Refusal
	}
	return out
}

// note remembers a refusal, to be tried again after a second, then after twice as
// long each time, up to retryMax. fresh tells whether it is the first of the Job.
func (s *jobRefusals) note(node string, r plan.Refusal, now time.Time) (fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byNode == nil {
		s.byNode = map[string]map[nodestate.PackageRef]jobRefusal{}
	}
	if s.byNode[node] == nil {
		s.byNode[node] = map[nodestate.PackageRef]jobRefusal{}
	}
	times := 0
	if last, ok := s.byNode[node][r.Job.Ref()]; ok && last.Job == r.Job {
		times = last.times
	}
	r.RetryAt = now.Add(min(soon<<min(times, 10), retryMax))
	s.byNode[node][r.Job.Ref()] = jobRefusal{r, times + 1}
	return times == 0
}

func (s *jobRefusals) forget(node string, ref nodestate.PackageRef) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byNode[node], ref)
}

// jobRefused tells whether the API server, or admission, does not want the Job: a
// quota is used up, a policy or a webhook denies it or cannot be asked. Anything
// else may pass at the next try.
func jobRefused(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) || apierrors.IsInternalError(err)
}

// noteJobRefusal remembers why a Job was not created, so that the node says it,
// and tells of it once.
func (r *Reconciler) noteJobRefusal(ctx context.Context, in *gathered, nw *v1alpha1.NodeWright, c *plan.JobCreate, err error) {
	message := fmt.Sprintf("the Job of package %s, stage %s, is refused: %v", c.Identity.Package, c.Identity.Stage, err)
	// The record is to say so, and nothing else brings the node back.
	in.again = true
	if !r.jobRefusals.note(in.Node.Name, plan.Refusal{Job: c.Identity, Message: message}, r.opts.Clock.Now()) {
		return
	}
	logf.FromContext(ctx).Error(err, "create job", "job", c.Identity.JobName())
	r.event(in, nw, c.Identity.Package, true, eventJobRefused, message)
}
