package node

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/revision"
	"github.com/nodewright/nodewright/controllers/node/plan"
)

func configured(config map[string]string, interrupts map[string]v1alpha1.Interrupt) *v1alpha1.NodeWright {
	nw := &v1alpha1.NodeWright{ObjectMeta: metav1.ObjectMeta{Name: "nw", UID: "nw-uid"}}
	nw.Spec.Packages = map[string]v1alpha1.Package{"pa": {
		Version: "1.0.0", Image: "reg/pa", ConfigMap: config, ConfigInterrupts: interrupts,
	}}
	return nw
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: revision.ConfigMapName("nw", "nw-uid", "pa", revision.ConfigHash(data)),
		},
		Data: data,
	}
}

// inputOf is what the planner gets for one package whose entry has the
// configMap of this hash.
func (f *fixture) inputOf(t *testing.T, hash string) plan.Input {
	t.Helper()
	id := identity()
	f.paper.view.Record.Packages = map[nodestate.PackageRef]nodestate.PackageStatus{id.Ref(): {
		Name: "pa", NodeWright: "nw", UID: "nw-uid", Version: "1.0.0", Image: "reg/pa", ConfigHash: hash,
		Stage: nodestate.StageConfig, State: nodestate.StateComplete, Run: 2,
	}}
	var got plan.Input
	f.opts.Compute = func(in plan.Input) plan.Plan { got = in; return plan.Plan{} }
	if _, err := f.reconcile(t); err != nil {
		t.Fatal(err)
	}
	return got
}

func TestConfigInterrupts(t *testing.T) {
	noop := v1alpha1.Interrupt{Type: v1alpha1.InterruptNoop}
	reboot := v1alpha1.Interrupt{Type: v1alpha1.InterruptReboot}
	restart := func(services ...string) v1alpha1.Interrupt {
		return v1alpha1.Interrupt{Type: v1alpha1.InterruptService, Services: services}
	}
	all := map[string]v1alpha1.Interrupt{"a.conf": restart("z", "b"), "*.conf": restart("b", "c"), "kernel": reboot, "motd": noop}
	before := map[string]string{"a.conf": "1", "b.conf": "1", "kernel": "1", "motd": "1", "other": "1"}
	with := func(change func(map[string]string)) map[string]string {
		after := map[string]string{}
		for key, value := range before {
			after[key] = value
		}
		change(after)
		return after
	}
	tests := map[string]struct {
		after  map[string]string
		before map[string]string
		stored bool
		want   *nodestate.Interrupt
	}{
		"nothing changed":     {with(func(map[string]string) {}), before, true, nil},
		"a key without match": {with(func(m map[string]string) { m["other"] = "2" }), before, true, nil},
		"one match": {with(func(m map[string]string) { m["b.conf"] = "2" }), before, true,
			&nodestate.Interrupt{Type: "service", Services: []string{"b", "c"}}},
		"several of one type": {with(func(m map[string]string) { m["a.conf"] = "2" }), before, true,
			&nodestate.Interrupt{Type: "service", Services: []string{"b", "c", "z"}}},
		"the strongest": {with(func(m map[string]string) { m["a.conf"], m["kernel"] = "2", "2" }), before, true,
			&nodestate.Interrupt{Type: "reboot"}},
		"the weakest": {with(func(m map[string]string) { m["motd"] = "" }), before, true, &nodestate.Interrupt{Type: "noop"}},
		"added": {with(func(m map[string]string) { m["c.conf"] = "" }), before, true,
			&nodestate.Interrupt{Type: "service", Services: []string{"b", "c"}}},
		"removed":          {with(func(m map[string]string) { delete(m, "kernel") }), before, true, &nodestate.Interrupt{Type: "reboot"}},
		"all removed":      {nil, before, true, &nodestate.Interrupt{Type: "reboot"}},
		"there was none":   {map[string]string{"motd": "1"}, nil, true, &nodestate.Interrupt{Type: "noop"}},
		"what was is gone": {with(func(m map[string]string) { m["other"] = "2" }), before, false, &nodestate.Interrupt{Type: "reboot"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{configured(tc.after, all)}
			if tc.stored && tc.before != nil {
				objects = append(objects, configMap(tc.before))
			}
			f := newFixture(t, interceptor.Funcs{}, objects...)
			want := map[nodestate.PackageRef]nodestate.Interrupt{}
			if tc.want != nil {
				want[nodestate.PackageRef{NodeWright: "nw", Package: "pa"}] = *tc.want
			}
			got := f.inputOf(t, revision.ConfigHash(tc.before)).ConfigInterrupts
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("interrupts (-want +got):\n%s", diff)
			}
		})
	}
}

