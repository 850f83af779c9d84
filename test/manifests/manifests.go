package manifests

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
	"github.com/nodewright/nodewright/cmd/devcluster/manifests"
)

// Default is the kustomization that ships, from the root of the project.
const Default = "config/default"

// Object is one rendered object.
type Object = *unstructured.Unstructured

// Objects are what a kustomization renders, in its order.
type Objects []Object

// Render renders a kustomization with the kustomize of the pinned kubectl. dir is
// absolute, or from the root of the project.
func Render(ctx context.Context, dir string) (Objects, error) {
	root, err := Root()
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(root, dir)
	}
	if err := touch(filepath.Join(root, "config")); err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	binaries, err := assets.Ensure(ctx, assets.Options{Components: []string{"kubectl"}, Out: os.Stderr})
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "kubectl"), "kustomize", dir)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("render %s: %w: %s", dir, err, bytes.TrimSpace(errOut.Bytes()))
	}
	objects, err := manifests.Read(&out)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", dir, err)
	}
	return objects, nil
}

// Root is the root of the project that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	return assets.FindRoot(dir)
}

// touch opens all files below dir. What another process reads is not seen by the
// cache of the Go tool: without this, a test passes on from before a change.
func touch(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		return file.Close()
	})
}

// Kind are the objects of a kind.
func (o Objects) Kind(kind string) Objects {
	var out Objects
	for _, object := range o {
		if object.GetKind() == kind {
			out = append(out, object)
		}
	}
	return out
}

// As gives the one object of a kind as a type. Names are for where there are
// several: the full name.
func As[T any](o Objects, kind string, name ...string) (*T, error) {
	var found Objects
	for _, object := range o.Kind(kind) {
		if len(name) == 0 || object.GetName() == name[0] {
			found = append(found, object)
		}
	}
	if len(found) != 1 {
		return nil, fmt.Errorf("find %s %v: %d objects, want 1", kind, name, len(found))
	}
	typed := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(found[0].Object, typed, true); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", kind, found[0].GetName(), err)
	}
	return typed, nil
}
