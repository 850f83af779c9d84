package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/apis/revision"
)

// Labels of the ConfigMap of a package, besides packagejob.LabelName.
const (
	// LabelConfigPackage holds the name of the package.
	LabelConfigPackage = nodestate.Prefix + "config-package"
	// LabelConfigHash holds the hash of the content. Its presence marks a
	// ConfigMap as one of a package.
	LabelConfigHash = nodestate.Prefix + "config-hash"
)

// sweepInterval is the least time between two searches for ConfigMaps that
// nobody needs: they look at the records of all nodes.
const sweepInterval = time.Minute

// provideConfigMaps sees to it that the configMap of each package stands in an
// immutable ConfigMap, before any node may ask for it. invalid says what the
// API server does not take.
func (r *Reconciler) provideConfigMaps(ctx context.Context, nw *v1alpha1.NodeWright) (invalid string, err error) {
	if nw.DeletionTimestamp == nil && !works(nw) {
		return "", nil
	}
	for _, pkg := range nw.Spec.PackageNames() {
		p := nw.Spec.Packages[pkg]
		// An uninstall needs its configMap as well.
		if len(p.ConfigMap) == 0 || nw.DeletionTimestamp != nil && !p.CanUninstall() {
			continue
		}
		err := r.provideConfigMap(ctx, nw, pkg, desiredConfigMap(nw, r.opts.Namespace, pkg, p.ConfigMap))
		switch {
		case apierrors.IsInvalid(err), apierrors.IsRequestEntityTooLargeError(err):
			return fmt.Sprintf("spec.packages[%s].configMap cannot be stored: %s; correct it", pkg, err), nil
		case err != nil:
			return "", fmt.Errorf("provide configMap of package %s: %w", pkg, err)
		}
	}
	return "", nil
}

// desiredConfigMap has no owner: the garbage collector would take it away as soon
// as the NodeWright is deleted in the foreground, and with it what an uninstall
// needs. It goes with the finalizer of the NodeWright.
func desiredConfigMap(nw *v1alpha1.NodeWright, namespace, pkg string, data map[string]string) *corev1.ConfigMap {
	hash := revision.ConfigHash(data)
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Name:      revision.ConfigMapName(nw.Name, nw.UID, pkg, hash),
			Namespace: namespace,
			Labels: map[string]string{
				packagejob.LabelName: packagejob.LabelValue(nw.Name),
				LabelConfigPackage:   pkg,
				LabelConfigHash:      hash,
			},
		},
		Immutable: ptr.To(true),
		Data:      data,
	}
}

func (r *Reconciler) provideConfigMap(ctx context.Context, nw *v1alpha1.NodeWright, pkg string, want *corev1.ConfigMap) error {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	have := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKeyFromObject(want), have)
	if err == nil && asWanted(have, want) {
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if apierrors.IsNotFound(err) {
		if err = r.client.Create(ctx, want.DeepCopy()); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	// One of this name is there and is not as it should be, or the cache does not
	// show that it is.
	if err := r.opts.Live.Get(ctx, client.ObjectKeyFromObject(want), have); err != nil {
		return err
	}
	switch {
	case asWanted(have, want):
		return nil
	case have.DeletionTimestamp != nil:
		return fmt.Errorf("configmap %s is being deleted", have.Name)
	case sameContent(have, want):
		return r.adopt(ctx, have, want)
	default:
		return r.replace(ctx, nw, pkg, have, want)
	}
}

func sameContent(have, want *corev1.ConfigMap) bool {
	return len(have.BinaryData) == 0 && maps.Equal(have.Data, want.Data)
}

func asWanted(have, want *corev1.ConfigMap) bool {
	for key, value := range want.Labels {
		if have.Labels[key] != value {
			return false
		}
	}
	return have.DeletionTimestamp == nil && ptr.Deref(have.Immutable, false) && sameContent(have, want) &&
		len(have.OwnerReferences) == 0
}

// adopt makes a ConfigMap with the right content ours. Owners go: with them, the
// garbage collector would take it from under the NodeWright.
func (r *Reconciler) adopt(ctx context.Context, have, want *corev1.ConfigMap) error {
	patch, err := json.Marshal(map[string]any{
		"immutable": true,
		"metadata": map[string]any{
			"uid": have.UID, "resourceVersion": have.ResourceVersion,
			"labels": want.Labels, "ownerReferences": nil,
		},
	})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	target := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: have.Name, Namespace: have.Namespace}}
	return r.client.Patch(ctx, target, client.RawPatch(types.MergePatchType, patch), fieldOwner)
}

