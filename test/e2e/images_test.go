package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/nodewright/nodewright/hack/images/oci"
	"github.com/nodewright/nodewright/test/e2e/realnode"
	"github.com/nodewright/nodewright/test/manifests"
)

// registry is the name of none: what is not on a node cannot be pulled.
const registry = "registry.invalid/e2e/"

// images are all that nodes have.
type images struct {
	manager, agent, pause *oci.Image
	// earlierAgent stands for an agent from before NodeWright.
	earlierAgent *oci.Image
	// workload is an image with a shell.
	workload *oci.Image
	packages []*oci.Image
}

func (i *images) archives() []string {
	var out []string
	for _, image := range append([]*oci.Image{i.manager, i.agent, i.earlierAgent, i.pause, i.workload}, i.packages...) {
		out = append(out, image.Path)
	}
	return out
}

// named is the image of a package by the end of its name.
func (i *images) named(t *testing.T, name string) *oci.Image {
	t.Helper()
	for _, image := range i.packages {
		if strings.HasSuffix(image.Name, "/"+name) {
			return image
		}
	}
	t.Fatalf("there is no image %s", name)
	return nil
}

// testPackages are packages by name, and their versions: all do what
// testdata/package/skyhook_dir/step.sh does.
var testPackages = map[string][]string{
	"alpha": {"1.0.0", "1.1.0", "1.2.0"}, "beta": {"1.0.0"}, "gamma": {"1.0.0"},
}

func (c *cluster) makeImages(ctx context.Context) error {
	root, err := manifests.Root()
	if err != nil {
		return err
	}
	dir := filepath.Join(c.cp.Dir(), "images")
	own := map[string]*oci.Image{}
	for _, p := range oci.Own {
		binary := filepath.Join(dir, p.Name)
		if err := oci.Compile(ctx, root, p.Command, runtime.GOARCH, binary, os.Stderr); err != nil {
			return err
		}
		if own[p.Name], err = oci.Build(ctx, p.Spec(registry+p.Name+":e2e", binary), binary+".tar"); err != nil {
			return err
		}
	}
	c.images = &images{manager: own["manager"], agent: own["agent"], pause: own["pause"]}
	for name, versions := range testPackages {
		for _, version := range versions {
			if err := c.makePackage(ctx, filepath.Join("testdata", "package"), name, version); err != nil {
				return err
			}
		}
	}
	if err := c.makePackage(ctx, filepath.Join("testdata", "foreign"), "shellscript", "1.1.1"); err != nil {
		return err
	}
	if err := c.makeSamples(ctx, root); err != nil {
		return err
	}
	if err := c.makeEarlierAgent(ctx); err != nil {
		return err
	}
	// What a workload needs is in every package as well: a shell.
	c.images.workload = c.images.packages[0]
	return nil
}

// makePackage makes the image of a package from a directory in which config.json
// says NAME, VERSION and STEP(mode).
func (c *cluster) makePackage(ctx context.Context, from, name, version string) error {
	dir := filepath.Join(c.cp.Dir(), "packages", name+"-"+version)
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		return fmt.Errorf("copy package %s: %w", name, err)
	}
	config, err := fs.ReadFile(os.DirFS(dir), "config.json")
	if err != nil {
		return err
	}
	config = step.ReplaceAll(config, []byte(`{"name": "$1", "path": "step.sh", "arguments": ["$1", "NAME", "VERSION"], "returncodes": [0],`+
		` "on_host": true, "idempotence": true, "upgrade_step": false, "env": {}}`))
	config = bytes.ReplaceAll(bytes.ReplaceAll(config, []byte("NAME"), []byte(name)), []byte("VERSION"), []byte(version))
	if err := os.WriteFile(filepath.Join(dir, "config.json"), config, 0o600); err != nil {
		return err
	}
	return c.buildPackage(ctx, registry+name+":"+version, dir, dir+".tar", oci.EarlierPackageDir)
}

// buildPackage makes the image of a package from its directory, with the package
// at a place in the image.
func (c *cluster) buildPackage(ctx context.Context, ref, dir, archive, at string) error {
	spec, err := oci.Package(ref, dir, realnode.Busybox, at)
	if err != nil {
		return err
	}
	image, err := oci.Build(ctx, spec, archive)
	if err != nil {
		return err
	}
	c.images.packages = append(c.images.packages, image)
	return nil
}

var step = regexp.MustCompile(`STEP\(([a-z-]+)\)`)
