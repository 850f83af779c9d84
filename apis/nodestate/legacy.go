package nodestate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// BlobEntry is one entry of a legacy blob.
type BlobEntry struct {
	// Key as it stands in the blob: <package>|<version>.
	Key    string
	Status PackageStatus
	// Err says why the entry cannot be used; Raw then has its bytes.
	Err error
	Raw string
}

// MaxBlobValue is the largest legacy blob that is read: all the room that the
// API server gives to the annotations of one node, in bytes.
const MaxBlobValue = 256 << 10

// ParseBlob reads the legacy form: one JSON map of "<package>|<version>" to
// status for all packages of a NodeWright. Entries come back sorted by key.
// An entry that cannot be used has Err set and does not hold back the others;
// the error is for a blob that is no such map at all.
func ParseBlob(value string) ([]BlobEntry, error) {
	var raw map[string]json.RawMessage
	if err := decode(value, MaxBlobValue, &raw); err != nil {
		return nil, err
	}
	entries := make([]BlobEntry, 0, len(raw))
	for _, key := range slices.Sorted(maps.Keys(raw)) {
		entry := BlobEntry{Key: key, Raw: string(raw[key])}
		entry.Status, entry.Err = parseBlobEntry(key, raw[key])
		entries = append(entries, entry)
	}
	return entries, nil
}

func parseBlobEntry(key string, raw json.RawMessage) (PackageStatus, error) {
	name, version, ok := strings.Cut(key, "|")
	if !ok {
		return PackageStatus{}, errors.New("key is not <package>|<version>")
	}
	var s PackageStatus
	if err := decode(string(raw), MaxStateValue, &s); err != nil {
		return PackageStatus{}, err
	}
	// Earlier operators wrote the names twice; the key counts.
	if s.Name != "" && s.Name != name || s.Version != "" && s.Version != version {
		return PackageStatus{}, fmt.Errorf("value is of %s, which is not the key's", quote(s.Name+"|"+s.Version))
	}
	s.Name, s.Version = name, version
	s.Failures = max(s.Failures, s.Restarts)
	// A run belongs to a key of its own; what comes from a blob has run 0.
	s.Run, s.Attempt, s.NodeWright, s.UID = 0, 0, "", ""
	return s, s.Validate()
}

// BlobHash identifies the bytes of a legacy blob, as in legacySeen.
func BlobHash(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}
