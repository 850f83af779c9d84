package packagejob_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

func identity(change func(*packagejob.Identity)) packagejob.Identity {
	i := packagejob.Identity{
		Attempt: 1, Node: "n1", NodeUID: "0a1b", NodeWright: "tuning", NodeWrightUID: "2c3d",
		Package: "driver", Run: 7, Stage: nodestate.StageApply, Version: "1.2.3",
	}
	if change != nil {
		change(&i)
	}
	return i
}

func longName(length int) string {
	return strings.Repeat(strings.Repeat("n", 62)+".", 5)[:length-1] + "z"
}

func TestJobNameIsReadable(t *testing.T) {
	t.Parallel()
	name := identity(nil).JobName()
	if !strings.HasPrefix(name, "driver-apply-") {
		t.Errorf("JobName() = %q, want it to begin with package and stage", name)
	}
}

// JB-15, CV-01: names at the limits of the API server.
func TestJobNameStaysWithinLimits(t *testing.T) {
	t.Parallel()
	longPackage := strings.Repeat("p", nodestate.MaxPackageNameLength)
	for name, change := range map[string]func(*packagejob.Identity){
		"plain":               nil,
		"node of 253":         func(i *packagejob.Identity) { i.Node = longName(253) },
		"nodewright of 253":   func(i *packagejob.Identity) { i.NodeWright = longName(253) },
		"package of 43":       func(i *packagejob.Identity) { i.Package = longPackage },
		"build version":       func(i *packagejob.Identity) { i.Version = "v1.2.3+BUILD.7" },
		"upper case":          func(i *packagejob.Identity) { i.Version = "1.2.3-RC.1" },
		"cut behind a dash":   func(i *packagejob.Identity) { i.Package = strings.Repeat("a-", 20) + "z" },
		"large numbers":       func(i *packagejob.Identity) { i.Run, i.Attempt = nodestate.MaxSeq, 1<<31-1 },
		"everything at limit": func(i *packagejob.Identity) { *i = limits(longPackage) },
	} {
		for _, stage := range nodestate.Stages() {
			t.Run(name+"/"+string(stage), func(t *testing.T) {
				t.Parallel()
				i := identity(change)
				i.Stage = stage
				got := i.JobName()
				if len(got) > packagejob.MaxJobName {
					t.Errorf("JobName() = %q has %d bytes, want at most %d", got, len(got), packagejob.MaxJobName)
				}
				if pod := got + "-abcde"; len(validation.IsDNS1123Label(pod)) > 0 {
					t.Errorf("pod name %q is not a DNS label: %v", pod, validation.IsDNS1123Label(pod))
				}
				for key, value := range i.Labels() {
					if errs := validation.IsValidLabelValue(value); len(errs) > 0 {
						t.Errorf("label %s=%q is not valid: %v", key, value, errs)
					}
					if errs := validation.IsQualifiedName(key); len(errs) > 0 {
						t.Errorf("label key %s is not valid: %v", key, errs)
					}
				}
			})
		}
	}
}

func limits(pkg string) packagejob.Identity {
	return packagejob.Identity{
		Attempt: 1<<31 - 1, Node: longName(253), NodeUID: types.UID(strings.Repeat("u", 36)),
		NodeWright: longName(253), NodeWrightUID: types.UID(strings.Repeat("w", 36)), Package: pkg,
		Run: nodestate.MaxSeq, Stage: nodestate.StageUninstallInterrupt, Version: "10.20.30-RC.1+Build.9",
	}
}

