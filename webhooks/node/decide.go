package node

import (
	"slices"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
)

// reason is why a write was admitted or refused, as metrics have it.
type reason string

const (
	// Admitted: no key of the operator changes, the operator's own good write, or a
	// legacy blob that others may still write.
	reasonUnrelated reason = "unrelated"
	reasonOwn       reason = "own"
	reasonBlob      reason = "blob"

	// Refused: a key of the operator comes with a new node.
	reasonCreated reason = "created"
	// A key belongs to another.
	reasonForeign reason = "foreign"
	// The write makes somebody a holder of a key besides its owner.
	reasonHolder reason = "holder"
	// Somebody else makes a manager of the operator hold more.
	reasonSeized reason = "seized"
	// It cannot be told who holds keys after the write.
	reasonUnreadable reason = "unreadable"
	// A write of the operator's own whose number does not grow.
	reasonLate reason = "late"
	// A value that no reader understands.
	reasonMalformed reason = "malformed"
	// A legacy blob where the new form has taken its place.
	reasonFrozen reason = "frozen"
)

// question is a write of a node, and who makes it.
type question struct {
	// node is the name, for messages.
	node string
	// user who asks, and the field manager he names; it may be empty.
	user, manager string
	// operator is the user name of the operator itself.
	operator string
	// old is empty for a creation.
	create   bool
	old, now *metadata
}

// problem is why a write is refused.
type problem struct {
	reason reason
	// field is the key it is about; it is not set where that cannot be told.
	field managers.Field
	key   nodestate.Key
	text  string
	// value is what a stranger writes, nil for nothing.
	value *string
}

// verdict is what is thought of a write. It is admitted if there are no
// problems.
type verdict struct {
	problems []problem
	warnings []string
	// reason of an admission.
	reason reason
}

// decide judges a write. It is about what the write changes, never about what
// stood there before: otherwise nobody could write to a node with a past.
func decide(q *question) verdict {
	d := decision{question: q, changes: changes(q.old, q.now)}
	if q.create {
		for i := range d.changes {
			d.refuse(&d.changes[i], reasonCreated, q.sayCreated(&d.changes[i]))
		}
		d.judgeGrown(nil)
		return d.verdict(reasonUnrelated)
	}
	d.writer = q.writer()
	gains, err := managers.Gains(q.old.ManagedFields, q.now.ManagedFields, protected)
	d.unreadable(err)
	d.judgeGrown(gains)
	if len(d.changes) == 0 && len(gains) == 0 {
		return d.verdict(reasonUnrelated)
	}
	d.judgeNumber(gains)
	for i := range d.changes {
		d.judgeChange(&d.changes[i])
	}
	for _, g := range gains {
		d.judgeGain(g)
	}
	switch {
	case d.writer != "":
		return d.verdict(reasonOwn)
	default:
		return d.verdict(reasonBlob)
	}
}

// writer is the owner that the operator writes as. Both the account and the field
// manager count: anybody may call himself as an owner does, and the operator may
// be wrong about who it is.
func (q *question) writer() nodestate.Owner {
	if owner := nodestate.Owner(q.manager); q.user == q.operator && owner.Controller() != "" {
		return owner
	}
	return ""
}

// decision is a verdict in the making.
type decision struct {
	*question
	changes []change
	// writer is empty for everybody but the operator under a name of an owner.
	writer   nodestate.Owner
	problems []problem
	warnings []string
}

func (d *decision) verdict(admitted reason) verdict {
	return verdict{problems: d.problems, warnings: d.warnings, reason: admitted}
}

func (d *decision) refuse(c *change, r reason, text string) {
	p := problem{reason: r, field: c.field, key: c.key, text: text}
	if c.has {
		p.value = &c.now
	}
	d.problems = append(d.problems, p)
}

// unreadable refuses a write after which nobody could tell who holds what.
func (d *decision) unreadable(err error) {
	said := slices.ContainsFunc(d.problems, func(p problem) bool { return p.reason == reasonUnreadable })
	if err != nil && !said {
		d.problems = append(d.problems, problem{reason: reasonUnreadable, text: sayUnreadable(err)})
	}
}

// owners are the field managers of the operator.
var owners = func() []string {
	var names []string
	for _, owner := range nodestate.Owners() {
		names = append(names, string(owner))
	}
	return names
}()

// judgeGrown refuses to let somebody else make a manager of the operator hold
// more, whatever that is: the operator's next apply leaves it out, and so removes
// it. A kubelet could rid its node of taints and labels that it may not touch
// itself. Of managers in gains it is said already.
func (d *decision) judgeGrown(gains []managers.Gain) {
	grown, err := managers.Grown(d.old.ManagedFields, d.now.ManagedFields, owners)
	d.unreadable(err)
	for _, name := range grown {
		said := slices.ContainsFunc(gains, func(g managers.Gain) bool { return g.Manager == managers.Applier(name) })
		if nodestate.Owner(name) != d.writer && !said {
			d.problems = append(d.problems, problem{reason: reasonSeized, text: sayGrown(name)})
		}
	}
}

