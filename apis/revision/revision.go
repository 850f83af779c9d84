package revision

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	// HashLength is the length of every hash of this package, in characters: 80
	// bits, lower-case letters and digits.
	HashLength = 16
	// maxName is the limit of the API server for object names, in bytes.
	maxName = 253
)

var encoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Of is the rollout revision of the NodeWright: a hash of the set of packages
// and, of each, the fields that start a complete package again: name, version,
// containerSHA, image and the content of configMap. A change of any other field
// leaves what is complete alone and does not change the revision.
//
// Versions count as text, since the text is the tag of the image.
//
// A package that is to be uninstalled counts as well. A NodeWright without one
// has the hash that it always had; one with any is hashed under another kind,
// with one more text for each package, so that no two NodeWrights are the same
// list of texts.
func Of(nw *v1alpha1.NodeWright) string {
	uninstalls := false
	for _, p := range nw.Spec.Packages {
		uninstalls = uninstalls || p.Uninstalls()
	}
	kind := "rollout"
	if uninstalls {
		kind = "rollout with uninstall"
	}
	d := newDigest(kind)
	for _, name := range slices.Sorted(maps.Keys(nw.Spec.Packages)) {
		p := nw.Spec.Packages[name]
		d.add(name, p.Version, p.ContainerSHA, p.Image, ConfigHash(p.ConfigMap))
		switch {
		case !uninstalls:
		case p.Uninstalls():
			d.add("uninstall")
		default:
			d.add("")
		}
	}
	return d.sum()
}

// ConfigHash names the content of a package's configMap. It is empty for a
// configMap without entries.
func ConfigHash(configMap map[string]string) string {
	if len(configMap) == 0 {
		return ""
	}
	d := newDigest("config")
	for _, key := range slices.Sorted(maps.Keys(configMap)) {
		d.add(key, configMap[key])
	}
	return d.sum()
}

// ConfigMapName is the name of the immutable ConfigMap that holds one content
// of a package's configMap, at most 253 bytes and a DNS subdomain. The hash at
// its end covers all arguments, so that a NodeWright of the same name but with
// another UID has ConfigMaps of its own.
func ConfigMapName(nodeWrightName string, nodeWrightUID types.UID, pkg, configHash string) string {
	d := newDigest("configmap")
	d.add(nodeWrightName, string(nodeWrightUID), pkg, configHash)
	tail := "-" + cut(pkg, nodestate.MaxPackageNameLength) + "-" + d.sum()
	return cut(nodeWrightName, maxName-len(tail)) + tail
}

// cut shortens a name to n bytes that end in a letter or digit.
func cut(name string, n int) string {
	if len(name) <= n {
		return name
	}
	return strings.TrimRight(name[:n], "-.")
}

// digest hashes texts so that no two lists of texts are the same input: each is
// preceded by its length.
type digest struct{ h hash.Hash }

func newDigest(kind string) digest {
	d := digest{h: sha256.New()}
	d.add(kind)
	return d
}

func (d digest) add(texts ...string) {
	var length [8]byte
	for _, t := range texts {
		binary.BigEndian.PutUint64(length[:], uint64(len(t)))
		// A hash never returns an error.
		_, _ = d.h.Write(length[:])
		_, _ = d.h.Write([]byte(t))
	}
}

func (d digest) sum() string {
	return encoding.EncodeToString(d.h.Sum(nil))[:HashLength]
}
