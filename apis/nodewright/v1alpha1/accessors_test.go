package v1alpha1

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

func ptr[T any](v T) *T { return &v }

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

func TestStageTimeoutOf(t *testing.T) {
	for name, tc := range map[string]struct {
		spec NodeWrightSpec
		want time.Duration
	}{
		"nobody says: fallback": {want: time.Hour},
		"nodewright says": {
			spec: NodeWrightSpec{StageTimeout: duration(time.Minute)},
			want: time.Minute,
		},
		"package says more than nodewright": {
			spec: NodeWrightSpec{
				StageTimeout: duration(time.Minute),
				Packages:     map[string]Package{"pa": {StageTimeout: duration(2 * time.Minute)}},
			},
			want: 2 * time.Minute,
		},
		"0 of the package is no time bound, not unset": {
			spec: NodeWrightSpec{
				StageTimeout: duration(time.Minute),
				Packages:     map[string]Package{"pa": {StageTimeout: duration(0)}},
			},
			want: 0,
		},
		"0 of the nodewright is no time bound, not unset": {
			spec: NodeWrightSpec{StageTimeout: duration(0)},
			want: 0,
		},
		"other package": {
			spec: NodeWrightSpec{Packages: map[string]Package{"pb": {StageTimeout: duration(time.Minute)}}},
			want: time.Hour,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.spec.StageTimeoutOf("pa", time.Hour); got != tc.want {
				t.Errorf("StageTimeoutOf() = %s, want %s", got, tc.want)
			}
		})
	}
}

func TestDefaultsOfSpec(t *testing.T) {
	var empty NodeWrightSpec
	set := NodeWrightSpec{
		Priority:   ptr[int32](1),
		Sequencing: SequencingAll,
		Retry:      &Retry{Limit: ptr[int32](0)},
		JobTTL:     &JobTTL{Failed: duration(time.Minute)},
		Packages:   map[string]Package{"pb": {}, "pa": {}},
	}
	if got := empty.PriorityOrDefault(); got != 200 {
		t.Errorf("PriorityOrDefault() of an empty spec = %d, want 200", got)
	}
	if got := set.PriorityOrDefault(); got != 1 {
		t.Errorf("PriorityOrDefault() = %d, want 1", got)
	}
	if got := empty.SequencingOrDefault(); got != SequencingNode {
		t.Errorf("SequencingOrDefault() of an empty spec = %s, want node", got)
	}
	if got := set.SequencingOrDefault(); got != SequencingAll {
		t.Errorf("SequencingOrDefault() = %s, want all", got)
	}
	if got := empty.RetryLimitOr(3); got != 3 {
		t.Errorf("RetryLimitOr(3) of an empty spec = %d, want 3", got)
	}
	if got := set.RetryLimitOr(3); got != 0 {
		t.Errorf("RetryLimitOr(3) = %d, want 0", got)
	}
	if s, f := empty.JobTTLOr(time.Hour, 24*time.Hour); s != time.Hour || f != 24*time.Hour {
		t.Errorf("JobTTLOr() of an empty spec = %s, %s, want the fallbacks", s, f)
	}
	if s, f := set.JobTTLOr(time.Hour, 24*time.Hour); s != time.Hour || f != time.Minute {
		t.Errorf("JobTTLOr() = %s, %s, want 1h and 1m", s, f)
	}
	if diff := cmp.Diff([]string{"pa", "pb"}, set.PackageNames()); diff != "" {
		t.Errorf("PackageNames() differs (-want +got):\n%s", diff)
	}
}

func TestDrainSettings(t *testing.T) {
	defaults := DrainSettings{DeleteEmptyDirData: true, Force: true, IgnoreDaemonSets: true}
	with := func(change func(*DrainSettings)) DrainSettings {
		s := defaults
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		spec NodeWrightSpec
		want DrainSettings
	}{
		"nothing said": {want: defaults},
		"empty drain":  {spec: NodeWrightSpec{Drain: &Drain{}}, want: defaults},
		"drain says all": {
			spec: NodeWrightSpec{Drain: &Drain{
				Timeout:            duration(time.Minute),
				GracePeriodSeconds: ptr[int64](0),
				DeleteEmptyDirData: ptr(false),
				Force:              ptr(false),
				IgnoreDaemonSets:   ptr(false),
				DisableEviction:    ptr(true),
			}},
			want: DrainSettings{Timeout: time.Minute, GracePeriodSeconds: ptr[int64](0), DisableEviction: true},
		},
		"earlier form": {
			spec: NodeWrightSpec{DrainConfig: &DrainConfig{
				Timeout: duration(time.Minute), GracePeriod: duration(30 * time.Second), Force: ptr(false),
			}},
			want: with(func(s *DrainSettings) {
				s.Timeout, s.GracePeriodSeconds, s.Force = time.Minute, ptr[int64](30), false
			}),
		},
		"part of a second of grace is no immediate kill": {
			spec: NodeWrightSpec{DrainConfig: &DrainConfig{GracePeriod: duration(time.Millisecond)}},
			want: with(func(s *DrainSettings) { s.GracePeriodSeconds = ptr[int64](1) }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.spec.DrainSettings()); diff != "" {
				t.Errorf("DrainSettings() differs (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAnnotations(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations  map[string]string
		wantPaused   bool
		wantDisabled bool
	}{
		"none":            {},
		"pause":           {annotations: map[string]string{"nodewright.nvidia.com/pause": "true"}, wantPaused: true},
		"pause, older":    {annotations: map[string]string{"skyhook.nvidia.com/pause": "true"}, wantPaused: true},
		"disable":         {annotations: map[string]string{"nodewright.nvidia.com/disable": "true"}, wantDisabled: true},
		"disable, older":  {annotations: map[string]string{"skyhook.nvidia.com/disable": "true"}, wantDisabled: true},
		"other values":    {annotations: map[string]string{"nodewright.nvidia.com/pause": "True", "nodewright.nvidia.com/disable": "1"}},
		"false and older": {annotations: map[string]string{"nodewright.nvidia.com/pause": "false", "skyhook.nvidia.com/pause": "true"}, wantPaused: true},
	} {
		t.Run(name, func(t *testing.T) {
			nw := NodeWright{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}
			if nw.Paused() != tc.wantPaused || nw.Disabled() != tc.wantDisabled {
				t.Errorf("Paused(), Disabled() = %t, %t, want %t, %t", nw.Paused(), nw.Disabled(), tc.wantPaused, tc.wantDisabled)
			}
		})
	}
	for label, want := range map[string]bool{LabelIgnore: true, LegacyLabelIgnore: true, "example.com/ignore": false} {
		if got := NodeIgnored(map[string]string{label: "true"}); got != want {
			t.Errorf("NodeIgnored() with label %s = %t, want %t", label, got, want)
		}
	}
}

func TestCountsKnowEveryWord(t *testing.T) {
	var counts NodeCounts
	for _, word := range nodestate.StatusWords() {
		counts.Count(word, 1)
	}
	want := NodeCounts{
		Selected: 8, Complete: 1, InProgress: 1, Erroring: 1, Blocked: 1,
		Waiting: 1, Paused: 1, Disabled: 1, Unknown: 1,
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts differ (-want +got):\n%s", diff)
	}
	counts.Count("a word of a newer operator", 2)
	if counts.Unknown != 3 || counts.Selected != 10 {
		t.Errorf("unknown word: unknown %d, selected %d, want 3 and 10", counts.Unknown, counts.Selected)
	}
}
