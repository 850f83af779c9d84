package stagejob

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/validation"
)

const (
	// hostMount is where containers see the host.
	hostMount = "/root"
	// packageDir is the directory of a package in its image. What the operator
	// adds is mounted below it, so that one copy takes all.
	packageDir  = "/skyhook-package"
	configDir   = packageDir + "/configmaps"
	metadataDir = packageDir + "/node-metadata"

	volumeHost     = "root-mount"
	volumeConfig   = "package-config"
	volumeMetadata = "node-metadata"

	// doneMode is the mode of the agent that ends at once with success.
	doneMode = "done"
	// maxContainerPackage is how much of a package name a container name takes.
	maxContainerPackage = 43

	// copyScript copies the package, with configuration and metadata beside it,
	// to the host. Either directory may hold the package.
	copyScript = `set -e
dir="/root${SKYHOOK_DIR}"
mkdir -p "$dir"
for from in /nodewright-package /skyhook-package; do
  if [ -d "$from" ]; then cp -r "$from"/. "$dir"/; fi
done`
)

// packageSpec copies the package to the host and runs the stage and its check.
func packageSpec(s *Settings, r *Request) corev1.PodSpec {
	stage := string(r.Identity.Stage)
	name, agent, dir := containerPrefix(r), agentImage(s, r), copyDir(s, r)
	spec := hostSpec(s, r)
	spec.Volumes = volumes(s, r)
	spec.InitContainers = []corev1.Container{
		s.container(name+"-init", packageImage(r), corev1.Container{
			Command:      []string{"/bin/sh", "-c", copyScript},
			Env:          []corev1.EnvVar{{Name: "SKYHOOK_DIR", Value: dir}},
			VolumeMounts: append(hostMounts(), packageMounts(r)...),
			Resources:    resources(r.Package.Resources),
		}),
		s.container(name+"-"+stage, agent, corev1.Container{
			Args:         []string{stage, hostMount, dir},
			Env:          agentEnv(s, r),
			VolumeMounts: hostMounts(),
			Resources:    resources(r.Package.Resources),
		}),
		s.container(name+"-"+stage+"check", agent, corev1.Container{
			Args:         []string{stage + "-check", hostMount, dir},
			Env:          agentEnv(s, r),
			VolumeMounts: hostMounts(),
			Resources:    resources(r.Package.Resources),
		}),
	}
	return spec
}

// hostSpec is what pods of all stages share: all but volumes and the
// containers that do the work.
func hostSpec(s *Settings, r *Request) corev1.PodSpec {
	spec := corev1.PodSpec{
		NodeName:                     r.Identity.Node,
		RestartPolicy:                corev1.RestartPolicyNever,
		HostPID:                      true,
		HostNetwork:                  true,
		ServiceAccountName:           s.ServiceAccount,
		AutomountServiceAccountToken: ptr.To(false),
		Tolerations:                  tolerations(s, r.NodeWright),
		// The operator's own agent also where the package names another one: agents
		// of earlier releases do not know the mode.
		Containers: []corev1.Container{
			s.container(doneMode, s.AgentImage, corev1.Container{
				Args:      []string{doneMode},
				Resources: fixedResources("100m", "20Mi"),
			}),
		},
	}
	if s.ImagePullSecret != "" {
		spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: s.ImagePullSecret}}
	}
	if g := r.Package.GracefulShutdown; g != nil {
		spec.TerminationGracePeriodSeconds = ptr.To(v1alpha1.WholeSeconds(g.Duration))
	}
	return spec
}

// containerPrefix is what the names of the containers that do the work begin
// with.
func containerPrefix(r *Request) string {
	return r.Identity.Package[:min(len(r.Identity.Package), maxContainerPackage)]
}

// agentImage is the agent that runs the stage.
func agentImage(s *Settings, r *Request) string {
	if r.Package.AgentImageOverride != "" {
		return r.Package.AgentImageOverride
	}
	return s.AgentImage
}

