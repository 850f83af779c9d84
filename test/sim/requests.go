package sim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

// askForWork puts a request on a node, as a user does, maybe over an older one.
func (w *world) askForWork() bool {
	nodes, nws := w.api.nodes(), w.api.nodeWrights()
	if len(nodes) == 0 || len(nws) == 0 {
		return false
	}
	node, nw := pick(w, nodes), pick(w, nws)
	key := nodestate.NewKey(nodestate.KindRequest, nw.Name)
	if all := nw.Spec.PackageNames(); len(all) > 0 && w.chance(0.7) {
		key = nodestate.NewPackageKey(nodestate.KindPackageRequest, nw.Name, pick(w, all))
	}
	w.asked++
	stage := pick(w, []string{"", "apply", "config", "upgrade", "interrupt"})
	value := fmt.Sprintf(`{"action":%q,"id":"r%d","stage":%q}`, pick(w, []string{"rerun", "rerun", "reset"}), w.asked, stage)
	w.log("user: %s on %s is now %s", key, node.Name, value)
	w.api.changeNode(node.Name, func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key.String()] = value
	})
	return true
}

// removeRequest takes off what was answered, if it is still the same.
func (o *operator) removeRequest(v *view, a *plan.RequestAnswered) error {
	return o.w.request("node controller removes "+a.Key, func() error {
		node := o.w.api.node(v.node.Name)
		if node == nil || node.UID != v.node.UID || node.Annotations[a.Key] != a.Value {
			return nil
		}
		o.w.writes++
		o.w.api.changeNode(node.Name, func(n *corev1.Node) { delete(n.Annotations, a.Key) })
		return nil
	}, nil)
}

// requestsAnswered: each request is noted once, and tells whether any of the
// NodeWright was in this write.
func (c *checks) requestsAnswered(node *corev1.Node, was, is *nodestate.Record) map[string]bool {
	answered := map[string]bool{}
	for nw, ids := range is.Handled {
		for _, id := range ids {
			if slices.Contains(was.Handled[nw], id) {
				continue
			}
			uid := "nobody"
			if spec := c.basis.specs[nw]; spec != nil {
				uid = string(spec.UID)
			}
			at := fmt.Sprintf("%s of %s (%s) on %s", id, nw, uid, node.UID)
			if c.answered[at] {
				c.w.fail("request %s is carried out again", at)
			}
			c.answered[at], answered[nw] = true, true
		}
	}
	return answered
}

// actedOnce: what a request does is told once for each package, since it is done
// once.
func (c *checks) actedOnce(e plan.Event) {
	if e.Reason != plan.ReasonRequested && e.Reason != plan.ReasonRequestRefused {
		return
	}
	at := fmt.Sprintf("%s on %s", e.Message, c.w.op.basis.node.UID)
	if c.answered[at] {
		c.w.fail("a request is carried out again: %s", e.Message)
	}
	c.answered[at] = true
}

// nothingAsked: no request is left on a node that the NodeWright selects.
func (c *checks) nothingAsked(nw *v1alpha1.NodeWright, node *corev1.Node, rec *nodestate.Record) {
	for i := range rec.Requests {
		if rec.Requests[i].NodeWright == nw.Name {
			c.w.fail("after the repair, %s on %s is not answered: %s", rec.Requests[i].Key, node.Name, rec.Requests[i].Value)
		}
	}
	if ids := rec.Handled[nw.Name]; len(ids) > 0 {
		c.w.fail("after the repair, %s on %s still notes the requests %v", nw.Name, node.Name, ids)
	}
}
