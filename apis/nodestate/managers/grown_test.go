package managers

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGrown(t *testing.T) {
	type entries = []metav1.ManagedFieldsEntry
	const (
		keys    = `"f:metadata":{"f:annotations":{"f:` + stateKey + `":{}}}`
		cordon  = `,"f:spec":{"f:unschedulable":{}}`
		taints  = `,"f:spec":{"f:taints":{}}`
		foreign = `"f:metadata":{"f:annotations":{"f:` + stateKey + `":{},"f:example.com/x":{}}}`
	)
	node := func(text string) metav1.ManagedFieldsEntry {
		return entry("nodewright-node", apply, "", "{"+text+"}")
	}
	at := entries{node(keys + cordon), entry("kubelet", update, "", annotated("example.com/x"))}
	with := func(e metav1.ManagedFieldsEntry) entries { return entries{e, at[1]} }
	cases := map[string]struct {
		before, after entries
		want          []string
		wantErr       string
	}{
		"nothing changes":              {before: at, after: at},
		"only the time":                {before: at, after: with(later(node(keys + cordon)))},
		"it lets a cordon go":          {before: at, after: with(node(keys))},
		"it lets all go":               {before: at, after: at[1:]},
		"it lets its keys go":          {before: at, after: with(node(strings.TrimPrefix(cordon, ",")))},
		"another API version":          {before: at, after: with(inV2(node(keys + cordon)))},
		"another API version alone":    {before: with(node(keys)), after: with(inV2(node(keys)))},
		"two API versions become one":  {before: entries{node(cordon[1:]), inV2(node(keys))}, after: entries{node(keys + cordon)}},
		"it grows in two API versions": {before: at, after: entries{node(keys + taints), inV2(node(keys + taints))}, want: []string{"nodewright-node"}},
		"it appears":                   {before: at[1:], after: with(node(keys)), want: []string{"nodewright-node"}},
		"it holds a taint":             {before: with(node(keys)), after: with(node(keys + taints)), want: []string{"nodewright-node"}},
		"it holds a taint instead":     {before: at, after: with(node(keys + taints)), want: []string{"nodewright-node"}},
		"it holds a foreign key":       {before: at, after: with(node(foreign)), want: []string{"nodewright-node"}},
		"it holds all annotations":     {before: at, after: with(node(`"f:metadata":{"f:annotations":{}}`)), want: []string{"nodewright-node"}},
		"it holds the map as well":     {before: at, after: with(node(strings.Replace(keys, `{"f:`+stateKey, `{".":{},"f:`+stateKey, 1))), want: []string{"nodewright-node"}},
		"it holds all metadata":        {before: at, after: with(node(`"f:metadata":{}`)), want: []string{"nodewright-node"}},
		"it holds by update":           {before: at, after: append(entries{entry("nodewright-node", update, "", "{"+taints[1:]+"}")}, at...)},
		"it holds of the status":       {before: at, after: append(entries{entry("nodewright-node", apply, "status", "{"+taints[1:]+"}")}, at...)},
		"another holds a taint":        {before: at, after: append(entries{entry("gitops", apply, "", "{"+taints[1:]+"}")}, at...)},
		"it cannot be read":            {before: at, after: with(node(`"f:spec":`)), wantErr: "nodewright-node (Apply)"},
		"it could not be read":         {before: with(node(`"f:spec":`)), after: with(node(`"f:spec":`))},
		"another cannot be read":       {before: at, after: append(entries{entry("odd", apply, "", "{")}, at...)},
		"it can be read once again":    {before: with(node(`"f:spec":`)), after: at, want: []string{"nodewright-node"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Grown(tc.before, tc.after, []string{"nodewright-job", "nodewright-node"})
			if tc.wantErr == "" && err != nil || tc.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tc.wantErr)) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("grown (-want +got):\n%s", diff)
			}
		})
	}
}
