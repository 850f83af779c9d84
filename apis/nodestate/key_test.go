package nodestate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
)

const prefix = nodestate.Prefix

var (
	packageKinds = []nodestate.Kind{
		nodestate.KindNodeState, nodestate.KindJobState, nodestate.KindPodState, nodestate.KindPackageRequest,
	}
	nodeWrightKinds = []nodestate.Kind{
		nodestate.KindStatus, nodestate.KindSlot, nodestate.KindCordon, nodestate.KindDrainStart,
		nodestate.KindHandled, nodestate.KindLegacySeen, nodestate.KindBatch, nodestate.KindLegacy,
		nodestate.KindRequest,
	}
)

// CV-01: the plain form is used up to 63 bytes behind the prefix, the hashed
// form from 64 on.
func TestKeyAtTheLengthLimit(t *testing.T) {
	t.Parallel()
	repeat := strings.Repeat
	for name, tc := range map[string]struct {
		key        nodestate.Key
		wantPlain  string
		wantLength int
	}{
		"52 bytes of names fit": {
			key:       nodestate.NewPackageKey(nodestate.KindNodeState, repeat("w", 26), repeat("p", 26)),
			wantPlain: "nodeState_" + repeat("w", 26) + "_" + repeat("p", 26), wantLength: 63,
		},
		"53 bytes of names do not": {
			key:        nodestate.NewPackageKey(nodestate.KindNodeState, repeat("w", 26), repeat("p", 27)),
			wantLength: 63,
		},
		"longest package, shortest nodewright": {
			key:       nodestate.NewPackageKey(nodestate.KindNodeState, "w", repeat("p", 43)),
			wantPlain: "nodeState_w_" + repeat("p", 43), wantLength: 55,
		},
		"longest package that fits": {
			key:       nodestate.NewPackageKey(nodestate.KindNodeState, repeat("w", 9), repeat("p", 43)),
			wantPlain: "nodeState_" + repeat("w", 9) + "_" + repeat("p", 43), wantLength: 63,
		},
		"longest package, one too many": {
			key:        nodestate.NewPackageKey(nodestate.KindNodeState, repeat("w", 10), repeat("p", 43)),
			wantLength: 63,
		},
		"shortest package, longest nodewright": {
			key:        nodestate.NewPackageKey(nodestate.KindNodeState, repeat("w", 253), "pa"),
			wantLength: 63,
		},
		"both at their limits": {
			key:        nodestate.NewPackageKey(nodestate.KindPackageRequest, repeat("w", 253), repeat("p", 43)),
			wantLength: 63,
		},
		"no package part, 63": {
			key:       nodestate.NewKey(nodestate.KindStatus, repeat("w", 56)),
			wantPlain: "status_" + repeat("w", 56), wantLength: 63,
		},
		"no package part, 64": {
			key: nodestate.NewKey(nodestate.KindStatus, repeat("w", 57)), wantLength: 63,
		},
		"a cut that ends in a dot": {
			key:        nodestate.NewKey(nodestate.KindStatus, repeat("w", 43)+"."+repeat("w", 20)),
			wantLength: 63,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			full := tc.key.String()
			short, ok := strings.CutPrefix(full, prefix)
			if !ok || len(short) != tc.wantLength {
				t.Errorf("key %q has %d bytes behind the prefix, want %d", full, len(short), tc.wantLength)
			}
			if tc.wantPlain != "" && short != tc.wantPlain {
				t.Errorf("key = %q, want the plain form %q", short, tc.wantPlain)
			}
			if hashed := strings.Contains(short, "__"); hashed != (tc.wantPlain == "") || hashed != (tc.key.Hash != "") {
				t.Errorf("key = %q, hash %q: want hashed form = %t", short, tc.key.Hash, tc.wantPlain == "")
			}
			if errs := validation.IsQualifiedName(full); len(errs) > 0 {
				t.Errorf("key %q is refused by the API server: %v", full, errs)
			}
			if back, ok := nodestate.ParseKey(full); !ok || back != tc.key {
				t.Errorf("ParseKey(%q) = %+v, %t, want %+v", full, back, ok, tc.key)
			}
		})
	}
}

