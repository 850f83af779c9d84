package realnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

// containerdSettings: no network plugin and no change of OOM scores below the
// machine's own, which needs a capability that containers often lack.
var containerdSettings = template.Must(template.New("containerd").Parse(`version = 2
root = "{{.Disk}}/containerd"
state = "{{.Run}}/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt"]
[grpc]
  address = "{{.Socket}}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{{.PauseImage}}"
  disable_tcp_service = true
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{{.Run}}/cni"
    conf_dir = "{{.Run}}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`))

// networkSettings make the node ready. Pods with a network of their own would not
// start.
const networkSettings = `{"cniVersion": "0.3.1", "name": "loopback", "plugins": [{"type": "loopback"}]}
`

// kubeletSettings: whoever reaches the kubelet on the loopback may do everything,
// so that the API server needs no certificate for it. Nothing is evicted for a
// full disk, which is the machine's.
var kubeletSettings = template.Must(template.New("kubelet").Parse(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: {{.Name}}
port: {{.KubeletPort}}
readOnlyPort: 0
healthzBindAddress: {{.Name}}
healthzPort: {{.HealthPort}}
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
containerRuntimeEndpoint: unix://{{.Socket}}
cgroupDriver: cgroupfs
cgroupRoot: /{{.Cgroup}}
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
localStorageCapacityIsolation: true
evictionHard: {memory.available: 50Mi, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 10s
nodeLeaseDurationSeconds: 10
syncFrequency: 10s
configMapAndSecretChangeDetectionStrategy: Watch
registerNode: true
rotateCertificates: false
serverTLSBootstrap: false
volumePluginDir: {{.Run}}/volume-plugins
containerLogMaxSize: 10Mi
podLogsDir: {{.Disk}}/pod-logs
staticPodPath: {{.Disk}}/static-pods
fileCheckFrequency: 1s
maxPods: 60
`))

// startScript is the first process of a node, inside of its namespaces. What a
// machine loses with its power is below Run.
var startScript = template.Must(template.New("start").Parse(`set -eu
# Package pods ask for mounts that follow the host's.
mount --make-rshared /
mkdir -p {{.HostRoot}}
mount --bind {{.Tree}} {{.HostRoot}}
mount --bind {{.Tree}}/proc/sys/kernel/random/boot_id /proc/sys/kernel/random/boot_id
containerd --config {{.Dir}}/containerd.toml --log-level warn >>{{.Dir}}/containerd.log 2>&1 &
# A kubelet gives up at once if nothing answers.
until [ -S {{.Socket}} ]; do
	kill -0 $!
	sleep 0.1
done
# A service manager starts a kubelet again that ended, as they do where containerd
# is not ready yet. Shims are left to this process: it takes notice of their end.
while :; do
	{{.Kubelet}} --config {{.Dir}}/kubelet.yaml --kubeconfig {{.Kubeconfig}} --hostname-override {{.Name}} --root-dir {{.Disk}}/kubelet --v 2 >>{{.Dir}}/kubelet.log 2>&1 &
	wait $! || sleep 0.5
done
`))

type settings struct {
	Name, Dir, Disk, Run, Tree, HostRoot, Socket, Cgroup, Kubelet, Kubeconfig, PauseImage string
	KubeletPort, HealthPort                                                               int
}

// write writes all files that a node is started with.
func (s *settings) write() error {
	for file, t := range map[string]*template.Template{
		"containerd.toml": containerdSettings, "kubelet.yaml": kubeletSettings, "start.sh": startScript,
	} {
		var text strings.Builder
		if err := t.Execute(&text, s); err != nil {
			return fmt.Errorf("write %s of node %s: %w", file, s.Name, err)
		}
		if err := os.WriteFile(filepath.Join(s.Dir, file), []byte(text.String()), 0o600); err != nil {
			return fmt.Errorf("write settings of node %s: %w", s.Name, err)
		}
	}
	return nil
}
