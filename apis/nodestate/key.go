package nodestate

import (
	"crypto/sha256"
	"encoding/base32"
	"regexp"
	"strings"
)

const (
	// Prefix of every key of the contract.
	Prefix = "nodewright.nvidia.com/"
	// LegacyPrefix is the prefix that earlier operators used. Keys below it are
	// read at migration and never written.
	LegacyPrefix = "skyhook.nvidia.com/"
	// MaxNameLength is the limit of the API server for the part of an
	// annotation or label key after the prefix, in bytes.
	MaxNameLength = 63
	// MaxPackageNameLength is the longest package name, in bytes.
	MaxPackageNameLength = 43

	seqPrefix  = "seq_"
	hashMark   = "__"
	hashLength = 10
	// maxNodeWrightName is the limit of the API server for object names.
	maxNodeWrightName = 253
)

// Kind of a key.
type Kind int

// The kinds of keys. The value's form is said with each.
const (
	// KindNodeState holds one PackageStatus: where a package stands on a node.
	KindNodeState Kind = iota + 1
	// KindStatus holds the status word of a NodeWright on a node, as annotation
	// and as label.
	KindStatus
	// KindSlot holds a Slot: what the node makes of the slot it was granted.
	KindSlot
	// KindCordon holds the RFC 3339 time since when a NodeWright holds a cordon.
	KindCordon
	// KindDrainStart holds the RFC 3339 time at which a drain began.
	KindDrainStart
	// KindHandled holds the ids of handled requests that are still on the node.
	KindHandled
	// KindLegacySeen holds the hash of the legacy blob that was folded in.
	KindLegacySeen
	// KindJobState holds one JobReport: evidence of a failed attempt.
	KindJobState
	// KindPodState holds one PodReport: a pod that cannot start.
	KindPodState
	// KindBatch holds a Batch: the slot granted to a node.
	KindBatch
	// KindLegacy holds the phase of the migration of a NodeWright on a node.
	KindLegacy
	// KindBlob is the legacy form, all packages in one value.
	KindBlob
	// KindSeq holds the growing number of an owner's applies.
	KindSeq
	// KindRequest holds a Request of a user for a NodeWright on a node.
	KindRequest
	// KindPackageRequest holds a Request of a user for one package.
	KindPackageRequest
)

var (
	packageName    = regexp.MustCompile(`^[a-z][-a-z0-9]{0,41}[a-z]$`)
	nodeWrightName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)
	// A shortened part may end in the middle of a name.
	shortNodeWright = regexp.MustCompile(`^[a-z0-9][-a-z0-9.]*$`)
	shortPackage    = regexp.MustCompile(`^[a-z][-a-z0-9]*$`)
	hashForm        = regexp.MustCompile(`^[a-z2-7]{10}$`)
	hashEncoding    = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)
)

// ValidPackageName tells whether name may name a package: lower-case letters,
// digits and dashes, letters at both ends, 2 to 43 bytes.
func ValidPackageName(name string) bool { return packageName.MatchString(name) }

// Key is a key of the contract, taken apart.
type Key struct {
	Kind Kind
	// NodeWright and Package are full names in the plain form. In the hashed
	// form they are cut, and the value says the full names.
	NodeWright string
	Package    string
	// Hash is set in the hashed form: 10 characters that identify the pair of
	// full names.
	Hash string

	seqOwner Owner
}

// NewKey makes the key of a kind that has no package part.
func NewKey(kind Kind, nodeWright string) Key {
	return newKey(kind, nodeWright, "")
}

// NewPackageKey makes the key of a kind that has a package part.
func NewPackageKey(kind Kind, nodeWright, pkg string) Key {
	return newKey(kind, nodeWright, pkg)
}

func newKey(kind Kind, nodeWright, pkg string) Key {
	k := Key{Kind: kind, NodeWright: nodeWright, Package: pkg}
	plain := k.name()
	if len(plain) <= MaxNameLength {
		return k
	}
	// Room for both parts once word, separators and hash are placed.
	room := MaxNameLength - len(kind.word()) - 1 - len(hashMark) - hashLength
	if pkg != "" {
		room--
	}
	k.Hash = nameHash(nodeWright, pkg)
	k.NodeWright, k.Package = shorten(nodeWright, pkg, room)
	return k
}

