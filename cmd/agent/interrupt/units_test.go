package interrupt

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
)

// What admission takes for a unit is one here, and what it does not is none: a name
// that only the agent refuses would cost a drain.
func TestUnitsAreThoseOfAdmission(t *testing.T) {
	for name, want := range map[string]bool{
		"containerd.service": true, "a@b.service": true, "a": true, `dev-disk-by\x2duuid.device`: true, "system-a:b.slice": true, "_a-": true,
		strings.Repeat("a", 255): true, strings.Repeat("a", 256): false,
		"": false, "-a": false, "--force": false, "a b": false, "a\tb": false, "a\n": false, "a;b": false, "$(a)": false, "a*": false, "a/b": false,
		"\u65e5.service": false, "a\u202eb": false,
	} {
		t.Run(name, func(t *testing.T) {
			nw := &v1alpha1.NodeWright{Spec: v1alpha1.NodeWrightSpec{Packages: map[string]v1alpha1.Package{"driver": {
				Version: "1.2.3", Image: "registry.example/driver",
				Interrupt: &v1alpha1.Interrupt{Type: v1alpha1.InterruptService, Services: []string{name}},
			}}}}
			if errs := validation.NodeWright(nw, validation.Rules{}); (len(errs) == 0) != want {
				t.Errorf("errors %v, want that it is admitted: %t", errs, want)
			}
			data, err := json.Marshal(map[string]any{"type": ServiceRestart, "services": []string{name}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Decode(encode(string(data))); (err == nil) != want {
				t.Errorf("the agent says %v", err)
			}
		})
	}
}
