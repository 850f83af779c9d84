package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
)

// gatherConfigInterrupts finds the interrupts of changed configMaps. They follow
// from the content that the node has and that of the spec, both of now: nothing
// about a change is remembered anywhere, so nothing can be out of date.
func (r *Reconciler) gatherConfigInterrupts(ctx context.Context, in *gathered) error {
	for i := range in.NodeWrights {
		nw := in.specs[in.NodeWrights[i].Name]
		for j := range in.NodeWrights[i].Packages {
			p := &in.NodeWrights[i].Packages[j]
			ref := nodestate.PackageRef{NodeWright: nw.Name, Package: p.Name}
			spec := nw.Spec.Packages[p.Name]
			e, has := in.Record.Packages[ref]
			if !has || e.ConfigHash == p.ConfigHash || len(spec.ConfigInterrupts) == 0 {
				continue
			}
			uid := cmp.Or(types.UID(e.UID), nw.UID)
			before, known, err := r.config(ctx, nw.Name, uid, p.Name, e.ConfigHash)
			if err != nil {
				return err
			}
			interrupt, due := configInterrupt(&spec, before, known)
			if !due {
				continue
			}
			if in.ConfigInterrupts == nil {
				in.ConfigInterrupts = map[nodestate.PackageRef]nodestate.Interrupt{}
			}
			in.ConfigInterrupts[ref] = interrupt
		}
	}
	return nil
}

// config reads the content of a package's configMap by its hash. The empty hash
// is that of no content. known is false where the content is gone, or is not
// what the hash says.
func (r *Reconciler) config(ctx context.Context, nodeWright string, uid types.UID, pkg, hash string) (data map[string]string, known bool, err error) {
	if hash == "" {
		return nil, true, nil
	}
	key := client.ObjectKey{Namespace: r.opts.Jobs.Namespace, Name: revision.ConfigMapName(nodeWright, uid, pkg, hash)}
	// A cache that lacks it proves nothing, so the API server is asked then.
	for _, reader := range []client.Reader{r.client, r.opts.Live} {
		data, known, err = readConfig(ctx, reader, key, hash)
		if err != nil || known {
			return data, known, err
		}
	}
	return nil, false, nil
}

func readConfig(ctx context.Context, reader client.Reader, key client.ObjectKey, hash string) (data map[string]string, known bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var cm corev1.ConfigMap
	switch err := reader.Get(ctx, key, &cm); {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("get configmap %s: %w", key.Name, err)
	}
	return cm.Data, revision.ConfigHash(cm.Data) == hash, nil
}

// configInterrupt is the strongest of the package's configInterrupts for a key
// that was added, removed or changed since before. Where nobody knows what was
// before, every key counts as changed.
func configInterrupt(p *v1alpha1.Package, before map[string]string, known bool) (interrupt nodestate.Interrupt, due bool) {
	changed := changedKeys(before, p.ConfigMap)
	var list []nodestate.Interrupt
	for pattern, i := range p.ConfigInterrupts {
		means := func(key string) bool { return v1alpha1.ConfigKeyMatches(pattern, key) }
		if !known || slices.ContainsFunc(changed, means) {
			list = append(list, interruptOf(&i))
		}
	}
	return nodestate.StrongestInterrupt(list)
}

// changedKeys are the keys whose values differ, in no order.
func changedKeys(before, after map[string]string) []string {
	var keys []string
	for key, value := range before {
		if now, there := after[key]; !there || now != value {
			keys = append(keys, key)
		}
	}
	for key := range after {
		if _, there := before[key]; !there {
			keys = append(keys, key)
		}
	}
	return keys
}
