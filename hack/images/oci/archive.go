package oci

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	// annotationName is where containerd reads the name of an imported image,
	// which must be whole: docker.io/nodewright/agent:dev.
	annotationName = "io.containerd.image.name"
	annotationTag  = "org.opencontainers.image.ref.name"

	searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// epoch is the time of all files and of the image.
var epoch = time.Unix(0, 0).UTC()

// Spec says what an image holds.
type Spec struct {
	// Ref is the name with a tag, as in a pod: nodewright/agent:dev.
	Ref string
	// Arch is a GOARCH; empty: that of this machine. Images are of linux.
	Arch string
	// User as in a Dockerfile, in numbers: a kubelet cannot tell that a name is
	// not root. Empty: root.
	User       string
	Entrypoint []string
	Labels     map[string]string
	Layers     []Layer
}

// Image is an archive that was written.
type Image struct {
	// Path of the archive.
	Path string
	// Name is the whole name: docker.io/nodewright/agent:dev. It is imported
	// under this name and under Name's repository with @Digest.
	Name string
	// Digest of the manifest: sha256:...
	Digest string
}

// Build writes the image into a file of that path; nothing is there until it is
// whole.
func Build(ctx context.Context, s *Spec, path string) (*Image, error) {
	out, err := build(ctx, s, path)
	if err != nil {
		return nil, fmt.Errorf("build image %s: %w", s.Ref, err)
	}
	return out, nil
}

func build(ctx context.Context, s *Spec, path string) (*Image, error) {
	repository, tag, err := parseRef(s.Ref)
	if err != nil {
		return nil, err
	}
	img, err := s.image(ctx)
	if err != nil {
		return nil, err
	}
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	out := &Image{Path: path, Name: repository + ":" + tag, Digest: digest.String()}
	blobs, err := blobsOf(img)
	if err != nil {
		return nil, err
	}
	index, err := indexOf(img, s.arch(), map[string]string{annotationName: out.Name, annotationTag: tag},
		map[string]string{annotationName: repository + "@" + out.Digest})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := newWriter(&b)
	w.file("oci-layout", 0o644, 0, 0, []byte(`{"imageLayoutVersion":"1.0.0"}`))
	w.file("index.json", 0o644, 0, 0, index)
	for _, blob := range blobs {
		w.file("blobs/sha256/"+blob.hash.Hex, 0o644, 0, 0, blob.data)
	}
	if err := w.close(); err != nil {
		return nil, err
	}
	return out, writeWhole(path, b.Bytes())
}

// parseRef gives the repository as containerd names it, and the tag.
func parseRef(ref string) (repository, tag string, err error) {
	t, err := name.NewTag(ref)
	if err != nil {
		return "", "", fmt.Errorf("want a name with a tag, as nodewright/agent:dev: %w", err)
	}
	// Without a tag it would be latest, which a kubelet pulls each time.
	if !strings.HasSuffix(ref, ":"+t.TagStr()) {
		return "", "", errors.New("the name has no tag, want one as nodewright/agent:dev")
	}
	for part := range strings.SplitSeq(t.RepositoryStr(), "/") {
		if strings.Trim(part, ".") == "" {
			return "", "", fmt.Errorf("the name has a part %q, which no registry takes", part)
		}
	}
	registry := t.RegistryStr()
	if registry == name.DefaultRegistry {
		registry = "docker.io"
	}
	return registry + "/" + t.RepositoryStr(), t.TagStr(), nil
}

// CheckRef tells why there can be no image of that name.
func CheckRef(ref string) error {
	if _, _, err := parseRef(ref); err != nil {
		return fmt.Errorf("image %q: %w", ref, err)
	}
	return nil
}

// Base is the last part of the name of an image, without its tag.
func Base(ref string) string {
	base, _, _ := strings.Cut(path.Base(ref), ":")
	return base
}

func (s *Spec) arch() string {
	if s.Arch == "" {
		return runtime.GOARCH
	}
	return s.Arch
}

