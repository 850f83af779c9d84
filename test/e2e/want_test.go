package e2e

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// patience is for what takes a few Jobs on a busy machine.
const patience = 2 * time.Minute

func scheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(s))
	utilruntime.Must(v1alpha1.AddToScheme(s))
	return s
}

func ready(node *corev1.Node) error {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return fmt.Errorf("node %s is not ready: %v", node.Name, node.Status.Conditions)
}

// eventually waits for what the cluster does by itself.
func eventually(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	if err := bed.await(t.Context(), patience, what, check); err != nil {
		t.Fatal(err)
	}
}

// kubectl runs kubectl as administrator.
func kubectl(t *testing.T, args ...string) string {
	t.Helper()
	out, err := operator.Kubectl(t.Context(), bed.cp, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// apply applies manifests as a user does.
func apply(t *testing.T, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "manifest.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	kubectl(t, "apply", "--server-side", "-f", file)
}

// alone is the manifest of a NodeWright with one package, alpha, on one node; more
// are further lines of the package.
func alone(node, name, version, more string) string {
	return `apiVersion: nodewright.nvidia.com/v1alpha1
kind: NodeWright
metadata:
  name: ` + name + `
spec:
  nodeSelectors: {matchLabels: {kubernetes.io/hostname: ` + node + `}}
  packages:
    alpha:
      version: ` + version + `
      image: registry.invalid/e2e/alpha
` + more
}

// install applies a NodeWright and deletes it with the test: then nothing of it
// is left on the nodes.
func install(t *testing.T, name, text string) {
	t.Helper()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if _, err := operator.Kubectl(ctx, bed.cp, "delete", "nodewright", name, "--ignore-not-found", "--timeout=90s"); err != nil {
			t.Error(err)
		}
	})
	apply(t, text)
}

// record is what stands on a node.
func record(ctx context.Context, node string) (*corev1.Node, nodestate.Record, error) {
	n, err := bed.admin.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, nodestate.Record{}, err
	}
	list := &v1alpha1.NodeWrightList{}
	if err := bed.client.List(ctx, list); err != nil {
		return nil, nodestate.Record{}, err
	}
	var names []string
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	return n, nodestate.Decode(n.Annotations, names), nil
}

// entry is what stands on a node about a package.
func entry(ctx context.Context, node, nw, pkg string) (nodestate.PackageStatus, error) {
	_, r, err := record(ctx, node)
	if err != nil {
		return nodestate.PackageStatus{}, err
	}
	e, ok := r.Packages[nodestate.PackageRef{NodeWright: nw, Package: pkg}]
	if !ok {
		return e, fmt.Errorf("node %s has no record of package %s of %s", node, pkg, nw)
	}
	return e, nil
}

// wantEntry waits until the record of a package is as told.
func wantEntry(t *testing.T, node, nw, pkg, what string, as func(*nodestate.PackageStatus) bool) nodestate.PackageStatus {
	t.Helper()
	var e nodestate.PackageStatus
	eventually(t, fmt.Sprintf("%s of %s on %s: %s", pkg, nw, node, what), func(ctx context.Context) error {
		var err error
		if e, err = entry(ctx, node, nw, pkg); err == nil && !as(&e) {
			err = fmt.Errorf("it is %+v", e)
		}
		return err
	})
	return e
}

// wantReport waits until the evidence of a failed attempt of the package alpha is
// as told.
func wantReport(t *testing.T, node, nw, what string, as func(*nodestate.JobReport) bool) {
	t.Helper()
	eventually(t, fmt.Sprintf("the evidence of %s has %s", nw, what), func(ctx context.Context) error {
		_, r, err := record(ctx, node)
		if err != nil {
			return err
		}
		report, ok := r.JobReports[nodestate.PackageRef{NodeWright: nw, Package: "alpha"}]
		if !ok || !as(&report) {
			return fmt.Errorf("it is %+v", report)
		}
		return nil
	})
}

// wantComplete waits until a package is at its end on a node.
func wantComplete(t *testing.T, node, nw, pkg, version string, stage nodestate.Stage) nodestate.PackageStatus {
	t.Helper()
	return wantEntry(t, node, nw, pkg, "complete", func(e *nodestate.PackageStatus) bool {
		return e.Complete(stage) && e.Version == version
	})
}

