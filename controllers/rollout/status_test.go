package rollout

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// ST-29: the body of a status holds what the controller says, and nothing of the
// spec or of others: a field with a zero value would be taken from its owner.
func TestBodyOfAStatus_ST29(t *testing.T) {
	nw := &v1alpha1.NodeWright{
		ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "u1", ResourceVersion: "5", Generation: 2, Labels: map[string]string{"theirs": "x"}},
		Spec:       v1alpha1.NodeWrightSpec{Priority: ptr.To[int32](7)},
	}
	body, err := statusIntent(nw, &v1alpha1.NodeWrightStatus{Status: nodestate.StatusComplete, ObservedGeneration: 2})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"kind":"NodeWright","apiVersion":"nodewright.nvidia.com/v1alpha1","metadata":{"name":"nw","uid":"u1"},` +
		`"status":{"observedGeneration":2,"status":"complete"}}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}
