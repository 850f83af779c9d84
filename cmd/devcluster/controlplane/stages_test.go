package controlplane

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

func TestRenderStages(t *testing.T) {
	text, err := renderStages(250 * time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]int{}
	for document := range strings.SplitSeq(text, "\n---\n") {
		var stage struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct {
				ResourceRef struct{ Kind string }
				Steps       []map[string]any
				Delay       struct{ DurationMilliseconds int }
			}
		}
		if err := yaml.Unmarshal([]byte(document), &stage); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		names[stage.Metadata.Name]++
		if stage.Kind != "Stage" || len(stage.Spec.Steps) == 0 {
			t.Errorf("not a stage with steps:\n%s", document)
		}
		if stage.Metadata.Name == "pod-complete" && stage.Spec.Delay.DurationMilliseconds != 250 {
			t.Errorf("pod-complete waits %d ms, want 250", stage.Spec.Delay.DurationMilliseconds)
		}
	}
	// kwok drops its own stages once a configuration has any: these two keep nodes alive.
	for _, want := range []string{"node-initialize", "node-heartbeat-with-lease", "pod-delete"} {
		if names[want] != 1 {
			t.Errorf("%d stages %s", names[want], want)
		}
	}
}

func TestExpand(t *testing.T) {
	values := map[string]string{"@@one@@": "1", "@@lines@@": "a\nb @@one@@", "@@loop@@": "@@loop@@"}
	cases := map[string]struct {
		text, want string
		wantError  string
	}{
		"in a line":      {text: "x: '@@one@@'\n", want: "x: '1'\n"},
		"keeps indent":   {text: "x: |\n  @@lines@@\ny: 1\n", want: "x: |\n  a\n  b 1\ny: 1\n"},
		"unknown name":   {text: "@@two@@", wantError: "@@two@@"},
		"names itself":   {text: "@@loop@@", wantError: "@@loop@@"},
		"nothing to do":  {text: "a @@ b\n", want: "a @@ b\n"},
		"two in a line":  {text: "@@one@@@@one@@", want: "11"},
		"empty document": {text: "", want: ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := expand(tc.text, values)
			if tc.wantError != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wantError) {
					t.Errorf("want an error about %s, got %v", tc.wantError, err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v, want %q", got, err, tc.want)
			}
		})
	}
}