// wantReady waits for the condition Ready of the NodeWright's present generation.
func wantReady(t *testing.T, name string) {
	t.Helper()
	eventually(t, "NodeWright "+name+" is ready", func(ctx context.Context) error {
		nw := &v1alpha1.NodeWright{}
		if err := bed.client.Get(ctx, client.ObjectKey{Name: name}, nw); err != nil {
			return err
		}
		for _, c := range nw.Status.Conditions {
			if c.Type == v1alpha1.ConditionReady && c.Status == metav1.ConditionTrue && c.ObservedGeneration == nw.Generation {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", nw.Status.Conditions)
	})
}

// wantEvent waits for an event about a NodeWright.
func wantEvent(t *testing.T, nw, reason string, parts ...string) {
	t.Helper()
	eventually(t, fmt.Sprintf("an event %s about %s", reason, nw), func(ctx context.Context) error {
		found, err := events(ctx, nw, reason)
		if err != nil {
			return err
		}
		for _, text := range found {
			missing := false
			for _, part := range parts {
				missing = missing || !strings.Contains(text, part)
			}
			if !missing {
				return nil
			}
		}
		return fmt.Errorf("none with %q among %q", parts, found)
	})
}

// events are the messages of events about a NodeWright, of one reason: the one
// that has the name now, or all that had it.
func events(ctx context.Context, nw, reason string) ([]string, error) {
	now := &v1alpha1.NodeWright{}
	if err := bed.client.Get(ctx, client.ObjectKey{Name: nw}, now); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	list, err := bed.admin.EventsV1().Events("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var out []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Name == nw && e.Reason == reason && (now.UID == "" || e.Regarding.UID == now.UID) {
			out = append(out, e.Note)
		}
	}
	return out, nil
}

// file reads a file of a node's host.
func file(node, path string) (string, error) {
	content, err := os.ReadFile(bed.nodes[node].Path(path))
	return strings.TrimSuffix(string(content), "\n"), err
}

// wantFile: the file of the node's host has this content.
func wantFile(t *testing.T, node, path, want string) {
	t.Helper()
	if got, err := file(node, path); err != nil || got != want {
		t.Errorf("%s on %s holds %q, want %q (%v)", path, node, got, want, err)
	}
}

// wantNoFile: there is no such file on the node's host.
func wantNoFile(t *testing.T, node, path string) {
	t.Helper()
	if got, err := file(node, path); !os.IsNotExist(err) {
		t.Errorf("%s is on %s and holds %q (%v)", path, node, got, err)
	}
}

// journal are the lines of a node's journal about a package, without its name.
func journal(t *testing.T, node, pkg string) []string {
	t.Helper()
	f, err := os.Open(bed.nodes[node].Path("var/lib/e2e/journal"))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var lines []string
	for s := bufio.NewScanner(f); s.Scan(); {
		if rest, ok := strings.CutPrefix(s.Text(), pkg+" "); ok {
			lines = append(lines, strings.TrimSpace(rest))
		}
	}
	return lines
}

// fresh makes hosts on which no package ever was.
func fresh(t *testing.T, nodes ...string) {
	t.Helper()
	forget(t, nodes...)
	for _, node := range nodes {
		if err := os.RemoveAll(bed.nodes[node].Path("etc/e2e")); err != nil {
			t.Fatal(err)
		}
	}
}

// forget empties the journals and the notes of calls.
func forget(t *testing.T, nodes ...string) {
	t.Helper()
	for _, node := range nodes {
		for _, name := range []string{"journal", "calls"} {
			if err := os.RemoveAll(bed.nodes[node].Path("var/lib/e2e/" + name)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// report says, after a failure, how it looks.
func (c *cluster) report() {
	for _, n := range c.nodes {
		fmt.Println(n.LogTails())
	}
	if c.admin == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for _, args := range [][]string{
		{"get", "nodes,nodewrights,pods,jobs", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp"},
		{"-n", namespace, "describe", "pods"},
		{"-n", namespace, "logs", "deployment/nodewright-manager", "--tail=60"},
	} {
		out, err := operator.Kubectl(ctx, c.cp, args...)
		if len(out) > 12000 {
			out = "..." + out[len(out)-12000:]
		}
		fmt.Printf("kubectl %s: %v\n%s\n", strings.Join(args, " "), err, out)
	}
	for _, name := range []string{"cert-manager-controller", "cert-manager-cainjector", "kube-scheduler"} {
		fmt.Printf("end of the log of %s:\n%s\n", name, controlplane.LogTail(filepath.Join(c.cp.LogDir(), name+".log")))
	}
}

// wantLog waits until kubectl shows a text in the log of a container of a
// NodeWright: a kubelet that has just started does not know its pods yet.
func wantLog(t *testing.T, nw, container, text string) {
	t.Helper()
	eventually(t, fmt.Sprintf("the log of %s says %q", container, text), func(ctx context.Context) error {
		list, err := bed.admin.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: packagejob.LabelName + "=" + nw})
		if err != nil {
			return err
		}
		errs := []error{fmt.Errorf("%s has %d pods", nw, len(list.Items))}
		for i := range list.Items {
			out, err := operator.Kubectl(ctx, bed.cp, "--namespace", namespace, "logs", list.Items[i].Name, "--container", container)
			if err == nil && strings.Contains(out, text) {
				return nil
			}
			errs = append(errs, err)
		}
		return errors.Join(errs...)
	})
}

// touch makes an empty file on the node's host, or removes it.
func touch(t *testing.T, node, path string, there bool) {
	t.Helper()
	if there {
		put(t, node, path, "")
		return
	}
	if err := os.Remove(bed.nodes[node].Path(path)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
}

// put writes a file of the node's host.
func put(t *testing.T, node, path, content string) {
	t.Helper()
	path = bed.nodes[node].Path(path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// unlabel takes a label from a node, also after the test.
func unlabel(t *testing.T, node, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := operator.Kubectl(ctx, bed.cp, "label", "node", node, key+"-"); err != nil {
		t.Error(err)
	}
}
