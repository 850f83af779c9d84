package assets

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"
)

const (
	// probeTimeout is how long a release server may take to answer the first request, the one for the checksum. A machine
	// without a way out must not wait longer than this before it builds.
	probeTimeout = 3 * time.Second
	// downloadTimeout bounds one download. The largest binary has 120 MB.
	downloadTimeout = 10 * time.Minute
	// maxChecksumBytes bounds a document of checksums. The largest known one is the description of a kwok release, 100 kB.
	maxChecksumBytes = 4 << 20
	// maxBinaryBytes bounds one binary, so that a wrong answer cannot fill the disk.
	maxBinaryBytes = 1 << 30
)

// release is an official release of one component for one platform.
type release struct {
	// url is the file to download, sumURL the document with its checksum.
	url, sumURL string
	// parseSum finds the SHA-256 of the file, in hexadecimal, in the document at sumURL.
	parseSum func(document []byte) (string, error)
	// member is the path of the binary in the file if that is a .tar.gz, else empty.
	member string
}

// kubernetesRelease follows the layout of https://kubernetes.io/docs/tasks/tools/install-kubectl-linux/: the plain binary, and
// beside it a file .sha256 that holds nothing but the checksum.
func kubernetesRelease(name, goos, goarch string) release {
	file := fmt.Sprintf("https://dl.k8s.io/release/v%s/bin/%s/%s/%s", KubernetesVersion, goos, goarch, name)
	return release{url: file, sumURL: file + ".sha256", parseSum: func(document []byte) (string, error) {
		return checkHex(strings.TrimSpace(string(document)))
	}}
}

// etcdRelease follows the layout of https://github.com/etcd-io/etcd/releases: one archive per platform and one list SHA256SUMS.
func etcdRelease(goos, goarch string) release {
	base := "https://github.com/etcd-io/etcd/releases/download/v" + EtcdVersion
	stem := fmt.Sprintf("etcd-v%s-%s-%s", EtcdVersion, goos, goarch)
	file := stem + ".tar.gz"
	return release{url: base + "/" + file, sumURL: base + "/SHA256SUMS", member: stem + "/etcd",
		parseSum: func(document []byte) (string, error) {
			for line := range strings.Lines(string(document)) {
				if fields := strings.Fields(line); len(fields) == 2 && strings.TrimPrefix(fields[1], "*") == file {
					return checkHex(fields[0])
				}
			}
			return "", fmt.Errorf("the list of checksums has no %s", file)
		}}
}

// kwokRelease follows the layout of https://kwok.sigs.k8s.io/docs/user/installation/: the plain binary. The project publishes no
// file of checksums; the digest comes from the description of the release
// (https://docs.github.com/en/rest/releases/releases#get-a-release-by-tag-name, field assets[].digest).
func kwokRelease(goos, goarch string) release {
	file := fmt.Sprintf("kwok-%s-%s", goos, goarch)
	return release{
		url:    "https://github.com/kubernetes-sigs/kwok/releases/download/v" + KwokVersion + "/" + file,
		sumURL: "https://api.github.com/repos/kubernetes-sigs/kwok/releases/tags/v" + KwokVersion,
		parseSum: func(document []byte) (string, error) {
			var description struct {
				Assets []struct{ Name, Digest string }
			}
			if err := json.Unmarshal(document, &description); err != nil {
				return "", fmt.Errorf("decode the description of the release: %w", err)
			}
			for _, asset := range description.Assets {
				if sum, ok := strings.CutPrefix(asset.Digest, "sha256:"); ok && asset.Name == file {
					return checkHex(sum)
				}
			}
			return "", fmt.Errorf("the description of the release has no digest of %s", file)
		}}
}

func checkHex(sum string) (string, error) {
	if raw, err := hex.DecodeString(sum); err != nil || len(raw) != sha256.Size {
		return "", fmt.Errorf("%.80q is no SHA-256 checksum", sum)
	}
	return strings.ToLower(sum), nil
}

// downloader downloads releases. It remembers which servers are out of reach, so that each is probed once and not for every
// component.
type downloader struct {
	mirror      string
	unreachable map[string]error // by host
}

func newDownloader(mirror string) *downloader {
	return &downloader{mirror: mirror, unreachable: map[string]error{}}
}

