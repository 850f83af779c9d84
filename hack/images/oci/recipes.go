package oci

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

const (
	// NonRoot is the user of the manager, as in distroless images and in
	// config/manager.
	NonRoot = "65532:65532"
	root    = "0:0"

	passwd = `root:x:0:0:root:/root:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin
`
	group = "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n"

	certificates = "etc/ssl/certs/ca-certificates.crt"

	// PackageDir is where a package lies in its image.
	PackageDir = "nodewright-package"
	// hostTree is what of a package is copied over the host.
	hostTree = "root_dir"
	// EarlierPackageDir is where earlier operators look for it as well.
	EarlierPackageDir = "skyhook-package"
)

// Flags of the compiler with which a binary is the same wherever it is built, and
// without what only a debugger reads. The Dockerfiles have the same.
var (
	buildFlags = []string{"-trimpath", "-buildvcs=false"}
	linkFlags  = "-s -w"
)

// applets are the names under which busybox is in the image of a package: what
// the operator calls, and a little to look around with.
var applets = []string{
	"sh", "cp", "mkdir",
	"cat", "chmod", "chown", "echo", "env", "false", "find", "grep", "id", "ln", "ls", "mv", "rm", "sed", "sleep", "test", "true",
}

// Own are the images of this project's programs: the name of each, the command
// that is in it, and what it holds.
var Own = []struct {
	Name, Command string
	Spec          func(ref, binary string) *Spec
}{
	{"manager", "./cmd/manager", Manager}, {"agent", "./cmd/agent", Agent}, {"pause", "./hack/images/pause", Pause},
}

func base() Layer {
	return Layer{
		{Path: "etc/passwd", Content: []byte(passwd)},
		{Path: "etc/group", Content: []byte(group)},
		{Path: "root", Dir: true, Mode: 0o700},
		{Path: "tmp", Dir: true, Mode: fs.ModeSticky | 0o777},
	}
}

func labels(title string) map[string]string {
	return map[string]string{"org.opencontainers.image.title": title, "org.opencontainers.image.licenses": "Apache-2.0"}
}

// Manager is the image of the operator with the binary in a file.
func Manager(ref, binary string) *Spec {
	s := single(ref, binary, "manager")
	s.User, s.Labels = NonRoot, labels("NodeWright manager")
	return s
}

// Agent is the image of the agent. It works on the host, so it is root.
func Agent(ref, binary string) *Spec {
	s := single(ref, binary, "agent")
	s.User, s.Labels = root, labels("NodeWright agent")
	return s
}

// Pause is an image for the sandbox of pods, for nodes that can pull none.
func Pause(ref, binary string) *Spec {
	return &Spec{
		Ref: ref, User: "65535:65535", Entrypoint: []string{"/pause"}, Labels: labels("NodeWright pause"),
		Layers: []Layer{{{Path: "pause", Program: binary}}},
	}
}

func single(ref, binary, name string) *Spec {
	return &Spec{Ref: ref, Entrypoint: []string{"/" + name}, Layers: []Layer{base(), {{Path: name, Program: binary}}}}
}

// WithCertificates adds a file of CA certificates to the image.
func (s *Spec) WithCertificates(file string) *Spec {
	s.Layers = append(s.Layers, Layer{{Path: certificates, Source: file}})
	return s
}

// Package is the image of a package: its directory at a place in the image,
// PackageDir if empty, on a static busybox, which the operator copies it with.
func Package(ref, dir, busybox, at string) (*Spec, error) {
	if _, err := regular(filepath.Join(dir, "config.json")); err != nil {
		return nil, fmt.Errorf("package %s: %w", dir, err)
	}
	if at == "" {
		at = PackageDir
	}
	if err := CheckRef(ref); err != nil {
		return nil, fmt.Errorf("package %s: %w", dir, err)
	}
	tree, err := Tree(dir, at, hostTree)
	if err != nil {
		return nil, fmt.Errorf("package %s: %w", dir, err)
	}
	return &Spec{
		Ref: ref, User: root, Labels: labels(Base(ref)), Entrypoint: []string{"/bin/sh"},
		Layers: []Layer{append(base(), shell(busybox)...), tree},
	}, nil
}

func shell(busybox string) Layer {
	out := Layer{{Path: "bin/busybox", Program: busybox}}
	for _, name := range applets {
		out = append(out, Entry{Path: "bin/" + name, Link: "busybox"})
	}
	return out
}

// Compile builds a command of the module in a directory for linux, into a file.
// What the compiler says goes to the writer.
func Compile(ctx context.Context, module, command, arch, file string, says io.Writer) error {
	file, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	args := append([]string{"build"}, buildFlags...)
	cmd := exec.CommandContext(ctx, "go", append(args, "-ldflags="+linkFlags, "-o", file, command)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = module, says, says
	// Settings of this machine for its own processor must not be in the binary.
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("compile %s for %s: %w", command, arch, err)
	}
	return nil
}
