package nodestate

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Shares of the 256 KiB that all annotations of a Node may take together, in
// bytes of keys and values. They leave half of the space to others.
const (
	ShareNode    = 96 << 10
	ShareJob     = 24 << 10
	SharePod     = 8 << 10
	ShareRollout = 16 << 10
)

// Share is the number of bytes that an owner's keys and values may take on one
// node; 0 means: not limited by a share of its own.
func (o Owner) Share() int {
	switch o {
	case OwnerNode:
		return ShareNode
	case OwnerJob:
		return ShareJob
	case OwnerPod:
		return SharePod
	case OwnerRollout:
		return ShareRollout
	default:
		return 0
	}
}

// ErrNotOwner is returned by Encode for a set that holds keys of another
// owner: a fault of the caller.
var ErrNotOwner = errors.New("set holds a key that the field manager does not own")

// ShareError says that an owner's keys take more than its share even after
// messages, log tails and previous versions were left out.
type ShareError struct {
	Owner Owner
	// Size and Limit in bytes.
	Size  int
	Limit int
}

func (e *ShareError) Error() string {
	return fmt.Sprintf("annotations of %s take %d bytes on the node, its share is %d bytes; "+
		"let fewer NodeWrights or packages select the node", e.Owner, e.Size, e.Limit)
}

// Encoded is a set as it stands on a node, full keys.
type Encoded struct {
	Annotations map[string]string
	Labels      map[string]string
	// Shrunk says that messages, log tails or previous versions were cut to keep
	// the share.
	Shrunk bool
}

// shrink levels: what is given up, in this order, to stay within the share.
const (
	keepAll = iota
	keepShort
	keepNoText
	keepNoPrevious
	shrinkLevels
)

const (
	shortLogTail = 256
	shortMessage = 96
)

// Encode writes the set of one owner, with its fence number. Equal sets are
// equal bytes. The error is ErrNotOwner, a ShareError, or says which value
// cannot be written.
//
// Raw values do not count against the share: they stand on the node already,
// and one oversized value must not stop the owner's other work there.
func (s *Set) Encode(owner Owner, seq int64) (Encoded, error) {
	if owner.Controller() == "" {
		return Encoded{}, fmt.Errorf("encode set of %q: %w", owner, ErrNotOwner)
	}
	if seq < 1 || seq > maxWrittenSeq {
		return Encoded{}, fmt.Errorf("encode set of %s: sequence number %d is not in 1 to %d", owner, seq, int64(maxWrittenSeq))
	}
	var size int
	for level := range shrinkLevels {
		e := encoder{owner: owner, level: level}
		e.set(s)
		e.annotation(Key{Kind: KindSeq, seqOwner: owner}, FormatSeq(seq), nil)
		if e.err != nil {
			return Encoded{}, fmt.Errorf("encode set of %s: %w", owner, e.err)
		}
		if size = e.size; owner.Share() == 0 || size <= owner.Share() {
			e.out.Shrunk = level > keepAll
			return e.out, nil
		}
	}
	return Encoded{}, &ShareError{Owner: owner, Size: size, Limit: owner.Share()}
}

type encoder struct {
	owner Owner
	level int
	out   Encoded
	size  int
	err   error
}

func (e *encoder) set(s *Set) {
	for ref, v := range s.Packages {
		v.NodeWright, v.Name, v.Restarts = ref.NodeWright, ref.Package, v.Failures
		v.Message = e.message(v.Message)
		v.Previous = v.Previous[:min(len(v.Previous), MaxPrevious)]
		if e.level >= keepNoPrevious {
			v.Previous = nil
		}
		e.json(NewPackageKey(KindNodeState, ref.NodeWright, ref.Package), v)
	}
	for ref, v := range s.JobReports {
		v.NodeWright, v.Name = ref.NodeWright, ref.Package
		v.Message, v.LogTail = e.message(v.Message), e.logTail(v.LogTail)
		e.json(NewPackageKey(KindJobState, ref.NodeWright, ref.Package), v)
	}
	for ref, v := range s.PodReports {
		v.NodeWright, v.Name = ref.NodeWright, ref.Package
		v.Message = e.message(v.Message)
		e.json(NewPackageKey(KindPodState, ref.NodeWright, ref.Package), v)
	}
	for nw, v := range s.Batches {
		v.NodeWright = nw
		e.json(NewKey(KindBatch, nw), v)
	}
	for nw, v := range s.Slots {
		v.NodeWright = nw
		e.json(NewKey(KindSlot, nw), v)
	}
	e.plain(s)
	for full, value := range s.Raw {
		key, ok := ParseKey(full)
		if !ok {
			e.fail(fmt.Errorf("%w: %s is not a key of the contract", ErrNotOwner, full))
			continue
		}
		e.annotation(key, value, nil)
		e.size -= len(full) + len(value)
	}
}

// plain encodes the kinds whose values are not JSON objects.
func (e *encoder) plain(s *Set) {
	for nw, v := range s.Status {
		key := NewKey(KindStatus, nw)
		e.annotation(key, string(v), nil)
		put(&e.out.Labels, key.String(), string(v))
	}
	for _, times := range []struct {
		kind Kind
		at   map[string]time.Time
	}{{KindCordon, s.Cordons}, {KindDrainStart, s.DrainStarts}} {
		for nw, v := range times.at {
			e.annotation(NewKey(times.kind, nw), FormatTime(v), nil)
		}
	}
	for nw, ids := range s.Handled {
		sorted := append([]string{}, ids...) // [] where there is none, never null
		slices.Sort(sorted)
		e.json(NewKey(KindHandled, nw), sorted)
	}
	for nw, v := range s.LegacySeen {
		e.annotation(NewKey(KindLegacySeen, nw), v, nil)
	}
	for nw, v := range s.Legacy {
		e.annotation(NewKey(KindLegacy, nw), string(v), nil)
	}
	for nw, v := range s.Blobs {
		e.annotation(NewKey(KindBlob, nw), v, nil)
	}
}

func (e *encoder) json(key Key, v any) {
	value, err := encode(v)
	e.annotation(key, value, err)
}

func (e *encoder) annotation(key Key, value string, err error) {
	full := key.String()
	if err != nil {
		e.fail(fmt.Errorf("%s: %w", full, err))
		return
	}
	if owner, _ := key.Owner(); owner != e.owner {
		e.fail(fmt.Errorf("%w: %s belongs to %q", ErrNotOwner, full, owner))
		return
	}
	// A name that makes no key of the contract would leave an annotation behind
	// that nobody owns.
	if parsed, ok := ParseKey(full); !ok || parsed != key {
		e.fail(fmt.Errorf("%s: nodewright or package is not a valid name", full))
		return
	}
	put(&e.out.Annotations, full, value)
	e.size += len(full) + len(value)
}

func (e *encoder) fail(err error) { e.err = errors.Join(e.err, err) }

func (e *encoder) message(s string) string {
	switch e.level {
	case keepAll:
		return CapString(s, MaxMessage)
	case keepShort:
		return CapString(s, shortMessage)
	default:
		return ""
	}
}

func (e *encoder) logTail(s string) string {
	switch e.level {
	case keepAll:
		return CapTail(s, MaxLogTail)
	case keepShort:
		return CapTail(s, shortLogTail)
	default:
		return ""
	}
}
