package rollout

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGated(t *testing.T) {
	const key, value = "gate", "shut"
	hard := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoSchedule}
	soft := corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectPreferNoSchedule}
	tests := map[string]struct {
		taint corev1.Taint
		want  string
	}{
		"ours":             {hard, "gate=shut:NoSchedule"},
		"whenever it came": {corev1.Taint{Key: key, Value: value, Effect: hard.Effect, TimeAdded: &metav1.Time{}}, "gate=shut:NoSchedule"},
		"only a wish":      {soft, ""},
		"another value":    {corev1.Taint{Key: key, Value: "open", Effect: hard.Effect}, ""},
		"another effect":   {corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffectNoExecute}, ""},
		"another key":      {corev1.Taint{Key: "other", Value: value, Effect: hard.Effect}, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := gated([]corev1.Taint{{Key: "x", Effect: hard.Effect}, tc.taint}, []corev1.Taint{soft, hard}); got != tc.want {
				t.Errorf("gated by %q, want %q", got, tc.want)
			}
		})
	}
}

// A taint that comes or goes is worth a pass.
func TestTaintChangesAreSeen(t *testing.T) {
	before := node("n1", nil)
	after := before.DeepCopy()
	if nodeChanged(before, after) {
		t.Error("nothing changed")
	}
	after.Spec.Taints = []corev1.Taint{{Key: "gate", Effect: corev1.TaintEffectNoSchedule}}
	if !nodeChanged(before, after) || !nodeChanged(after, before) {
		t.Error("the taint is not seen")
	}
}
