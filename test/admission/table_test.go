package admission

import (
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// decision is what becomes of a request.
type decision string

const (
	// passes: stored, and no webhook was asked.
	passes decision = "passes without a call"
	// admitted: stored after the webhook was asked.
	admitted decision = "is admitted"
	// refused: the webhook refused it.
	refused decision = "is refused"
	// conflicts: the API server refused an apply without force that changes what
	// others hold, before admission.
	conflicts decision = "conflicts"
	// forbidden: the API server refused it before admission, by authorization or as
	// a rule for kubelets.
	forbidden decision = "is forbidden"
)

// row is one line of the table: a request, made with each verb and through each
// path.
type row struct {
	who     func(node string) identity
	manager string
	verbs   []verb
	// only says through which path: "nodes" or "nodes/status"; empty is both.
	only string
	// before makes the node; nil is recorded.
	before func(t *testing.T) string
	change change
	dryRun bool
	want   decision
	// says are parts of the reason of a refusal, or of a warning.
	says []string
}

func is(who identity) func(string) identity { return func(string) identity { return who } }

func otherKubelet(string) identity { return kubelet("somewhere-else") }

// Who may write what on a node: each row of the table with each of its verbs,
// through nodes and through nodes/status.
func TestWhoMayWriteWhat(t *testing.T) {
	var requests int
	for name, r := range table(t) {
		paths := []string{"nodes", "nodes/status"}
		if r.only != "" {
			paths = []string{r.only}
		}
		requests += len(r.verbs) * len(paths)
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := ""
			for _, v := range r.verbs {
				for _, path := range paths {
					// A node that stays as it is serves for the next request too.
					if node == "" || !r.changesNothing() {
						node = r.node(t)
					}
					t.Run(fmt.Sprintf("%s of %s", v, path), func(t *testing.T) { r.check(t, node, v, path == "nodes/status") })
				}
			}
		})
	}
	if requests < 120 {
		t.Errorf("the table has %d requests, want 120 at least", requests)
	}
	t.Logf("%d requests", requests)
}

// node makes the node that a request is made to.
func (r *row) node(t *testing.T) string {
	t.Helper()
	if r.before == nil {
		return recorded(t)
	}
	return r.before(t)
}

// changesNothing tells whether the node stays as it is.
func (r *row) changesNothing() bool { return r.want == refused || r.want == forbidden || r.dryRun }

func (r *row) check(t *testing.T, node string, v verb, status bool) {
	was := bed.live(t, node)
	a := bed.send(t, node, request{
		who: r.who(node), manager: r.manager, verb: v, status: status, dryRun: r.dryRun, change: r.change,
	})
	got := a.decision()
	if got == conflicts && v == apply && (r.want == refused || r.want == admitted) {
		return
	}
	if got != r.want {
		t.Fatalf("the request %s, want that it %s: %v\ncalls %v, warnings %v", got, r.want, a.err, a.calls, a.warnings)
	}
	now := bed.live(t, node)
	if stored := now.ResourceVersion != was.ResourceVersion; r.changesNothing() && stored {
		t.Errorf("the node changed all the same:\n%s\nbefore:\n%s", metadata(now), metadata(was))
	}
	text := strings.Join(a.warnings, "\n")
	if a.err != nil {
		text = a.err.Error()
	}
	for _, part := range r.says {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

func (a *answer) decision() decision {
	sent := a.sent(pathValidateNode)
	switch {
	case a.err == nil && !sent:
		return passes
	case a.err == nil:
		return admitted
	case sent && apierrors.IsForbidden(a.err) && strings.Contains(a.err.Error(), "vnode.nodewright.nvidia.com"):
		return refused
	case !sent && apierrors.IsForbidden(a.err):
		return forbidden
	case !sent && apierrors.IsConflict(a.err):
		return conflicts
	default:
		return decision("fails: " + a.err.Error())
	}
}

// forged is another value of a key, that readers of the key understand.
func forged(key string) string {
	set := records()
	ref := nodestate.PackageRef{NodeWright: nodeWright, Package: pkg}
	status := set.Packages[ref]
	status.State = nodestate.StateComplete
	set.Packages[ref] = status
	report := set.JobReports[ref]
	report.Reason = "OOMKilled"
	set.JobReports[ref] = report
	pod := set.PodReports[ref]
	pod.Reason = "ErrImagePull"
	set.PodReports[ref] = pod
	set.Status[nodeWright] = nodestate.StatusComplete
	set.Slots[nodeWright] = nodestate.Slot{ID: "3", State: nodestate.SlotReleased}
	set.Cordons[nodeWright] = set.Cordons[nodeWright].AddDate(1, 0, 0)
	set.DrainStarts[nodeWright] = set.DrainStarts[nodeWright].AddDate(1, 0, 0)
	set.Handled[nodeWright] = []string{"r2"}
	set.LegacySeen[nodeWright] = "fedcba9876543210"
	set.Batches[nodeWright] = nodestate.Batch{ID: "4", Rollout: "r", Batch: 1}
	set.Legacy[nodeWright] = nodestate.LegacyConverging
	for _, owner := range nodestate.Owners() {
		p := part(set, owner)
		encoded, err := p.Encode(owner, firstSeq+1)
		if err != nil {
			panic(err)
		}
		if value, ok := encoded.Annotations[key]; ok {
			return value
		}
	}
	panic("no value for " + key)
}

// ownedKeys are one key of each kind that the operator owns, the blob aside.
func ownedKeys() []string {
	keys := []string{
		stateKey, statusKey, key(nodestate.KindSlot), key(nodestate.KindCordon), key(nodestate.KindDrainStart),
		key(nodestate.KindHandled), key(nodestate.KindLegacySeen), key(nodestate.KindJobState), key(nodestate.KindPodState),
		key(nodestate.KindBatch), key(nodestate.KindLegacy),
	}
	for _, owner := range nodestate.Owners() {
		keys = append(keys, owner.SeqKey())
	}
	return keys
}

// table is all rows, by what they are about.
func table(t *testing.T) map[string]row {
	rows := map[string]row{}
	for _, part := range []map[string]row{
		strangerRows(), kubeletRows(), bystanderRows(), operatorRows(t), overrideRows(), historyRows(), seizureRows(),
	} {
		for name, r := range part {
			if _, twice := rows[name]; twice {
				t.Fatalf("two rows are called %q", name)
			}
			rows[name] = r
		}
	}
	return rows
}
