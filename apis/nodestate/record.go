package nodestate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// PackageRef names one package of one NodeWright, in full.
type PackageRef struct {
	NodeWright string
	Package    string
}

// Compare orders references by NodeWright, then package.
func (r PackageRef) Compare(o PackageRef) int {
	return cmp.Or(cmp.Compare(r.NodeWright, o.NodeWright), cmp.Compare(r.Package, o.Package))
}

// Ref is the reference of the entry.
func (s *PackageStatus) Ref() PackageRef { return PackageRef{s.NodeWright, s.Name} }

// Set is typed state for one node. An owner's intent is the whole set of what
// that owner wants there: what is left out is removed. Maps are keyed by
// NodeWright name or PackageRef; nil maps are empty.
type Set struct {
	Packages    map[PackageRef]PackageStatus
	Status      map[string]StatusWord
	Slots       map[string]Slot
	Cordons     map[string]time.Time
	DrainStarts map[string]time.Time
	Handled     map[string][]string
	LegacySeen  map[string]string
	JobReports  map[PackageRef]JobReport
	PodReports  map[PackageRef]PodReport
	Batches     map[string]Batch
	Legacy      map[string]LegacyPhase
	// Blobs are legacy values, byte for byte, under our own prefix.
	Blobs map[string]string
	// Raw are full keys with values that are carried byte for byte because they
	// cannot be read.
	Raw map[string]string
}

// Empty tells whether the set has no key at all.
func (s *Set) Empty() bool {
	return len(s.Packages)+len(s.Status)+len(s.Slots)+len(s.Cordons)+len(s.DrainStarts)+len(s.Handled)+len(s.LegacySeen)+
		len(s.JobReports)+len(s.PodReports)+len(s.Batches)+len(s.Legacy)+len(s.Blobs)+len(s.Raw) == 0
}

// Malformed is a key of the contract whose value cannot be read.
type Malformed struct {
	// Key in full, and its raw value.
	Key   string
	Value string
	// NodeWright and Package as far as the key tells; of a hashed key they are cut.
	NodeWright string
	Package    string
	Kind       Kind
	Err        error
}

// Record is everything of the contract that stands on one node, decoded.
type Record struct {
	Set
	// Seq is the fence of each owner; an owner that never wrote is missing.
	Seq map[Owner]int64
	// Requests of users, sorted by full key.
	Requests []RequestAt
	// Malformed values, sorted by key. They are in Raw as well if the owner has to
	// carry them.
	Malformed []Malformed
}

// RequestAt is a request with the key and the bytes it stands under, which a
// guarded removal needs.
type RequestAt struct {
	Request
	Key   string
	Value string
}

const (
	// MaxSeq is the largest number of a fence that is believed. No owner reaches it
	// by growing: a larger one was put there by somebody else.
	MaxSeq = 99_999_999_999_999_999
	// maxWrittenSeq has 18 digits, so that there is always room to grow.
	maxWrittenSeq = 999_999_999_999_999_999
)

var seqForm = regexp.MustCompile(`^[0-9]{1,18}$`)

// ParseSeq reads the value of a seq key, at most MaxSeq.
func ParseSeq(value string) (int64, error) {
	if !seqForm.MatchString(value) {
		return 0, fmt.Errorf("%s is not a number of 1 to 18 digits", quote(value))
	}
	seq, err := strconv.ParseInt(value, 10, 64)
	if err == nil && seq > MaxSeq {
		err = fmt.Errorf("%s leaves no room to grow", quote(value))
	}
	return seq, err
}

// FormatSeq writes the value of a seq key.
func FormatSeq(seq int64) string { return strconv.FormatInt(seq, 10) }

// Decode reads the annotations of a node. known are names of NodeWrights that
// exist; they resolve hashed keys whose value does not say the name.
//
// Values that cannot be read are reported in Malformed; of keys that we own
// the bytes are in Raw, so that an intent made from this record carries them.
func Decode(annotations map[string]string, known []string) Record {
	d := decoder{names: make(map[string]string, len(known))}
	for _, name := range known {
		d.names[nameHash(name, "")] = name
	}
	var later []string
	keys := slices.Sorted(maps.Keys(annotations))
	for _, full := range keys {
		key, ok := ParseKey(full)
		if !ok {
			continue
		}
		if key.Hash != "" && !key.Kind.valueNames() {
			later = append(later, full)
			continue
		}
		d.add(full, key, annotations[full])
	}
	for _, full := range later {
		key, _ := ParseKey(full)
		d.add(full, key, annotations[full])
	}
	slices.SortFunc(d.rec.Malformed, func(a, b Malformed) int { return cmp.Compare(a.Key, b.Key) })
	return d.rec
}