func TestJobNameCoversEveryField(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*packagejob.Identity){
		"Attempt":       func(i *packagejob.Identity) { i.Attempt++ },
		"Node":          func(i *packagejob.Identity) { i.Node = "n2" },
		"NodeUID":       func(i *packagejob.Identity) { i.NodeUID = "ffff" },
		"NodeWright":    func(i *packagejob.Identity) { i.NodeWright = "other" },
		"NodeWrightUID": func(i *packagejob.Identity) { i.NodeWrightUID = "ffff" },
		"Package":       func(i *packagejob.Identity) { i.Package = "drives" },
		"Run":           func(i *packagejob.Identity) { i.Run++ },
		"Stage":         func(i *packagejob.Identity) { i.Stage = nodestate.StageConfig },
		"Version":       func(i *packagejob.Identity) { i.Version = "1.2.3+b" },
	}
	fields := reflect.TypeFor[packagejob.Identity]()
	if fields.NumField() != len(changes) {
		t.Fatalf("Identity has %d fields, %d are covered here", fields.NumField(), len(changes))
	}
	base := identity(nil).JobName()
	for field, change := range changes {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			if got := identity(change).JobName(); got == base || got[len(got)-16:] == base[len(base)-16:] {
				t.Errorf("JobName() = %q, want another hash than %q after a change of %s", got, base, field)
			}
		})
	}
}

func TestJobNameTellsNeighboursApart(t *testing.T) {
	t.Parallel()
	// Parts that read alike when joined must not be mistaken for each other.
	a := identity(func(i *packagejob.Identity) { i.Node, i.NodeUID = "n1", "2" })
	b := identity(func(i *packagejob.Identity) { i.Node, i.NodeUID = "n", "12" })
	c := identity(func(i *packagejob.Identity) { i.Run, i.Attempt = 11, 1 })
	d := identity(func(i *packagejob.Identity) { i.Run, i.Attempt = 1, 11 })
	if a.JobName() == b.JobName() || c.JobName() == d.JobName() {
		t.Error("different identities share a name")
	}
}

func TestEncodeParseRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := packagejob.Identity{
			Attempt:       rapid.Int32Min(1).Draw(t, "attempt"),
			Node:          rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?`).Draw(t, "node"),
			NodeUID:       types.UID(rapid.StringMatching(`[-a-f0-9]{1,36}`).Draw(t, "nodeUID")),
			NodeWright:    rapid.StringMatching(`[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?`).Draw(t, "nodewright"),
			NodeWrightUID: types.UID(rapid.StringMatching(`[-a-f0-9]{1,36}`).Draw(t, "nodewrightUID")),
			Package:       rapid.StringMatching(`[a-z][-a-z0-9]{0,41}[a-z]`).Draw(t, "package"),
			Run:           rapid.Int64Min(0).Draw(t, "run"),
			Stage:         rapid.SampledFrom(nodestate.Stages()).Draw(t, "stage"),
			Version:       rapid.SampledFrom([]string{"1", "v1.2", "1.2.3-RC.1+B", "2.0.0"}).Draw(t, "version"),
		}
		value, err := want.Encode()
		if err != nil {
			t.Fatalf("Encode() of %+v: %v", want, err)
		}
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
			Name: want.JobName(), Annotations: map[string]string{packagejob.AnnotationIdentity: value},
		}}
		got, err := packagejob.Parse(job)
		if err != nil || got != want {
			t.Fatalf("Parse(Encode(i)) = %+v, %v, want %+v", got, err, want)
		}
		var sorted map[string]any
		dec := json.NewDecoder(strings.NewReader(value))
		dec.UseNumber()
		if err := dec.Decode(&sorted); err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(sorted); err != nil || string(again) != value {
			t.Fatalf("Encode() = %s, want sorted keys like %s (%v)", value, again, err)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good, err := identity(nil).Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		annotations map[string]string
		wantIs      error
		wantText    string
	}{
		"no annotation":   {wantIs: packagejob.ErrNoIdentity},
		"empty":           {annotations: with(""), wantText: "parse"},
		"null":            {annotations: with("null"), wantText: "required"},
		"not json":        {annotations: with("driver|1.2.3"), wantText: "parse"},
		"wrong type":      {annotations: with(strings.Replace(good, `"run":7`, `"run":"7"`, 1)), wantText: "run"},
		"attempt 0":       {annotations: with(strings.Replace(good, `"attempt":1`, `"attempt":0`, 1)), wantText: "attempts count from 1"},
		"negative run":    {annotations: with(strings.Replace(good, `"run":7`, `"run":-7`, 1)), wantText: "run"},
		"unknown stage":   {annotations: with(strings.Replace(good, "apply", "applied", 1)), wantText: "stage"},
		"empty version":   {annotations: with(strings.Replace(good, "1.2.3", "", 1)), wantText: "version"},
		"package x_y":     {annotations: with(strings.Replace(good, "driver", "x_y", 1)), wantText: "package"},
		"node missing":    {annotations: with(strings.Replace(good, `"node":"n1",`, "", 1)), wantText: "node"},
		"name of 254":     {annotations: with(strings.Replace(good, "tuning", longName(254), 1)), wantText: "too long"},
		"oversized":       {annotations: with(strings.Repeat("x", 1<<20)), wantText: "1048576 bytes"},
		"of another job":  {annotations: with(strings.Replace(good, `"run":7`, `"run":8`, 1)), wantIs: packagejob.ErrOtherJob},
		"half a document": {annotations: with(good[:len(good)/2]), wantText: "parse"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: identity(nil).JobName(), Annotations: tc.annotations}}
			got, err := packagejob.Parse(job)
			if err == nil {
				t.Fatalf("Parse() = %+v, want an error", got)
			}
			if tc.wantIs != nil && !errors.Is(err, tc.wantIs) {
				t.Errorf("Parse() error = %v, want %v", err, tc.wantIs)
			}
			if !strings.Contains(err.Error(), tc.wantText) {
				t.Errorf("Parse() error = %q, want it to say %q", err, tc.wantText)
			}
		})
	}
}

func with(value string) map[string]string {
	return map[string]string{packagejob.AnnotationIdentity: value}
}

func FuzzParse(f *testing.F) {
	good, err := identity(nil).Encode()
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{good, "", "null", "[]", `{"run":1e99}`, "{\"node\":\"\xff\"}", good[1:]} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got, err := packagejob.Parse(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: with(value)}})
		if err != nil {
			return
		}
		if name := got.JobName(); len(name) > packagejob.MaxJobName || len(validation.IsDNS1123Label(name)) > 0 {
			t.Errorf("JobName() = %q of an identity that was accepted", name)
		}
	})
}

func TestAnnotationsRepeatPlainText(t *testing.T) {
	t.Parallel()
	got, err := identity(func(i *packagejob.Identity) { i.Attempt, i.Stage = 3, nodestate.StageConfig }).Annotations()
	if err != nil {
		t.Fatal(err)
	}
	delete(got, packagejob.AnnotationIdentity)
	want := map[string]string{packagejob.AnnotationStage: "config", packagejob.AnnotationAttempt: "3"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Annotations() (-want +got):\n%s", diff)
	}
	if _, err := identity(func(i *packagejob.Identity) { i.Package = "" }).Annotations(); err == nil {
		t.Error("Annotations() of an identity without package succeeded")
	}
}

func TestNamedBy(t *testing.T) {
	t.Parallel()
	entry := nodestate.PackageStatus{
		Attempt: 1, Name: "driver", NodeWright: "tuning", Run: 7, Stage: nodestate.StageApply,
		State: nodestate.StateInProgress, UID: "2c3d", Version: "1.2.3",
	}
	for name, tc := range map[string]struct {
		change func(*nodestate.PackageStatus)
		want   bool
	}{
		"same":             {want: true},
		"state is not it":  {change: func(s *nodestate.PackageStatus) { s.State = nodestate.StateErroring }, want: true},
		"next attempt":     {change: func(s *nodestate.PackageStatus) { s.Attempt++ }},
		"next run":         {change: func(s *nodestate.PackageStatus) { s.Run++ }},
		"next stage":       {change: func(s *nodestate.PackageStatus) { s.Stage = nodestate.StageConfig }},
		"other version":    {change: func(s *nodestate.PackageStatus) { s.Version = "1.2.4" }},
		"same rank":        {change: func(s *nodestate.PackageStatus) { s.Version = "v1.2.3" }},
		"other nodewright": {change: func(s *nodestate.PackageStatus) { s.NodeWright = "x" }},
		"other uid":        {change: func(s *nodestate.PackageStatus) { s.UID = "x" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := entry
			if tc.change != nil {
				tc.change(&s)
			}
			if got := identity(nil).NamedBy(&s); got != tc.want {
				t.Errorf("NamedBy() = %t, want %t", got, tc.want)
			}
		})
	}
}
