package envtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/test/faults"
)

func quoteJSON(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// captureBodies gives the bodies of the applies to nodes from now on.
func captureBodies(t *testing.T, p *process) *[]string {
	t.Helper()
	bodies := new([]string)
	p.injector.Plan(func(req *http.Request) faults.Fault {
		if r := faults.Classify(req); r.Verb == "apply" && r.Resource == "nodes" {
			body, err := req.GetBody()
			if err != nil {
				t.Error(err)
				return faults.None
			}
			content, err := io.ReadAll(body)
			if err != nil {
				t.Error(err)
			}
			*bodies = append(*bodies, string(content))
		}
		return faults.None
	})
	return bodies
}

// userWith makes a user with these verbs on nodes, of a name of its own, whose
// rights go with the test.
func userWith(t *testing.T, verbs ...string) *rest.Config {
	t.Helper()
	name := dnsName(t) + "-" + nodestate.FormatSeq(names.Add(1))
	user, err := cluster.AddUser(name)
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: verbs}},
	}
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: name}},
	}
	for _, o := range []client.Object{role, binding} {
		if err := admin(t).Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := admin(t).Delete(context.Background(), o); err != nil {
				t.Error(err)
			}
		})
	}
	return user.Config
}

// An apply to a node that was deleted creates none, whatever the permissions.
func TestGhostNodeIsNeverCreated(t *testing.T) {
	cases := map[string]struct {
		verbs []string
		code  int
	}{
		"may create nodes":     {[]string{"get", "list", "watch", "patch", "create"}, http.StatusConflict},
		"may not create nodes": {[]string{"get", "list", "watch", "patch"}, http.StatusConflict},
		"may not write nodes":  {[]string{"get", "list", "watch"}, http.StatusForbidden},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			p := startProcess(t, processOptions{config: userWith(t, tc.verbs...)})
			w := p.writer(nodestate.OwnerNode)
			node := createNode(t, nil)
			p.awaitCache(t, node)
			view := read(t, w, node.Name)
			p.lag.Set(faults.Hold)
			deleteNode(t, node.Name)
			p.counter.Reset()
			outcome, err := w.Apply(t.Context(), view, packages(nodestate.StageApply, "pa"), false)
			if err != nil || outcome != apply.NodeGone {
				t.Errorf("outcome %s, error %v, want gone", outcome, err)
			}
			if n := p.counter.Snapshot()[faults.Request{Verb: "apply", Resource: "nodes", Code: tc.code}]; n != 1 {
				t.Errorf("requests %v, want one answered %d", p.counter.Snapshot(), tc.code)
			}
			if liveNode(t, node.Name) != nil {
				t.Error("a ghost node was created")
			}
			// The cache still has the node; the writer knows better.
			if _, found, err := w.Read(t.Context(), node.Name, nil); err != nil || found {
				t.Errorf("read: found %t, error %v, want not found", found, err)
			}
		})
	}
}

// State of a node never gets onto another one of its name.
func TestRecreatedNodeNeverGetsOldState(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	old := createNode(t, nil)
	bring(t, w, old.Name, packages(nodestate.StageApply, "pa"), apply.Written)
	bring(t, w, old.Name, packages(nodestate.StageConfig, "pa"), apply.Written)
	view := read(t, w, old.Name)
	p.lag.Set(faults.Hold)
	deleteNode(t, old.Name)
	createNode(t, func(n *corev1.Node) { n.Name = old.Name })
	outcome, err := w.Apply(t.Context(), view, packages(nodestate.StageConfig, "pa", "pb"), false)
	if err != nil || outcome != apply.NodeGone {
		t.Errorf("outcome %s, error %v, want gone", outcome, err)
	}
	wantKeys(t, old.Name)
	// The next view is of the new node, although the cache has the old one, and
	// its numbers begin anew.
	view = read(t, w, old.Name)
	if view.Node.UID == old.UID || len(view.Record.Packages) != 0 || view.NextSeq != 1 {
		t.Errorf("view of %s with %d packages and number %d, want the new node, empty",
			view.Node.UID, len(view.Record.Packages), view.NextSeq)
	}
	if outcome, err := w.Apply(t.Context(), view, packages(nodestate.StageApply, "pa"), false); err != nil || outcome != apply.Written {
		t.Errorf("apply to the new node: %s, %v", outcome, err)
	}
}

// Missing permission is no vanished node.
func TestForbiddenIsNotGone(t *testing.T) {
	p := startProcess(t, processOptions{config: userWith(t, "get", "list", "watch")})
	w := p.writer(nodestate.OwnerNode)
	node := createNode(t, nil)
	p.awaitCache(t, node)
	outcome, err := w.Apply(t.Context(), read(t, w, node.Name), packages(nodestate.StageApply, "pa"), false)
	if !apierrors.IsForbidden(err) || outcome != 0 {
		t.Errorf("outcome %s, error %v, want forbidden", outcome, err)
	}
}

// Where other annotations leave no room, the error says where and how much; the
// next pass does well once there is room.
func TestNoRoom(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	const fill = 262_000
	name := createNode(t, func(n *corev1.Node) {
		n.Annotations = map[string]string{"example.com/fill": strings.Repeat("x", fill-len("example.com/fill"))}
	}).Name
	p.awaitCache(t, liveNode(t, name))
	_, err := w.Apply(t.Context(), read(t, w, name), packages(nodestate.StageApply, "pa"), false)
	var noRoom *apply.NoRoomError
	if !errors.As(err, &noRoom) {
		t.Fatalf("error %v, want NoRoomError", err)
	}
	if noRoom.Node != name || noRoom.Others != fill || noRoom.Ours+noRoom.Others <= noRoom.Limit {
		t.Errorf("sizes %+v, want node %s with %d bytes of others, and more than the limit together", noRoom, name, fill)
	}
	patch(t, name, "kubectl-annotate", `{"metadata":{"annotations":{"example.com/fill":null,"example.com/theirs":"annotation"}}}`)
	bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
	wantKeys(t, name, stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
}

// The longest name that a node may have is one as any other.
func TestLongestNodeName(t *testing.T) {
	p := startProcess(t, processOptions{})
	w := p.writer(nodestate.OwnerNode)
	name := strings.Repeat("n", 253)
	createNode(t, func(n *corev1.Node) { n.Name = name })
	p.awaitCache(t, liveNode(t, name))
	bring(t, w, name, packages(nodestate.StageApply, "pa"), apply.Written)
	wantKeys(t, name, stateKey("pa"), statusKey, nodestate.OwnerNode.SeqKey())
}
