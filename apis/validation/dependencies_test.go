package validation

import (
	"strings"
	"testing"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func TestDependencyProblem(t *testing.T) {
	type deps = map[string]string
	tests := map[string]struct {
		packages map[string]deps
		want     string
	}{
		"none":               {map[string]deps{"pa": nil, "pb": nil}, ""},
		"chain":              {map[string]deps{"pa": nil, "pb": {"pa": "1.0.0"}, "pc": {"pb": "1.0.0"}}, ""},
		"diamond":            {map[string]deps{"pa": nil, "pb": {"pa": "1.0.0"}, "pc": {"pa": "1.0.0"}, "pd": {"pb": "1.0.0", "pc": "1.0.0"}}, ""},
		"spelled otherwise":  {map[string]deps{"pa": nil, "pb": {"pa": "v1.0"}}, ""},
		"other version":      {map[string]deps{"pa": nil, "pb": {"pa": "2.0.0"}}, "dependsOn[pa] asks for version 2.0.0"},
		"not in packages":    {map[string]deps{"pb": {"pa": "1.0.0"}}, "spec.packages[pb].dependsOn[pa]"},
		"itself":             {map[string]deps{"pa": {"pa": "1.0.0"}}, "pa -> pa"},
		"circle":             {map[string]deps{"pa": {"pb": "1.0.0"}, "pb": {"pa": "1.0.0"}, "pc": nil}, "pa -> pb -> pa"},
		"circle behind more": {map[string]deps{"pa": {"pb": "1.0.0"}, "pb": {"pc": "1.0.0"}, "pc": {"pb": "1.0.0"}}, "pb -> pc -> pb"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			packages := map[string]v1alpha1.Package{}
			for pkg, on := range tc.packages {
				packages[pkg] = v1alpha1.Package{Version: "1.0.0", Image: "r/" + pkg, DependsOn: on}
			}
			// WH-09: the answer must not depend on the order of maps.
			for range 50 {
				got := DependencyProblem(packages)
				if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
					t.Fatalf("problem %q, want one that names %q", got, tc.want)
				}
			}
		})
	}
}
