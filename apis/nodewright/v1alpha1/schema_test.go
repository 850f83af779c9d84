package v1alpha1

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// crdSchema is the part of a schema that says which values it admits.
type crdSchema struct {
	Type                  string               `json:"type"`
	Format                string               `json:"format"`
	Pattern               string               `json:"pattern"`
	MinLength             int                  `json:"minLength"`
	Minimum               *float64             `json:"minimum"`
	Maximum               *float64             `json:"maximum"`
	IntOrString           bool                 `json:"x-kubernetes-int-or-string"`
	ListType              string               `json:"x-kubernetes-list-type"`
	Properties            map[string]crdSchema `json:"properties"`
	AdditionalProperties  *crdSchema           `json:"additionalProperties"`
	Items                 *crdSchema           `json:"items"`
	PreserveUnknownFields bool                 `json:"x-kubernetes-preserve-unknown-fields"`
	XValidations          []map[string]any     `json:"x-kubernetes-validations"`
}

// leaves calls visit with every schema of a CRD that has no schema below it,
// and with lists.
func (s *crdSchema) leaves(path string, visit func(string, *crdSchema)) {
	if s.Type == "array" || (s.Properties == nil && s.AdditionalProperties == nil) {
		visit(path, s)
	}
	for name, p := range s.Properties {
		p.leaves(path+"."+name, visit)
	}
	if s.AdditionalProperties != nil {
		s.AdditionalProperties.leaves(path+"[*]", visit)
	}
	if s.Items != nil {
		s.Items.leaves(path+"[]", visit)
	}
}

func readSchemas(t *testing.T) map[string]*crdSchema {
	t.Helper()
	files, err := filepath.Glob("../../../config/crd/bases/*.yaml")
	if err != nil || len(files) != 2 {
		t.Fatalf("glob CRDs: %v, %v; want two files", files, err)
	}
	schemas := map[string]*crdSchema{}
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var crd struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema *crdSchema }
				}
			}
		}
		if err := yaml.Unmarshal(data, &crd); err != nil {
			t.Fatal(err)
		}
		schemas[crd.Spec.Names.Kind] = crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	}
	return schemas
}

func eachLeaf(t *testing.T, visit func(path string, s *crdSchema)) {
	t.Helper()
	for kind, s := range readSchemas(t) {
		s.leaves(kind, visit)
	}
}

// durationFields are the fields whose Go type is metav1.Duration, which the
// schema shows as a plain string.
var durationFields = regexp.MustCompile(`\.(stageTimeout|gracefulShutdown|timeout|gracePeriod|jobTTL\.(succeeded|failed))$`)

// TestAdmittedValuesDecode generates values from the patterns of the CRDs and
// decodes them: one stored value that does not decode stops the informer of
// its kind. What decoded must be admitted again, so that an object can be
// written back.
func TestAdmittedValuesDecode(t *testing.T) {
	durations := 0
	eachLeaf(t, func(path string, s *crdSchema) {
		var reencode func(quoted []byte) (string, error)
		switch {
		case s.IntOrString:
			reencode = func(quoted []byte) (string, error) {
				var q resource.Quantity
				err := json.Unmarshal(quoted, &q)
				// No host has more than 2^63-1 of anything: of such values only
				// the decoding matters.
				if q.Cmp(*resource.NewQuantity(math.MaxInt64, resource.DecimalSI)) > 0 {
					return "1", err
				}
				return q.String(), err
			}
		case s.Format == "date-time":
			reencode = reencodeTime
		case durationFields.MatchString(path):
			durations++
			reencode = func(quoted []byte) (string, error) {
				var d metav1.Duration
				err := json.Unmarshal(quoted, &d)
				if d.Duration < 0 {
					err = fmt.Errorf("duration %s is negative", d.Duration)
				}
				// The rule beside the pattern admits no more.
				d.Duration = min(d.Duration, (1<<31-1)*time.Second)
				return d.Duration.String(), err
			}
		default:
			return
		}
		t.Run(path, func(t *testing.T) { checkPattern(t, s, reencode) })
	})
	if durations != 8 {
		t.Errorf("found %d durations in the CRDs, want 8", durations)
	}
}

// reencodeTime passes over what the format date-time refuses besides the
// pattern, such as the 30th of February.
func reencodeTime(quoted []byte) (string, error) {
	value := strings.Trim(string(quoted), `"`)
	if _, err := time.Parse(time.RFC3339, value); err != nil && strings.Contains(err.Error(), "out of range") {
		return "2006-01-02T15:04:05Z", nil
	}
	var at metav1.Time
	if err := json.Unmarshal(quoted, &at); err != nil {
		return "", err
	}
	out, err := json.Marshal(at)
	return strings.Trim(string(out), `"`), err
}

func checkPattern(t *testing.T, s *crdSchema, reencode func([]byte) (string, error)) {
	if s.Pattern == "" {
		t.Fatal("field has no pattern")
	}
	pattern := regexp.MustCompile(s.Pattern)
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(s.Pattern).Draw(t, "value")
		if len(value) < s.MinLength {
			return
		}
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		back, err := reencode(quoted)
		if err != nil {
			t.Fatalf("decode %q, which the schema admits: %v", value, err)
		}
		if !pattern.MatchString(back) {
			t.Fatalf("%q decodes and is written as %q, which the schema refuses", value, back)
		}
	})
}

func TestPatternOfDurations(t *testing.T) {
	var patterns []string
	eachLeaf(t, func(path string, s *crdSchema) {
		if durationFields.MatchString(path) {
			patterns = append(patterns, s.Pattern)
			if len(s.XValidations) != 1 {
				t.Errorf("%s has %d rules, want one that gives a hint", path, len(s.XValidations))
			}
		}
	})
	for value, want := range map[string]bool{
		"0": true, "0s": true, "1s": true, "90s": true, "1h30m": true, "1.5h": true, "24h": true, "2147483647s": true,
		"596523h14m7s": true, "1h0m0s": true, "250ms": true, "100µs": true, "1ns": true,
		"90": false, "1d": false, "1 h": false, "-5s": false, "+5s": false, "1h 30m": false, "99999999999h": false,
		"30m1h": false, "1s1s": false, "00": false, "h": false, "1H": false, "PT1H": false,
	} {
		for _, p := range patterns {
			if got := regexp.MustCompile(p).MatchString(value); got != want {
				t.Errorf("pattern %s matches %q: %t, want %t", p, value, got, want)
			}
		}
	}
}

func TestSchemasAreClosed(t *testing.T) {
	eachLeaf(t, func(path string, s *crdSchema) {
		switch {
		case s.PreserveUnknownFields:
			t.Errorf("%s admits unknown fields", path)
		case s.Type == "array" && s.ListType == "":
			t.Errorf("%s has no list type", path)
		case s.Format == "int32" && (s.Minimum == nil || s.Maximum == nil):
			t.Errorf("%s is a 32-bit number without bounds", path)
		case s.Type == "number":
			t.Errorf("%s is a fraction, which clients round differently", path)
		}
	})
}
