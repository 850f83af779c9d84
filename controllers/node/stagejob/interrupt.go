package stagejob

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const (
	// interruptMode is the mode of the agent that interrupts the host, in either
	// stage that does so.
	interruptMode = "interrupt"

	// What the agent of an interrupt gets, request and limit, whatever the package
	// asks for.
	interruptCPU    = "500m"
	interruptMemory = "64Mi"
)

// agentInterrupts are the agent's words for the types of interrupts.
var agentInterrupts = map[v1alpha1.InterruptType]string{
	v1alpha1.InterruptNoop:               "no_op",
	v1alpha1.InterruptService:            "service_restart",
	v1alpha1.InterruptRestartAllServices: "restart_all_services",
	v1alpha1.InterruptReboot:             "node_restart",
}

// interruptData is what the agent is told about an interrupt: base64 of
// canonical JSON. Agents that exist take services with the type service_restart
// only, and then need them, be they none.
func interruptData(i *nodestate.Interrupt) (string, error) {
	if i == nil {
		return "", errors.New("the stage interrupts the node, but no interrupt was decided on")
	}
	word, known := agentInterrupts[v1alpha1.InterruptType(i.Type)]
	if !known {
		return "", fmt.Errorf("interrupt type %.64q is not known", i.Type)
	}
	data := map[string]any{"type": word}
	if v1alpha1.InterruptType(i.Type) == v1alpha1.InterruptService {
		data["services"] = append([]string{}, i.Services...)
	}
	encoded, err := json.Marshal(data)
	if err != nil {
		return "", fmt.Errorf("encode interrupt: %w", err)
	}
	return base64.StdEncoding.EncodeToString(encoded), nil
}

// interruptSpec has the agent alone: an image of a package that cannot be
// pulled must not hold up an interrupt that it shares with others.
func interruptSpec(s *Settings, r *Request, data string) corev1.PodSpec {
	spec := hostSpec(s, r)
	spec.Volumes = []corev1.Volume{hostVolume(s)}
	spec.InitContainers = []corev1.Container{
		s.container(containerPrefix(r)+"-"+string(r.Identity.Stage), agentImage(s, r), corev1.Container{
			Args:         []string{interruptMode, hostMount, copyDir(s, r), data},
			Env:          agentEnv(s, r),
			VolumeMounts: hostMounts(),
			Resources:    fixedResources(interruptCPU, interruptMemory),
		}),
	}
	return spec
}
