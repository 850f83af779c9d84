package stagejob

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

func TestIntolerable(t *testing.T) {
	taint := func(key, value string, effect corev1.TaintEffect) corev1.Taint {
		return corev1.Taint{Key: key, Value: value, Effect: effect}
	}
	tests := map[string]struct {
		taints    []corev1.Taint
		tolerates []corev1.Toleration
		want      string
	}{
		"none":                     {nil, nil, ""},
		"pods are bound":           {[]corev1.Taint{taint("a", "b", "NoSchedule"), taint("a", "b", "PreferNoSchedule")}, nil, ""},
		"evicts":                   {[]corev1.Taint{taint("x", "", "NoSchedule"), taint("a", "b", "NoExecute")}, nil, "a=b:NoExecute"},
		"tolerated":                {[]corev1.Taint{taint("a", "b", "NoExecute")}, []corev1.Toleration{{Key: "a", Operator: "Exists"}}, ""},
		"another value":            {[]corev1.Taint{taint("a", "b", "NoExecute")}, []corev1.Toleration{{Key: "a", Value: "c"}}, "a=b:NoExecute"},
		"another effect":           {[]corev1.Taint{taint("a", "b", "NoExecute")}, []corev1.Toleration{{Key: "a", Operator: "Exists", Effect: "NoSchedule"}}, "a=b:NoExecute"},
		"tolerates everything":     {[]corev1.Taint{taint("a", "b", "NoExecute")}, []corev1.Toleration{{Operator: "Exists"}}, ""},
		"of a node that is away":   {[]corev1.Taint{taint(corev1.TaintNodeNotReady, "", "NoExecute"), taint(corev1.TaintNodeUnreachable, "", "NoExecute")}, nil, ""},
		"runtime-required":         {[]corev1.Taint{taint("gate", "shut", "NoExecute")}, nil, ""},
		"runtime-required, others": {[]corev1.Taint{taint("gate", "open", "NoExecute")}, nil, "gate=open:NoExecute"},
		"the second one":           {[]corev1.Taint{taint("gate", "shut", "NoExecute"), taint("z", "", "NoExecute")}, nil, "z:NoExecute"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := &Settings{Tolerated: []corev1.Taint{taint("gate", "shut", "NoExecute")}}
			nw := &v1alpha1.NodeWright{Spec: v1alpha1.NodeWrightSpec{AdditionalTolerations: tc.tolerates}}
			if got := s.Intolerable(nw, tc.taints); got != tc.want {
				t.Errorf("intolerable %q, want %q", got, tc.want)
			}
		})
	}
}
