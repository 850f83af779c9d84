// Package controlplane runs a real Kubernetes control plane on this machine, with simulated nodes: etcd and kube-apiserver through
// controller-runtime's envtest, and, if asked for, the real kube-controller-manager and kwok. Demo, tests and benchmark use it.
//
// It owns these processes and their files. All listen on 127.0.0.1, all files are in one temporary directory, and both are gone
// after Stop, after a Start that failed or was cancelled, and after the death of the program by a signal that it cannot catch: see
// guard.go. The package must not know the operator, its API or its objects, but for the two labels below that the simulation
// reads; it changes nothing in the cluster except simulated nodes and their pods.
//
// # The simulation
//
// A simulated node carries the annotation kwok.x-k8s.io/node=fake; CreateNodes makes such nodes. Pods bound to it pass through the
// states that a kubelet writes, init containers included. Without a word a pod succeeds after Options.PodDuration, and a pod with
// restartPolicy Always serves until it is deleted. Knobs change that. Each is an annotation of the pod or, so that a user's manifest
// can carry it, an environment variable of any of its containers (a package's env); the annotation wins, also on a running pod.
//
//	annotation                           variable      meaning
//	sim.nodewright.nvidia.com/outcome    SIM_OUTCOME   succeed (default), fail, hang, start-error, reject: see below
//	sim.nodewright.nvidia.com/attempts   SIM_ATTEMPTS  the outcome holds for attempts 1 to n only (default: all)
//	sim.nodewright.nvidia.com/nodes      SIM_NODES     regular expression: the outcome holds on nodes whose name it finds only
//	sim.nodewright.nvidia.com/stages     SIM_STAGES    regular expression: the outcome holds for stages that it finds only
//	sim.nodewright.nvidia.com/duration   SIM_DURATION  how long the pod runs, as a Go duration
//	sim.nodewright.nvidia.com/exitcode   SIM_EXITCODE  exit code of fail (default 1)
//	sim.nodewright.nvidia.com/reason     SIM_REASON    reason of fail (Error), start-error (ErrImagePull) or reject (OutOfcpu)
//	sim.nodewright.nvidia.com/message    SIM_MESSAGE   message of the same
//	sim.nodewright.nvidia.com/term       SIM_TERM      a Go duration that a deleted pod takes to end (default 0), or ignore
//
// The attempt is the pod's label or annotation nodewright.nvidia.com/attempt, 1 without it. The stage is the label or annotation
// nodewright.nvidia.com/stage, without it the first argument of the first container whose second argument is /root.
//
//   - fail: the second init container (the one that runs a package's step; the only one if there is one, the main container if there
//     is none) ends with the exit code, those before it with 0, those after it stay in PodInitializing.
//   - hang: the pod runs until it is deleted or its annotation says something else.
//   - start-error: the first container waits with the reason; ErrImagePull becomes ImagePullBackOff after half a second. An image
//     whose name contains /missing/, or whose tag is 9.9.9, does this by itself.
//   - reject: the pod fails as one that a kubelet does not admit, without any container status.
//   - a knob that cannot be read fails the pod with reason SimulationInvalid.
//
// A deleted pod that runs ends with exit code 75 (a serving one with 0), one with term=ignore with 137 at the end of its grace
// period; then its object goes. A pod with an interrupt of type node_restart in its arguments reboots its node when it succeeds.
//
// Knobs of a node are annotations: sim.nodewright.nvidia.com/reboot (any value, consumed) gives it another boot ID and makes it not
// ready for a second; sim.nodewright.nvidia.com/ready=false makes it not ready until that is removed.
//
// Not possible: an outcome that depends on a label of the node, since a stage of kwok sees nothing but the pod; SIM_NODES is there
// for that. There are no container logs.
package controlplane
