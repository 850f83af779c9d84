package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const (
	// EnvCacheDir names the cache directory. Default: nodewright/assets in the user's cache directory.
	EnvCacheDir = "NODEWRIGHT_ASSETS"
	// EnvMirror names a mirror of the release servers, see Options.Mirror.
	EnvMirror = "NODEWRIGHT_ASSETS_MIRROR"
	// EnvLocal names a directory with binaries, as for other projects that test with an API server.
	EnvLocal = "KUBEBUILDER_ASSETS"

	// MirrorOff is the value of Options.Mirror that switches downloads off.
	MirrorOff = "off"
)

// Options say what to provide and where from. The zero value provides all components with the sources that the environment names.
type Options struct {
	// Components are names of components. Default: all that the demo needs.
	Components []string
	// CacheDir is the cache directory. Default: the environment variable NODEWRIGHT_ASSETS, then nodewright/assets in the user's
	// cache directory.
	CacheDir string
	// LocalDir is a directory whose binaries are taken if they have the right version. Default: KUBEBUILDER_ASSETS.
	LocalDir string
	// Mirror is a base URL under which the files of the release servers are looked for: https://host/path as <mirror>/host/path.
	// "off" switches downloads off. Default: NODEWRIGHT_ASSETS_MIRROR, then the servers themselves.
	Mirror string
	// Root is the root of the project, whose hack directory holds the modules for builds. Default: found from the working
	// directory upwards.
	Root string
	// Out gets the lines about progress. Default: none.
	Out io.Writer
}

func (o Options) withDefaults() (Options, error) {
	if o.CacheDir == "" {
		o.CacheDir = os.Getenv(EnvCacheDir)
	}
	if o.CacheDir == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			return o, fmt.Errorf("find the cache directory (set %s): %w", EnvCacheDir, err)
		}
		o.CacheDir = filepath.Join(base, "nodewright", "assets")
	}
	abs, err := filepath.Abs(o.CacheDir)
	if err != nil {
		return o, fmt.Errorf("find the cache directory: %w", err)
	}
	o.CacheDir = abs
	if o.LocalDir == "" {
		o.LocalDir = os.Getenv(EnvLocal)
	}
	if o.Mirror == "" {
		o.Mirror = os.Getenv(EnvMirror)
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	return o, nil
}

// binDir is the directory with one link per component. Its name carries all versions and the platform: after a change of one
// version the next call makes a new directory, and the binaries that did not change are still in the store.
func (o Options) binDir() string {
	return filepath.Join(o.CacheDir, fmt.Sprintf("kubernetes-%s_etcd-%s_kwok-%s_certmanager-%s_%s-%s",
		KubernetesVersion, EtcdVersion, KwokVersion, CertManagerVersion, runtime.GOOS, runtime.GOARCH))
}

func (o Options) storeDir() string { return filepath.Join(o.CacheDir, "store") }

// Dir returns the directory that holds the binaries under their plain names. It starts nothing: if one is missing, the error names
// it and says what to do.
func Dir(opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	wanted, err := selectComponents(opts.Components)
	if err != nil {
		return "", err
	}
	dir := opts.binDir()
	if missing := missingIn(dir, wanted); len(missing) > 0 {
		names := make([]string, len(missing))
		for i, c := range missing {
			names[i] = c.String()
		}
		return "", fmt.Errorf("find assets: %s lacks %s: run make assets", dir, strings.Join(names, ", "))
	}
	return dir, nil
}

