package controlplane

import (
	"time"

	"github.com/nodewright/nodewright/cmd/devcluster/assets"
)

const (
	defaultStartTimeout = 2 * time.Minute
	defaultPodDuration  = 500 * time.Millisecond

	// defaultLeaseSeconds is the kubelet's own default.
	defaultLeaseSeconds = 40
	// highScaleLeaseSeconds lowers the renewals (4 per lease duration) of 5,000 nodes from 500 to 100 per second.
	highScaleLeaseSeconds = 200
)

// Options describe a control plane. The zero value is etcd and kube-apiserver alone.
type Options struct {
	// Assets say where the binaries come from. Missing ones are provided at Start, which may take many minutes.
	Assets assets.Options
	// Dir is the directory in which the one for this control plane is made. Default: the system's for temporary files.
	Dir string
	// StartTimeout bounds Start, binaries aside. Default: 2 minutes.
	StartTimeout time.Duration

	// CRDDirs are directories or files with CustomResourceDefinitions to install.
	CRDDirs []string
	// ControllerManager runs the real kube-controller-manager, and with it service accounts.
	ControllerManager bool
	// Kwok runs kwok with the stages of this package, so that nodes with its annotation live.
	Kwok bool
	// Audit writes an audit log of all writing requests at level Metadata, see ControlPlane.AuditLog.
	Audit bool
	// HighScale prepares for thousands of nodes: no garbage collection of ended pods by number, 8 GiB for etcd, fewer heartbeats.
	HighScale bool

	// PodDuration is how long a simulated pod runs that does not say otherwise, at millisecond precision. Default: 500 ms.
	PodDuration time.Duration

	// APIServerArgs and ControllerManagerArgs are further flags: name without dashes -> value. They replace flags set here.
	APIServerArgs         map[string]string
	ControllerManagerArgs map[string]string
}

func (o Options) withDefaults() Options {
	if o.StartTimeout == 0 {
		o.StartTimeout = defaultStartTimeout
	}
	if o.PodDuration == 0 {
		o.PodDuration = defaultPodDuration
	}
	if len(o.Assets.Components) == 0 {
		o.Assets.Components = []string{"kube-apiserver", "etcd", "kubectl"}
		if o.ControllerManager {
			o.Assets.Components = append(o.Assets.Components, "kube-controller-manager")
		}
		if o.Kwok {
			o.Assets.Components = append(o.Assets.Components, "kwok")
		}
	}
	return o
}

func (o Options) leaseSeconds() int {
	if o.HighScale {
		return highScaleLeaseSeconds
	}
	return defaultLeaseSeconds
}
