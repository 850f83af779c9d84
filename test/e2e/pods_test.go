package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// slow is a package whose apply waits until its host has the file /run/go.
var slow = alone("slow", "1.0.0", `      gracefulShutdown: 10s
      configMap:
        apply.sh: |
          trap 'echo "alpha got TERM" >>/var/lib/e2e/journal; exit 1' TERM
          echo "alpha waits" >>/var/lib/e2e/journal
          until [ -e /run/go ]; do sleep 0.2 & wait $!; done
`)

// What ends a running step from outside is no failure of the package: the step
// gets SIGTERM, and the stage runs again. JB-11.
func TestEndedFromOutside_JB11(t *testing.T) {
	for _, tc := range []struct {
		name string
		// end ends the pod, resume lets the package go on; it may be nil.
		end, resume func(*testing.T, *corev1.Pod)
	}{
		{"paused", func(t *testing.T, _ *corev1.Pod) {
			kubectl(t, "annotate", "nodewright", "slow", "nodewright.nvidia.com/pause=true")
		}, func(t *testing.T, _ *corev1.Pod) {
			kubectl(t, "annotate", "nodewright", "slow", "nodewright.nvidia.com/pause-")
		}},
		{"pod deleted", func(t *testing.T, pod *corev1.Pod) {
			if err := bed.admin.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"pod evicted", func(t *testing.T, pod *corev1.Pod) {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace}}
			if err := bed.admin.PolicyV1().Evictions(namespace).Evict(t.Context(), eviction); err != nil {
				t.Fatal(err)
			}
		}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			fresh(t)
			hold(t)
			install(t, "slow", slow)
			pod := waiting(t, 1)
			tc.end(t, pod)
			eventually(t, "the step got SIGTERM", func(context.Context) error {
				if lines := journal(t, second, "alpha"); !slices.Contains(lines, "got TERM") {
					return fmt.Errorf("the journal holds %q", lines)
				}
				return nil
			})
			eventually(t, "the pod is gone or ended", func(ctx context.Context) error {
				now, err := bed.admin.CoreV1().Pods(namespace).Get(ctx, pod.Name, metav1.GetOptions{})
				if err == nil && now.Status.Phase == corev1.PodRunning {
					return fmt.Errorf("it is running")
				}
				return nil
			})
			if tc.resume != nil {
				tc.resume(t, pod)
			}
			waiting(t, 2)
			release(t)
			e := wantComplete(t, second, "slow", "alpha", "1.0.0", nodestate.StageConfig)
			if e.Failures != 0 {
				t.Errorf("%d failures are counted", e.Failures)
			}
			if told, err := events(t.Context(), "slow", "AttemptFailed"); err != nil || len(told) > 0 {
				t.Errorf("failures are told: %q (%v)", told, err)
			}
			wantFile(t, second, "etc/e2e/alpha", "1.0.0")
		})
	}
}

// hold lets steps wait for release.
func hold(t *testing.T) {
	t.Helper()
	wantNoFile(t, second, "run/go")
	t.Cleanup(func() { touch(t, second, "run/go", false) })
}

func release(t *testing.T) {
	t.Helper()
	touch(t, second, "run/go", true)
}

// waiting waits until the step waits for the n-th time, and gives its pod.
func waiting(t *testing.T, n int) *corev1.Pod {
	t.Helper()
	eventually(t, fmt.Sprintf("the step waits for the %d. time", n), func(context.Context) error {
		lines := journal(t, second, "alpha")
		if got := strings.Count(strings.Join(lines, "\n")+"\n", "waits\n"); got != n {
			return fmt.Errorf("it waited %d times: %q", got, lines)
		}
		return nil
	})
	list, err := bed.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "nodewright.nvidia.com/name=slow"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		if p := &list.Items[i]; p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			return p
		}
	}
	t.Fatalf("no pod of the package runs among %d", len(list.Items))
	return nil
}
