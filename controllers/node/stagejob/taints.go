package stagejob

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// Intolerable names the first taint that ends the pods of the NodeWright's
// packages: the kubelet rejects and the taint manager evicts pods that do not
// tolerate it. Only taints with effect NoExecute do that, since the pods are
// bound to their node. Tolerations with the operators Lt and Gt are not counted:
// not every cluster has them.
func (s *Settings) Intolerable(nw *v1alpha1.NodeWright, taints []corev1.Taint) string {
	var tolerated []corev1.Toleration
	for i := range taints {
		taint := &taints[i]
		if taint.Effect != corev1.TaintEffectNoExecute {
			continue
		}
		if tolerated == nil {
			tolerated = tolerations(s, nw)
		}
		if !slices.ContainsFunc(tolerated, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), taint, false)
		}) {
			return taint.ToString()
		}
	}
	return ""
}