// shorten cuts the names to room bytes together. A package name keeps at least
// half of the room, since it tells more on one node.
func shorten(nodeWright, pkg string, room int) (string, string) {
	if pkg == "" {
		return cut(nodeWright, room), ""
	}
	half := room / 2
	switch {
	case len(pkg) <= half:
		return cut(nodeWright, room-len(pkg)), pkg
	case len(nodeWright) <= room-half:
		return nodeWright, cut(pkg, room-len(nodeWright))
	default:
		return cut(nodeWright, room-half), cut(pkg, half)
	}
}

func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return s[:n]
}

// nameHash identifies a pair of names. The zero byte cannot occur in a name,
// so different pairs are different inputs.
func nameHash(nodeWright, pkg string) string {
	sum := sha256.Sum256([]byte(nodeWright + "\x00" + pkg))
	return hashEncoding.EncodeToString(sum[:])[:hashLength]
}

func (k Kind) word() string {
	for _, e := range kindTable {
		if e.kind == k {
			return e.word
		}
	}
	return ""
}

func (k Key) name() string {
	if k.Kind == KindSeq {
		return seqPrefix + k.seqOwner.Controller()
	}
	var b strings.Builder
	b.WriteString(k.Kind.word())
	b.WriteByte('_')
	b.WriteString(k.NodeWright)
	if k.Package != "" {
		b.WriteByte('_')
		b.WriteString(k.Package)
	}
	if k.Hash != "" {
		b.WriteString(hashMark)
		b.WriteString(k.Hash)
	}
	return b.String()
}

// String is the full annotation or label key, prefix included. It is at most
// 63 bytes behind the prefix.
func (k Key) String() string { return Prefix + k.name() }

// Names tells whether the key is the one of this pair of full names; pkg is
// empty for kinds without package part.
func (k Key) Names(nodeWright, pkg string) bool {
	if k.Hash == "" {
		return k.NodeWright == nodeWright && k.Package == pkg
	}
	return newKey(k.Kind, nodeWright, pkg) == k
}

// ParseKey takes a full annotation or label key apart. ok is false for
// everything that is not a key of the contract: such keys belong to users.
func ParseKey(key string) (k Key, ok bool) {
	name, found := strings.CutPrefix(key, Prefix)
	if !found || len(name) > MaxNameLength {
		return Key{}, false
	}
	if controller, isSeq := strings.CutPrefix(name, seqPrefix); isSeq {
		for _, e := range seqOwners {
			if e.controller == controller {
				return Key{Kind: KindSeq, seqOwner: e.owner}, true
			}
		}
		return Key{}, false
	}
	plain, hash, hashed := strings.Cut(name, hashMark)
	if hashed && !hashForm.MatchString(hash) {
		return Key{}, false
	}
	word, rest, found := strings.Cut(plain, "_")
	if !found {
		return Key{}, false
	}
	nodeWright, pkg, hasPackage := strings.Cut(rest, "_")
	k = Key{NodeWright: nodeWright, Package: pkg, Hash: hash}
	for _, e := range kindTable {
		if e.word == word && e.pkgPart == hasPackage {
			k.Kind = e.kind
		}
	}
	if k.Kind == 0 || !k.partsValid(hashed, hasPackage) {
		return Key{}, false
	}
	return k, true
}

func (k Key) partsValid(hashed, hasPackage bool) bool {
	nw, pkg := nodeWrightName, packageName
	if hashed {
		// Only a name that did not fit is ever hashed, so the whole length is used.
		if k.Kind == KindBlob || len(k.name()) != MaxNameLength {
			return false
		}
		nw, pkg = shortNodeWright, shortPackage
	}
	return nw.MatchString(k.NodeWright) && len(k.NodeWright) <= maxNodeWrightName &&
		(!hasPackage || pkg.MatchString(k.Package))
}
