package validation

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func removed(nw *v1alpha1.NodeWright) { delete(nw.Spec.Packages, "driver") }

func TestNodeWrightUpdate(t *testing.T) {
	type edits = []func(*v1alpha1.NodeWright)
	tests := map[string]struct {
		before, after edits
		// free says that the change is legal also where nodes have the package.
		free bool
		// want are words of the refusal while nodes have it, and its field.
		want []string
		at   string
	}{
		"WH-17 removal": {
			before: edits{uninstall(true, false)}, after: edits{removed},
			want: []string{"node n1", "uninstall.apply: true", "then remove it"}, at: "spec.packages[driver]",
		},
		"WH-17 removal while it is uninstalled": {
			before: edits{uninstall(true, true)}, after: edits{removed},
			want: []string{"it is being uninstalled, wait"}, at: "spec.packages[driver]",
		},
		"WH-17 removal without uninstall":      {before: edits{uninstall(false, false)}, after: edits{removed}, free: true},
		"WH-17 removal without uninstall: nil": {after: edits{removed}, free: true},
		"UP-13 downgrade with uninstall": {
			before: edits{uninstall(true, false), version("2.0")}, after: edits{uninstall(true, false), version("1.0")},
			want: []string{"from 2.0 down to 1.0", "node n1", "apply: true"}, at: "spec.packages[driver].version",
		},
		"UP-13 downgrade that takes uninstall away as well": {
			before: edits{uninstall(true, false), version("2.0")}, after: edits{version("1.0")},
			want: []string{"from 2.0 down to 1.0"}, at: "spec.packages[driver].version",
		},
		"UP-13 downgrade to the pre-release": {
			before: edits{uninstall(true, false), version("1.0.0")}, after: edits{uninstall(true, false), version("1.0.0-rc1")},
			want: []string{"from 1.0.0 down to 1.0.0-rc1"}, at: "spec.packages[driver].version",
		},
		"UP-13 downgrade without uninstall": {before: edits{version("2.0")}, after: edits{version("1.0")}, free: true},
		"UP-13 upgrade from the pre-release": {
			before: edits{uninstall(true, false), version("1.0.0-rc1")}, after: edits{uninstall(true, false), version("1.0.0")}, free: true,
		},
		"UP-13 another spelling": {
			before: edits{uninstall(true, false), version("v1.0")}, after: edits{uninstall(true, false), version("1.0.0")}, free: true,
		},
		"UP-13 another build": {
			before: edits{uninstall(true, true), version("1.0.0+a")}, after: edits{uninstall(true, true), version("1.0.0+b")}, free: true,
		},
		"upgrade while uninstalling": {
			before: edits{uninstall(true, true), version("1.0")}, after: edits{uninstall(true, true), version("2.0")},
			want: []string{"from 1.0 to 2.0", "cancels"}, at: "spec.packages[driver].version",
		},
		"upgrade that cancels": {
			before: edits{uninstall(true, true), version("1.0")}, after: edits{uninstall(true, false), version("2.0")},
			want: []string{"from 1.0 to 2.0"}, at: "spec.packages[driver].version",
		},
		"upgrade together with uninstall": {
			before: edits{uninstall(true, false), version("1.0")}, after: edits{uninstall(true, true), version("2.0")},
			want: []string{"together with or during an uninstall"}, at: "spec.packages[driver].version",
		},
		"cancel":    {before: edits{uninstall(true, true)}, after: edits{uninstall(true, false)}, free: true},
		"uninstall": {before: edits{uninstall(true, false)}, after: edits{uninstall(true, true)}, free: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			before, after := sound(tc.before...), sound(tc.after...)
			held := HeldPackages(before, after)
			if (len(held) == 0) != tc.free {
				t.Fatalf("held packages %v, free is %t", held, tc.free)
			}
			if errs := NodeWrightUpdate(before, after, nil); len(errs) != 0 {
				t.Errorf("no node has the package, and errors are %v", errs)
			}
			errs := NodeWrightUpdate(before, after, Holders{"driver": {"n1"}})
			if tc.free {
				if len(errs) != 0 {
					t.Errorf("errors %v", errs)
				}
				return
			}
			if len(errs) != 1 || errs[0].Field != tc.at {
				t.Fatalf("errors %v, want one at %s", errs, tc.at)
			}
			for _, word := range tc.want {
				if !strings.Contains(errs[0].Error(), word) {
					t.Errorf("error %q does not say %q", errs[0], word)
				}
			}
		})
	}
}

