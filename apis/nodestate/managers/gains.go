package managers

import (
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// beforeFirstApply is the holder that the API server makes up for all fields of
// an object that has no managedFields, at the first apply.
const beforeFirstApply = "before-first-apply"

// Protected says which annotations and labels a question is about.
type Protected struct {
	// Prefix that all their keys have. It saves the decoding of entries that do not
	// mention it.
	Prefix string
	// Has tells whether a full key with the prefix is one of them.
	Has func(key string) bool
}

// Gain is a manager that holds a field after a write, and did not before.
type Gain struct {
	Manager Manager
	Field   Field
}

// Gains are the managers that a write adds to the holders of protected fields,
// sorted by field. What stood before is no gain, whoever held it.
//
// Each new holder by apply is a gain: it keeps the field when all others let go.
// Holders by update may change their names, since the API server folds the
// eleventh into another; they are gains only where there are more of them for the
// field than before. The holder that the API server makes up where nobody was
// noted is none, but only there: anybody may call himself so.
//
// The error names the entries that cannot be read, and were not there before;
// the gains of the others are given nevertheless. The cost is linear in the size
// of the entries, and entries that did not change are not decoded.
func Gains(before, after []metav1.ManagedFieldsEntry, p Protected) ([]Gain, error) {
	old, now := newSide(before), newSide(after)
	changed := now.beyond(old)
	if len(changed) == 0 {
		return nil, nil
	}
	// Only what changed can change how many hold a field by update.
	more := make(map[Field]int)
	for _, e := range old.beyond(now) {
		// One that cannot be read counts for nothing.
		fields, _ := p.fields(e)
		tally(more, e, fields, -1)
	}
	var (
		gains []Gain
		errs  []error
	)
	for _, e := range changed {
		fields, err := p.fields(e)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		tally(more, e, fields, 1)
		for _, f := range fields {
			if !old.holds(&p, of(e), f) {
				gains = append(gains, Gain{Manager: of(e), Field: f})
			}
		}
	}
	gains = slices.DeleteFunc(gains, func(g Gain) bool {
		return g.Manager.Operation == metav1.ManagedFieldsOperationUpdate &&
			(more[g.Field] <= 0 || len(before) == 0 && g.Manager.Name == beforeFirstApply)
	})
	slices.SortFunc(gains, Gain.compare)
	return slices.Compact(gains), errors.Join(errs...)
}

func (g Gain) compare(o Gain) int {
	if c := strings.Compare(g.Field.name, o.Field.name); c != 0 {
		return c
	}
	if c := strings.Compare(g.Field.parent, o.Field.parent); c != 0 {
		return c
	}
	return g.Manager.compare(o.Manager)
}

// tally counts holders by update.
func tally(count map[Field]int, e *metav1.ManagedFieldsEntry, fields []Field, n int) {
	if e.Operation != metav1.ManagedFieldsOperationUpdate {
		return
	}
	for _, f := range fields {
		count[f] += n
	}
}

// fields are the protected fields of one entry.
func (p *Protected) fields(e *metav1.ManagedFieldsEntry) ([]Field, error) {
	// The text says whether there can be any. A backslash may hide the prefix, and
	// in another form anything may.
	if raw := e.FieldsV1.GetRawString(); e.FieldsType == fieldsType && !strings.Contains(raw, p.Prefix) && !strings.Contains(raw, `\`) {
		return nil, nil
	}
	set, err := decode(e)
	if err != nil {
		return nil, err
	}
	var out []Field
	metadata := child(set, "metadata")
	for _, parent := range []string{annotationsOf, labelsOf} {
		fields := child(metadata, parent)
		collect := func(pe fieldpath.PathElement) {
			if pe.FieldName != nil && strings.HasPrefix(*pe.FieldName, p.Prefix) && p.Has(*pe.FieldName) {
				out = append(out, Field{parent: parent, name: *pe.FieldName})
			}
		}
		fields.Members.Iterate(collect)
		// A field that pretends to have fields of its own is held all the same.
		fields.Children.Iterate(func(pe fieldpath.PathElement) {
			if !fields.Members.Has(pe) {
				collect(pe)
			}
		})
	}
	return out, nil
}

// identity is an entry without the time, which changes with every write.
type identity struct {
	manager                     Manager
	apiVersion, fieldsType, raw string
}

func identify(e *metav1.ManagedFieldsEntry) identity {
	return identity{manager: of(e), apiVersion: e.APIVersion, fieldsType: e.FieldsType, raw: e.FieldsV1.GetRawString()}
}

// side is what stood before, or what stands after.
type side struct {
	entries []metav1.ManagedFieldsEntry
	ids     []identity
	count   map[identity]int
	// byManager are the positions of entries; it is made when asked for.
	byManager map[Manager][]int
	// held are the protected fields of managers that were asked about.
	held map[Manager]map[Field]struct{}
}

func newSide(entries []metav1.ManagedFieldsEntry) *side {
	s := &side{entries: entries, ids: make([]identity, len(entries)), count: make(map[identity]int, len(entries))}
	for i := range entries {
		s.ids[i] = identify(&entries[i])
		s.count[s.ids[i]]++
	}
	return s
}

// beyond are the entries of this side that other does not have, each as often as
// it is missing there.
func (s *side) beyond(other *side) []*metav1.ManagedFieldsEntry {
	var out []*metav1.ManagedFieldsEntry
	seen := make(map[identity]int, len(s.ids))
	for i, id := range s.ids {
		if seen[id]++; seen[id] > other.count[id] {
			out = append(out, &s.entries[i])
		}
	}
	return out
}

// holds tells whether the manager holds the field on this side, in any of its
// entries: there is one per API version.
func (s *side) holds(p *Protected, m Manager, f Field) bool {
	if s.byManager == nil {
		s.byManager = make(map[Manager][]int, len(s.entries))
		s.held = make(map[Manager]map[Field]struct{})
		for i := range s.ids {
			s.byManager[s.ids[i].manager] = append(s.byManager[s.ids[i].manager], i)
		}
	}
	fields, known := s.held[m]
	if !known {
		fields = make(map[Field]struct{})
		for _, i := range s.byManager[m] {
			held, err := p.fields(&s.entries[i])
			if err != nil {
				continue // it held nothing that anybody could tell
			}
			for _, f := range held {
				fields[f] = struct{}{}
			}
		}
		s.held[m] = fields
	}
	_, held := fields[f]
	return held
}
