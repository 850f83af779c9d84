package app

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestValidateTakesNoFlagForADirectory(t *testing.T) {
	var out bytes.Buffer
	if code := Run(t.Context(), []string{"validate", "--help"}, nil, &out, &out); code != ExitUsage || !strings.Contains(out.String(), "usage:") {
		t.Errorf("exit code %d: %s", code, out.String())
	}
}

func TestValidate(t *testing.T) {
	tr := newTree(t, map[string][]step{"apply": {newStep("say")}, "apply-check": {newStep("gone")}})
	if err := os.Remove(tr.path(copyDir + "/skyhook_dir/gone")); err != nil {
		t.Fatal(err)
	}
	good := filepath.Join("..", "..", "..", "config", "samples", "packages", "sysctl")
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"good":       {[]string{"validate", good}, ExitOK, []string{`package "sysctl" "1.0.0": errors: 0, warnings: 0`}},
		"bad":        {[]string{"validate", tr.path(copyDir)}, ExitPackage, []string{"modes.apply-check[0].path: error: skyhook_dir/gone does not exist", "errors: 1, warnings: 0", "is not valid"}},
		"no package": {[]string{"validate", t.TempDir()}, ExitUsage, []string{"has no config.json"}},
		"no dir":     {[]string{"validate"}, ExitUsage, []string{"usage:", "validate [-o json] DIR"}},
		"format":     {[]string{"validate", "-o", "xml", good}, ExitUsage, []string{"usage:"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if code := Run(context.Background(), tc.args, nil, &b, &b); code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			contains(t, b.String(), tc.want...)
		})
	}
	var out, failed bytes.Buffer
	if code := Run(context.Background(), []string{"validate", "-o", "json", tr.path(copyDir)}, nil, &out, &failed); code != ExitPackage {
		t.Errorf("exit code %d", code)
	}
	var report struct {
		Name     string
		Findings []struct{ Severity, File, Field string }
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil || report.Name != "tuning" || len(report.Findings) != 1 ||
		report.Findings[0].Severity != "error" || report.Findings[0].Field != "modes.apply-check[0].path" {
		t.Errorf("%v: %s", err, out.String())
	}
}