// replace puts the right content in the place of another one. The name holds a
// hash of the content, so whoever wrote the other one did not mean it.
func (r *Reconciler) replace(ctx context.Context, nw *v1alpha1.NodeWright, pkg string, have, want *corev1.ConfigMap) error {
	err := r.client.Delete(ctx, have, client.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	if err := r.client.Create(ctx, want.DeepCopy()); err != nil {
		return err
	}
	r.event(nw, pkg, actionConfigure, configMapReplaced(pkg, want.Name))
	return nil
}

// sweepConfigMaps deletes ConfigMaps that neither the spec nor the record of
// any node names. It is called once all nodes are complete: until then a node
// may need an old one to tell what changed. due is the time of the next search, zero for
// none.
func (r *Reconciler) sweepConfigMaps(ctx context.Context, nw *v1alpha1.NodeWright, mem *nodeWrightMemory) (due time.Time, err error) {
	spare, err := r.spareConfigMaps(ctx, nw)
	if err != nil || len(spare) == 0 {
		return time.Time{}, err
	}
	now := r.opts.Clock.Now()
	if due := mem.sweptAt.Add(sweepInterval); now.Before(due) {
		return due, nil
	}
	mem.sweptAt = now
	nodes, err := r.listNodes(ctx)
	if err != nil {
		return time.Time{}, err
	}
	used, certain := usedConfigs(nodes, nw)
	if !certain {
		return time.Time{}, nil
	}
	for i := range spare {
		cm := &spare[i]
		if used[cm.Labels[LabelConfigHash]] {
			continue
		}
		err := r.client.Delete(ctx, cm, client.Preconditions{UID: &cm.UID})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			continue // gone, or another one has the name now
		}
		if err != nil {
			return time.Time{}, fmt.Errorf("delete configmap that nobody needs: %w", err)
		}
		logf.FromContext(ctx).Info("Deleted a ConfigMap that nobody needs", "configMap", klog.KObj(cm))
	}
	return time.Time{}, nil
}

// deleteConfigMaps deletes all ConfigMaps of a NodeWright that is clean, or gone.
func (r *Reconciler) deleteConfigMaps(ctx context.Context, nodeWright string) error {
	list, err := r.configMaps(ctx, nodeWright)
	if err != nil {
		return err
	}
	for i := range list {
		if err := r.client.Delete(ctx, &list[i], client.Preconditions{UID: &list[i].UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete configmap of nodewright %s: %w", nodeWright, err)
		}
	}
	return nil
}

// configMaps are those of the packages of the NodeWright, and of earlier ones of
// its name.
func (r *Reconciler) configMaps(ctx context.Context, nodeWright string) ([]corev1.ConfigMap, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var list corev1.ConfigMapList
	err := r.client.List(ctx, &list, client.InNamespace(r.opts.Namespace), client.HasLabels{LabelConfigHash},
		client.MatchingLabels{packagejob.LabelName: packagejob.LabelValue(nodeWright)})
	if err != nil {
		return nil, fmt.Errorf("list configmaps: %w", err)
	}
	return list.Items, nil
}

// spareConfigMaps are the ConfigMaps of the NodeWright that its spec does not
// name.
func (r *Reconciler) spareConfigMaps(ctx context.Context, nw *v1alpha1.NodeWright) ([]corev1.ConfigMap, error) {
	list, err := r.configMaps(ctx, nw.Name)
	if err != nil {
		return nil, err
	}
	wanted := map[string]bool{}
	for pkg, p := range nw.Spec.Packages {
		wanted[revision.ConfigMapName(nw.Name, nw.UID, pkg, revision.ConfigHash(p.ConfigMap))] = true
	}
	var out []corev1.ConfigMap
	for i := range list {
		if cm := &list[i]; !wanted[cm.Name] && cm.DeletionTimestamp == nil {
			out = append(out, *cm)
		}
	}
	return out, nil
}

// usedConfigs are the hashes that records of the NodeWright name. certain is
// false where a record cannot be read.
func usedConfigs(nodes []corev1.Node, nw *v1alpha1.NodeWright) (used map[string]bool, certain bool) {
	used = map[string]bool{}
	for i := range nodes {
		record, has := recordOf(nodes[i].Annotations, nw.Name)
		if !has {
			continue
		}
		if len(unreadableKeys(&record, nw)) > 0 {
			return nil, false
		}
		for ref, entry := range record.Packages {
			if ref.NodeWright == nw.Name {
				used[entry.ConfigHash] = true
			}
		}
	}
	return used, true
}
