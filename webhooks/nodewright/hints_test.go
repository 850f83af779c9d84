package nodewright

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// CV-07: what is typed for a duration and is none. The schema refuses it; the
// hint says what to write.
func TestDurationHints_CV07(t *testing.T) {
	const rest = " is not a duration: write a number with a unit, such as %s, 30m or 1h30m; there is no unit for days, write 24h"
	hint := func(what, example string) string { return what + fmt.Sprintf(rest, example) }
	tests := map[string]struct {
		spec string
		want []string
	}{
		"1d":                {`{"stageTimeout":"1d"}`, []string{hint("spec.stageTimeout: 1d", "60s")}},
		"a number":          {`{"stageTimeout":60}`, []string{hint("spec.stageTimeout: 60", "60s")}},
		"another number":    {`{"stageTimeout":3600}`, []string{hint("spec.stageTimeout: 3600", "3600s")}},
		"no unit":           {`{"stageTimeout":"60"}`, []string{hint("spec.stageTimeout: 60", "60s")}},
		"not even a number": {`{"stageTimeout":true}`, []string{hint("spec.stageTimeout: true", "60s")}},
		"1.5h":              {`{"stageTimeout":"1.5h"}`, nil},
		"0":                 {`{"stageTimeout":"0"}`, nil},
		"null":              {`{"stageTimeout":null}`, nil},
		"in all places": {
			`{"jobTTL":{"failed":1,"succeeded":"1h"},"drain":{"timeout":2},"packages":{"pb":{"stageTimeout":4},"pa":{"gracefulShutdown":3,"stageTimeout":"1m"}}}`,
			[]string{
				hint("spec.drain.timeout: 2", "2s"), hint("spec.jobTTL.failed: 1", "1s"),
				hint("spec.packages[pa].gracefulShutdown: 3", "3s"), hint("spec.packages[pb].stageTimeout: 4", "4s"),
			}},
		"more than one reads": {
			`{"stageTimeout":1,"jobTTL":{"failed":1,"succeeded":1},"drain":{"timeout":1},"drainConfig":{"timeout":1,"gracePeriod":1}}`,
			[]string{
				hint("spec.drain.timeout: 1", "1s"), hint("spec.drainConfig.gracePeriod: 1", "1s"), hint("spec.drainConfig.timeout: 1", "1s"),
				hint("spec.jobTTL.failed: 1", "1s"), hint("spec.jobTTL.succeeded: 1", "1s"),
			}},
		"a long value": {`{"stageTimeout":"` + strings.Repeat("x", 1000) + `"}`, []string{hint("spec.stageTimeout: "+strings.Repeat("x", maxHintValue), "60s")}},
		// Numbers elsewhere are not durations.
		"a number that is right": {`{"priority":60,"retry":{"limit":1}}`, nil},
		"wrong in another way":   {`{"packages":[]}`, nil},
		"spec is a list":         {`[]`, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, durationHints([]byte(`{"spec":`+tc.spec+`}`))); diff != "" {
				t.Errorf("hints (-want +got):\n%s", diff)
			}
		})
	}
	if got := durationHints([]byte("{")); got != nil {
		t.Errorf("hints of no JSON: %v", got)
	}
}
