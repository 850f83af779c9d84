package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/nodewright/nodewright/cmd/agent/process"
)

func TestEnvironment(t *testing.T) {
	longest := strings.Repeat("a", 255)
	for name, tc := range map[string]struct {
		vars []string
		// want is what the agent reads, or a part of its refusal.
		want    environment
		refusal string
	}{
		"nothing is set": {nil, environment{rootDir: "/etc/skyhook", logDir: "/var/log/skyhook", run: "0", writeLogs: true}, ""},
		"empty is not set": {
			[]string{"SKYHOOK_ROOT_DIR=", "SKYHOOK_LOG_DIR=", "NODEWRIGHT_RUN=", "SKYHOOK_AGENT_WRITE_LOGS="},
			environment{rootDir: "/etc/skyhook", logDir: "/var/log/skyhook", run: "0", writeLogs: true}, "",
		},
		"all": {
			[]string{
				"SKYHOOK_ROOT_DIR=/var/lib/nw/", "SKYHOOK_LOG_DIR=/l", "NODEWRIGHT_RUN=7", "NODEWRIGHT_BOOT_ID=b", "SKYHOOK_AGENT_WRITE_LOGS=False",
				"OVERLAY_ALWAYS_RUN_STEP=TRUE", "SKYHOOK_RESOURCE_ID=nw-7_tuning_1.0.0",
			},
			environment{
				rootDir: "/var/lib/nw", logDir: "/l", run: "7", bootID: "b", alwaysRun: true, resourceID: "nw-7_tuning_1.0.0", name: "tuning", version: "1.0.0",
			}, "",
		},
		"the later one counts": {
			[]string{"NODEWRIGHT_RUN=7", "NODEWRIGHT_RUN=8"},
			environment{rootDir: "/etc/skyhook", logDir: "/var/log/skyhook", run: "8", writeLogs: true}, "",
		},
		"longest name": {
			[]string{"SKYHOOK_RESOURCE_ID=n_" + longest + "_1"},
			environment{
				rootDir: "/etc/skyhook", logDir: "/var/log/skyhook", run: "0", writeLogs: true,
				resourceID: "n_" + longest + "_1", name: longest, version: "1",
			}, "",
		},
		"a name too long":      {[]string{"SKYHOOK_RESOURCE_ID=n_" + longest + "a_1"}, environment{}, "SKYHOOK_RESOURCE_ID"},
		"a name is a path":     {[]string{"SKYHOOK_RESOURCE_ID=n_a/b_1"}, environment{}, "SKYHOOK_RESOURCE_ID"},
		"a version leaves":     {[]string{"SKYHOOK_RESOURCE_ID=n_a_.."}, environment{}, "SKYHOOK_RESOURCE_ID"},
		"a part is missing":    {[]string{"SKYHOOK_RESOURCE_ID=n_a"}, environment{}, "SKYHOOK_RESOURCE_ID"},
		"a part is empty":      {[]string{"SKYHOOK_RESOURCE_ID=n__1"}, environment{}, "SKYHOOK_RESOURCE_ID"},
		"a relative directory": {[]string{"SKYHOOK_ROOT_DIR=var/lib"}, environment{}, "absolute"},
		"relative logs":        {[]string{"SKYHOOK_LOG_DIR=log"}, environment{}, "absolute"},
		"a run below 0":        {[]string{"NODEWRIGHT_RUN=-1"}, environment{}, "NODEWRIGHT_RUN"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseEnvironment(tc.vars)
			if tc.refusal != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refusal) {
					t.Errorf("the refusal is %v, want %q", err, tc.refusal)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.all = nil
			if !slices.Equal([]any{got.rootDir, got.logDir, got.run, got.bootID, got.writeLogs, got.alwaysRun, got.resourceID, got.name, got.version},
				[]any{tc.want.rootDir, tc.want.logDir, tc.want.run, tc.want.bootID, tc.want.writeLogs, tc.want.alwaysRun, tc.want.resourceID, tc.want.name, tc.want.version}) {
				t.Errorf("it reads %+v, want %+v", got, tc.want)
			}
		})
	}
}

// The container's variables come first, the step's next, ours last; a program
// always has a PATH, since containers without a shell often lack it.
func TestVariablesOfAProgram(t *testing.T) {
	for name, tc := range map[string]struct {
		have, want []string
		more       [][2]string
	}{
		"no PATH":     {[]string{"A=1"}, []string{"A=1", "PATH=" + process.DefaultPath, "B=2"}, [][2]string{{"B", "2"}}},
		"empty PATH":  {[]string{"PATH="}, []string{"PATH=" + process.DefaultPath}, nil},
		"PATH":        {[]string{"PATH=/x"}, []string{"PATH=/x"}, nil},
		"PATH it has": {[]string{"A=1"}, []string{"A=1", "PATH=/x"}, [][2]string{{"PATH", "/x"}}},
		"later wins":  {[]string{"A=1", "B=1"}, []string{"B=1", "PATH=" + process.DefaultPath, "A=3"}, [][2]string{{"A", "2"}, {"A", "3"}}},
		"no prefixes": {[]string{"AB=1", "PATH=/x"}, []string{"AB=1", "PATH=/x", "A=2"}, [][2]string{{"A", "2"}}},
	} {
		e := environment{all: tc.have}
		if got := e.forProgram(tc.more...); !slices.Equal(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