func (s *Spec) image(ctx context.Context) (v1.Image, error) {
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		Architecture: s.arch(), OS: "linux", Created: v1.Time{Time: epoch},
		RootFS: v1.RootFS{Type: "layers"},
		Config: v1.Config{User: s.User, Entrypoint: s.Entrypoint, Env: []string{searchPath}, WorkingDir: "/", Labels: s.Labels},
	})
	if err != nil {
		return nil, err
	}
	for _, layer := range s.Layers {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		data, err := layer.tar(s.arch())
		if err != nil {
			return nil, err
		}
		img, err = mutate.Append(img, mutate.Addendum{
			Layer:   static.NewLayer(data, types.OCIUncompressedLayer),
			History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "hack/images"},
		})
		if err != nil {
			return nil, err
		}
	}
	return img, nil
}

type blob struct {
	hash v1.Hash
	data []byte
}

// blobsOf gives manifest, configuration and layers, each once.
func blobsOf(img v1.Image) ([]blob, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	manifest, err := img.RawManifest()
	if err != nil {
		return nil, err
	}
	configName, err := img.ConfigName()
	if err != nil {
		return nil, err
	}
	config, err := img.RawConfigFile()
	if err != nil {
		return nil, err
	}
	out := []blob{{digest, manifest}, {configName, config}}
	layers, err := img.Layers()
	if err != nil {
		return nil, err
	}
	seen := map[v1.Hash]bool{}
	for _, layer := range layers {
		hash, err := layer.Digest()
		if err != nil {
			return nil, err
		}
		if seen[hash] {
			continue
		}
		seen[hash] = true
		r, err := layer.Compressed()
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close()); err != nil {
			return nil, err
		}
		out = append(out, blob{hash, data})
	}
	return out, nil
}

// indexOf names the image once for each set of annotations.
func indexOf(img v1.Image, arch string, names ...map[string]string) ([]byte, error) {
	digest, err := img.Digest()
	if err != nil {
		return nil, err
	}
	size, err := img.Size()
	if err != nil {
		return nil, err
	}
	index := v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, annotations := range names {
		index.Manifests = append(index.Manifests, v1.Descriptor{
			MediaType: types.OCIManifestSchema1, Size: size, Digest: digest, Annotations: annotations,
			Platform: &v1.Platform{Architecture: arch, OS: "linux"},
		})
	}
	return json.Marshal(index)
}

func writeWhole(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.Write(data)
	if err := errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writer writes a tar in which nothing depends on the machine, and the
// directories above a file before it. It keeps the first error.
type writer struct {
	tar  *tar.Writer
	dirs map[string]bool
	err  error
}

func newWriter(to io.Writer) *writer {
	return &writer{tar: tar.NewWriter(to), dirs: map[string]bool{}}
}

func (w *writer) write(h *tar.Header, data []byte) {
	if w.err != nil {
		return
	}
	h.ModTime = epoch
	if w.err = w.tar.WriteHeader(h); w.err == nil && len(data) > 0 {
		_, w.err = w.tar.Write(data)
	}
}

func (w *writer) above(path string) {
	if i := strings.LastIndex(path, "/"); i > 0 {
		w.dir(path[:i], 0o755)
	}
}

func (w *writer) dir(path string, mode int64) {
	if w.dirs[path] {
		return
	}
	w.above(path)
	w.dirs[path] = true
	w.write(&tar.Header{Typeflag: tar.TypeDir, Name: path + "/", Mode: mode}, nil)
}

func (w *writer) file(path string, mode int64, uid, gid int, data []byte) {
	w.above(path)
	w.write(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: mode, Uid: uid, Gid: gid, Size: int64(len(data))}, data)
}

func (w *writer) link(path, target string) {
	w.above(path)
	w.write(&tar.Header{Typeflag: tar.TypeSymlink, Name: path, Linkname: target, Mode: 0o777}, nil)
}

func (w *writer) close() error {
	if w.err != nil {
		return w.err
	}
	return w.tar.Close()
}
