package managers

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v4/fieldpath"
)

// fieldsType is the only form of managed fields that there is.
const fieldsType = "FieldsV1"

// errNotV1 is for an entry in a form that did not exist when this was written.
var errNotV1 = errors.New("fieldsType is not FieldsV1")

// Manager is one holder of fields, as managedFields tells them apart.
type Manager struct {
	Name string
	// Operation is Apply for server-side apply and Update for everything else.
	Operation metav1.ManagedFieldsOperationType
	// Subresource is empty for writes of the object itself.
	Subresource string
}

func (m Manager) String() string {
	s := m.Name + " (" + string(m.Operation)
	if m.Subresource != "" {
		s += " of " + m.Subresource
	}
	return s + ")"
}

func (m Manager) compare(o Manager) int {
	return cmp.Or(cmp.Compare(m.Name, o.Name), cmp.Compare(m.Operation, o.Operation),
		cmp.Compare(m.Subresource, o.Subresource))
}

// Applier is the manager that server-side applies of a Node under this name
// make.
func Applier(name string) Manager {
	return Manager{Name: name, Operation: metav1.ManagedFieldsOperationApply}
}

func of(e *metav1.ManagedFieldsEntry) Manager {
	return Manager{Name: e.Manager, Operation: e.Operation, Subresource: e.Subresource}
}

// Field is a field of a Node that the operator writes.
type Field struct {
	parent, name string
}

// Where annotations and labels are found in the metadata.
const (
	annotationsOf = "annotations"
	labelsOf      = "labels"
)

// Annotation is the field of one annotation, by its full key.
func Annotation(key string) Field { return Field{parent: annotationsOf, name: key} }

// Label is the field of one label, by its full key.
func Label(key string) Field { return Field{parent: labelsOf, name: key} }

// Unschedulable is the field spec.unschedulable.
func Unschedulable() Field { return Field{name: "unschedulable"} }

// Key is the full key of the annotation or label; it is empty for other fields.
func (f Field) Key() string {
	if f.parent == "" {
		return ""
	}
	return f.name
}

// String is the kind and the key, as messages have it.
func (f Field) String() string {
	switch f.parent {
	case annotationsOf:
		return "annotation " + f.name
	case labelsOf:
		return "label " + f.name
	default:
		return "spec." + f.name
	}
}

// IsLabel tells whether the field is a label.
func (f Field) IsLabel() bool { return f.parent == labelsOf }

// path is where the field is found.
func (f Field) path() fieldpath.Path {
	if f.parent == "" {
		return fieldpath.MakePathOrDie("spec", f.name)
	}
	return fieldpath.MakePathOrDie("metadata", f.parent, f.name)
}

// Fields is what one manager owns of what the operator writes: annotations,
// labels and spec.unschedulable. Other fields are left out.
type Fields struct {
	// Annotations and Labels are full keys, sorted, of all prefixes.
	Annotations   []string
	Labels        []string
	Unschedulable bool
}

// Owned is what the manager owns through server-side apply of the Node itself.
// A manager without an entry owns nothing. The error says that an entry of
// this manager cannot be read; entries of others are not looked at.
func Owned(entries []metav1.ManagedFieldsEntry, manager string) (Fields, error) {
	var out Fields
	for i := range entries {
		if of(&entries[i]) != Applier(manager) {
			continue
		}
		set, err := decode(&entries[i])
		if err != nil {
			return Fields{}, err
		}
		metadata := child(set, "metadata")
		out.Annotations = append(out.Annotations, names(child(metadata, annotationsOf))...)
		out.Labels = append(out.Labels, names(child(metadata, labelsOf))...)
		out.Unschedulable = out.Unschedulable || set.Has(Unschedulable().path())
	}
	// One manager has an entry per API version.
	slices.Sort(out.Annotations)
	slices.Sort(out.Labels)
	out.Annotations, out.Labels = slices.Compact(out.Annotations), slices.Compact(out.Labels)
	return out, nil
}

// Holders are the managers that hold the field, sorted, whatever their
// operation and subresource. The error names the entries that cannot be read;
// what the others hold is given nevertheless.
func Holders(entries []metav1.ManagedFieldsEntry, field Field) ([]Manager, error) {
	var (
		out  []Manager
		errs []error
	)
	path := field.path()
	for i := range entries {
		// A look at the text saves the decoding of most entries. Keys of
		// annotations and labels have no character that JSON escapes.
		if !strings.Contains(entries[i].FieldsV1.GetRawString(), field.name) {
			continue
		}
		set, err := decode(&entries[i])
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if set.Has(path) {
			out = append(out, of(&entries[i]))
		}
	}
	slices.SortFunc(out, Manager.compare)
	return slices.Compact(out), errors.Join(errs...)
}

// decode reads the fields of one entry. An entry without fields owns nothing.
func decode(e *metav1.ManagedFieldsEntry) (*fieldpath.Set, error) {
	set := fieldpath.NewSet()
	if e.FieldsV1 == nil {
		return set, nil
	}
	if e.FieldsType != fieldsType {
		return nil, fmt.Errorf("read managed fields of %s: %w", of(e), errNotV1)
	}
	raw := e.FieldsV1.GetRawReader()
	if raw.Size() == 0 {
		return set, nil
	}
	if err := set.FromJSON(raw); err != nil {
		return nil, fmt.Errorf("read managed fields of %s: %w", of(e), err)
	}
	return set, nil
}

func child(set *fieldpath.Set, name string) *fieldpath.Set {
	return set.WithPrefix(fieldpath.PathElement{FieldName: &name})
}

// names are the members of a set that are fields.
func names(set *fieldpath.Set) []string {
	var out []string
	set.Members.Iterate(func(e fieldpath.PathElement) {
		if e.FieldName != nil {
			out = append(out, *e.FieldName)
		}
	})
	return out
}
