// Package carry decides which keys that cannot be read the owner of reports
// keeps on a node. Reports follow from Jobs and pods each time anew, so a
// garbled one must neither be lost silently nor hold back the deletion of its
// NodeWright.
package carry

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/live"
)

// Raw are the owner's keys of the view that cannot be read, with their values:
// without those in replaced, which a good value replaces, and without those of
// a NodeWright that is gone or being deleted, as the API server says. A
// shortened key does not tell its NodeWright and is kept.
func Raw(
	ctx context.Context, reader client.Reader, view *apply.View, owner nodestate.Owner, replaced ...nodestate.Key,
) (map[string]string, error) {
	raw := view.Carried(owner)
	for _, key := range replaced {
		delete(raw, key.String())
	}
	for full := range raw {
		key, ok := nodestate.ParseKey(full)
		if !ok || key.Hash != "" {
			continue
		}
		nw, err := live.NodeWright(ctx, reader, key.NodeWright)
		if err != nil {
			return nil, err
		}
		if nw == nil || nw.DeletionTimestamp != nil {
			delete(raw, full)
		}
	}
	return raw, nil
}

// Unused tells whether no NodeWright has anything on the node, so that an owner
// of reports may give the node up, its number included.
func Unused(rec *nodestate.Record) bool {
	return len(rec.Packages) == 0 && len(rec.Status) == 0 && len(rec.Slots) == 0 &&
		len(rec.Batches) == 0 && len(rec.Malformed) == 0
}

// LeftAlone tells whether an update took the last keys of a NodeWright off a
// node on which the owner still has its number: the owner may now give the node
// up, as Unused says.
func LeftAlone(before, after map[string]string, owner nodestate.Owner) bool {
	if _, numbered := after[owner.SeqKey()]; !numbered {
		return false
	}
	for key := range before {
		if _, stays := after[key]; stays {
			continue
		}
		if k, ours := nodestate.ParseKey(key); ours && (k.Kind == nodestate.KindStatus || k.Kind == nodestate.KindBatch) {
			return true
		}
	}
	return false
}