// container completes what all containers share.
func (s *Settings) container(name, image string, c corev1.Container) corev1.Container {
	c.Name, c.Image, c.ImagePullPolicy = name, image, corev1.PullIfNotPresent
	if repository, _, _ := validation.SplitImage(image); slices.Contains(s.AlwaysPull, repository) {
		c.ImagePullPolicy = corev1.PullAlways
	}
	c.SecurityContext = &corev1.SecurityContext{Privileged: ptr.To(true)}
	return c
}

// packageImage is the image by digest where one is given, else by version.
func packageImage(r *Request) string {
	base, _, _ := validation.SplitImage(r.Image)
	if r.ContainerSHA != "" {
		return base + "@" + r.ContainerSHA
	}
	return base + ":" + r.Identity.Version
}

func hostMounts() []corev1.VolumeMount {
	return []corev1.VolumeMount{{
		Name: volumeHost, MountPath: hostMount, MountPropagation: ptr.To(corev1.MountPropagationHostToContainer),
	}}
}

// packageMounts mounts single files: a directory would hide what the image has
// at the same place, and hold links that a copy does not follow.
func packageMounts(r *Request) []corev1.VolumeMount {
	var mounts []corev1.VolumeMount
	if r.ConfigMapName != "" {
		for _, key := range slices.Sorted(maps.Keys(r.Package.ConfigMap)) {
			mounts = append(mounts, corev1.VolumeMount{
				Name: volumeConfig, MountPath: configDir + "/" + key, SubPath: key, ReadOnly: true,
			})
		}
	}
	for _, f := range metadataFiles {
		mounts = append(mounts, corev1.VolumeMount{
			Name: volumeMetadata, MountPath: metadataDir + "/" + f.file, SubPath: f.file, ReadOnly: true,
		})
	}
	return mounts
}

func hostVolume(s *Settings) corev1.Volume {
	return corev1.Volume{Name: volumeHost, VolumeSource: corev1.VolumeSource{
		HostPath: &corev1.HostPathVolumeSource{Path: s.HostRoot},
	}}
}

func volumes(s *Settings, r *Request) []corev1.Volume {
	items := make([]corev1.DownwardAPIVolumeFile, 0, len(metadataFiles))
	for _, f := range metadataFiles {
		items = append(items, corev1.DownwardAPIVolumeFile{
			Path:     f.file,
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + f.annotation + "']"},
		})
	}
	out := []corev1.Volume{
		hostVolume(s),
		{Name: volumeMetadata, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{Items: items}}},
	}
	if r.ConfigMapName != "" {
		out = append(out, corev1.Volume{Name: volumeConfig, VolumeSource: corev1.VolumeSource{
			ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: r.ConfigMapName}},
		}})
	}
	return out
}

// tolerations let the pods run on cordoned nodes and on nodes that wait for
// them, and keep them where a node is away for a while, as during a reboot:
// they are bound to the node, an eviction helps nobody.
func tolerations(s *Settings, nw *v1alpha1.NodeWright) []corev1.Toleration {
	out := []corev1.Toleration{
		{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
	}
	for _, t := range s.Tolerated {
		out = append(out, corev1.Toleration{
			Key: t.Key, Operator: corev1.TolerationOpEqual, Value: t.Value, Effect: t.Effect,
		})
	}
	return append(out, nw.Spec.AdditionalTolerations...)
}

func resources(r *v1alpha1.ResourceRequirements) corev1.ResourceRequirements {
	if r == nil || r.CPURequest == nil || r.CPULimit == nil || r.MemoryRequest == nil || r.MemoryLimit == nil {
		return corev1.ResourceRequirements{}
	}
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: *r.CPURequest, corev1.ResourceMemory: *r.MemoryRequest},
		Limits:   corev1.ResourceList{corev1.ResourceCPU: *r.CPULimit, corev1.ResourceMemory: *r.MemoryLimit},
	}
}

func fixedResources(cpu, memory string) corev1.ResourceRequirements {
	list := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
	return corev1.ResourceRequirements{Requests: list, Limits: list}
}
