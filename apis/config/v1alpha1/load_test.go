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
		"head alone":         {head, ""},
		"fields":             {head + "stageTimeout: 90s\njobTTL:\n  failed: 48h\nretry:\n  limit: 0\n", ""},
		"JSON":               {`{"apiVersion":"config.nodewright.nvidia.com/v1alpha1","kind":"ManagerConfiguration"}`, ""},
		"unknown field":      {head + "stageTimeOuts: 90s\n", "stageTimeOuts"},
		"unknown in a group": {head + "jobTTL:\n  success: 48h\n", "success"},
		"twice":              {head + "hostRoot: /a\nhostRoot: /b\n", "hostRoot"},
		"no head":            {"hostRoot: /a\n", "apiVersion"},
		"other version":      {strings.Replace(head, "v1alpha1", "v9", 1), "v9"},
		"other kind":         {strings.Replace(head, "ManagerConfiguration", "Pod", 1), "Pod"},
		"duration in days":   {head + "stageTimeout: 1d\n", "1d"},
		"not YAML":           {"{", "read manager configuration"},
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
