package node

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/scrape"
)

var cordoned = scrape.NewGauge("nodewright_cordoned_by_us",
	"Nodes that a NodeWright keeps cordoned. A node that several keep cordoned counts for each.",
	[]string{"nodewright"}, countCordons)

// countCordons tells for each NodeWright on how many nodes its cordon stands. One
// that is gone and left a cordon behind counts by the name in the key.
func countCordons(ctx context.Context, reader client.Reader, give func(float64, ...string)) error {
	var nodeWrights v1alpha1.NodeWrightList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&nodeWrights, &nodes} {
		if err := reader.List(ctx, list, client.DisableReadYourWritesConsistency, client.UnsafeDisableDeepCopy); err != nil {
			return err
		}
	}
	counts, names := map[string]float64{}, map[nodestate.Key]string{}
	for i := range nodeWrights.Items {
		name := nodeWrights.Items[i].Name
		counts[name], names[nodestate.NewKey(nodestate.KindCordon, name)] = 0, name
	}
	for i := range nodes.Items {
		for full := range nodes.Items[i].Annotations {
			key, ok := nodestate.ParseKey(full)
			if !ok || key.Kind != nodestate.KindCordon {
				continue
			}
			name, known := names[key]
			if !known {
				name = key.NodeWright
			}
			counts[name]++
		}
	}
	for name, n := range counts {
		give(n, name)
	}
	return nil
}
