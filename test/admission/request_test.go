package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// verb is a way to write a node.
type verb string

const (
	merge     verb = "merge patch"
	strategic verb = "strategic patch"
	jsonPatch verb = "JSON patch"
	put       verb = "PUT"
	apply     verb = "apply"
	force     verb = "forced apply"
)

// Verbs by what they can do: an apply cannot remove what the manager has not
// applied before.
var (
	everyVerb = []verb{merge, strategic, jsonPatch, put, apply, force}
	updates   = []verb{merge, strategic, jsonPatch, put}
	applies   = []verb{apply, force}
)

// gone, as a value, removes a key.
const gone = "\x00gone"

// change is what a request does to the metadata of a node, and to its spec.
type change struct {
	annotations, labels map[string]string
	// spec is a JSON object, for kinds of patch that merge.
	spec string
	// raw is sent instead of what the fields above make, in the form of the verb.
	raw string
	// edit changes the object of a PUT after the fields above did.
	edit func(*corev1.Node)
}

func annotate(pairs ...string) change { return change{annotations: mapOf(pairs)} }
func label(pairs ...string) change    { return change{labels: mapOf(pairs)} }

func mapOf(pairs []string) map[string]string {
	out := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		out[pairs[i]] = pairs[i+1]
	}
	return out
}

// request is one write of a node.
type request struct {
	who identity
	// manager is the field manager; empty leaves it to the API server.
	manager string
	verb    verb
	// status sends it to nodes/status.
	status bool
	dryRun bool
	change
}

func (r request) String() string {
	where := "nodes"
	if r.status {
		where = "nodes/status"
	}
	return fmt.Sprintf("%s of %s by %s as %s", r.verb, where, r.who, r.manager)
}

// answer is what came of a request.
type answer struct {
	node     *corev1.Node
	err      error
	calls    []call
	warnings []string
}

// sent tells whether the API server asked the webhook at the path.
func (a *answer) sent(path string) bool {
	return slices.ContainsFunc(a.calls, func(c call) bool { return c.path == path })
}

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	text []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, text)
}

// client of the API server for nodes, that is somebody.
func (b *installation) client(t *testing.T, who identity) (rest.Interface, *warnings) {
	t.Helper()
	heard := &warnings{}
	config := b.cluster.Config()
	config.QPS = -1
	config.WarningHandler = heard
	config.Impersonate = rest.ImpersonationConfig{UserName: who.user, Groups: who.groups}
	config.APIPath, config.GroupVersion = "/api", &corev1.SchemeGroupVersion
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	client, err := rest.RESTClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	return client, heard
}

// send makes the request to a node and waits for the answer. Calls to webhooks
// that were made for the node before are forgotten.
func (b *installation) send(t *testing.T, node string, r request) *answer {
	t.Helper()
	client, heard := b.client(t, r.who)
	live := b.live(t, node)
	b.server.forget(node)
	req := r.build(t, client, live)
	if r.dryRun {
		req = req.Param("dryRun", metav1.DryRunAll)
	}
	if r.manager != "" {
		req = req.Param("fieldManager", r.manager)
	}
	out := &answer{node: &corev1.Node{}}
	out.err = req.Do(context.Background()).Into(out.node)
	out.calls, out.warnings = b.server.calls(node), heard.text
	return out
}

func (r request) build(t *testing.T, client rest.Interface, live *corev1.Node) *rest.Request {
	t.Helper()
	var req *rest.Request
	var body []byte
	switch r.verb {
	case put:
		object := live.DeepCopy()
		overlay(&object.Annotations, r.annotations)
		overlay(&object.Labels, r.labels)
		if r.spec != "" {
			if err := json.Unmarshal([]byte(r.spec), &object.Spec); err != nil {
				t.Fatal(err)
			}
		}
		if r.edit != nil {
			r.edit(object)
		}
		req, body = client.Put(), encode(t, object)
	case jsonPatch:
		req, body = client.Patch(types.JSONPatchType), encode(t, r.operations(live))
	case merge:
		req, body = client.Patch(types.MergePatchType), encode(t, r.document(live, false))
	case strategic:
		req, body = client.Patch(types.StrategicMergePatchType), encode(t, r.document(live, false))
	case apply, force:
		req, body = client.Patch(types.ApplyYAMLPatchType), encode(t, r.document(live, true))
		if r.verb == force {
			req = req.Param("force", "true")
		}
	default:
		t.Fatalf("no verb %q", r.verb)
	}
	if r.raw != "" {
		body = []byte(r.raw)
	}
	req = req.Resource("nodes").Name(live.Name)
	if r.status {
		req = req.SubResource("status")
	}
	return req.Body(body)
}

// document is the body of a patch that merges, or of an apply.
func (r request) document(live *corev1.Node, whole bool) map[string]any {
	metadata := map[string]any{}
	for name, values := range map[string]map[string]string{"annotations": r.annotations, "labels": r.labels} {
		set := map[string]any{}
		for key, value := range values {
			switch {
			case value != gone:
				set[key] = value
			case !whole:
				set[key] = nil
			}
		}
		if len(set) > 0 {
			metadata[name] = set
		}
	}
	out := map[string]any{"metadata": metadata}
	if whole {
		metadata["name"], metadata["uid"] = live.Name, live.UID
		out["apiVersion"], out["kind"] = "v1", "Node"
	}
	if r.spec != "" {
		out["spec"] = json.RawMessage(r.spec)
	}
	return out
}

// operations are the change as a JSON patch.
func (r request) operations(live *corev1.Node) []map[string]any {
	ops := []map[string]any{}
	for _, part := range []struct {
		path         string
		wanted, have map[string]string
	}{{"/metadata/annotations", r.annotations, live.Annotations}, {"/metadata/labels", r.labels, live.Labels}} {
		if len(part.wanted) > 0 && len(part.have) == 0 {
			ops = append(ops, map[string]any{"op": "add", "path": part.path, "value": map[string]string{}})
		}
		for _, key := range slices.Sorted(maps.Keys(part.wanted)) {
			op := map[string]any{"op": "add", "path": part.path + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")}
			if value := part.wanted[key]; value == gone {
				op["op"] = "remove"
			} else {
				op["value"] = value
			}
			ops = append(ops, op)
		}
	}
	if r.spec != "" {
		var spec map[string]any
		_ = json.Unmarshal([]byte(r.spec), &spec)
		for field, value := range spec {
			ops = append(ops, map[string]any{"op": "add", "path": "/spec/" + field, "value": value})
		}
	}
	return ops
}

func overlay(onto *map[string]string, values map[string]string) {
	for key, value := range values {
		switch {
		case value == gone:
			delete(*onto, key)
		case *onto == nil:
			*onto = map[string]string{key: value}
		default:
			(*onto)[key] = value
		}
	}
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// live reads a node.
func (b *installation) live(t *testing.T, name string) *corev1.Node {
	t.Helper()
	node, err := b.admin.CoreV1().Nodes().Get(context.Background(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return node
}
