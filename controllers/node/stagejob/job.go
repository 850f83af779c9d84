package stagejob

import (
	"fmt"
	"slices"
	"strconv"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// ExitTerminated is the exit code of an agent that was ended by SIGTERM. It is
// no failure of the package.
const ExitTerminated int32 = 75

// Settings are the parts of the manager configuration that shape Jobs.
type Settings struct {
	// Namespace that Jobs are created in.
	Namespace string
	// AgentImage runs the steps, unless the package names another one.
	AgentImage string
	// ImagePullSecret is the name of a secret in Namespace; may be empty.
	ImagePullSecret string
	// AlwaysPull are image repositories that are pulled at every start.
	AlwaysPull []string
	// ServiceAccount of the pods, without rights; empty is the default one.
	ServiceAccount string
	// CopyDirRoot and AgentLogRoot are directories on the host.
	CopyDirRoot  string
	AgentLogRoot string
	// HostRoot is the directory that pods see as the host, / but for tests.
	HostRoot string
	// Tolerated are taint keys and values that all package pods tolerate, besides
	// those of the NodeWright.
	Tolerated []corev1.Taint
}

// Request asks for the Job of one attempt.
type Request struct {
	Identity packagejob.Identity
	// NodeWright and Package are the spec; the version is the identity's.
	NodeWright *v1alpha1.NodeWright
	Package    *v1alpha1.Package
	// Image and ContainerSHA as recorded for the attempt.
	Image        string
	ContainerSHA string
	SpecHash     string
	// ConfigMapName holds the package's configuration; empty for none.
	ConfigMapName string
	// Interrupt that was decided on, in the stages that interrupt the node only.
	Interrupt *nodestate.Interrupt
	// DeadlineSeconds of the attempt, nil for none.
	DeadlineSeconds *int64
	// Order of the node in the rollout, from 0.
	Order int32
	// BootID of the node at the start of the stage.
	BootID string
	// Labels and Annotations of the node.
	Labels      map[string]string
	Annotations map[string]string
}

// Build makes the Job. Dropped names foreign annotations of the node that did
// not fit into the metadata of the pod. It is an error if the stage interrupts
// the node and Interrupt is missing or of a type that is not known, and if
// Interrupt is given for any other stage.
func Build(s *Settings, r *Request) (job *batchv1.Job, dropped []string, err error) {
	annotations, err := r.Identity.Annotations()
	if err != nil {
		return nil, nil, fmt.Errorf("build job: %w", err)
	}
	pod, dropped, err := podSpec(s, r, annotations)
	if err != nil {
		return nil, nil, fmt.Errorf("build job: %w", err)
	}
	labels := r.Identity.Labels()
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Name:      r.Identity.JobName(),
			Namespace: s.Namespace,
			Labels:    labels,
			Annotations: map[string]string{
				packagejob.AnnotationIdentity: annotations[packagejob.AnnotationIdentity],
				packagejob.AnnotationSpecHash: r.SpecHash,
			},
		},
		Spec: batchv1.JobSpec{
			Parallelism: ptr.To[int32](1),
			Completions: ptr.To[int32](1),
			// A retry is a Job of its own, so that each attempt keeps its log and a
			// deadline is one attempt's.
			BackoffLimit:          ptr.To[int32](0),
			ActiveDeadlineSeconds: r.DeadlineSeconds,
			// Two executors must never share the host directory.
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			PodFailurePolicy:     failurePolicy(),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec:       pod,
			},
		},
	}, dropped, nil
}

// podSpec is the pod of the stage. A pod that gets metadata of the node has it
// in its annotations, which are added to those given.
func podSpec(s *Settings, r *Request, annotations map[string]string) (spec corev1.PodSpec, dropped []string, err error) {
	if r.Identity.Interrupts() {
		data, err := interruptData(r.Interrupt)
		if err != nil {
			return corev1.PodSpec{}, nil, err
		}
		return interruptSpec(s, r, data), nil, nil
	}
	if r.Interrupt != nil {
		return corev1.PodSpec{}, nil, fmt.Errorf("stage %s does not interrupt the node, but was given an interrupt", r.Identity.Stage)
	}
	dropped, err = addMetadata(annotations, s, r)
	return packageSpec(s, r), dropped, err
}

// failurePolicy keeps what was done to the pod apart from what the package
// did: an evicted, suspended or deleted pod is replaced, and counts as no
// failure.
func failurePolicy() *batchv1.PodFailurePolicy {
	return &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnPodConditions: []batchv1.PodFailurePolicyOnPodConditionsPattern{
				{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue},
			},
		},
		{
			Action: batchv1.PodFailurePolicyActionIgnore,
			OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
				Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{ExitTerminated},
			},
		},
	}}
}

// copyDir is the directory on the host that the package is copied to. It is
// one of its own for each run, so that a run never finds files of another.
func copyDir(s *Settings, r *Request) string {
	return fmt.Sprintf("%s/%s/%s-%s-%s-%d", s.CopyDirRoot, r.Identity.NodeWright,
		r.Identity.Package, r.Identity.Version, r.Identity.NodeWrightUID, r.Identity.Run)
}

// agentEnv is the environment of the agent: the package's variables, then
// ours, which win.
func agentEnv(s *Settings, r *Request) []corev1.EnvVar {
	id := &r.Identity
	order := strconv.FormatInt(int64(r.Order), 10)
	run := strconv.FormatInt(id.Run, 10)
	ours := []corev1.EnvVar{
		{Name: "SKYHOOK_LOG_DIR", Value: s.AgentLogRoot + "/" + id.NodeWright},
		{Name: "SKYHOOK_ROOT_DIR", Value: s.CopyDirRoot + "/" + id.NodeWright},
		{Name: "COPY_RESOLV", Value: "false"},
		// Earlier agents split this at the underscores.
		{Name: "SKYHOOK_RESOURCE_ID", Value: fmt.Sprintf("%s-%s-%s_%s_%s",
			id.NodeWright, id.NodeWrightUID, run, id.Package, id.Version)},
		{Name: "SKYHOOK_NODE_ORDER", Value: order},
		{Name: "NODEWRIGHT_NODE_ORDER", Value: order},
		{Name: "NODEWRIGHT_RUN", Value: run},
	}
	if id.Interrupts() {
		ours = append(ours, corev1.EnvVar{Name: "NODEWRIGHT_BOOT_ID", Value: r.BootID})
	}
	// Ours win. A name that stands twice would make later patches of the Job
	// ambiguous, so the package's is left out.
	env := slices.DeleteFunc(slices.Clone(r.Package.Env), func(e corev1.EnvVar) bool {
		return slices.ContainsFunc(ours, func(o corev1.EnvVar) bool { return o.Name == e.Name })
	})
	return append(env, ours...)
}