// ST-21: a pattern that comes after a change of a key that has arrived since
// finds nothing changed, and one that comes before finds the change. A record of
// pending changes, which somebody has to take back, is not there.
func TestConfigInterruptsFollowFromWhatStands_ST21(t *testing.T) {
	one, two := map[string]string{"a.conf": "1"}, map[string]string{"a.conf": "2"}
	restart := map[string]v1alpha1.Interrupt{"*.conf": {Type: v1alpha1.InterruptService, Services: []string{"s"}}}
	f := newFixture(t, interceptor.Funcs{}, configured(two, nil), configMap(one), configMap(two))
	// The key changes while no pattern matches it.
	if got := f.inputOf(t, revision.ConfigHash(one)).ConfigInterrupts; len(got) != 0 {
		t.Fatalf("interrupts %v without configInterrupts", got)
	}
	edited := configured(two, restart)
	edited.Generation = 2
	var nw v1alpha1.NodeWright
	if err := f.client.Get(t.Context(), client.ObjectKey{Name: "nw"}, &nw); err != nil {
		t.Fatal(err)
	}
	nw.Spec, nw.Generation = edited.Spec, 2
	if err := f.client.Update(t.Context(), &nw); err != nil {
		t.Fatal(err)
	}
	// Before the node got it, the change matches the new pattern, once it has it
	// none does, and on the way back it does again.
	for _, tc := range []struct {
		has  map[string]string
		want int
	}{{one, 1}, {two, 0}, {one, 1}, {two, 0}} {
		if got := f.inputOf(t, revision.ConfigHash(tc.has)).ConfigInterrupts; len(got) != tc.want {
			t.Errorf("interrupts %v of a node that has %v, want %d", got, tc.has, tc.want)
		}
	}
}

// A cache that lacks the old configMap proves nothing; one of its name with
// other content is not it; an API server that does not answer is no answer.
func TestOldConfigMapIsReadForSure(t *testing.T) {
	before, after := map[string]string{"a": "1", "b": "1"}, map[string]string{"a": "2", "b": "1"}
	interrupts := map[string]v1alpha1.Interrupt{"b": {Type: v1alpha1.InterruptReboot}}
	f := newFixture(t, interceptor.Funcs{}, configured(after, interrupts))
	f.opts.Live = fake.NewClientBuilder().WithObjects(configMap(before)).Build()
	if got := f.inputOf(t, revision.ConfigHash(before)).ConfigInterrupts; len(got) != 0 {
		t.Errorf("interrupts %v, though b is as it was", got)
	}
	forged := configMap(before)
	forged.Data = after
	f.opts.Live = fake.NewClientBuilder().WithObjects(forged).Build()
	if got := f.inputOf(t, revision.ConfigHash(before)).ConfigInterrupts; len(got) != 1 {
		t.Errorf("interrupts %v by a configMap that is not what its name says", got)
	}
	f.opts.Live = fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("no answer")
		},
	}).Build()
	if _, err := f.reconcile(t); err == nil {
		t.Error("planned without an answer")
	}
}

// UN-09: a package is taken off with the configMap that it was set up with, and
// the variables and resources of the spec.
func TestUninstallHasConfigAndVariables_UN09(t *testing.T) {
	old, now := map[string]string{"old": "1"}, map[string]string{"now": "1"}
	tests := map[string]struct {
		hash   map[string]string
		stored []map[string]string
		stage  nodestate.Stage
		// key that is mounted, of the ConfigMap with this content.
		want    string
		of      map[string]string
		told    int
		refused bool
	}{
		"of the spec":          {hash: now, stage: nodestate.StageUninstall, want: "now", of: now},
		"of before":            {hash: old, stored: []map[string]string{old}, stage: nodestate.StageUninstall, want: "old", of: old},
		"of before, gone":      {hash: old, stage: nodestate.StageUninstall, want: "now", of: now, told: 1},
		"none":                 {stage: nodestate.StageUninstall},
		"gone, another stage":  {hash: old, stage: nodestate.StageConfig, refused: true},
		"found, another stage": {hash: old, stored: []map[string]string{old}, stage: nodestate.StageConfig, want: "old", of: old},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			nw := configured(now, nil)
			pkg := nw.Spec.Packages["pa"]
			pkg.Env = []corev1.EnvVar{{Name: "MODE", Value: "fast"}}
			nw.Spec.Packages["pa"] = pkg
			var objects []client.Object
			for _, data := range tc.stored {
				objects = append(objects, configMap(data))
			}
			f := newFixture(t, interceptor.Funcs{}, objects...)
			in := &gathered{view: f.paper.view, specs: map[string]*v1alpha1.NodeWright{"nw": nw}}
			id := identity()
			id.Stage = tc.stage
			err := f.createJob(t.Context(), in, &plan.JobCreate{Identity: id, ConfigHash: revision.ConfigHash(tc.hash)})
			if (err != nil) != tc.refused {
				t.Fatal(err)
			}
			if tc.refused {
				return
			}
			var jobs batchv1.JobList
			if err := f.client.List(t.Context(), &jobs); err != nil || len(jobs.Items) != 1 {
				t.Fatalf("%d Jobs, error %v", len(jobs.Items), err)
			}
			spec := &jobs.Items[0].Spec.Template.Spec
			mounted, volume := "", ""
			for _, m := range spec.InitContainers[0].VolumeMounts {
				if m.Name == "package-config" {
					mounted += m.SubPath
				}
			}
			for _, v := range spec.Volumes {
				if v.ConfigMap != nil {
					volume = v.ConfigMap.Name
				}
			}
			wantVolume := ""
			if tc.of != nil {
				wantVolume = revision.ConfigMapName("nw", "nw-uid", "pa", revision.ConfigHash(tc.of))
			}
			if mounted != tc.want || volume != wantVolume || spec.InitContainers[1].Env[0].Value != "fast" || f.told() != tc.told {
				t.Errorf("mounted %q of %q, want %q of %q; variables %v", mounted, volume, tc.want, wantVolume, spec.InitContainers[1].Env)
			}
		})
	}
}
