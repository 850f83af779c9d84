package carry_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/controllers/apply"
	"github.com/nodewright/nodewright/controllers/carry"
)

// nodeWrights answers reads of NodeWrights by name: true for one that is being
// deleted. All others are not found, but "broken".
type nodeWrights map[string]bool

func (n nodeWrights) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	deleting, there := n[key.Name]
	switch {
	case key.Name == "broken":
		return errors.New("no answer")
	case !there:
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("nodewrights").GroupResource(), key.Name)
	case deleting:
		now := metav1.Now()
		obj.SetDeletionTimestamp(&now)
	}
	return nil
}

func (nodeWrights) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return errors.New("nothing is listed here")
}

func TestRaw(t *testing.T) {
	t.Parallel()
	const prefix = nodestate.Prefix
	hashed := nodestate.NewPackageKey(nodestate.KindJobState, strings.Repeat("w", 60), "pa").String()
	live := nodeWrights{"stays": false, "leaves": true}
	for name, tc := range map[string]struct {
		raw      map[string]string
		replaced []nodestate.Key
		want     map[string]string
		wantErr  bool
	}{
		"nothing":              {},
		"stays":                {raw: map[string]string{prefix + "jobState_stays_pa": ""}, want: map[string]string{prefix + "jobState_stays_pa": ""}},
		"leaves":               {raw: map[string]string{prefix + "jobState_leaves_pa": "x"}, want: map[string]string{}},
		"gone":                 {raw: map[string]string{prefix + "jobState_gone_pa": "x"}, want: map[string]string{}},
		"no answer":            {raw: map[string]string{prefix + "jobState_broken_pa": "x"}, wantErr: true},
		"shortened":            {raw: map[string]string{hashed: "x"}, want: map[string]string{hashed: "x"}},
		"of another owner":     {raw: map[string]string{prefix + "nodeState_stays_pa": "x"}},
		"replaced":             {raw: map[string]string{prefix + "jobState_stays_pa": "x"}, replaced: []nodestate.Key{nodestate.NewPackageKey(nodestate.KindJobState, "stays", "pa")}, want: map[string]string{}},
		"shortened, replaced":  {raw: map[string]string{hashed: "x"}, replaced: []nodestate.Key{nodestate.NewPackageKey(nodestate.KindJobState, strings.Repeat("w", 60), "pa")}, want: map[string]string{}},
		"a neighbour replaced": {raw: map[string]string{prefix + "jobState_stays_pa": "x"}, replaced: []nodestate.Key{nodestate.NewPackageKey(nodestate.KindJobState, "stays", "pb")}, want: map[string]string{prefix + "jobState_stays_pa": "x"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			view := &apply.View{Record: nodestate.Record{Set: nodestate.Set{Raw: tc.raw}}}
			got, err := carry.Raw(t.Context(), live, view, nodestate.OwnerJob, tc.replaced...)
			if (err != nil) != tc.wantErr {
				t.Fatalf("Raw() error = %v, want one = %t", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Raw() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnused(t *testing.T) {
	t.Parallel()
	const prefix = nodestate.Prefix
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"nothing":          {want: true},
		"only our numbers": {annotations: map[string]string{prefix + "seq_job": "3", prefix + "seq_node": "4"}, want: true},
		"user keys":        {annotations: map[string]string{prefix + "pause": "true", "example.com/x": "y"}, want: true},
		"status":           {annotations: map[string]string{prefix + "status_a": "complete"}},
		"malformed status": {annotations: map[string]string{prefix + "status_a": ""}},
		"slot":             {annotations: map[string]string{prefix + "slot_a": `{"id":"1","nodewright":"a","state":"working"}`}},
		"batch":            {annotations: map[string]string{prefix + "batch_a": `{"id":"1","nodewright":"a"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rec := nodestate.Decode(tc.annotations, nil)
			if got := carry.Unused(&rec); got != tc.want {
				t.Errorf("Unused() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestLeftAlone(t *testing.T) {
	t.Parallel()
	const prefix = nodestate.Prefix
	seq, status, batch, state := prefix+"seq_job", prefix+"status_a", prefix+"batch_a", prefix+"nodeState_a_pa"
	set := func(keys ...string) map[string]string {
		m := map[string]string{"example.com/x": ""}
		for _, k := range keys {
			m[k] = "x"
		}
		return m
	}
	for name, tc := range map[string]struct {
		before, after map[string]string
		want          bool
	}{
		"nothing changes":      {before: set(seq, status, batch), after: set(seq, status, batch)},
		"status goes":          {before: set(seq, status, batch), after: set(seq, batch), want: true},
		"batch goes":           {before: set(seq, batch), after: set(seq), want: true},
		"no number of ours":    {before: set(batch), after: set()},
		"number of another":    {before: set(prefix+"seq_pod", batch), after: set(prefix + "seq_pod")},
		"a record goes":        {before: set(seq, state, batch), after: set(seq, batch)},
		"status comes":         {before: set(seq), after: set(seq, status)},
		"a foreign key goes":   {before: map[string]string{seq: "1", "example.com/y": ""}, after: map[string]string{seq: "1"}},
		"status value changes": {before: map[string]string{seq: "1", status: "complete"}, after: map[string]string{seq: "1", status: "paused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := carry.LeftAlone(tc.before, tc.after, nodestate.OwnerJob); got != tc.want {
				t.Errorf("LeftAlone() = %t, want %t", got, tc.want)
			}
		})
	}
}
