package e2e

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// A machine that loses its power in the middle of a step comes back and runs the
// step again. The package is complete once, and nobody has to do anything.
func TestPowerCutInTheMiddle(t *testing.T) {
	lease(t, second)
	fresh(t, second)
	hold(t, second)
	install(t, "cut", slow(second, "cut", 1))
	waiting(t, second, "cut", 1)
	bed.machines[second].cycle(t)
	waiting(t, second, "cut", 2)
	release(t, second)
	wantComplete(t, second, "cut", "alpha", "1.0.0", nodestate.StageConfig)
	wantReady(t, "cut")
	wantFile(t, second, "etc/e2e/alpha", "1.0.0")
}

// A machine that is away shows as such, with what ran there. When its Node goes,
// so do its Jobs; when it comes back under the same name it is a new node, and
// gets its packages again. JB-21.
func TestNodeIsReplaced_JB21(t *testing.T) {
	lease(t, second)
	fresh(t, second)
	hold(t, second)
	install(t, "replaced", slow(second, "replaced", 1))
	waiting(t, second, "replaced", 1)
	node, on := bed.nodes[second], false
	if err := node.PowerOff(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if on {
			return
		}
		if err := node.Boot(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := bed.admin.CoreV1().Nodes().Delete(t.Context(), second, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Jobs of the node are gone", func(ctx context.Context) error {
		jobs, err := bed.admin.BatchV1().Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: packagejob.LabelName + "=replaced"})
		if err == nil && len(jobs.Items) > 0 {
			err = fmt.Errorf("there are %d", len(jobs.Items))
		}
		return err
	})
	wantReady(t, "replaced")
	wantEvent(t, "replaced", "OrphanDeleted", second)

	forget(t, second)
	on = true
	if err := node.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
	waiting(t, second, "replaced", 1)
	release(t, second)
	wantComplete(t, second, "replaced", "alpha", "1.0.0", nodestate.StageConfig)
	wantReady(t, "replaced")
	wantFile(t, second, "etc/e2e/alpha", "1.0.0")
}

// cycle switches the machine off and on.
func (m *machine) cycle(t *testing.T) {
	t.Helper()
	if err := m.node.PowerOff(); err != nil {
		t.Fatal(err)
	}
	if err := m.node.Boot(t.Context()); err != nil {
		t.Fatal(err)
	}
}
