package envtest

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/test/faults"
	"github.com/nodewright/nodewright/test/poll"
)

// The node is written by many at once. No apply of ours fails for that.
func TestForeignWritesDoNotConflict_ST02(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := createNode(t, nil).Name
	foreign := admin(t)
	stop, stopped := make(chan struct{}), make(chan error)
	var writes atomic.Int64
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			body := []byte(`{"metadata":{"annotations":{"example.com/count":"` + nodestate.FormatSeq(writes.Load()+1) + `"}}}`)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := foreign.Patch(t.Context(), node, client.RawPatch(types.MergePatchType, body)); err != nil {
				stopped <- err
				return
			}
			writes.Add(1)
		}
	}()
	for i := range 50 {
		// Each apply comes after another foreign write, and beside the next one.
		before := writes.Load()
		poll.Until(t, "another foreign write", time.Minute, func() error {
			if writes.Load() == before {
				return errors.New("there was none")
			}
			return nil
		})
		stage := []nodestate.Stage{nodestate.StageApply, nodestate.StageConfig}[i%2]
		bring(t, w, name, packages(stage, "pa", "pb", "pc"), apply.Written)
	}
	close(stop)
	if err := <-stopped; err != nil {
		t.Fatal(err)
	}
	counts := p.counter.Snapshot()
	if counts.Conflicts() != 0 || counts[faults.Request{Verb: "apply", Resource: "nodes", Code: 200}] != 50 {
		t.Errorf("requests: %v, want 50 applies and no conflict", counts)
	}
	if got := liveNode(t, name).Annotations[nodestate.OwnerNode.SeqKey()]; got != "50" {
		t.Errorf("number %s after 50 applies", got)
	}
}
