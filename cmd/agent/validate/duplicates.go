package validate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// duplicates gives the fields that an object of the JSON text has more than
// once. The text has been read before; what cannot be read ends the search.
func duplicates(data []byte) []string {
	d := &duplicateFinder{decoder: json.NewDecoder(bytes.NewReader(data))}
	d.value("")
	return d.found
}

type duplicateFinder struct {
	decoder *json.Decoder
	found   []string
}

// value reads one value at a place and tells whether it came to its end.
func (d *duplicateFinder) value(at string) bool {
	token, err := d.decoder.Token()
	if err != nil {
		return false
	}
	switch token {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.decoder.More() {
			key, err := d.decoder.Token()
			if err != nil {
				return false
			}
			field := strings.TrimPrefix(fmt.Sprintf("%s.%v", at, key), ".")
			if seen[field] {
				d.found = append(d.found, field)
			}
			seen[field] = true
			if !d.value(field) {
				return false
			}
		}
	case json.Delim('['):
		for i := 0; d.decoder.More(); i++ {
			if !d.value(fmt.Sprintf("%s[%d]", at, i)) {
				return false
			}
		}
	default:
		return true
	}
	_, err = d.decoder.Token()
	return err == nil
}
