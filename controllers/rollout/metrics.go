package rollout

import (
	"context"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/rollout/plan"
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
	nodeCounts = &countCollector{desc: prometheus.NewDesc(
		"nodewright_nodes", "Selected nodes of a NodeWright by status, as its status has them.",
		[]string{"nodewright", "status"}, nil)}
)

func init() { metrics.Registry.MustRegister(grantCount, statusWrites, nodeCounts) }

func kindOf(g *plan.Grant) string {
	if g.Renewal {
		return grantRenewed
	}
	return grantNew
}

// countCollector reads the counts from the cache when it is scraped, so that
// nothing has to be reset when a NodeWright goes.
type countCollector struct {
	desc   *prometheus.Desc
	reader atomic.Pointer[client.Reader]
}

func (c *countCollector) readFrom(reader client.Reader) { c.reader.Store(&reader) }

// Describe implements prometheus.Collector.
func (c *countCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.desc }

// Collect implements prometheus.Collector.
func (c *countCollector) Collect(ch chan<- prometheus.Metric) {
	reader := c.reader.Load()
	if reader == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	var list v1alpha1.NodeWrightList
	err := (*reader).List(ctx, &list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(c.desc, err)
		return
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
			ch <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(count.nodes),
				list.Items[i].Name, string(count.word))
		}
	}
}
