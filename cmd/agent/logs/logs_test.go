package logs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/cmd/agent/host"
)

func fixed() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

func TestLines(t *testing.T) {
	const stamp = "[out]2026-01-02T03:04:05.000000Z "
	long := strings.Repeat("x", MaxLine)
	for name, tc := range map[string]struct {
		in   []string
		want string
	}{
		"two in one":  {[]string{"a\nb\n"}, stamp + "a\n" + stamp + "b\n"},
		"in pieces":   {[]string{"a", "b\nc"}, stamp + "ab\n" + stamp + "c\n"},
		"empty":       {[]string{"\n"}, stamp + "\n"},
		"nothing":     {nil, ""},
		"CR":          {[]string{"a\r\n"}, stamp + "a\n"},
		"no UTF-8":    {[]string{"a\xffb\n"}, stamp + "a\uFFFDb\n"},
		"long":        {[]string{long + "y\nz\n"}, stamp + long + "\n" + stamp + "y\n" + stamp + "z\n"},
		"just so":     {[]string{long, "\n"}, stamp + long + "\n"},
		"no line end": {[]string{long + long}, stamp + long + "\n" + stamp + long + "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			l := NewLines("[out]", fixed, &b)
			for _, s := range tc.in {
				if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
					t.Fatal(n, err)
				}
			}
			_ = l.Close()
			if diff := cmp.Diff(tc.want, b.String()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	r, err := host.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	at := fixed()
	d := &Dir{Host: r, Path: "/var/log/nw/tuning/1.0.0", Now: func() time.Time { return at }}
	logs := filepath.Join(dir, d.Path, "sub")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		t.Fatal(err)
	}
	// Not a log of the step, though it begins alike.
	for _, other := range []string{"a.sh-more-2026-01-02-030405.log", "a.sh-notes.log"} {
		if err := os.WriteFile(filepath.Join(logs, other), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 9 {
		files, err := d.Create("sub/a.sh")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Fprintf(files.Out, "out %d", i)
		_, _ = fmt.Fprintf(files.Err, "err %d", i)
		if err := files.Close(); err != nil {
			t.Fatal(err)
		}
		if i%3 == 2 {
			at = at.Add(time.Minute)
		}
	}
	entries, err := os.ReadDir(logs)
	if err != nil {
		t.Fatal(err)
	}
	out, failed := 0, 0
	for _, e := range entries {
		switch {
		case strings.HasSuffix(e.Name(), ".log"):
			out++
		case strings.HasSuffix(e.Name(), ".log.err"):
			failed++
		}
	}
	if out != Keep+2 || failed != Keep {
		t.Errorf("%d and %d logs: %v", out, failed, entries)
	}
	last, err := os.ReadFile(filepath.Join(logs, "a.sh-2026-01-02-030605-2.log.err"))
	if err != nil || string(last) != "err 8" {
		t.Errorf("last log %q, %v", last, err)
	}
}

func TestFileIsBounded(t *testing.T) {
	r, err := host.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	d := &Dir{Host: r, Path: "/log", Now: fixed}
	files, err := d.Create("../../a")
	if err != nil {
		t.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), MaxLine)
	for range MaxSize/MaxLine + 10 {
		if n, err := files.Out.Write(line); err != nil || n > len(line) {
			t.Fatal(n, err)
		}
	}
	// A log that is just full is not cut.
	for range MaxSize / MaxLine {
		if _, err := files.Err.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	_ = files.Close()
	if data, err := os.ReadFile(filepath.Join(r.Dir(), "log/a-2026-01-02-030405.log.err")); err != nil || len(data) != MaxSize {
		t.Errorf("log of %d bytes, %v", len(data), err)
	}
	data, err := os.ReadFile(filepath.Join(r.Dir(), "log/a-2026-01-02-030405.log"))
	if err != nil || len(data) > MaxSize+len(cutNotice) || !bytes.HasSuffix(data, []byte(cutNotice)) {
		t.Errorf("log of %d bytes, %v", len(data), err)
	}
	if files, err := (&Dir{Host: r, Now: fixed}).Create("a"); files != nil || err != nil {
		t.Errorf("logs that are off: %v, %v", files, err)
	}
}

// TestWhichLogsGo: the oldest ones, also where the clock of the host was put
// back since; a link in the place of a log is no way to another file.
func TestWhichLogsGo(t *testing.T) {
	dir := t.TempDir()
	r, err := host.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	d := &Dir{Host: r, Path: "/log", Now: fixed}
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "keep"), []byte("keep"), 0o644); err != nil {
		t.Fatal(err)
	}
	// The first name is the newest file.
	for i, stamp := range []string{"2025-01-01-000000", "2027-01-01-000000", "2026-06-01-000000", "2026-03-01-000000", "2026-02-01-000000"} {
		for _, suffix := range []string{suffixOut, suffixErr} {
			file := filepath.Join(dir, "log", "a-"+stamp+suffix)
			if err := os.WriteFile(file, nil, 0o644); err != nil {
				t.Fatal(err)
			}
			at := fixed().Add(-time.Duration(i) * time.Hour)
			if err := os.Chtimes(file, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Symlink("../keep", filepath.Join(dir, "log", "a-2024-01-01-000000.log")); err != nil {
		t.Fatal(err)
	}
	files, err := d.Create("a")
	if err != nil {
		t.Fatal(err)
	}
	_ = files.Close()
	entries, err := os.ReadDir(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		if stamp, is := strings.CutSuffix(e.Name(), suffixErr); is {
			left = append(left, stamp)
		}
	}
	// The link is new: four with it, and the one that was created.
	want := []string{"a-2025-01-01-000000", "a-2026-01-02-030405", "a-2026-06-01-000000", "a-2027-01-01-000000"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Error(diff)
	}
	if data, err := os.ReadFile(filepath.Join(dir, "keep")); err != nil || string(data) != "keep" {
		t.Errorf("keep has %q, %v", data, err)
	}
}