func drawNodeWright(t *rapid.T, label string) string {
	long := rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?(\.[a-z0-9]([-a-z0-9]{0,60}[a-z0-9])?){0,3}`)
	// Few letters, so that neighbours like a and a-b, or equal beginnings, come up.
	near := rapid.StringMatching(`a(-?[ab]){0,70}`)
	name := rapid.OneOf(long, near, rapid.StringMatching(`[ab](-[ab])?`)).Draw(t, label)
	return name[:min(len(name), 253)]
}

func drawPackage(t *rapid.T, label string) string {
	return rapid.OneOf(
		rapid.StringMatching(`[a-z][-a-z0-9]{0,41}[a-z]`),
		rapid.StringMatching(`a-?[ab]?[ab]`),
		rapid.StringMatching(`a{38,42}b`),
	).Draw(t, label)
}

// CV-02: (nodewright, package) and key are one-to-one.
func TestKeysAreOneToOne(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type names struct{ kind, nodeWright, pkg string }
		seen := map[string]names{}
		check := func(key nodestate.Key, n names) {
			full := key.String()
			if errs := validation.IsQualifiedName(full); len(errs) > 0 {
				t.Fatalf("key %q of %+v: %v", full, n, errs)
			}
			if back, ok := nodestate.ParseKey(full); !ok || back != key || !back.Names(n.nodeWright, n.pkg) {
				t.Fatalf("ParseKey(%q) = %+v, %t, want the key of %+v", full, back, ok, n)
			}
			if other, there := seen[full]; there && other != n {
				t.Fatalf("%+v and %+v share the key %q", n, other, full)
			}
			for _, o := range seen {
				if o.nodeWright == n.nodeWright && o.pkg == n.pkg {
					continue
				}
				if key.Names(o.nodeWright, o.pkg) {
					t.Fatalf("key %q of %+v says it is of %+v", full, n, o)
				}
			}
			seen[full] = n
		}
		for range 6 {
			nw, pkg := drawNodeWright(t, "nodewright"), drawPackage(t, "package")
			for i, kind := range packageKinds {
				check(nodestate.NewPackageKey(kind, nw, pkg), names{kind: string(rune('a' + i)), nodeWright: nw, pkg: pkg})
			}
			for i, kind := range nodeWrightKinds {
				check(nodestate.NewKey(kind, nw), names{kind: string(rune('A' + i)), nodeWright: nw})
			}
		}
	})
}

// CV-02: names that begin alike, or whose parts could be cut differently.
func TestKeysOfNeighboursDiffer(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("w", 100)
	pairs := []nodestate.PackageRef{
		{NodeWright: "a", Package: "pa"}, {NodeWright: "a-b", Package: "pa"}, {NodeWright: "a", Package: "b-pa"},
		{NodeWright: "a.b", Package: "pa"}, {NodeWright: "a-pa", Package: "pa"}, {NodeWright: "a", Package: "pa-pa"},
		{NodeWright: long, Package: "pa"}, {NodeWright: long + "a", Package: "pa"}, {NodeWright: long, Package: "pb"},
		{NodeWright: "a", Package: strings.Repeat("p", 42) + "a"}, {NodeWright: "a", Package: strings.Repeat("p", 42) + "b"},
	}
	seen := map[string]nodestate.PackageRef{}
	for _, ref := range pairs {
		full := nodestate.NewPackageKey(nodestate.KindNodeState, ref.NodeWright, ref.Package).String()
		if other, there := seen[full]; there {
			t.Errorf("%v and %v share the key %s", ref, other, full)
		}
		seen[full] = ref
	}
}

func TestParseKeyLeavesUserKeysAlone(t *testing.T) {
	t.Parallel()
	hashed := nodestate.NewPackageKey(nodestate.KindNodeState, strings.Repeat("w", 60), "pa").String()
	for name, key := range map[string]string{
		"empty":                        "",
		"prefix only":                  prefix,
		"other prefix":                 "example.com/nodeState_a_pa",
		"legacy prefix":                nodestate.LegacyPrefix + "nodeState_a",
		"prefix of a longer domain":    "x." + prefix + "nodeState_a_pa",
		"ignore":                       prefix + "ignore",
		"pause":                        prefix + "pause",
		"word only":                    prefix + "nodeState",
		"no name":                      prefix + "nodeState_",
		"no package":                   prefix + "nodeState_a_",
		"unknown word":                 prefix + "podStatus_a_pa",
		"word in other case":           prefix + "nodestate_a_pa",
		"package in upper case":        prefix + "nodeState_a_X",
		"package x.y":                  prefix + "nodeState_a_x.y",
		"package x_y":                  prefix + "nodeState_a_x_y",
		"package of one letter":        prefix + "nodeState_a_p",
		"package of 44":                prefix + "nodeState_a_" + strings.Repeat("p", 44),
		"package ends in a digit":      prefix + "nodeState_a_p1",
		"nodewright in upper case":     prefix + "status_A",
		"nodewright ends in a dash":    prefix + "status_a-",
		"package on a nodewright kind": prefix + "slot_a_pa",
		"no package on a package kind": prefix + "jobState_a",
		"unknown controller":           prefix + "seq_other",
		"seq of nobody":                prefix + "seq_",
		"64 bytes":                     prefix + "status_" + strings.Repeat("w", 57),
		"hash on a short name":         prefix + "status_a__abcdefghij",
		"hash in upper case":           hashed[:len(hashed)-10] + strings.ToUpper(hashed[len(hashed)-10:]),
		"hash cut":                     hashed[:len(hashed)-1],
		"hash not base32":              hashed[:len(hashed)-1] + "1",
		"trailing space":               prefix + "status_a ",
		"not UTF-8":                    prefix + "status_\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, ok := nodestate.ParseKey(key); ok {
				t.Errorf("ParseKey(%q) = %+v, want it to be a user's", key, got)
			}
			if owner, owned := nodestate.OwnerOf(key); owned {
				t.Errorf("OwnerOf(%q) = %q, want none", key, owner)
			}
		})
	}
}

// The ownership matrix, written out once more: a change of it must be meant.
func TestOwnerOfCoversEveryKind(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("w", 253)
	for key, want := range map[string]nodestate.Owner{
		prefix + "nodeState_a_pa":  "nodewright-node",
		prefix + "status_a":        "nodewright-node",
		prefix + "slot_a":          "nodewright-node",
		prefix + "cordon_a":        "nodewright-node",
		prefix + "drainStart_a":    "nodewright-node",
		prefix + "handled_a":       "nodewright-node",
		prefix + "legacySeen_a":    "nodewright-node",
		prefix + "seq_node":        "nodewright-node",
		prefix + "jobState_a_pa":   "nodewright-job",
		prefix + "seq_job":         "nodewright-job",
		prefix + "podState_a_pa":   "nodewright-pod",
		prefix + "seq_pod":         "nodewright-pod",
		prefix + "batch_a":         "nodewright-rollout",
		prefix + "seq_rollout":     "nodewright-rollout",
		prefix + "legacy_a":        "nodewright-migration",
		prefix + "nodeState_a":     "nodewright-migration",
		prefix + "nodeState_a.b-c": "nodewright-migration",
		prefix + "seq_migration":   "nodewright-migration",
		nodestate.NewPackageKey(nodestate.KindNodeState, long, "pa").String(): "nodewright-node",
		nodestate.NewPackageKey(nodestate.KindJobState, long, "pa").String():  "nodewright-job",
		nodestate.NewPackageKey(nodestate.KindPodState, long, "pa").String():  "nodewright-pod",
		nodestate.NewKey(nodestate.KindBatch, long).String():                  "nodewright-rollout",
		nodestate.NewKey(nodestate.KindLegacy, long).String():                 "nodewright-migration",
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			if got, owned := nodestate.OwnerOf(key); !owned || got != want {
				t.Errorf("OwnerOf() = %q, %t, want %q", got, owned, want)
			}
		})
	}
	for _, key := range []string{prefix + "request_a", prefix + "request_a_pa"} {
		if _, ok := nodestate.ParseKey(key); !ok {
			t.Errorf("ParseKey(%q) does not know it", key)
		}
		if owner, owned := nodestate.OwnerOf(key); owned {
			t.Errorf("OwnerOf(%q) = %q, want it to be the users'", key, owner)
		}
	}
}

func TestOwners(t *testing.T) {
	t.Parallel()
	want := map[nodestate.Owner]string{
		nodestate.OwnerNode: "node", nodestate.OwnerJob: "job", nodestate.OwnerPod: "pod",
		nodestate.OwnerRollout: "rollout", nodestate.OwnerMigration: "migration",
	}
	got := map[nodestate.Owner]string{}
	for _, o := range nodestate.Owners() {
		got[o] = o.Controller()
		if owner, owned := nodestate.OwnerOf(o.SeqKey()); !owned || owner != o {
			t.Errorf("OwnerOf(%q) = %q, %t, want %q", o.SeqKey(), owner, owned, o)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("controllers of Owners() (-want +got):\n%s", diff)
	}
	if got := nodestate.Owner("kubectl").Controller(); got != "" {
		t.Errorf("Controller() of a stranger = %q, want none", got)
	}
}

func FuzzParseKey(f *testing.F) {
	for _, seed := range []string{
		"", prefix, prefix + "nodeState_a_pa", prefix + "nodeState_a", prefix + "seq_node", prefix + "seq_",
		prefix + "status__abcdefghij", prefix + "status___", prefix + "_", prefix + "____", prefix + "request_a_\xff",
		nodestate.NewPackageKey(nodestate.KindNodeState, strings.Repeat("w", 253), strings.Repeat("p", 43)).String(),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		k, ok := nodestate.ParseKey(key)
		if !ok {
			return
		}
		if back := k.String(); back != key {
			t.Errorf("ParseKey(%q).String() = %q", key, back)
		}
		if _, owned := k.Owner(); !owned && k.Kind != nodestate.KindRequest && k.Kind != nodestate.KindPackageRequest {
			t.Errorf("key %q has no owner", key)
		}
	})
}
