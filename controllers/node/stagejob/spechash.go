package stagejob

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

// hashedSpec is what of the spec an attempt runs, besides version, image and
// configuration, which are compared one by one. What the operator's
// configuration adds is left out: an upgrade of the operator must not end
// running work. So are stage timeout and retry limit, which reach a running
// attempt in place, and dependencies, which gate starts only.
type hashedSpec struct {
	Agent            string                        `json:"agent,omitempty"`
	Env              []corev1.EnvVar               `json:"env,omitempty"`
	Resources        []int64                       `json:"resources,omitempty"`
	GraceSeconds     *float64                      `json:"grace,omitempty"`
	Interrupt        *v1alpha1.Interrupt           `json:"interrupt,omitempty"`
	ConfigInterrupts map[string]v1alpha1.Interrupt `json:"configInterrupts,omitempty"`
	Tolerations      []corev1.Toleration           `json:"tolerations,omitempty"`
}

// SpecHash identifies what an attempt of the package runs. Quantities count by
// value: 1000m is 1.
func SpecHash(nw *v1alpha1.NodeWright, p *v1alpha1.Package) (string, error) {
	h := hashedSpec{
		Agent: p.AgentImageOverride, Env: p.Env, Interrupt: p.Interrupt,
		ConfigInterrupts: p.ConfigInterrupts, Tolerations: nw.Spec.AdditionalTolerations,
	}
	if r := p.Resources; r != nil {
		for _, q := range []*resource.Quantity{r.CPURequest, r.CPULimit, r.MemoryRequest, r.MemoryLimit} {
			value := int64(-1)
			if q != nil {
				value = q.MilliValue()
			}
			h.Resources = append(h.Resources, value)
		}
	}
	if p.GracefulShutdown != nil {
		seconds := p.GracefulShutdown.Seconds()
		h.GraceSeconds = &seconds
	}
	data, err := json.Marshal(h)
	if err != nil {
		return "", fmt.Errorf("hash spec of package: %w", err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:5]), nil
}
