package v1alpha1

import (
	"strings"
	"testing"
	"time"
)

const head = "apiVersion: config.nodewright.nvidia.com/v1alpha1\nkind: ManagerConfiguration\n"

func TestLoad(t *testing.T) {
	tests := map[string]struct {
		in      string
		wantErr string
	}{
		"head alone":            {head, ""},
		"fields":                {head + "stageTimeout: 90s\njobTTL:\n  failed: 48h\nretry:\n  limit: 0\n", ""},
		"JSON":                  {`{"apiVersion":"config.nodewright.nvidia.com/v1alpha1","kind":"ManagerConfiguration"}`, ""},
		"comments":              {"# a comment\n---\n" + head + "hostRoot: /a # another\n", ""},
		"null duration":         {head + "stageTimeout: null\n", ""},
		"duration 0 in quotes":  {head + "stageTimeout: \"0\"\n", ""},
		"unknown field":         {head + "stageTimeOuts: 90s\n", `line 3: unknown field "stageTimeOuts"`},
		"other case":            {head + "StageTimeout: 90s\n", `line 3: unknown field "StageTimeout"`},
		"unknown in a group":    {head + "jobTTL:\n  success: 48h\n", `line 4: unknown field "jobTTL.success"`},
		"unknown in a list":     {head + "disruption:\n  groups:\n  - nam: a\n", `line 5: unknown field "disruption.groups[0].nam"`},
		"twice":                 {head + "hostRoot: /a\nhostRoot: /b\n", "line 4: hostRoot: is there already, in line 3"},
		"twice in a group":      {head + "retry:\n  limit: 1\n  limit: 2\n", "line 5: retry.limit: is there already"},
		"alias":                 {head + "hostRoot: &a /a\ncopyDirRoot: *a\n", "line 4: copyDirRoot: aliases are not supported"},
		"no head":               {"hostRoot: /a\n", "apiVersion"},
		"other version":         {strings.Replace(head, "v1alpha1", "v9", 1), "v9"},
		"other kind":            {strings.Replace(head, "ManagerConfiguration", "Pod", 1), "Pod"},
		"duration in days":      {head + "stageTimeout: 1d\n", `line 3: stageTimeout: "1d" is not a duration`},
		"duration without unit": {head + "jobTTL:\n  failed: 3600\n", `line 4: jobTTL.failed: "3600" is not a duration`},
		"unit in quotes":        {head + "jobTTL:\n  failed: \"3600\"\n", "there is no unit for days"},
		"duration 0, a number":  {head + "stageTimeout: 0\n", `stageTimeout: write "0" in quotes`},
		"duration as a list":    {head + "stageTimeout: [1h]\n", "stageTimeout: must be a duration"},
		"duration too long":     {head + "stageTimeout: 99999999999h\n", "stageTimeout"},
		"words for a number":    {head + "retry:\n  limit: three\n", "retry.limit"},
		"not YAML":              {"{", "read manager configuration: parse YAML"},
		"empty":                 {"", "it is empty"},
		"comment alone":         {"# nothing\n", "it is empty"},
		"list":                  {"- a\n", "not a YAML mapping"},
		"two documents":         {head + "---\n" + head, "more than one YAML document"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(tc.in))
			if tc.wantErr == "" {
				if err != nil {
					t.Fatalf("error %v", err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v, want one that names %q", err, tc.wantErr)
			}
		})
	}
}

func TestDefaultsKeepZeroValues(t *testing.T) {
	c, err := Load([]byte(head + "stageTimeout: 0s\nretry:\n  limit: 0\nleaderElection:\n  enabled: false\nruntimeRequiredTaints: []\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.StageTimeout.Duration != 0 || *c.Retry.Limit != 0 || *c.LeaderElection.Enabled || len(c.RuntimeRequiredTaints) != 0 {
		t.Fatalf("what the user wrote was replaced: %+v", c)
	}
	if c.JobTTL.Succeeded.Duration != time.Hour || c.JobTTL.Failed.Duration != 24*time.Hour || c.HostRoot != "/" {
		t.Fatalf("defaults are missing: %+v", c)
	}
}

func TestLoadFindsAllAtOnce(t *testing.T) {
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"unknown fields": {head + "a: 1\njobTTL: {b: 1}\n", []string{`"a"`, `"jobTTL.b"`}},
		"tree":           {head + "stageTimeout: 1d\nhostRoot: /a\nhostRoot: /b\n", []string{"stageTimeout", "hostRoot"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Load([]byte(tc.in))
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want one that names %s", err, want)
				}
			}
		})
	}
}

func FuzzLoad(f *testing.F) {
	f.Add([]byte(head + "stageTimeout: 90s\n"))
	f.Add([]byte("a: &a [*a]"))
	f.Add([]byte("? [a]\n: b"))
	f.Add([]byte(head + "<<: {hostRoot: /a}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Load(data)
		if (c == nil) == (err == nil) {
			t.Fatalf("Load() = %v, %v, want a configuration or an error", c, err)
		}
	})
}
