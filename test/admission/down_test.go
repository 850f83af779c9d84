package admission

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// kubectl runs kubectl as somebody.
func kubectl(t *testing.T, who identity, args ...string) error {
	t.Helper()
	args = append([]string{"--kubeconfig", bed.cluster.KubeconfigFile(), "--as", who.user}, args...)
	for _, group := range who.groups {
		args = append(args, "--as-group", group)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(bed.cluster.AssetsDir(), "kubectl"), args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out.Bytes()))
	}
	return nil
}

// register creates a node as its kubelet does.
func register(t *testing.T, name string, edits ...func(*corev1.Node)) (*corev1.Node, error) {
	t.Helper()
	client, _ := bed.client(t, kubelet(name))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"},
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}
	for _, edit := range edits {
		edit(node)
	}
	out := &corev1.Node{}
	err := client.Post().Resource("nodes").Param("fieldManager", "kubelet").Body(node).Do(t.Context()).Into(out)
	return out, err
}

// heartbeat reports the status of a node, as a kubelet does.
func heartbeat(ctx context.Context, client rest.Interface, node string, round int) error {
	body := fmt.Sprintf(`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady","lastHeartbeatTime":"2026-01-01T00:%02d:%02dZ"}]}}`,
		round/60%60, round%60)
	return client.Patch(types.StrategicMergePatchType).Resource("nodes").Name(node).SubResource("status").
		Param("fieldManager", "kubelet").Body([]byte(body)).Do(ctx).Error()
}

// WH-01: with no manager anywhere nodes live on: they register, report, and are
// written by all who write nodes. Only our records stand still.
func TestNodesLiveWithoutWebhooks_WH01(t *testing.T) {
	node := recorded(t)
	if err := bed.server.stop(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := bed.server.start(); err != nil {
			t.Fatal(err)
		}
		if err := bed.waitUntilAsked(context.Background()); err != nil {
			t.Fatal(err)
		}
	}()
	const fresh = "registers-without-webhooks"
	if _, err := register(t, fresh); err != nil {
		t.Fatalf("a kubelet registers: %v", err)
	}
	controller := identity{"system:serviceaccount:kube-system:node-controller", []string{"system:masters"}}
	for name, act := range map[string]func(*testing.T, string) error{
		"the kubelet reports": func(t *testing.T, node string) error {
			client, _ := bed.client(t, kubelet(node))
			return heartbeat(t.Context(), client, node, 1)
		},
		"kubectl cordons":   func(t *testing.T, node string) error { return kubectl(t, alice, "cordon", node) },
		"kubectl uncordons": func(t *testing.T, node string) error { return kubectl(t, alice, "uncordon", node) },
		"kubectl labels": func(t *testing.T, node string) error {
			return kubectl(t, alice, "label", "node", node, "example.com/rack=7")
		},
		"kubectl annotates": func(t *testing.T, node string) error {
			return kubectl(t, alice, "annotate", "node", node, "example.com/owner=x")
		},
		"kubectl taints": func(t *testing.T, node string) error {
			return kubectl(t, alice, "taint", "node", node, "a=b:NoSchedule")
		},
		"kubectl ignores": func(t *testing.T, node string) error {
			return kubectl(t, alice, "label", "node", node, nodestate.Prefix+"ignore=true")
		},
		"a user asks for a rerun": func(t *testing.T, node string) error {
			return kubectl(t, alice, "annotate", "node", node, key(nodestate.KindRequest)+`={"action":"rerun","id":"1"}`)
		},
		"the node controller taints": func(t *testing.T, node string) error {
			return bed.send(t, node, request{who: controller, manager: "kube-controller-manager", verb: strategic,
				change: change{spec: `{"taints":[{"key":"node.kubernetes.io/unreachable","effect":"NoExecute"}]}`}}).err
		},
		"the operator changes taints": func(t *testing.T, node string) error {
			return bed.send(t, node, request{who: operator, manager: "nodewright-taints", verb: jsonPatch,
				change: change{spec: `{"taints":[{"key":"nodewright.nvidia.com","value":"runtime-required","effect":"NoSchedule"}]}`}}).err
		},
		"the cloud sets its ID": func(t *testing.T, node string) error {
			return bed.send(t, node, request{who: controller, manager: "cloud-controller-manager", verb: merge,
				change: change{spec: fmt.Sprintf(`{"providerID":"cloud://%s"}`, node)}}).err
		},
		"the node is deleted and registers anew": func(t *testing.T, node string) error {
			if node != fresh {
				return nil
			}
			if err := kubectl(t, alice, "delete", "node", node); err != nil {
				return err
			}
			_, err := register(t, node)
			return err
		},
	} {
		for what, node := range map[string]string{"a new node": fresh, "a node with records": node} {
			t.Run(name+"/"+what, func(t *testing.T) {
				if err := act(t, node); err != nil {
					t.Error(err)
				}
			})
		}
	}
	t.Run("the operator writes on", func(t *testing.T) {
		good(t, node, nodestate.OwnerNode, records(), firstSeq+1)
	})
	for name, r := range map[string]request{
		"a stranger is refused":        {who: alice, manager: "kubectl", verb: merge, change: annotate(stateKey, forged(stateKey))},
		"a kubelet is refused":         {who: kubelet(node), manager: "kubelet", verb: merge, status: true, change: annotate(stateKey, forged(stateKey))},
		"a late write of ours as well": {who: operator, manager: string(nodestate.OwnerNode), verb: force, change: written(t, nodestate.OwnerNode, records(), firstSeq)},
	} {
		t.Run(name, func(t *testing.T) {
			a := bed.send(t, node, r)
			if a.err == nil || !strings.Contains(a.err.Error(), "failed calling webhook") {
				t.Errorf("the answer is %v, want that the webhook cannot be called", a.err)
			}
		})
	}
	t.Run("the alerts see it", func(t *testing.T) {
		metrics, err := bed.admin.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, series := range []string{
			`apiserver_admission_webhook_fail_open_count{name="mnode.nodewright.nvidia.com",`,
			`apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="vnode.nodewright.nvidia.com",`,
		} {
			if !strings.Contains(string(metrics), series) {
				t.Errorf("the API server has no series %s", series)
			}
		}
	})
}
