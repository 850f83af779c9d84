// Command images builds images of the manager, the agent and packages without a
// registry:
//
//	images [-out DIR] [-arch ARCH] [-tag TAG] [-busybox FILE] [PACKAGE-DIR=NAME:TAG ...]
//
// writes DIR/manager.tar, DIR/agent.tar, DIR/pause.tar and one archive for each
// package, named by the last element of its name, and prints a line with the
// path, the name and the digest of each. `ctr -n k8s.io images import FILE` makes
// one known to a kubelet. It runs in the root of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/nodewright/nodewright/cmd/agent/validate"
	"github.com/nodewright/nodewright/hack/images/oci"
)

// hostCertificates is the usual place of CA certificates.
const hostCertificates = "/etc/ssl/certs/ca-certificates.crt"

type options struct {
	out, arch, tag, busybox, certificates string
	packages                              []string
	says                                  io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := options{says: os.Stderr}
	flag.StringVar(&o.out, "out", "bin/images", "directory for the archives")
	flag.StringVar(&o.arch, "arch", runtime.GOARCH, "architecture: amd64 or arm64")
	flag.StringVar(&o.tag, "tag", "dev", "tag of the images of manager, agent and pause")
	flag.StringVar(&o.busybox, "busybox", "/bin/busybox", "static busybox for the images of packages")
	flag.StringVar(&o.certificates, "certificates", hostCertificates, "CA certificates for the manager; empty or missing: none")
	flag.Parse()
	o.packages = flag.Args()
	images, err := build(ctx, &o)
	for _, i := range images {
		fmt.Println(i.Path, i.Name, i.Digest)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "images:", err)
		os.Exit(1)
	}
}

// checkFiles checks what images are made of beside what is compiled.
func (o *options) checkFiles() error {
	if len(o.packages) > 0 {
		if err := oci.CheckProgram(o.busybox, o.arch); err != nil {
			return err
		}
	}
	if info, err := os.Stat(o.certificates); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("certificates %s: want a file", o.certificates)
	}
	return oci.CheckRef("nodewright/manager:" + o.tag)
}

// image is one to build: what it holds, and the name of its archive.
type image struct {
	*oci.Spec
	archive string
}

func build(ctx context.Context, o *options) ([]*oci.Image, error) {
	// Compiling takes a while; what is wrong with the arguments is said before.
	packages, err := o.packageImages()
	if err != nil {
		return nil, err
	}
	if err := o.checkFiles(); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp("", "images")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(work) }()
	var images []image
	for _, c := range oci.Own {
		binary := filepath.Join(work, c.Name)
		if err := oci.Compile(ctx, ".", c.Command, o.arch, binary, o.says); err != nil {
			return nil, err
		}
		s := c.Spec("nodewright/"+c.Name+":"+o.tag, binary)
		if _, err := os.Stat(o.certificates); err == nil && c.Name == "manager" {
			s.WithCertificates(o.certificates)
		}
		images = append(images, image{s, c.Name})
	}
	var out []*oci.Image
	for _, i := range append(images, packages...) {
		i.Arch = o.arch
		built, err := oci.Build(ctx, i.Spec, filepath.Join(o.out, i.archive+".tar"))
		if err != nil {
			return out, err
		}
		out = append(out, built)
	}
	return out, nil
}

// check says what is wrong with the package in a directory, and gives the one that
// holds config.json. What cannot run is not built.
func (o *options) check(dir string) (string, error) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", fmt.Errorf("package: %w", err)
	}
	report, err := validate.Dir(dir)
	if err != nil {
		return "", err
	}
	for _, f := range report.Findings {
		_, _ = fmt.Fprintln(o.says, f)
	}
	if report.Count(validate.Error) > 0 {
		return "", fmt.Errorf("package %s is not valid", report.Dir)
	}
	return report.Dir, nil
}

// packageImages are the images of the packages that the arguments name.
func (o *options) packageImages() ([]image, error) {
	// Whose archive has which name.
	taken := map[string]string{}
	for _, c := range oci.Own {
		taken[c.Name] = "the " + c.Name + " itself"
	}
	var out []image
	for _, p := range o.packages {
		dir, ref, ok := strings.Cut(p, "=")
		if !ok {
			return nil, fmt.Errorf("package %q: want DIR=NAME:TAG", p)
		}
		dir, err := o.check(dir)
		if err != nil {
			return nil, err
		}
		s, err := oci.Package(ref, dir, o.busybox, "")
		if err != nil {
			return nil, err
		}
		archive := oci.Base(ref)
		if by, ok := taken[archive]; ok {
			return nil, fmt.Errorf("package %q: its archive %s.tar would replace that of %s, want another name", p, archive, by)
		}
		taken[archive] = "package " + dir
		out = append(out, image{s, archive})
	}
	return out, nil
}
