package system

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// hostile is a writer that changes the same nodes all the time: labels,
// annotations, taints that are not ours. An optimistic lock on the node would
// lose against it for ever.
type hostile struct {
	cs     kubernetes.Interface
	nodes  []string
	random *rand.Rand
	writes atomic.Int64
	errs   atomic.Int64
}

// perSecond is how often it writes.
const perSecond = 50

func (h *hostile) run(ctx context.Context) {
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		node := h.nodes[h.random.IntN(len(h.nodes))]
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"example.com/hostile":"%d","nodewright.nvidia.com/my-team":"%d"},"labels":{"example.com/hostile":"%d"}}}`, i, i, i)
		_, err := h.cs.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "hostile"})
		if err != nil && ctx.Err() == nil {
			h.errs.Add(1)
			continue
		}
		h.writes.Add(1)
	}
}
