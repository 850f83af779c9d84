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
	"github.com/nodewright/nodewright/apis/packagejob"
)

// slow is a package whose apply waits until its host has the file /run/go, and
// ends with an exit code on SIGTERM.
func slow(node, name string, onTerm int) string {
	return alone(node, name, "1.0.0", fmt.Sprintf(`      gracefulShutdown: 10s
      configMap:
        apply.sh: |
          trap 'echo "alpha got TERM" >>/var/lib/e2e/journal; exit %d' TERM
          echo "alpha waits" >>/var/lib/e2e/journal
          until [ -e /run/go ]; do sleep 0.2 & wait $!; done
`, onTerm))
}

// What ends a running step from outside is no failure of the package: the step
// gets SIGTERM, and once it has ended (JB-30) the stage runs again. JB-11.
func TestEndedFromOutside_JB11(t *testing.T) {
	node := lease(t, first)
	for _, tc := range []struct {
		name string
		// end ends the pod, resume lets the package go on; it may be nil.
		end    func(*testing.T, *corev1.Pod)
		resume func(*testing.T)
	}{
		{"paused", func(t *testing.T, _ *corev1.Pod) {
			kubectl(t, "annotate", "nodewright", "slow", "nodewright.nvidia.com/pause=true")
		}, func(t *testing.T) {
			kubectl(t, "annotate", "nodewright", "slow", "nodewright.nvidia.com/pause-")
		}},
		{"pod deleted", func(t *testing.T, pod *corev1.Pod) {
			if err := bed.admin.CoreV1().Pods(namespace).Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"pod evicted", evict, nil},
	} {
		t.Run(tc.name, func(t *testing.T) { runsAgain(t, node, "slow", 1, tc.end, tc.resume) })
	}
}

// A step that ends well although its pod was evicted runs once more, and is
// complete once. JB-10.
func TestEvictedStepThatSucceeds_JB10(t *testing.T) {
	runsAgain(t, lease(t, first), "evicted", 0, evict, nil)
	if told, err := events(t.Context(), "evicted", "NodeComplete"); err != nil || len(told) != 1 {
		t.Errorf("the node is told to be complete by %q (%v)", told, err)
	}
}

func evict(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: namespace}}
	if err := bed.admin.PolicyV1().Evictions(namespace).Evict(t.Context(), eviction); err != nil {
		t.Fatal(err)
	}
}

// runsAgain lets a step that runs end from outside, with an exit code of its own,
// and wants it to run a second time, after the first one has ended.
func runsAgain(t *testing.T, node, name string, exitCode int, end func(*testing.T, *corev1.Pod), resume func(*testing.T)) {
	t.Helper()
	fresh(t, node)
	hold(t, node)
	install(t, name, slow(node, name, exitCode))
	pod := waiting(t, node, name, 1)
	end(t, pod)
	eventually(t, "the step got SIGTERM", func(context.Context) error {
		if lines := journal(t, node, "alpha"); !slices.Contains(lines, "got TERM") {
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
	if resume != nil {
		resume(t)
	}
	waiting(t, node, name, 2)
	release(t, node)
	e := wantComplete(t, node, name, "alpha", "1.0.0", nodestate.StageConfig)
	if e.Failures != 0 {
		t.Errorf("%d failures are counted", e.Failures)
	}
	if told, err := events(t.Context(), name, "AttemptFailed"); err != nil || len(told) > 0 {
		t.Errorf("failures are told: %q (%v)", told, err)
	}
	wantFile(t, node, "etc/e2e/alpha", "1.0.0")
	lines := slices.DeleteFunc(journal(t, node, "alpha"), func(line string) bool { return strings.Contains(line, "check") || strings.Contains(line, "config") })
	want := []string{"1.0.0 apply begin", "waits", "got TERM", "1.0.0 apply begin", "waits", "1.0.0 apply end"}
	if exitCode == 0 {
		want = slices.Insert(want, 3, "1.0.0 apply end")
	}
	if !slices.Equal(lines, want) {
		t.Errorf("it ran %q, want %q", lines, want)
	}
}

// hold lets steps wait for release.
func hold(t *testing.T, node string) {
	t.Helper()
	wantNoFile(t, node, "run/go")
	t.Cleanup(func() { touch(t, node, "run/go", false) })
}

func release(t *testing.T, node string) {
	t.Helper()
	touch(t, node, "run/go", true)
}

// waiting waits until the step waits for the n-th time, and gives its pod.
func waiting(t *testing.T, node, name string, n int) *corev1.Pod {
	t.Helper()
	eventually(t, fmt.Sprintf("the step waits for the %d. time", n), func(context.Context) error {
		lines := journal(t, node, "alpha")
		if got := strings.Count(strings.Join(lines, "\n")+"\n", "waits\n"); got != n {
			return fmt.Errorf("it waited %d times: %q", got, lines)
		}
		return nil
	})
	list, err := bed.admin.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: packagejob.LabelName + "=" + name})
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
