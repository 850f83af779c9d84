package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// fakeProgram is the header of a binary; with an interpreter it is one that is
// linked dynamically.
func fakeProgram(t *testing.T, machine elf.Machine, interpreter bool) string {
	t.Helper()
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: 1, Ehsize: 64, Phentsize: 56, Shentsize: 64, Phoff: 64,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1
	var b bytes.Buffer
	parts := []any{&h}
	if interpreter {
		h.Phnum = 1
		parts = append(parts, &elf.Prog64{Type: uint32(elf.PT_INTERP)})
	}
	for _, p := range parts {
		if err := binary.Write(&b, binary.LittleEndian, p); err != nil {
			t.Fatal(err)
		}
	}
	return writeFile(t, filepath.Join(t.TempDir(), "program"), b.String(), 0o755)
}

func writeFile(t *testing.T, file, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// newPackage makes a package directory; umask and order of files differ by way.
func newPackage(t *testing.T, way int) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "tuning")
	files := []struct {
		name string
		mode os.FileMode
	}{{"config.json", 0o644}, {"skyhook_dir/apply.sh", 0o755}, {"root_dir/etc/x", 0o644}}
	for i := range files {
		f := files[(i*way)%len(files)]
		writeFile(t, filepath.Join(dir, f.name), f.name, f.mode|os.FileMode(0o022*(way-1)))
	}
	if err := os.Symlink("x", filepath.Join(dir, "root_dir/etc/y")); err != nil {
		t.Fatal(err)
	}
	return dir
}

