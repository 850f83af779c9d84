package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	v1alpha1ac "github.com/nodewright/nodewright/applyconfigs/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
)

// fieldOwner is the field manager of the status and of the finalizer.
const fieldOwner = client.FieldOwner(nodestate.OwnerRollout)

// writeStatus writes the status if it changed, and not more often than each
// statusInterval unless atOnce. due is when a status that was held back may be
// written, zero if none was.
func (r *Reconciler) writeStatus(
	ctx context.Context, nw *v1alpha1.NodeWright, mem *nodeWrightMemory, p *plan.Plan, atOnce bool,
) (due time.Time, err error) {
	if equality.Semantic.DeepEqual(ours(&nw.Status), p.Status) {
		return time.Time{}, nil
	}
	now := r.opts.Clock.Now()
	if due := mem.statusAt.Add(statusInterval); !atOnce && now.Before(due) {
		return due, nil
	}
	mem.statusAt = now
	intent, err := statusIntent(nw, &p.Status)
	if err != nil {
		return time.Time{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// Not client.Apply: it would encode the body itself, see apply.EscapeForYAML.
	target := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: nw.Name}}
	err = r.client.Status().Patch(ctx, target, client.RawPatch(types.ApplyYAMLPatchType, intent), fieldOwner, client.ForceOwnership)
	if apierrors.IsNotFound(err) && !atOnce {
		return time.Time{}, nil // it went meanwhile: its own event follows
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("write status: %w", err)
	}
	statusWrites.Inc()
	r.tell(nw, p.Events)
	return time.Time{}, nil
}

// ours is the part of a status that this controller writes, in the form in
// which the planner has it. Other field managers may have conditions there.
func ours(s *v1alpha1.NodeWrightStatus) v1alpha1.NodeWrightStatus {
	out := *s
	kinds := plan.Conditions()
	out.Conditions = nil
	for _, c := range s.Conditions {
		if slices.Contains(kinds, c.Type) {
			out.Conditions = append(out.Conditions, c)
		}
	}
	slices.SortFunc(out.Conditions, func(a, b metav1.Condition) int {
		switch {
		case a.Type < b.Type:
			return -1
		case a.Type > b.Type:
			return 1
		}
		return 0
	})
	return out
}

// statusIntent is the body of the apply of a status. Types and apply
// configurations have the same JSON form.
func statusIntent(nw *v1alpha1.NodeWright, s *v1alpha1.NodeWrightStatus) ([]byte, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encode status: %w", err)
	}
	status := v1alpha1ac.NodeWrightStatus()
	if err := json.Unmarshal(raw, status); err != nil {
		return nil, fmt.Errorf("make apply configuration of status: %w", err)
	}
	// With the UID, an apply to an object that was created anew is refused.
	body, err := json.Marshal(v1alpha1ac.NodeWright(nw.Name).WithUID(nw.UID).WithStatus(status))
	if err != nil {
		return nil, fmt.Errorf("encode apply of status: %w", err)
	}
	return apply.EscapeForYAML(body), nil
}