func TestNodeWrightUpdateWarnings(t *testing.T) {
	tests := map[string]struct {
		before, after func(*v1alpha1.NodeWright)
		want          string
	}{
		"cancel":                   {uninstall(true, true), uninstall(true, false), "cancelled"},
		"cancel by leaving it out": {uninstall(true, true), version("1.2.3"), "cancelled"},
		"goes on":                  {uninstall(true, true), uninstall(true, true), ""},
		"UP-13 equal by build":     {version("1.0.0+a"), version("1.0.0+b"), "equal rank"},
		"UP-13 equal by spelling":  {version("v1.0"), version("1.0.0"), "equal rank"},
		"UP-13 higher":             {version("1.0.0"), version("1.0.1"), ""},
		"removed":                  {uninstall(true, true), removed, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := NodeWrightUpdateWarnings(sound(tc.before), sound(tc.after))
			if (len(got) == 0) != (tc.want == "") || len(got) > 0 && !strings.Contains(got[0], tc.want) {
				t.Errorf("warnings %q, want one that says %q", got, tc.want)
			}
		})
	}
}

// WH-17: one node of 500 that is not ready and not selected holds the package.
func TestHoldersOf_WH17(t *testing.T) {
	entry := func(nw, pkg string) string { return nodestate.NewPackageKey(nodestate.KindNodeState, nw, pkg).String() }
	blob := nodestate.NewKey(nodestate.KindBlob, "gpu").String()
	long := strings.Repeat("n", 80)
	nodes := make([]corev1.Node, 500)
	for i := range nodes {
		nodes[i] = corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%03d", i)}}
	}
	put := func(i int, key, value string) {
		nodes[i].Annotations = map[string]string{key: value}
	}
	put(499, entry("gpu", "driver"), `{"junk":`)
	put(17, entry("gpu", "driver"), `{}`)
	put(1, entry("gpu", "driver-extra"), `{}`)
	put(2, entry("gpu-a", "driver"), `{}`)
	put(3, entry(long, "driver"), `{}`)
	put(4, blob, `{"driver|1.0.0":{"name":"driver","version":"1.0.0","image":"r/p","stage":"config","state":"complete"}}`)
	put(5, blob, `{"driver-extra|1.0.0":{}}`)
	put(6, blob, `not a map`)
	got := HoldersOf("gpu", []string{"driver", "none"}, nodes)
	want := Holders{"driver": {"n004", "n006", "n017", "n499"}, "none": {"n006"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holders (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(Holders{"driver": {"n003"}}, HoldersOf(long, []string{"driver"}, nodes)); diff != "" {
		t.Errorf("holders of a long name (-want +got):\n%s", diff)
	}
}

func TestNameNodes(t *testing.T) {
	var nodes []string
	for i := range 12 {
		nodes = append(nodes, fmt.Sprintf("n%d", i))
	}
	for count, want := range map[int]string{
		1:  "node n0",
		2:  "2 nodes: n0, n1",
		10: "10 nodes: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9",
		12: "12 nodes: n0, n1, n2, n3, n4, n5, n6, n7, n8, n9 and others",
	} {
		if got := nameNodes(nodes[:count]); got != want {
			t.Errorf("%d nodes: %q, want %q", count, got, want)
		}
	}
}