// read unpacks the archive and gives each image with its name in containerd.
func read(t *testing.T, archive string) map[string]v1.Image {
	t.Helper()
	dir := t.TempDir()
	for name, e := range entries(t, mustOpen(t, archive)) {
		if hash, isBlob := strings.CutPrefix(name, "blobs/sha256/"); isBlob {
			if sum := sha256.Sum256([]byte(e.content)); hex.EncodeToString(sum[:]) != hash {
				t.Errorf("%s does not hold what it is named by", name)
			}
		}
		if e.Typeflag == tar.TypeReg {
			writeFile(t, filepath.Join(dir, name), e.content, 0o644)
		}
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	// More than Fast takes layers for compressed.
	if err := validate.Index(index, validate.Fast); err != nil {
		t.Errorf("the layout is not valid: %v", err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]v1.Image{}
	for _, d := range manifest.Manifests {
		if d.Platform == nil || d.Platform.OS != "linux" {
			t.Errorf("platform %v", d.Platform)
		}
		if out[d.Annotations["io.containerd.image.name"]], err = index.Image(d.Digest); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

type entry struct {
	*tar.Header
	content string
}

func mustOpen(t *testing.T, file string) io.ReadCloser {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func entries(t *testing.T, r io.ReadCloser) map[string]entry {
	t.Helper()
	defer func() { _ = r.Close() }()
	out := map[string]entry{}
	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(tr)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(h.Name, "/")
		if _, twice := out[name]; twice {
			t.Errorf("%s is twice", name)
		}
		if parent := filepath.Dir(name); parent != "." && out[parent].Header == nil {
			t.Errorf("%s comes before its directory", name)
		}
		out[name] = entry{h, string(data)}
	}
}

// rootfs is what a container of the image sees.
func rootfs(t *testing.T, img v1.Image) map[string]entry {
	t.Helper()
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]entry{}
	for _, l := range layers {
		r, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		for name, e := range entries(t, r) {
			out[name] = e
		}
	}
	return out
}

func TestImages(t *testing.T) {
	binary := fakeProgram(t, elf.EM_AARCH64, false)
	ca := writeFile(t, filepath.Join(t.TempDir(), "ca"), "certificates", 0o600)
	pkg, err := Package("registry.example/team/tuning:1.2.3", newPackage(t, 1), binary, "")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		spec             *Spec
		name, user, runs string
		files            map[string]string
	}{
		{Manager("nodewright/manager:dev", binary).WithCertificates(ca), "docker.io/nodewright/manager", "65532:65532", "/manager",
			map[string]string{"manager": "-rwxr-xr-x", "etc/passwd": "-rw-r--r--", "etc/ssl/certs/ca-certificates.crt": "-rw-r--r--", "tmp": "dtrwxrwxrwx", "root": "drwx------"}},
		{Agent("nodewright/agent:dev", binary), "docker.io/nodewright/agent", "0:0", "/agent", map[string]string{"agent": "-rwxr-xr-x"}},
		{Pause("pause:dev", binary), "docker.io/library/pause", "65535:65535", "/pause", map[string]string{"pause": "-rwxr-xr-x"}},
		{pkg, "registry.example/team/tuning", "0:0", "/bin/sh", map[string]string{
			"bin/busybox": "-rwxr-xr-x", "bin/sh": "Lrwxrwxrwx", "bin/cp": "Lrwxrwxrwx", "nodewright-package": "drwxr-xr-x",
			"nodewright-package/config.json": "-rw-r--r--", "nodewright-package/skyhook_dir/apply.sh": "-rwxr-xr-x",
			"nodewright-package/root_dir/etc/x": "-rw-r--r--", "nodewright-package/root_dir/etc/y": "Lrwxrwxrwx"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.spec.Arch = "arm64"
			image, err := Build(context.Background(), tc.spec, filepath.Join(t.TempDir(), "new", "i.tar"))
			if err != nil {
				t.Fatal(err)
			}
			_, tag, _ := strings.Cut(tc.spec.Ref, ":")
			if image.Name != tc.name+":"+tag {
				t.Errorf("name %s", image.Name)
			}
			images := read(t, image.Path)
			img := images[image.Name]
			if len(images) != 2 || img == nil || images[tc.name+"@"+image.Digest] == nil {
				t.Fatalf("archive has images %v", images)
			}
			if digest, err := img.Digest(); err != nil || digest.String() != image.Digest {
				t.Errorf("digest %v, want %s: %v", digest, image.Digest, err)
			}
			c, err := img.ConfigFile()
			if err != nil {
				t.Fatal(err)
			}
			if c.Config.User != tc.user || c.Architecture != "arm64" || c.OS != "linux" || !cmp.Equal(c.Config.Entrypoint, []string{tc.runs}) {
				t.Errorf("configuration %+v", c)
			}
			got := rootfs(t, img)
			for file, want := range tc.files {
				e := got[file]
				if e.Header == nil {
					t.Errorf("no %s", file)
					continue
				}
				if mode := e.FileInfo().Mode().String(); mode != want {
					t.Errorf("%s has mode %s, want %s", file, mode, want)
				}
			}
			for file, e := range got {
				if e.Uid != 0 || e.Gid != 0 || e.Uname != "" || e.Gname != "" || e.ModTime.Unix() != 0 {
					t.Errorf("%s: owner %d:%d %q:%q, time %v", file, e.Uid, e.Gid, e.Uname, e.Gname, e.ModTime)
				}
			}
		})
	}
}

// TestSameInputsSameDigest builds one package from two directories that differ
// in times, in umask and in the order in which their files were made.
func TestSameInputsSameDigest(t *testing.T) {
	binary := fakeProgram(t, elf.EM_X86_64, false)
	var digests, archives []string
	for _, way := range []int{1, 2} {
		s, err := Package("a/b:1", newPackage(t, way), binary, EarlierPackageDir)
		if err != nil {
			t.Fatal(err)
		}
		s.Arch = "amd64"
		image, err := Build(context.Background(), s, filepath.Join(t.TempDir(), "i.tar"))
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(image.Path)
		if err != nil {
			t.Fatal(err)
		}
		digests, archives = append(digests, image.Digest), append(archives, string(data))
	}
	if digests[0] != digests[1] || archives[0] != archives[1] {
		t.Errorf("digests %v, equal bytes: %v", digests, archives[0] == archives[1])
	}
	// Another machine or another day must come to the same: this changes only
	// with what the image holds.
	const want = "sha256:ef553e425c660abb4c1d7b945577323ffa01266c07375cb2f535227bac99a06b"
	if digests[0] != want {
		t.Errorf("digest %s, want %s", digests[0], want)
	}
}

func TestRefusals(t *testing.T) {
	x86 := fakeProgram(t, elf.EM_X86_64, false)
	text := writeFile(t, filepath.Join(t.TempDir(), "text"), "#!/bin/sh", 0o755)
	one := func(e ...Entry) *Spec { return &Spec{Ref: "a/b:1", Arch: "amd64", Layers: []Layer{e}} }
	for name, tc := range map[string]struct {
		spec *Spec
		want string
	}{
		"no tag":         {&Spec{Ref: "nodewright/agent"}, "has no tag"},
		"up":             {&Spec{Ref: "a/../b:1"}, `has a part ".."`},
		"empty part":     {&Spec{Ref: "a//b:1"}, `has a part ""`},
		"port, no tag":   {&Spec{Ref: "registry.example:5000/agent"}, "has no tag"},
		"digest":         {&Spec{Ref: "a/b@sha256:" + strings.Repeat("a", 64)}, "want a name with a tag"},
		"nothing":        {&Spec{}, "want a name with a tag"},
		"missing binary": {one(Entry{Path: "a", Program: "/no/binary"}), "/no/binary: no such file"},
		"missing source": {one(Entry{Path: "a", Source: "/no/file"}), "/no/file: no such file"},
		"directory":      {one(Entry{Path: "a", Source: t.TempDir()}), "is not a regular file"},
		"script":         {one(Entry{Path: "a", Program: text}), "is not a program for linux"},
		"other machine":  {one(Entry{Path: "a", Program: fakeProgram(t, elf.EM_AARCH64, false)}), "EM_AARCH64, want one for amd64"},
		"dynamic":        {one(Entry{Path: "a", Program: fakeProgram(t, elf.EM_X86_64, true)}), "linked dynamically"},
		"architecture":   {&Spec{Ref: "a/b:1", Arch: "mips", Layers: []Layer{{{Path: "a", Program: x86}}}}, `"mips" is not known, want amd64 or arm64`},
		"absolute":       {one(Entry{Path: "/a"}), "want one as etc/passwd"},
		"leaves":         {one(Entry{Path: "../a"}), "want one as etc/passwd"},
		"twice":          {one(Entry{Path: "a"}, Entry{Path: "a"}), "a is twice"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "i.tar")
			_, err := Build(context.Background(), tc.spec, file)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if left, _ := filepath.Glob(filepath.Dir(file) + "/*"); len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestRefusedPackages(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"no config":    {func(dir string) error { return os.Remove(filepath.Join(dir, "config.json")) }, "config.json: no such file"},
		"no directory": {os.RemoveAll, "no such file"},
		"link leaves":  {func(dir string) error { return os.Symlink("../../../etc/shadow", filepath.Join(dir, "skyhook_dir/z")) }, "out of the directory"},
		"root_dir": {func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/root_dir"), os.Symlink("/etc", dir+"/root_dir"))
		}, "out of the directory"},
		"absolute link": {func(dir string) error { return os.Symlink("/etc/shadow", filepath.Join(dir, "z")) }, "out of the directory"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := newPackage(t, 1)
			if err := tc.spoil(dir); err != nil {
				t.Fatal(err)
			}
			if _, err := Package("a/b:1", dir, "/bin/true", ""); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

// TestLinksOfTheHost: in root_dir, links lead to where they do on the host, as
// those do that enable a unit.
func TestLinksOfTheHost(t *testing.T) {
	dir := newPackage(t, 1)
	for link, target := range map[string]string{"root_dir/etc/absolute": "/lib/systemd/system/a.service", "root_dir/etc/up": "../../../run/x"} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	tree, err := Tree(dir, PackageDir, hostTree)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, e := range tree {
		if e.Link != "" {
			got[e.Path] = e.Link
		}
	}
	want := map[string]string{
		"nodewright-package/root_dir/etc/absolute": "/lib/systemd/system/a.service", "nodewright-package/root_dir/etc/up": "../../../run/x",
		"nodewright-package/root_dir/etc/y": "x",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestCompiledPause holds that what Compile makes is what images take.
func TestCompiledPause(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program")
	}
	file := filepath.Join(t.TempDir(), "pause")
	var says bytes.Buffer
	if err := Compile(context.Background(), ".", "github.com/nodewright/nodewright/hack/images/pause", runtime.GOARCH, file, &says); err != nil {
		t.Fatal(err, says.String())
	}
	if _, err := Build(context.Background(), Pause("nodewright/pause:dev", file), file+".tar"); err != nil {
		t.Error(err)
	}
	if err := Compile(context.Background(), ".", "./no-such", runtime.GOARCH, file, io.Discard); err == nil {
		t.Error("a command that is not there was compiled")
	}
}
