package validate

import (
	"bytes"
	"encoding/json"
	"strconv"

	"github.com/nodewright/nodewright/cmd/agent/config"
)

// maxDuplicates is how many fields are told that are there more than once.
const maxDuplicates = 20

// duplicates gives the first fields that an object of the JSON text has more than
// once. The text has been read before; what cannot be read ends the search.
func duplicates(data []byte) []string {
	d := &duplicateFinder{decoder: json.NewDecoder(bytes.NewReader(data))}
	d.value()
	return d.found
}

type duplicateFinder struct {
	decoder *json.Decoder
	// at is the place of the value that is read.
	at    []string
	found []string
}

// value reads one value and tells whether to go on.
func (d *duplicateFinder) value() bool {
	token, err := d.decoder.Token()
	if err != nil {
		return false
	}
	switch token {
	case json.Delim('{'):
		seen := map[string]bool{}
		for d.decoder.More() {
			token, err := d.decoder.Token()
			if err != nil {
				return false
			}
			key, _ := token.(string)
			if !d.below(key, seen[key]) {
				return false
			}
			seen[key] = true
		}
	case json.Delim('['):
		for i := 0; d.decoder.More(); i++ {
			if !d.below(strconv.Itoa(i), false) {
				return false
			}
		}
	default:
		return true
	}
	_, err = d.decoder.Token()
	return err == nil
}

// below reads the value of a key or an index.
func (d *duplicateFinder) below(name string, again bool) bool {
	d.at = append(d.at, name)
	defer func() { d.at = d.at[:len(d.at)-1] }()
	if again {
		d.found = append(d.found, config.Field(d.at))
		if len(d.found) == maxDuplicates {
			return false
		}
	}
	return d.value()
}
