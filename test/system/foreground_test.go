package system

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

const configuredManifest = repairedManifest + `
      uninstall: {enabled: true}
      configMap: {a.conf: "%s"}
`

// UN-09: a deletion in the foreground takes dependents before their owner. An
// uninstall that is still to come finds the configMap that its node was set up
// with all the same, and nothing is left behind.
func TestDeletionInTheForeground_UN09(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	b := startBed(ctx, t, managerConfiguration)
	b.createNodes(ctx, t, 1)
	c := newClient(t, b.cp.Config())
	b.start(t)
	b.apply(ctx, t, fmt.Sprintf(configuredManifest, "one"))
	b.wantReady(ctx, t, c)
	var nw v1alpha1.NodeWright
	if err := c.Get(ctx, client.ObjectKey{Name: "long"}, &nw); err != nil {
		t.Fatal(err)
	}
	name := func(content string) string {
		return revision.ConfigMapName("long", nw.UID, "pa", revision.ConfigHash(map[string]string{"a.conf": content}))
	}
	// The node keeps the first content, and the spec has the second.
	b.annotateNodeWright(ctx, t, "pause=true")
	b.apply(ctx, t, fmt.Sprintf(configuredManifest, "two"))
	b.wantConfigMaps(ctx, t, name("one"), name("two"))
	if _, err := b.op.Kubectl(ctx, "delete", "nodewright", "long", "--cascade=foreground", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKey{Name: "long"}, &nw)
		if slices.Contains(nw.Finalizers, metav1.FinalizerDeleteDependents) {
			return "the garbage collector has not looked at the deletion", err
		}
		return "", err
	})
	b.wantConfigMaps(ctx, t, name("one"), name("two"))

	b.annotateNodeWright(ctx, t, "pause-")
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		err := c.Get(ctx, client.ObjectKey{Name: "long"}, &nw)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return fmt.Sprintf("the NodeWright is still there: %+v", nw.Status.Conditions), err
	})
	if got := b.configOfUninstall(ctx, t); got != name("one") {
		t.Errorf("the uninstall had ConfigMap %q, want %q", got, name("one"))
	}
	b.wantConfigMaps(ctx, t)
}

// wantConfigMaps waits until these are all ConfigMaps of packages, and none of
// them is being deleted.
func (b *bed) wantConfigMaps(ctx context.Context, t *testing.T, want ...string) {
	t.Helper()
	slices.Sort(want)
	b.eventually(ctx, t, func(ctx context.Context) (string, error) {
		list, err := b.cs.CoreV1().ConfigMaps(operator.Namespace).List(ctx, metav1.ListOptions{LabelSelector: packagejob.LabelName})
		if err != nil {
			return "", err
		}
		var got []string
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp == nil {
				got = append(got, list.Items[i].Name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			return fmt.Sprintf("ConfigMaps %q, want %q", got, want), nil
		}
		return "", nil
	})
}

// configOfUninstall is the ConfigMap that the Job of the uninstall mounts.
func (b *bed) configOfUninstall(ctx context.Context, t *testing.T) string {
	t.Helper()
	for _, job := range b.jobs(ctx, t) {
		if id, err := packagejob.Parse(&job); err != nil || id.Stage != nodestate.StageUninstall {
			continue
		}
		i := slices.IndexFunc(job.Spec.Template.Spec.Volumes, func(v corev1.Volume) bool { return v.ConfigMap != nil })
		if i >= 0 {
			return job.Spec.Template.Spec.Volumes[i].ConfigMap.Name
		}
	}
	return ""
}
