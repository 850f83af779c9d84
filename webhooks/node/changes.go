package node

import (
	"cmp"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
)

// change is one key of the operator that a write sets, changes or removes.
type change struct {
	key   nodestate.Key
	field managers.Field
	owner nodestate.Owner
	// old and now are the values; had and has tell whether there are any.
	old, now string
	had, has bool
}

// verb says what the write does to the key.
func (c *change) verb() string {
	switch {
	case !c.has:
		return "remove"
	case !c.had:
		return "add"
	default:
		return "change"
	}
}

// changes are the keys of the operator that differ, sorted. Keys that did not
// change are compared and not taken apart.
func changes(old, now *metadata) []change {
	out := differing(nil, old.Annotations, now.Annotations, managers.Annotation)
	out = differing(out, old.Labels, now.Labels, managers.Label)
	slices.SortFunc(out, func(a, b change) int {
		if c := cmp.Compare(a.field.Key(), b.field.Key()); c != 0 || a.field.IsLabel() == b.field.IsLabel() {
			return c
		}
		if b.field.IsLabel() {
			return -1
		}
		return 1
	})
	return out
}

func differing(out []change, old, now map[string]string, field func(string) managers.Field) []change {
	add := func(full, before, after string, had, has bool) {
		key, ok := nodestate.ParseKey(full)
		if !ok {
			return
		}
		if owner, owned := key.Owner(); owned {
			out = append(out, change{key: key, field: field(full), owner: owner, old: before, now: after, had: had, has: has})
		}
	}
	for full, after := range now {
		if !strings.HasPrefix(full, nodestate.Prefix) {
			continue
		}
		if before, had := old[full]; !had || before != after {
			add(full, before, after, had, true)
		}
	}
	for full, before := range old {
		if !strings.HasPrefix(full, nodestate.Prefix) {
			continue
		}
		if _, has := now[full]; !has {
			add(full, before, "", true, false)
		}
	}
	return out
}

// protected are the keys that somebody may become a holder of.
var protected = managers.Protected{
	Prefix: nodestate.Prefix,
	Has: func(key string) bool {
		_, owned := nodestate.OwnerOf(key)
		return owned
	},
}
