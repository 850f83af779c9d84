package rollout

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
	"github.com/nodewright/nodewright/controllers/scrape"
)

const (
	grantNew     = "new"
	grantRenewed = "renewed"
	grantRefused = "refused"
)

// No node name in labels: series stay bounded in a fleet of any size.
var (
	grantCount = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "nodewright_rollout_grants_total",
		Help: "Slots granted to nodes: new, renewed for a changed spec, or refused for want of room on the node.",
	}, []string{"nodewright", "kind"})
	statusWrites = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "nodewright_rollout_status_writes_total",
		Help: "Writes of the status of NodeWrights.",
	})
	nodeCounts = scrape.NewGauge("nodewright_nodes", "Selected nodes of a NodeWright by status, as its status has them.",
		[]string{"nodewright", "status"}, countNodes)
)

func init() { metrics.Registry.MustRegister(grantCount, statusWrites, nodeCounts) }

func kindOf(g *plan.Grant) string {
	if g.Renewal {
		return grantRenewed
	}
	return grantNew
}

func countNodes(ctx context.Context, reader client.Reader, give func(float64, ...string)) error {
	var list v1alpha1.NodeWrightList
	err := reader.List(ctx, &list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy)
	if err != nil {
		return err
	}
	for i := range list.Items {
		n := list.Items[i].Status.Nodes
		for _, count := range []struct {
			word  nodestate.StatusWord
			nodes int32
		}{
			{nodestate.StatusComplete, n.Complete},
			{nodestate.StatusInProgress, n.InProgress},
			{nodestate.StatusErroring, n.Erroring},
			{nodestate.StatusBlocked, n.Blocked},
			{nodestate.StatusWaiting, n.Waiting},
			{nodestate.StatusPaused, n.Paused},
			{nodestate.StatusDisabled, n.Disabled},
			{nodestate.StatusUnknown, n.Unknown},
		} {
			give(float64(count.nodes), list.Items[i].Name, string(count.word))
		}
	}
	return nil
}