// IsRequest tells whether values of the kind are requests of users.
func (k Kind) IsRequest() bool { return k == KindRequest || k == KindPackageRequest }

// valueNames tells whether values of the kind say the full names.
func (k Kind) valueNames() bool {
	switch k {
	case KindNodeState, KindJobState, KindPodState, KindBatch, KindSlot, KindRequest, KindPackageRequest:
		return true
	default:
		return false
	}
}

type decoder struct {
	rec Record
	// names resolves the hash of a NodeWright name.
	names map[string]string
}

func (d *decoder) add(full string, key Key, value string) {
	if err := d.decodeOne(full, key, value); err != nil {
		d.rec.Malformed = append(d.rec.Malformed, Malformed{
			Key: full, Value: value, NodeWright: key.NodeWright, Package: key.Package, Kind: key.Kind, Err: err,
		})
		if _, owned := key.Owner(); owned && key.Kind != KindSeq {
			put(&d.rec.Raw, full, value)
		}
	}
}

func (d *decoder) decodeOne(full string, key Key, value string) error {
	switch key.Kind {
	case KindNodeState:
		s, err := DecodePackageStatus(key, value)
		return d.keepNamed(err, s.NodeWright, func() { put(&d.rec.Packages, s.Ref(), s) })
	case KindJobState:
		r, err := DecodeJobReport(key, value)
		return d.keepNamed(err, r.NodeWright, func() { put(&d.rec.JobReports, PackageRef{r.NodeWright, r.Name}, r) })
	case KindPodState:
		r, err := DecodePodReport(key, value)
		return d.keepNamed(err, r.NodeWright, func() { put(&d.rec.PodReports, PackageRef{r.NodeWright, r.Name}, r) })
	case KindBatch:
		b, err := DecodeBatch(key, value)
		return d.keepNamed(err, b.NodeWright, func() { put(&d.rec.Batches, b.NodeWright, b) })
	case KindSlot:
		s, err := DecodeSlot(key, value)
		return d.keepNamed(err, s.NodeWright, func() { put(&d.rec.Slots, s.NodeWright, s) })
	case KindRequest, KindPackageRequest:
		r, err := DecodeRequest(key, value)
		return d.keepNamed(err, r.NodeWright, func() {
			d.rec.Requests = append(d.rec.Requests, RequestAt{Request: r, Key: full, Value: value})
		})
	case KindSeq:
		seq, err := ParseSeq(value)
		if err != nil {
			return err
		}
		put(&d.rec.Seq, key.seqOwner, seq)
		return nil
	default:
		return d.decodePlain(key, value)
	}
}

func (d *decoder) keepNamed(err error, nodeWright string, keep func()) error {
	if err != nil {
		return err
	}
	d.names[nameHash(nodeWright, "")] = nodeWright
	keep()
	return nil
}

var errNameUnknown = errors.New("key is shortened and nothing on the node tells the full name")

// decodePlain reads the kinds whose values do not say the name.
func (d *decoder) decodePlain(key Key, value string) error {
	nw, ok := d.nameOf(key)
	switch {
	case !ok:
		return errNameUnknown
	case value == "":
		return errEmpty
	}
	switch key.Kind {
	case KindStatus:
		word := StatusWord(value)
		if !word.Known() {
			return fmt.Errorf("%s is not one of %v", quote(value), StatusWords())
		}
		put(&d.rec.Status, nw, word)
	case KindCordon:
		return putTime(&d.rec.Cordons, nw, value)
	case KindDrainStart:
		return putTime(&d.rec.DrainStarts, nw, value)
	case KindHandled:
		var ids []string
		if err := json.Unmarshal([]byte(value), &ids); err != nil {
			return fmt.Errorf("parse ids: %w", err)
		}
		if ids == nil {
			return errors.New("parse ids: value is not a list")
		}
		put(&d.rec.Handled, nw, ids)
	case KindLegacySeen:
		put(&d.rec.LegacySeen, nw, value)
	case KindLegacy:
		phase := LegacyPhase(value)
		if phase != LegacyConverging && phase != LegacyPruned {
			return fmt.Errorf("%s is neither %s nor %s", quote(value), LegacyConverging, LegacyPruned)
		}
		put(&d.rec.Legacy, nw, phase)
	case KindBlob:
		put(&d.rec.Blobs, nw, value)
	}
	return nil
}

// nameOf is the full name of the NodeWright of a key.
func (d *decoder) nameOf(key Key) (name string, ok bool) {
	if key.Hash == "" {
		return key.NodeWright, true
	}
	name, ok = d.names[key.Hash]
	return name, ok
}

func putTime(m *map[string]time.Time, nw, value string) error {
	t, err := ParseTime(value)
	if err != nil {
		return err
	}
	put(m, nw, t)
	return nil
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}
