package nodestate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func legacy(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "legacy", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(string(b), "\n")
}

// Values as earlier operators write them.
func TestParseBlob(t *testing.T) {
	t.Parallel()
	for file, want := range map[string][]nodestate.PackageStatus{
		"simple.json": {
			{Name: "dexter", Version: "1.2.3", Image: "ghcr.io/nvidia/skyhook/agentless", Stage: "config", State: "complete"},
			{Name: "foobar", Version: "1.2", Image: "ghcr.io/nvidia/skyhook/agentless", Stage: "config", State: "complete"},
			{
				Name: "spencer", Version: "3.2.3", Image: "ghcr.io/nvidia/skyhook/agentless",
				Stage: "post-interrupt", State: "complete", Failures: 2, Restarts: 2,
			},
		},
		"moving.json": {
			{Name: "driver", Version: "535.1.0", Image: "registry.example:5000/driver", Stage: "config", State: "complete"},
			{
				Name: "driver", Version: "550.0.0", Image: "registry.example:5000/driver", Stage: "upgrade", State: "in_progress",
				Failures: 1, Restarts: 1, ContainerSHA: "sha256:0f0e0d0c0b0a09080706050403020100ffeeddccbbaa99887766554433221100",
			},
			{Name: "tuning", Version: "v2.0.0-rc.1", Image: "registry.example:5000/tuning", Stage: "interrupt", State: "skipped"},
		},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			entries, err := nodestate.ParseBlob(legacy(t, file))
			if err != nil {
				t.Fatal(err)
			}
			var got []nodestate.PackageStatus
			for _, e := range entries {
				if e.Err != nil {
					t.Errorf("entry %q: %v", e.Key, e.Err)
				}
				if e.Key != e.Status.Name+"|"+e.Status.Version {
					t.Errorf("entry %q is of %s %s", e.Key, e.Status.Name, e.Status.Version)
				}
				got = append(got, e.Status)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("entries (-want +got):\n%s", diff)
			}
		})
	}
}

// ST-19: an entry that cannot be used does not hold back the others.
func TestParseBlobWithDamagedEntries(t *testing.T) {
	t.Parallel()
	entries, err := nodestate.ParseBlob(legacy(t, "damaged.json"))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"agent": "<package>|<version>", "empty|": "version", "fine|1.0.0": "", "gone|1.0.0": "not a JSON object",
		"other|1.0.0": "not the key's", "stage|1.0.0": "stage", "text|1.0.0": "not a JSON object",
	}
	if len(entries) != len(want) {
		t.Fatalf("ParseBlob() gives %d entries, want %d", len(entries), len(want))
	}
	for i, e := range entries {
		if i > 0 && entries[i-1].Key >= e.Key {
			t.Errorf("entries are not sorted: %q, %q", entries[i-1].Key, e.Key)
		}
		text, known := want[e.Key]
		switch {
		case !known:
			t.Errorf("unexpected entry %q", e.Key)
		case text == "" && e.Err != nil:
			t.Errorf("entry %q: %v", e.Key, e.Err)
		case text != "" && (e.Err == nil || !strings.Contains(e.Err.Error(), text)):
			t.Errorf("entry %q: error = %v, want it to say %q", e.Key, e.Err, text)
		case e.Raw == "":
			t.Errorf("entry %q has lost its bytes", e.Key)
		}
	}
}

// What belongs to a key of its own is never taken from a blob.
func TestParseBlobHasNoRun(t *testing.T) {
	t.Parallel()
	entries, err := nodestate.ParseBlob(`{"pa|1.0.0":{"attempt":4,"image":"r/pa","nodewright":"x","run":9,"stage":"apply","state":"complete","uid":"u"}}`)
	if err != nil || len(entries) != 1 || entries[0].Err != nil {
		t.Fatalf("ParseBlob() = %+v, %v", entries, err)
	}
	want := nodestate.PackageStatus{Name: "pa", Version: "1.0.0", Image: "r/pa", Stage: "apply", State: "complete"}
	if diff := cmp.Diff(want, entries[0].Status); diff != "" {
		t.Errorf("entry (-want +got):\n%s", diff)
	}
}

func TestParseBlobRefuses(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"ST-30 empty": "", "null": "null", "array": "[]", "text": `"x"`, "junk": "junk", "cut off": `{"pa|1":{`,
		"invalid UTF-8": "{\"pa|\xff\":{}}", "too large": "{" + strings.Repeat(" ", nodestate.MaxBlobValue) + "}",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := nodestate.ParseBlob(value); err == nil {
				t.Errorf("ParseBlob() = %+v, want an error", got)
			}
		})
	}
	if got, err := nodestate.ParseBlob("{}"); err != nil || len(got) != 0 {
		t.Errorf("ParseBlob({}) = %+v, %v, want nothing", got, err)
	}
}

func TestBlobHash(t *testing.T) {
	t.Parallel()
	a, b := nodestate.BlobHash("{}"), nodestate.BlobHash("{ }")
	if a == b || a != nodestate.BlobHash("{}") || len(a) != 32 {
		t.Errorf("BlobHash gives %q and %q", a, b)
	}
}

func FuzzParseBlob(f *testing.F) {
	for _, file := range []string{"simple.json", "moving.json", "damaged.json"} {
		f.Add(legacy(f, file))
	}
	for _, seed := range []string{"", "null", "{}", `{"|":{}}`, `{"a|b|c":{"version":"1"}}`, `{"pa|1":` + strings.Repeat("{", 5000)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		entries, err := nodestate.ParseBlob(value)
		if err != nil {
			return
		}
		for _, e := range entries {
			if e.Err == nil && e.Status.Validate() != nil {
				t.Errorf("entry %q was accepted: %v", e.Key, e.Status.Validate())
			}
		}
	})
}