// mirrored returns an address below the mirror: https://host/path becomes <mirror>/host/path.
func mirrored(mirror, address string) string {
	if mirror == "" {
		return address
	}
	return strings.TrimSuffix(mirror, "/") + "/" + strings.TrimPrefix(address, "https://")
}

// download writes the binary of r to target. The file is worth nothing if an error is returned.
func (d *downloader) download(ctx context.Context, r release, target string) error {
	ctx, cancel := context.WithTimeout(ctx, downloadTimeout)
	defer cancel()
	sum, err := d.fetchSum(ctx, r)
	if err != nil {
		return err
	}
	address := mirrored(d.mirror, r.url)
	body, err := get(ctx, address, 0)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	raw, err := os.OpenFile(target+".download", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("create download file: %w", err)
	}
	defer func() {
		_ = raw.Close()
		_ = os.Remove(raw.Name())
	}()
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(raw, hash), io.LimitReader(body, maxBinaryBytes))
	if err != nil {
		return fmt.Errorf("download %s: %w", address, err)
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != sum {
		return fmt.Errorf("verify %s: the %d bytes have checksum %s, published is %s", address, n, got, sum)
	}
	if _, err := raw.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind download file: %w", err)
	}
	return unpack(raw, r.member, target)
}

// fetchSum gets the published checksum. It is the probe as well: a server that does not answer it in time counts as out of reach.
func (d *downloader) fetchSum(ctx context.Context, r release) (string, error) {
	address := mirrored(d.mirror, r.sumURL)
	host := address
	if parsed, err := url.Parse(address); err == nil {
		host = parsed.Host
	}
	if known := d.unreachable[host]; known != nil {
		return "", known
	}
	body, err := get(ctx, address, probeTimeout)
	if err != nil {
		var answer *statusError
		if ctx.Err() == nil && !errors.As(err, &answer) {
			d.unreachable[host] = fmt.Errorf("%s is out of reach, as found before", host)
		}
		return "", err
	}
	defer func() { _ = body.Close() }()
	document, err := io.ReadAll(io.LimitReader(body, maxChecksumBytes))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", address, err)
	}
	sum, err := r.parseSum(bytes.TrimSpace(document))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", address, err)
	}
	return sum, nil
}

// statusError is an answer that is not 200.
type statusError struct{ status string }

// Error returns what the server says.
func (e *statusError) Error() string { return "the server says " + e.status }

// get opens address. The header of the answer must come within headerTimeout, if that is not 0.
func get(ctx context.Context, address string, headerTimeout time.Duration) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	if headerTimeout > 0 {
		timer := time.AfterFunc(headerTimeout, func() { cancel(fmt.Errorf("no answer within %s", headerTimeout)) })
		defer timer.Stop()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		cancel(nil)
		return nil, fmt.Errorf("get %s: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request) //nolint:bodyclose // the caller closes it, through cancelBody
	if err != nil {
		var named *url.Error
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		} else if errors.As(err, &named) {
			err = named.Err // without the address, which follows anyway
		}
		cancel(nil)
		return nil, fmt.Errorf("get %s: %w", address, err)
	}
	body := &cancelBody{ReadCloser: response.Body, cancel: cancel}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("get %s: %w", address, &statusError{response.Status}), body.Close())
	}
	return body, nil
}

// cancelBody ends the request's context together with its body.
type cancelBody struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the body.
func (b *cancelBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// unpack writes the member of the archive, or the whole file if member is empty, to target.
func unpack(file io.Reader, member, target string) error {
	if member != "" {
		var err error
		if file, err = findMember(file, member); err != nil {
			return err
		}
	}
	return writeBinary(file, target)
}

func findMember(file io.Reader, member string) (io.Reader, error) {
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("unzip: %w", err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("unpack: the archive has no %s", member)
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
		if header.Typeflag == tar.TypeReg && header.Name == member {
			return archive, nil
		}
	}
}

// writeBinary writes an executable file.
func writeBinary(content io.Reader, target string) error {
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o755)
	if err != nil {
		return fmt.Errorf("create binary: %w", err)
	}
	if _, err := io.Copy(file, io.LimitReader(content, maxBinaryBytes)); err != nil {
		return errors.Join(fmt.Errorf("write binary: %w", err), file.Close())
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write binary: %w", err)
	}
	return nil
}
