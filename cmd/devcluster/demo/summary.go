package demo

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

// summary says how the rollout ended, counts Jobs, and shows the keys of one
// node with the field managers that own them.
func (w *watcher) summary(ctx context.Context, out io.Writer, cp *controlplane.ControlPlane) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format+"\n", args...) }
	snap, err := w.look(ctx)
	if err != nil {
		say("no summary: %v", err)
		return
	}
	say("\nafter %.1f seconds:", snap.elapsed.Seconds())
	_, _ = fmt.Fprint(out, table(snap), snap.facts.summary())
	cs, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		say("no summary of jobs: %v", err)
		return
	}
	jobs, err := cs.BatchV1().Jobs(operator.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		say("no summary of jobs: %v", err)
		return
	}
	var succeeded, failed int
	for i := range jobs.Items {
		switch condition, done := packagejob.Finished(&jobs.Items[i]); {
		case done && condition == "Complete":
			succeeded++
		case done:
			failed++
		}
	}
	say("jobs: %d, of them %d succeeded and %d failed", len(jobs.Items), succeeded, failed)
	var nodes corev1.NodeList
	if err := w.cache.List(ctx, &nodes); err == nil && len(nodes.Items) > 0 {
		slices.SortFunc(nodes.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
		showKeys(out, &nodes.Items[0])
	}
}

// showKeys lists the contract's keys of a node and who owns them, as
// managedFields say.
func showKeys(out io.Writer, node *corev1.Node) {
	_, _ = fmt.Fprintf(out, "\nkeys of node %s:\n", node.Name)
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, "  KEY\tFIELD MANAGER\tVALUE")
	for _, key := range slices.Sorted(maps.Keys(node.Annotations)) {
		if _, ours := nodestate.ParseKey(key); !ours {
			continue
		}
		_, _ = fmt.Fprintf(t, "  %s\t%s\t%s\n", key, holders(node, key), node.Annotations[key])
	}
	_ = t.Flush()
}

func holders(node *corev1.Node, key string) string {
	found, err := managers.Holders(node.ManagedFields, managers.Annotation(key))
	if err != nil {
		return err.Error()
	}
	var names []string
	for _, m := range found {
		names = append(names, m.Name)
	}
	return strings.Join(names, ", ")
}