// Ensure provides the components and returns the directory that holds them under their plain names. If all are there it only looks
// at their names, which takes less than a millisecond; otherwise it writes one line per component when it starts and when it ends,
// and one every 30 s in between. Two calls at the same time, in one or in two processes, do not build twice. The error for a
// component that no source has names each source with its reason.
func Ensure(ctx context.Context, opts Options) (string, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return "", err
	}
	wanted, err := selectComponents(opts.Components)
	if err != nil {
		return "", err
	}
	dir := opts.binDir()
	if len(missingIn(dir, wanted)) == 0 {
		return dir, nil
	}
	for _, d := range []string{dir, opts.storeDir()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return "", fmt.Errorf("create cache directory: %w", err)
		}
	}
	unlock, err := lock(ctx, filepath.Join(opts.CacheDir, "lock"), opts.Out)
	if err != nil {
		return "", err
	}
	defer unlock()
	// A run that was killed leaves a part of a file. Nobody else writes now.
	if err := removeLeftovers(opts.storeDir()); err != nil {
		return "", err
	}
	// Another run may have provided some while this one waited.
	missing := missingIn(dir, wanted)
	downloads := newDownloader(opts.Mirror)
	for i, c := range missing {
		p := newProgress(opts.Out, c, i+1, len(missing))
		if err := provide(ctx, opts, downloads, c, p); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// missingIn returns the components that dir lacks. A link whose file was removed counts as missing.
func missingIn(dir string, wanted []Component) []Component {
	return slices.DeleteFunc(slices.Clone(wanted), func(c Component) bool {
		return executable(filepath.Join(dir, c.Name))
	})
}

func removeLeftovers(store string) error {
	leftovers, err := filepath.Glob(filepath.Join(store, "*.tmp*"))
	if err != nil {
		return fmt.Errorf("find leftovers: %w", err)
	}
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("remove leftovers: %w", err)
		}
	}
	return nil
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o100 != 0
}

// provide puts c into the store, unless it is there, and links it.
func provide(ctx context.Context, opts Options, downloads *downloader, c Component, p *progress) error {
	stored := filepath.Join(opts.storeDir(), c.fileName())
	if !executable(stored) {
		if err := fill(ctx, sources(opts, downloads, c), c, stored, p); err != nil {
			return err
		}
	}
	link := filepath.Join(opts.binDir(), c.Name)
	temp := link + ".new"
	if err := os.Remove(temp); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("link %s: %w", c, err)
	}
	// Relative, so that the cache can be moved.
	if err := os.Symlink(filepath.Join("..", "store", c.fileName()), temp); err != nil {
		return fmt.Errorf("link %s: %w", c, err)
	}
	if err := os.Rename(temp, link); err != nil {
		return fmt.Errorf("link %s: %w", c, err)
	}
	return nil
}

// source is one way to get a binary.
type source struct {
	name string
	get  func(ctx context.Context, target string) error
}

// fill tries the sources in order until one gives a binary of the right version, and moves that to stored.
func fill(ctx context.Context, from []source, c Component, stored string, p *progress) error {
	temp := fmt.Sprintf("%s.%d.tmp", stored, os.Getpid())
	defer func() { _ = os.Remove(temp) }() // gone already if all went well
	var failures []string
	for _, s := range from {
		p.start(s.name)
		err := s.get(ctx, temp)
		if err == nil {
			err = checkVersion(ctx, c, temp)
		}
		if err != nil {
			p.failed(s.name, err)
			if ctx.Err() != nil {
				return fmt.Errorf("provide %s: %w", c, context.Cause(ctx))
			}
			failures = append(failures, fmt.Sprintf("  %s: %v", s.name, err))
			continue
		}
		if err := os.Rename(temp, stored); err != nil {
			return fmt.Errorf("store %s: %w", c, err)
		}
		p.done(s.name, stored)
		return nil
	}
	return fmt.Errorf("provide %s: no source has it:\n%s\nto go on, either install Go 1.26 or later and let the Go tool reach "+
		"its module proxy, or put %s v%s into a directory and set %s to that directory",
		c, strings.Join(failures, "\n"), c.Name, c.Version, EnvLocal)
}

func sources(opts Options, downloads *downloader, c Component) []source {
	var list []source
	if opts.LocalDir != "" {
		list = append(list, source{EnvLocal + "=" + opts.LocalDir, func(ctx context.Context, target string) error {
			return copyLocal(ctx, opts.LocalDir, c, target)
		}})
	}
	if opts.Mirror != MirrorOff && c.release != nil {
		list = append(list, source{"download", func(ctx context.Context, target string) error {
			return downloads.download(ctx, c.release(runtime.GOOS, runtime.GOARCH), target)
		}})
	}
	return append(list, source{"build", func(ctx context.Context, target string) error {
		root := opts.Root
		if root == "" {
			dir, err := os.Getwd()
			if err != nil {
				return fmt.Errorf("find the working directory: %w", err)
			}
			if root, err = FindRoot(dir); err != nil {
				return err
			}
		}
		return build(ctx, root, c, target)
	}})
}
