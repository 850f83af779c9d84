package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseFlags(t *testing.T) {
	t.Setenv(namespaceEnv, "")
	tests := map[string]struct {
		args []string
		want string
	}{
		"all that is needed": {[]string{"--config", "f", "--namespace", "ns"}, ""},
		"no configuration":   {[]string{"--namespace", "ns"}, "--config"},
		"no namespace":       {[]string{"--config", "f"}, "--namespace"},
		"service account":    {[]string{"--config", "f", "--namespace", "ns", "--service-account", "a:b"}, "--service-account"},
		"log format":         {[]string{"--config", "f", "--namespace", "ns", "--log-format", "xml"}, "--log-format"},
		"log level":          {[]string{"--config", "f", "--namespace", "ns", "--log-level", "-1"}, "--log-level"},
		"unknown argument":   {[]string{"--config", "f", "--namespace", "ns", "more"}, "more"},
		"unknown flag":       {[]string{"--confg", "f"}, "confg"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := parseFlags(tc.args)
			if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want one that names %q", err, tc.want)
			}
		})
	}
}

// CV-05: what is wrong in the file stops the manager, and is named, all of it.
func TestLoadConfiguration_CV05(t *testing.T) {
	head := "apiVersion: config.nodewright.nvidia.com/v1alpha1\nkind: ManagerConfiguration\n"
	tests := map[string]struct {
		text string
		want []string
	}{
		"sound":         {head + "agentImage: a:1\n", nil},
		"values":        {head + "jobTTL: {failed: 30s}\nstageTimeout: 500ms\n", []string{"agentImage", "jobTTL.failed", "1m", "stageTimeout"}},
		"unknown field": {head + "agentImage: a:1\nstagetimeouts: 1h\n", []string{"stagetimeouts"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			o := &options{configFile: filepath.Join(t.TempDir(), "manager.yaml")}
			if err := os.WriteFile(o.configFile, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := o.loadConfiguration()
			if (err != nil) != (len(tc.want) > 0) {
				t.Fatalf("error %v, want one: %t", err, len(tc.want) > 0)
			}
			for _, word := range tc.want {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q does not name %s", err, word)
				}
			}
		})
	}
	o := &options{configFile: filepath.Join(t.TempDir(), "missing.yaml")}
	if _, err := o.loadConfiguration(); err == nil || !strings.Contains(err.Error(), "--config") {
		t.Errorf("a missing file: %v", err)
	}
}
