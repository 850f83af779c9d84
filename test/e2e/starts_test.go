package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// A container that cannot be made shows with the kubelet's words. JB-02.
func TestMissingSecret_JB02(t *testing.T) {
	node := lease(t, first)
	fresh(t, node)
	install(t, "unmade", alone(node, "unmade", "1.0.0", `      env: [{name: TOKEN, valueFrom: {secretKeyRef: {name: nowhere, key: token}}}]
`))
	e := wantEntry(t, node, "unmade", "alpha", "erroring", func(e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateErroring
	})
	if e.Reason != "CreateContainerConfigError" || !strings.Contains(e.Message, "nowhere") || e.Failures != 0 {
		t.Errorf("the record is %+v", e)
	}
	apply(t, alone(node, "unmade", "1.0.0", ""))
	wantReady(t, "unmade")
	wantFile(t, node, "etc/e2e/alpha", "1.0.0")
}

// A pod that the kubelet does not admit ran nothing: no failure is counted, and
// the record says what the kubelet said. JB-07.
func TestRefusedByTheKubelet_JB07(t *testing.T) {
	node := lease(t, first)
	fresh(t, node)
	install(t, "refused", alone(node, "refused", "1.0.0", `      resources: {cpuRequest: "100", cpuLimit: "100", memoryRequest: 64Mi, memoryLimit: 64Mi}
`))
	wantEvent(t, "refused", "AttemptReplaced", node, "OutOfcpu")
	e := wantEntry(t, node, "refused", "alpha", "waiting for another attempt", func(e *nodestate.PackageStatus) bool {
		return e.Attempt > 1
	})
	if e.State == nodestate.StateErroring || e.Failures != 0 {
		t.Errorf("the record is %+v", e)
	}
	apply(t, alone(node, "refused", "1.0.0", ""))
	wantReady(t, "refused")
	wantFile(t, node, "etc/e2e/alpha", "1.0.0")
}

// A digest pins the image: the kubelet runs that one and says so, and the record
// has it. SE-07.
func TestPinnedImage_SE07(t *testing.T) {
	node := lease(t, first)
	fresh(t, node)
	digest := bed.images.named(t, "alpha:1.0.0").Digest
	install(t, "pinned", alone(node, "pinned", "1.0.0", `      containerSHA: `+digest+"\n"))
	wantReady(t, "pinned")
	e := wantComplete(t, node, "pinned", "alpha", "1.0.0", nodestate.StageConfig)
	if e.ContainerSHA != digest {
		t.Errorf("the record has digest %q, want %q", e.ContainerSHA, digest)
	}
	list, err := bed.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: packagejob.LabelName + "=pinned"})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.Items) == 0 {
		t.Fatal("the pods of the package are gone")
	}
	for i := range list.Items {
		if got := imageIDs(&list.Items[i]); !strings.Contains(got, digest) {
			t.Errorf("pod %s ran %s, want %s", list.Items[i].Name, got, digest)
		}
	}
}

// imageIDs are what the kubelet ran in a pod.
func imageIDs(p *corev1.Pod) string {
	var ids []string
	for i := range p.Status.InitContainerStatuses {
		ids = append(ids, p.Status.InitContainerStatuses[i].ImageID)
	}
	return strings.Join(ids, " ")
}

// An image that cannot be pulled keeps its own package back, and no interrupt of
// another one. The node stays closed until both are complete. JB-31.
func TestInterruptBesideAMissingImage_JB31(t *testing.T) {
	node := lease(t, second)
	fresh(t, node)
	manifest := func(version string) string {
		return alone(node, "beside", version, `    beta:
      version: 1.0.0
      image: registry.invalid/e2e/beta
      interrupt: `+service+"\n")
	}
	install(t, "beside", manifest("9.9.9"))
	wantComplete(t, node, "beside", "beta", "1.0.0", nodestate.StagePostInterrupt)
	wantFile(t, node, "var/lib/e2e/calls", "systemctl daemon-reload\nsystemctl restart e2e.service")
	wantEntry(t, node, "beside", "alpha", "erroring", func(e *nodestate.PackageStatus) bool {
		return e.State == nodestate.StateErroring
	})
	apply(t, manifest("1.0.0"))
	wantReady(t, "beside")
	wantOpen(t, node)
}
