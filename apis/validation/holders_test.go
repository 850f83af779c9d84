package validation

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// WH-17: the record of an earlier operator counts until it was taken over. From
// then on the keys say all: one that was uninstalled since must not hold its
// package for as long as the blob is kept.
func TestHoldersByEarlierRecord_WH17(t *testing.T) {
	blobKey := nodestate.NewKey(nodestate.KindBlob, "gpu").String()
	olderKey := nodestate.LegacyPrefix + "nodeState_gpu"
	seenKey := nodestate.NewKey(nodestate.KindLegacySeen, "gpu").String()
	entryKey := nodestate.NewPackageKey(nodestate.KindNodeState, "gpu", "driver").String()
	const blob = `{"driver|1.0.0":{"name":"driver","version":"1.0.0","image":"r/p","stage":"config","state":"complete"}}`
	tests := map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"not taken over":                     {map[string]string{blobKey: blob}, true},
		"not taken over, older prefix":       {map[string]string{olderKey: blob}, true},
		"taken over, and uninstalled since":  {map[string]string{blobKey: blob, seenKey: nodestate.BlobHash(blob)}, false},
		"taken over, older prefix":           {map[string]string{olderKey: blob, seenKey: nodestate.BlobHash(blob)}, false},
		"taken over, and still there":        {map[string]string{blobKey: blob, seenKey: nodestate.BlobHash(blob), entryKey: `{}`}, true},
		"edited by the earlier operator":     {map[string]string{blobKey: blob, seenKey: nodestate.BlobHash(`{}`)}, true},
		"of another package":                 {map[string]string{blobKey: `{"other|1.0.0":{}}`}, false},
		"of another NodeWright":              {map[string]string{blobKey + "-a": blob}, false},
		"cannot be read":                     {map[string]string{blobKey: `[]`}, true},
		"cannot be read, but was taken over": {map[string]string{blobKey: `[]`, seenKey: nodestate.BlobHash(`[]`)}, false},
		"none":                               {nil, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Annotations: maps.Clone(tc.annotations)}}
			want := Holders{}
			if tc.want {
				want["driver"] = []string{"n1"}
			}
			if diff := cmp.Diff(want, HoldersOf("gpu", []string{"driver"}, []corev1.Node{node})); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}

// What is uninstalled must be what the hosts have: a package that becomes one
// that can be uninstalled keeps its version in that update.
func TestUninstallOfAnotherVersion(t *testing.T) {
	on := Holders{"driver": {"n1"}}
	before := sound(version("1.0"))
	tests := map[string]struct {
		apply   bool
		version string
		want    bool
	}{
		"uninstall another version": {true, "2.0", true},
		"uninstall what is there":   {true, "v1.0.0", false},
		"allow to uninstall later":  {false, "2.0", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			after := sound(uninstall(true, tc.apply), version(tc.version))
			if held := HeldPackages(before, after); (len(held) > 0) != tc.want {
				t.Errorf("packages to look for on nodes: %v, want some: %t", held, tc.want)
			}
			if errs := NodeWrightUpdate(before, after, on); (len(errs) > 0) != tc.want {
				t.Errorf("errors %v, want some: %t", errs, tc.want)
			}
			if errs := NodeWrightUpdate(before, after, nil); len(errs) != 0 {
				t.Errorf("no node has it, and errors are %v", errs)
			}
		})
	}
}
