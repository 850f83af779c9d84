package packagejob_test

import (
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

func TestLabelValue(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		in         string
		wantPlain  bool
		wantPrefix string
	}{
		"plain":           {in: "driver-1.2.3", wantPlain: true},
		"63 bytes":        {in: strings.Repeat("a", 63), wantPlain: true},
		"64 bytes":        {in: strings.Repeat("a", 64), wantPrefix: "aaa"},
		"253 bytes":       {in: longName(253), wantPrefix: "nnn"},
		"plus":            {in: "driver-1.2.3+b7", wantPrefix: "driver-1.2.3-b7--"},
		"upper case":      {in: "driver-1.2.3-RC", wantPlain: true},
		"ends in a dash":  {in: "driver-", wantPrefix: "driver--"},
		"only bad":        {in: "+++"},
		"not ascii":       {in: "drüver", wantPrefix: "dr-ver--"},
		"empty is plain":  {in: "", wantPlain: true},
		"looks like hash": {in: "driver--abcdefghijklm", wantPlain: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := packagejob.LabelValue(tc.in)
			if tc.wantPlain != (got == tc.in) {
				t.Errorf("LabelValue(%q) = %q, want plain = %t", tc.in, got, tc.wantPlain)
			}
			if !strings.HasPrefix(got, tc.wantPrefix) {
				t.Errorf("LabelValue(%q) = %q, want it to begin with %q", tc.in, got, tc.wantPrefix)
			}
		})
	}
}

func TestLabelValueIsValidAndBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		in := rapid.String().Draw(t, "in")
		got := packagejob.LabelValue(in)
		if errs := validation.IsValidLabelValue(got); len(errs) > 0 {
			t.Fatalf("LabelValue(%q) = %q: %v", in, got, errs)
		}
		if got != packagejob.LabelValue(in) {
			t.Fatal("LabelValue gives two answers for one input")
		}
	})
}

func TestLabelValueTellsLongNamesApart(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 100)
	if a, b := packagejob.LabelValue(long+"a"), packagejob.LabelValue(long+"b"); a == b {
		t.Errorf("LabelValue gives %q for two names", a)
	}
}

func TestOwnedAndSelectorAgree(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		labels map[string]string
		want   bool
	}{
		"ours":              {labels: identity(nil).Labels(), want: true},
		"of an interrupt":   {labels: map[string]string{packagejob.LabelPackage: "p-1", packagejob.LabelInterrupt: "True"}, want: true},
		"empty value":       {labels: map[string]string{packagejob.LabelPackage: ""}, want: true},
		"no labels":         {},
		"somebody else's":   {labels: map[string]string{"app": "x"}},
		"name only":         {labels: map[string]string{packagejob.LabelName: "tuning"}},
		"of the old prefix": {labels: map[string]string{nodestate.LegacyPrefix + "package": "p-1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := packagejob.Owned(tc.labels); got != tc.want {
				t.Errorf("Owned() = %t, want %t", got, tc.want)
			}
			if got := packagejob.Selector().Matches(labels.Set(tc.labels)); got != tc.want {
				t.Errorf("Selector().Matches() = %t, want %t", got, tc.want)
			}
		})
	}
}

func TestInterruptLabel(t *testing.T) {
	t.Parallel()
	for _, stage := range nodestate.Stages() {
		i := identity(func(i *packagejob.Identity) { i.Stage = stage })
		want := strings.HasSuffix(string(stage), "interrupt") && stage != nodestate.StagePostInterrupt
		if _, got := i.Labels()[packagejob.LabelInterrupt]; got != want {
			t.Errorf("stage %s: interrupt label there = %t, want %t", stage, got, want)
		}
	}
}

// JB-22: conditions that come before the end do not end a Job.
func TestFinished(t *testing.T) {
	t.Parallel()
	condition := func(c batchv1.JobConditionType, s corev1.ConditionStatus) batchv1.JobCondition {
		return batchv1.JobCondition{Type: c, Status: s}
	}
	for name, tc := range map[string]struct {
		conditions []batchv1.JobCondition
		want       batchv1.JobConditionType
		wantOK     bool
	}{
		"running":              {},
		"complete":             {conditions: []batchv1.JobCondition{condition(batchv1.JobComplete, "True")}, want: batchv1.JobComplete, wantOK: true},
		"failed":               {conditions: []batchv1.JobCondition{condition(batchv1.JobFailed, "True")}, want: batchv1.JobFailed, wantOK: true},
		"failure target":       {conditions: []batchv1.JobCondition{condition(batchv1.JobFailureTarget, "True")}},
		"success criteria met": {conditions: []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet, "True")}},
		"suspended":            {conditions: []batchv1.JobCondition{condition(batchv1.JobSuspended, "True")}},
		"false":                {conditions: []batchv1.JobCondition{condition(batchv1.JobFailed, "False")}},
		"target, then failed": {
			conditions: []batchv1.JobCondition{condition(batchv1.JobFailureTarget, "True"), condition(batchv1.JobFailed, "True")},
			want:       batchv1.JobFailed, wantOK: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			job := &batchv1.Job{Status: batchv1.JobStatus{Conditions: tc.conditions}}
			if got, ok := packagejob.Finished(job); got != tc.want || ok != tc.wantOK {
				t.Errorf("Finished() = %q, %t, want %q, %t", got, ok, tc.want, tc.wantOK)
			}
		})
	}
}

func TestNodeNameIgnoresLabels(t *testing.T) {
	t.Parallel()
	node := longName(253)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Labels: map[string]string{packagejob.LabelNode: packagejob.LabelValue(node)},
	}}
	job.Spec.Template.Spec.NodeName = node
	if got := packagejob.NodeName(job); got != node {
		t.Errorf("NodeName() = %q, want the name of the pod template", got)
	}
}
