package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sample = "../../config/samples/packages/sysctl"

// TestRefusedArguments: what is wrong is said before anything is compiled.
func TestRefusedArguments(t *testing.T) {
	broken := t.TempDir()
	if err := os.WriteFile(filepath.Join(broken, "config.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	text := filepath.Join(broken, "text")
	if err := os.WriteFile(text, []byte("#!/bin/sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*options)
		want   string
	}{
		"no name":      {func(o *options) { o.packages = []string{sample} }, "want DIR=NAME:TAG"},
		"no tag":       {func(o *options) { o.packages = []string{sample + "=a/b"} }, "has no tag"},
		"own name":     {func(o *options) { o.packages = []string{sample + "=a/manager:1"} }, "manager.tar would replace that of the manager"},
		"twice":        {func(o *options) { o.packages = []string{sample + "=a/hello:1", sample + "=b/hello:2"} }, "hello.tar would replace that of package ../../"},
		"no directory": {func(o *options) { o.packages = []string{sample + "/none=a/hello:1"} }, "none: no such file"},
		"no package":   {func(o *options) { o.packages = []string{t.TempDir() + "=a/hello:1"} }, "has no config.json"},
		"not valid":    {func(o *options) { o.packages = []string{broken + "=a/hello:1"} }, "is not valid"},
		"no busybox":   {func(o *options) { o.packages, o.busybox = []string{sample + "=a/hello:1"}, "/no/busybox" }, "/no/busybox: no such file"},
		"script":       {func(o *options) { o.packages, o.busybox = []string{sample + "=a/hello:1"}, text }, "is not a program for linux"},
		"tag":          {func(o *options) { o.tag = "a b" }, `image "nodewright/manager:a b"`},
		"certificates": {func(o *options) { o.certificates = broken }, "want a file"},
	} {
		t.Run(name, func(t *testing.T) {
			var says bytes.Buffer
			// For this architecture nothing can be compiled: it must not come to that.
			o := options{out: t.TempDir(), arch: "none", tag: "dev", busybox: text, says: &says}
			tc.change(&o)
			images, err := build(t.Context(), &o)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if left, _ := os.ReadDir(o.out); len(images) != 0 || len(left) != 0 {
				t.Errorf("images %v, files %v", images, left)
			}
			if (name == "not valid") != strings.Contains(says.String(), "config.json: schema_version: error: is missing") {
				t.Errorf("says %s", says.String())
			}
		})
	}
}

// TestPackageImages takes the directory of the Dockerfile as well, and links to it.
func TestPackageImages(t *testing.T) {
	link := filepath.Join(t.TempDir(), "link")
	at, err := filepath.Abs(sample)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(at, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{sample, sample + "/nodewright-package", link} {
		var says bytes.Buffer
		o := options{packages: []string{dir + "=registry.example:5000/team/hello:1.0.0"}, busybox: "/bin/busybox", says: &says}
		got, err := o.packageImages()
		if err != nil || len(got) != 1 || got[0].archive != "hello" || got[0].Labels["org.opencontainers.image.title"] != "hello" || says.Len() > 0 {
			t.Errorf("%s: images %+v, %v, says %s", dir, got, err, says.String())
		}
	}
}