// judgeNumber refuses a late write of the operator: one that was made from an
// older state of the node. A number that only grew would let a writer through
// that is in doubt about its own last write, and knows less than one who wrote
// meanwhile.
func (d *decision) judgeNumber(gains []managers.Gain) {
	if d.writer == "" {
		return
	}
	own := slices.ContainsFunc(d.changes, func(c change) bool { return c.owner == d.writer }) ||
		slices.ContainsFunc(gains, d.byOwner)
	if !own {
		return
	}
	full := d.writer.SeqKey()
	key, _ := nodestate.ParseKey(full)
	if text := d.late(full); text != "" {
		d.problems = append(d.problems, problem{reason: reasonLate, field: managers.Annotation(full), key: key, text: text})
	}
}

// late says what is wrong with the number of a write; it is empty if nothing is.
func (d *decision) late(full string) string {
	text, there := d.now.Annotations[full]
	if !there {
		if d.releases() {
			return ""
		}
		return d.sayNoNumber(full)
	}
	seq, err := nodestate.ParseSeq(text)
	if err != nil || seq < 1 {
		return d.sayBadNumber(full, text)
	}
	// A number that cannot be believed was not the operator's, and fences nothing:
	// otherwise it would stop the operator on this node.
	if old, err := nodestate.ParseSeq(d.old.Annotations[full]); err == nil && seq != old+1 {
		return d.sayLate(full, old, seq)
	}
	return ""
}

// releases tells whether the write gives the node up: it removes what the owner
// has, its number included, and adds nothing. Keys that others hold as well may
// stay, and are taken back with numbers later.
func (d *decision) releases() bool {
	for i := range d.changes {
		if c := &d.changes[i]; c.owner == d.writer && c.has {
			return false
		}
	}
	fields, err := managers.Owned(d.now.ManagedFields, string(d.writer))
	if err != nil {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(fields.Annotations, fields.Labels), func(key string) bool {
		owner, owned := nodestate.OwnerOf(key)
		return owned && owner == d.writer
	})
}

func (d *decision) judgeChange(c *change) {
	switch {
	case c.owner == d.writer:
		d.judgeValue(c)
	case c.key.Kind == nodestate.KindBlob && d.user != d.operator:
		d.judgeBlob(c)
	default:
		d.refuse(c, reasonForeign, d.sayForeign(c))
	}
}

// judgeValue looks at a value that the owner writes. One that cannot be read may
// take the place of another such: that is how the operator takes back a key that
// others hold too, before it removes it.
func (d *decision) judgeValue(c *change) {
	if !c.has || c.key.Kind == nodestate.KindSeq {
		return // the number has been judged
	}
	if c.key.Kind == nodestate.KindBlob && pruned(d.now, c.key) {
		d.refuse(c, reasonFrozen, sayFrozen(c.key))
		return
	}
	err := nodestate.CheckValue(c.key, c.now)
	if err == nil || c.had && nodestate.CheckValue(c.key, c.old) != nil {
		return
	}
	d.refuse(c, reasonMalformed, sayMalformed(c.field, err))
}

// judgeBlob: others, which are earlier operators, may write the legacy form until
// the new one has taken its place, and may remove it at any time.
func (d *decision) judgeBlob(c *change) {
	if c.has && pruned(d.old, c.key) {
		d.refuse(c, reasonFrozen, sayFrozen(c.key))
		return
	}
	d.warnings = append(d.warnings, d.warnBlob(c))
}

// pruned tells whether the legacy blob was given up on the node.
func pruned(m *metadata, blob nodestate.Key) bool {
	return m.Annotations[nodestate.NewKey(nodestate.KindLegacy, blob.NodeWright).String()] == string(nodestate.LegacyPruned)
}

// byOwner tells whether the operator becomes a holder of its own key, in the only
// way that it writes.
func (d *decision) byOwner(g managers.Gain) bool {
	owner, _ := nodestate.OwnerOf(g.Field.Key())
	return owner == d.writer && g.Manager == managers.Applier(string(d.writer))
}

func (d *decision) judgeGain(g managers.Gain) {
	key, _ := nodestate.ParseKey(g.Field.Key())
	switch {
	case d.byOwner(g):
		return
	case key.Kind == nodestate.KindBlob && d.user != d.operator && !pruned(d.old, key):
		return // as for the value
	}
	judged := slices.ContainsFunc(d.problems, func(p problem) bool { return p.field == g.Field })
	if !judged {
		d.problems = append(d.problems, problem{reason: reasonHolder, field: g.Field, key: key, text: sayHolder(g, key)})
	}
}
