package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// script is a stand-in for the binary of c: it prints the version line that the real one prints.
func script(c Component, version string) []byte {
	line := map[string]string{
		"kube-apiserver": "Kubernetes v%s", "kube-controller-manager": "Kubernetes v%s",
		"kubectl": "Client Version: v%s\nKustomize Version: v5.8.1",
		"etcd":    "etcd Version: %s", "kwok": "kwok version v%s go1.26.8 (linux/amd64)",
	}[c.Name]
	return fmt.Appendf(nil, "#!/bin/sh\ncat <<END\n"+line+"\nEND\n", version)
}

func component(t *testing.T, name string) Component {
	t.Helper()
	selected, err := selectComponents([]string{name})
	if err != nil {
		t.Fatal(err)
	}
	return selected[0]
}

func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func tarGz(t *testing.T, member string, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	zipped := gzip.NewWriter(&buffer)
	archive := tar.NewWriter(zipped)
	for _, file := range []struct {
		name    string
		content []byte
	}{{"README.md", []byte("other")}, {member, content}} {
		header := &tar.Header{Name: file.name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(file.content))}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(file.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	return buffer.Bytes()
}

// defaultComponents are what is provided when nobody names components.
func defaultComponents(t *testing.T) []Component {
	t.Helper()
	all, err := selectComponents(nil)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// releaseFiles returns path below the mirror -> content, for these components.
func releaseFiles(t *testing.T) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	put := func(url string, content []byte) { files["/"+strings.TrimPrefix(url, "https://")] = content }
	for _, c := range defaultComponents(t) {
		r := c.release(runtime.GOOS, runtime.GOARCH)
		content := script(c, c.Version)
		base := r.url[strings.LastIndex(r.url, "/")+1:]
		switch c.Name {
		case "etcd":
			content = tarGz(t, r.member, content)
			put(r.sumURL, fmt.Appendf(nil, "%s  etcd-other.tar.gz\n%s  %s\n", hexSum(nil), hexSum(content), base))
		case "kwok":
			put(r.sumURL, fmt.Appendf(nil, `{"assets":[{"name":"other","digest":"sha256:00"},{"name":%q,"digest":"sha256:%s"}]}`,
				base, hexSum(content)))
		default:
			put(r.sumURL, []byte(hexSum(content)))
		}
		put(r.url, content)
	}
	return files
}

func serve(t *testing.T, files map[string][]byte) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		content, ok := files["/"+strings.TrimPrefix(r.URL.Path, "/mirror/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(content)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/mirror"
}

// isolate takes away what the machine offers: the environment's directories and the Go tool. It returns the directory that is PATH.
func isolate(t *testing.T) string {
	t.Helper()
	bin := t.TempDir()
	for _, tool := range []string{"cat", "chmod", "sh", "sleep"} {
		if err := os.Symlink("/bin/"+tool, filepath.Join(bin, tool)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
	t.Setenv(EnvLocal, "")
	t.Setenv(EnvMirror, "")
	t.Setenv(EnvCacheDir, "")
	return bin
}

// fakeGo puts a Go tool into dir that "builds" kwok and notes each call in the returned file.
func fakeGo(t *testing.T, dir, afterwards string) string {
	t.Helper()
	log := filepath.Join(t.TempDir(), "calls")
	body := fmt.Sprintf(`#!/bin/sh
echo "$PWD CGO_ENABLED=$CGO_ENABLED GOFLAGS=$GOFLAGS $*" >>%s
while [ "$1" != -o ]; do shift; done
cat >"$2" <<'OUTER'
%sOUTER
chmod +x "$2"
%s
`, log, script(component(t, "kwok"), KwokVersion), afterwards)
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
	return log
}

func checkComplete(t *testing.T, dir string, wanted []Component) {
	t.Helper()
	for _, c := range wanted {
		if err := checkVersion(t.Context(), c, filepath.Join(dir, c.Name)); err != nil {
			t.Errorf("%s: %v", c, err)
		}
	}
}

func TestEnsureDownloadsAllComponents(t *testing.T) {
	isolate(t)
	var out bytes.Buffer
	opts := Options{CacheDir: t.TempDir(), Mirror: serve(t, releaseFiles(t)), Out: &out}
	if _, err := Dir(opts); err == nil || !strings.Contains(err.Error(), "make assets") {
		t.Errorf("Dir on an empty cache: want an error that says make assets, got %v", err)
	}
	dir, err := Ensure(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	checkComplete(t, dir, defaultComponents(t))
	for _, c := range defaultComponents(t) {
		if !strings.Contains(out.String(), c.String()) {
			t.Errorf("no line about %s in:\n%s", c, &out)
		}
	}

	// Everything is there: no source is asked any more, nothing is written.
	out.Reset()
	opts.Mirror = "http://127.0.0.1:1"
	again, err := Ensure(t.Context(), opts)
	if err != nil || again != dir || out.Len() > 0 {
		t.Errorf("second call: got %q, error %v, output %q", again, err, &out)
	}
	if got, err := Dir(opts); err != nil || got != dir {
		t.Errorf("Dir: got %q, %v", got, err)
	}

	// A file that went away is missed, and only that one is provided again.
	if err := os.Remove(filepath.Join(opts.CacheDir, "store", component(t, "etcd").fileName())); err != nil {
		t.Fatal(err)
	}
	opts.Mirror = serve(t, releaseFiles(t))
	if _, err := Ensure(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "etcd") || strings.Contains(out.String(), "kubectl") {
		t.Errorf("want lines about etcd alone, got:\n%s", &out)
	}
	checkComplete(t, dir, defaultComponents(t))
}

func TestEnsureRefusesBadDownload(t *testing.T) {
	kwok := component(t, "kwok")
	r := kwok.release(runtime.GOOS, runtime.GOARCH)
	file, sum := "/"+strings.TrimPrefix(r.url, "https://"), "/"+strings.TrimPrefix(r.sumURL, "https://")
	cases := map[string]struct {
		change    func(files map[string][]byte)
		wantError string
	}{
		"other bytes than published": {
			func(files map[string][]byte) { files[file] = append(files[file], '#') }, "checksum"},
		"no such release": {
			func(files map[string][]byte) { delete(files, sum) }, "404"},
		"checksum but no file": {
			func(files map[string][]byte) { delete(files, file) }, "404"},
		"checksum of other files only": {
			func(files map[string][]byte) { files[sum] = []byte(`{"assets":[]}`) }, "no digest of"},
		"error page instead of checksum": {
			func(files map[string][]byte) { files[sum] = []byte("<html>please log in</html>") }, "decode"},
		"other version than asked for": {
			func(files map[string][]byte) {
				old := files[file]
				files[file] = script(kwok, "0.7.9")
				files[sum] = bytes.ReplaceAll(files[sum], []byte(hexSum(old)), []byte(hexSum(files[file])))
			}, "want version 0.8.0"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			isolate(t)
			files := releaseFiles(t)
			tc.change(files)
			opts := Options{CacheDir: t.TempDir(), Mirror: serve(t, files), Root: projectRoot, Components: []string{"kwok"}}
			_, err := Ensure(t.Context(), opts)
			if err == nil {
				t.Fatal("want an error")
			}
			for _, want := range []string{tc.wantError, "kwok v0.8.0", "Go tool", EnvLocal} {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not say %q: %v", want, err)
				}
			}
			left, err := os.ReadDir(filepath.Join(opts.CacheDir, "store"))
			if err != nil || len(left) > 0 {
				t.Errorf("the store holds %v, error %v", left, err)
			}
		})
	}
}

func TestEnsureBuildsWhenNoServerAnswers(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, never answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	cases := map[string]string{
		"connection refused": "http://127.0.0.1:1",
		"no answer":          "http://" + silent.Addr().String(),
		"switched off":       MirrorOff,
	}
	for name, mirror := range cases {
		t.Run(name, func(t *testing.T) {
			bin := isolate(t)
			calls := fakeGo(t, bin, "")
			opts := Options{CacheDir: t.TempDir(), Mirror: mirror, Components: []string{"kwok"}} // Root is found
			began := time.Now()
			dir, err := Ensure(t.Context(), opts)
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 2*probeTimeout {
				t.Errorf("took %s, the probe may take %s", took, probeTimeout)
			}
			checkComplete(t, dir, []Component{component(t, "kwok")})
			got, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{
				"/hack/kwok CGO_ENABLED=0 GOFLAGS= build -trimpath", "consts.Version=v0.8.0", "sigs.k8s.io/kwok/cmd/kwok",
			} {
				if !strings.Contains(string(got), want) {
					t.Errorf("the Go tool was not called with %q: %s", want, got)
				}
			}
		})
	}
}

// A server that does not answer costs its timeout once, not once per component.
func TestUnreachableServerIsProbedOnce(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	downloads := newDownloader("http://" + silent.Addr().String())
	r := component(t, "kwok").release("linux", "amd64")
	began := time.Now()
	for range 3 {
		if err := downloads.download(t.Context(), r, filepath.Join(t.TempDir(), "kwok")); err == nil {
			t.Fatal("want an error")
		}
	}
	if took := time.Since(began); took > 2*probeTimeout {
		t.Errorf("three components took %s, one probe takes %s", took, probeTimeout)
	}
}

func TestEnsureReportsFailedBuild(t *testing.T) {
	bin := isolate(t)
	fakeGo(t, bin, "echo 'kwok.go:1: no such thing' >&2; exit 2")
	_, err := Ensure(t.Context(), Options{CacheDir: t.TempDir(), Mirror: MirrorOff, Root: projectRoot, Components: []string{"kwok"}})
	if err == nil || !strings.Contains(err.Error(), "kwok.go:1: no such thing") {
		t.Errorf("want the compiler's words, got %v", err)
	}
}

func TestEnsureTakesLocalBinariesOfRightVersion(t *testing.T) {
	isolate(t)
	local := t.TempDir()
	for name, version := range map[string]string{"kwok": KwokVersion, "kubectl": "1.20.0"} {
		if err := os.WriteFile(filepath.Join(local, name), script(component(t, name), version), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(EnvLocal, local)
	var out bytes.Buffer
	opts := Options{CacheDir: t.TempDir(), Mirror: serve(t, releaseFiles(t)), Components: []string{"kwok", "kubectl"}, Out: &out}
	dir, err := Ensure(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	checkComplete(t, dir, []Component{component(t, "kwok"), component(t, "kubectl")})
	for _, want := range []string{"(" + EnvLocal + "=" + local + ")", "want version " + KubernetesVersion, "(download)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in:\n%s", want, &out)
		}
	}
}

func TestTwoRunsBuildOnce(t *testing.T) {
	bin := isolate(t)
	calls := fakeGo(t, bin, "sleep 0.5")
	opts := Options{CacheDir: t.TempDir(), Mirror: MirrorOff, Root: projectRoot, Components: []string{"kwok"}}
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			if _, err := Ensure(t.Context(), opts); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	got, err := os.ReadFile(calls)
	if n := bytes.Count(got, []byte("\n")); err != nil || n != 1 {
		t.Errorf("built %d times, error %v:\n%s", n, err, got)
	}
}

func TestCancelEndsBuildAndWait(t *testing.T) {
	bin := isolate(t)
	calls := fakeGo(t, bin, "sleep 60")
	opts := Options{CacheDir: t.TempDir(), Mirror: MirrorOff, Root: projectRoot, Components: []string{"kwok"}}
	ctx, cancel := context.WithCancel(t.Context())
	results := make(chan error, 2)
	for range 2 { // one builds, the other waits for the lock
		go func() {
			_, err := Ensure(ctx, opts)
			results <- err
		}()
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(calls); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the build did not start")
		}
	}
	cancel()
	for range 2 {
		select {
		case err := <-results:
			if err == nil || !strings.Contains(err.Error(), context.Canceled.Error()) {
				t.Errorf("want canceled, got %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a call goes on after cancel")
		}
	}
}

func TestProgressGivesSignsOfLife(t *testing.T) {
	out := &lockedBuffer{}
	p := newProgress(out, component(t, "kwok"), 2, 5)
	p.beat = time.Millisecond
	p.start("build")
	for deadline := time.Now().Add(10 * time.Second); strings.Count(out.String(), "still runs") < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no sign of life in:\n%s", out)
		}
	}
	p.done("build", "/nowhere")
	if !strings.Contains(out.String(), "[2/5] kwok v0.8.0") {
		t.Errorf("lines do not name the component:\n%s", out)
	}
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
