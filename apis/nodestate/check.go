package nodestate

import "fmt"

// CheckValue tells why the value cannot stand under the key: it is not of the
// key's form, not of the key's names, too large, or says what no reader knows. It
// reads with the codec that Decode reads with, but asks nobody for the full name
// behind a shortened key: values that say the name are checked against the key.
func CheckValue(key Key, value string) error {
	limit := MaxSmallValue
	switch key.Kind {
	case KindBlob:
		_, err := ParseBlob(value)
		return err
	case KindNodeState, KindJobState, KindPodState:
		limit = MaxStateValue // the codec has closer ones
	}
	if len(value) > limit {
		return fmt.Errorf("value has %d bytes, at most %d are read", len(value), limit)
	}
	d := decoder{names: map[string]string{key.Hash: key.NodeWright}}
	return d.decodeOne(key.String(), key, value)
}
