package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPackageArguments(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		"want DIR=NAME:TAG": {dir},
		"has no tag":        {dir + "=a/b"},
		"manager.tar would replace that of the manager":  {dir + "=a/manager:1"},
		"hello.tar would replace that of package " + dir: {dir + "=a/hello:1", dir + "=b/hello:2"},
		"config.json: no such file":                      {dir + "/none=a/hello:1"},
	} {
		out := t.TempDir()
		// An architecture for which nothing can be compiled: it must not come to that.
		images, err := build(t.Context(), &options{out: out, arch: "none", tag: "dev", busybox: "/bin/busybox", packages: args, says: io.Discard})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", args, err, want)
		}
		if left, _ := os.ReadDir(out); len(images) != 0 || len(left) != 0 {
			t.Errorf("%q: images %v, files %v", args, images, left)
		}
	}
	if got, err := (&options{packages: []string{dir + "=registry.example:5000/team/hello:1.0.0"}}).packageImages(); err != nil ||
		len(got) != 1 || got[0].archive != "hello" || got[0].Labels["org.opencontainers.image.title"] != "hello" {
		t.Errorf("images %+v, %v", got, err)
	}
}
