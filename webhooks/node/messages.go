package node

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodestate/managers"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	// maxNamed is how many problems a message names, and how many keys a warning.
	maxNamed = 3
	// maxName is how much of a name that somebody chose is repeated, in bytes.
	maxName = 256
	// maxNote is how long an audit annotation may get, in bytes.
	maxNote = 4 << 10
)

// asker says who asks, and under which name.
func (q *question) asker() string {
	if q.manager == "" {
		return fmt.Sprintf("%q without a field manager", nodestate.CapString(q.user, maxName))
	}
	return fmt.Sprintf("%q with field manager %q", nodestate.CapString(q.user, maxName), nodestate.CapString(q.manager, maxName))
}

func (q *question) sayForeign(c *change) string {
	return fmt.Sprintf("%s belongs to field manager %s of the operator (%s): %s may not %s it",
		c.field, c.owner, q.operator, q.asker(), c.verb())
}

func (q *question) sayCreated(c *change) string {
	return fmt.Sprintf("%s belongs to field manager %s of the operator (%s): %s may not create a node with it, create it without",
		c.field, c.owner, q.operator, q.asker())
}

func sayHolder(g managers.Gain, key nodestate.Key) string {
	owner, _ := key.Owner()
	if g.Manager.Name == string(owner) {
		return fmt.Sprintf("%s belongs to field manager %s, which writes by server-side apply of the node only: "+
			"with this write %s would hold it", g.Field, owner, g.Manager)
	}
	return fmt.Sprintf("%s belongs to field manager %s of the operator: with this write %s would hold it too, "+
		"and the operator could not remove it any more; leave it out of what you write", g.Field, owner, g.Manager)
}

func sayGrown(manager string) string {
	return fmt.Sprintf("field manager %s is the operator's: with this write it would hold more than it applied, and the operator would remove that; "+
		"leave metadata.managedFields as the API server gave them, and apply under another field manager", manager)
}

func sayUnreadable(err error) string {
	return fmt.Sprintf("it cannot be told who would hold keys of the operator, since entries of metadata.managedFields cannot be read: %v; "+
		"leave managedFields as the API server gave them", err)
}

func (d *decision) sayNoNumber(full string) string {
	return fmt.Sprintf("annotation %s is missing: each write of %s carries it, unless it removes everything of that field manager",
		full, d.writer)
}

func (d *decision) sayBadNumber(full, text string) string {
	return fmt.Sprintf("annotation %s is %q: it must be a number from 1 to %d that grows with each write of %s",
		full, nodestate.CapString(text, maxName), int64(nodestate.MaxSeq), d.writer)
}

func (d *decision) sayLate(full string, old, now int64) string {
	return fmt.Sprintf("annotation %s must be one more with each write of %s: it is %d and the write says %d, so it was decided from another state; "+
		"read the node and decide again", full, d.writer, old, now)
}

func sayMalformed(f managers.Field, err error) string {
	return fmt.Sprintf("%s would get a value that cannot be read: %v", f, err)
}

func sayFrozen(key nodestate.Key) string {
	legacy := nodestate.NewKey(nodestate.KindLegacy, key.NodeWright)
	return fmt.Sprintf("annotation %s is the form of earlier operators, and may only be removed here, since annotation %s says %s: "+
		"records are in %s_<package>; the way back to an earlier operator begins with field manager %s setting %s to %s",
		key, legacy, nodestate.LegacyPruned, key, nodestate.OwnerMigration, legacy, nodestate.LegacyConverging)
}

func (d *decision) warnBlob(c *change) string {
	owner, _ := c.key.Owner()
	text := fmt.Sprintf("%s is the form of earlier operators and belongs to field manager %s: what %s writes there is taken over "+
		"as the news of an earlier operator", c.field, owner, d.asker())
	if !c.has {
		return fmt.Sprintf("%s is the form of earlier operators: without it no earlier operator can take over", c.field)
	}
	if err := nodestate.CheckValue(c.key, c.now); err != nil {
		text += fmt.Sprintf(", but it cannot be read: %v", err)
	}
	return text
}

// refusal is the message of problems for the user: what is wrong, and what does
// it properly.
func (q *question) refusal(problems []problem) string {
	var parts []string
	for i := range problems[:min(len(problems), maxNamed)] {
		parts = append(parts, problems[i].text)
	}
	if n := len(problems) - maxNamed; n > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", n))
	}
	if remedy := q.remedy(problems); remedy != "" {
		parts = append(parts, remedy)
	}
	return strings.Join(parts, "; ")
}

// remedy is the command that does what the write was probably meant to do. A new
// node has nothing yet that could run again.
func (q *question) remedy(problems []problem) string {
	for i := range problems {
		p := &problems[i]
		if p.reason != reasonForeign && p.reason != reasonHolder {
			continue
		}
		switch p.key.Kind {
		case nodestate.KindNodeState, nodestate.KindJobState, nodestate.KindPodState:
			if ref, ok := q.names(p); ok {
				return "to run the package again: " + q.rerun(nodestate.NewPackageKey(nodestate.KindPackageRequest, ref.NodeWright, ref.Package), ref)
			}
		case nodestate.KindStatus, nodestate.KindSlot, nodestate.KindBatch, nodestate.KindDrainStart, nodestate.KindHandled:
			if ref, ok := q.names(p); ok {
				return "to run its packages again: " + q.rerun(nodestate.NewKey(nodestate.KindRequest, ref.NodeWright), ref)
			}
		case nodestate.KindCordon:
			return fmt.Sprintf("to keep the operator off the node: kubectl label node %s %s=true", q.node, v1alpha1.LabelIgnore)
		}
	}
	return ""
}

// names are the full names that a key is about. In a shortened key they are cut;
// then the record that stands on the node tells.
func (q *question) names(p *problem) (nodestate.PackageRef, bool) {
	if p.key.Hash == "" {
		return nodestate.PackageRef{NodeWright: p.key.NodeWright, Package: p.key.Package}, true
	}
	s, err := nodestate.DecodePackageStatus(p.key, q.old.Annotations[p.key.String()])
	return s.Ref(), err == nil
}

// rerun is the command that asks for another run.
func (q *question) rerun(key nodestate.Key, ref nodestate.PackageRef) string {
	// The id is a new one each time: one that was handled is not handled again.
	const id = "$(date +%s)"
	request := nodestate.Request{Action: nodestate.ActionRerun, ID: id}
	if key.Hash != "" {
		request.NodeWright, request.Package = ref.NodeWright, ref.Package
	}
	value, err := json.Marshal(request)
	if err != nil {
		return "" // strings always encode
	}
	return fmt.Sprintf("kubectl annotate node %s %s='%s'", q.node, key, strings.Replace(string(value), id, "'"+id+"'", 1))
}

// named lists the fields of problems, for a warning or an audit annotation.
func named(problems []problem, limit int) string {
	var names []string
	for i := range problems {
		if i == limit {
			names = append(names, fmt.Sprintf("%d more", len(problems)-limit))
			break
		}
		name := problems[i].field.String()
		switch problems[i].reason {
		case reasonUnreadable:
			name = "managedFields that cannot be read"
		case reasonSeized:
			name = "managedFields of the operator"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
