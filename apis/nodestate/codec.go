package nodestate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// errEmpty is how an empty value is refused: it is what remains when somebody
// applies null to a key, and says nothing.
var errEmpty = errors.New("value is empty")

// encode writes v canonically: fields in the order of their names (types of
// this package are declared so), no spaces, no HTML escapes.
func encode(v any) (string, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encode %T: %w", v, err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// decode reads a JSON object into v. Unknown fields are passed over, so that a
// value of a newer operator can be read.
func decode(value string, limit int, v any) error {
	switch {
	case value == "":
		return errEmpty
	case len(value) > limit:
		return fmt.Errorf("value has %d bytes, at most %d are read", len(value), limit)
	case !utf8.ValidString(value):
		return errors.New("value is not valid UTF-8")
	case value[0] != '{':
		return errors.New("value is not a JSON object")
	}
	if err := json.Unmarshal([]byte(value), v); err != nil {
		return fmt.Errorf("parse JSON: %w", err)
	}
	return nil
}

// DecodePackageStatus reads the value of a nodeState key and checks it against
// the key.
func DecodePackageStatus(key Key, value string) (PackageStatus, error) {
	var s PackageStatus
	if err := decode(value, MaxStateValue, &s); err != nil {
		return PackageStatus{}, err
	}
	if err := s.Validate(); err != nil {
		return PackageStatus{}, err
	}
	return s, namesMatch(key, s.NodeWright, s.Name)
}

// DecodeJobReport reads the value of a jobState key and checks it against the
// key.
func DecodeJobReport(key Key, value string) (JobReport, error) {
	var r JobReport
	if err := decode(value, MaxReportValue, &r); err != nil {
		return JobReport{}, err
	}
	if err := r.Validate(); err != nil {
		return JobReport{}, err
	}
	return r, namesMatch(key, r.NodeWright, r.Name)
}

// DecodePodReport reads the value of a podState key and checks it against the
// key.
func DecodePodReport(key Key, value string) (PodReport, error) {
	var r PodReport
	if err := decode(value, MaxReportValue, &r); err != nil {
		return PodReport{}, err
	}
	if err := r.Validate(); err != nil {
		return PodReport{}, err
	}
	return r, namesMatch(key, r.NodeWright, r.Name)
}

// DecodeBatch reads the value of a batch key and checks it against the key.
func DecodeBatch(key Key, value string) (Batch, error) {
	var b Batch
	if err := decode(value, MaxSmallValue, &b); err != nil {
		return Batch{}, err
	}
	if b.ID == "" || b.Order < 0 {
		return Batch{}, errors.New("id is required and order must not be negative")
	}
	return b, namesMatch(key, b.NodeWright, "")
}

// DecodeSlot reads the value of a slot key and checks it against the key.
func DecodeSlot(key Key, value string) (Slot, error) {
	var s Slot
	if err := decode(value, MaxSmallValue, &s); err != nil {
		return Slot{}, err
	}
	if s.State != SlotWorking && s.State != SlotReleased {
		return Slot{}, fmt.Errorf("state %s is neither %s nor %s", quote(string(s.State)), SlotWorking, SlotReleased)
	}
	return s, namesMatch(key, s.NodeWright, "")
}

// DecodeRequest reads the value of a request key and checks it against the
// key.
func DecodeRequest(key Key, value string) (Request, error) {
	var r Request
	if err := decode(value, MaxSmallValue, &r); err != nil {
		return Request{}, err
	}
	if r.Action != ActionRerun && r.Action != ActionReset {
		return Request{}, fmt.Errorf("action %s is neither %s nor %s", quote(string(r.Action)), ActionRerun, ActionReset)
	}
	if r.ID == "" {
		return Request{}, errors.New("id is required")
	}
	if r.Stage != "" && !r.Stage.Known() {
		return Request{}, fmt.Errorf("stage %s is not one of %v", quote(string(r.Stage)), Stages())
	}
	if key.Hash == "" && r.NodeWright == "" {
		r.NodeWright, r.Package = key.NodeWright, key.Package
	}
	return r, namesMatch(key, r.NodeWright, r.Package)
}

func namesMatch(key Key, nodeWright, pkg string) error {
	if key.Names(nodeWright, pkg) {
		return nil
	}
	if pkg == "" {
		return fmt.Errorf("value is of nodewright %s, which is not the key's", quote(nodeWright))
	}
	return fmt.Errorf("value is of nodewright %s and package %s, which are not the key's",
		quote(nodeWright), quote(pkg))
}
