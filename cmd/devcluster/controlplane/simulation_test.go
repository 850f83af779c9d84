package controlplane

import (
	"encoding/base64"
	"fmt"
	"maps"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

const settle = 20 * time.Second

// job is a Job like the operator's: two init containers and a main container on one node.
func job(name, node string, env map[string]string) *batchv1.Job {
	var variables []corev1.EnvVar
	for key, value := range env {
		variables = append(variables, corev1.EnvVar{Name: key, Value: value})
	}
	container := func(name, image string, args ...string) corev1.Container {
		return corev1.Container{Name: name, Image: image, Args: args, Env: variables}
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec: batchv1.JobSpec{
			BackoffLimit:         ptr.To(int32(0)),
			PodReplacementPolicy: ptr.To(batchv1.Failed),
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				NodeName:      node,
				RestartPolicy: corev1.RestartPolicyNever,
				Tolerations:   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
				InitContainers: []corev1.Container{
					container("driver-init", "packages/driver:1.0.0"),
					container("driver-apply", "agent:1.0.0", "apply", "/root", "/var/copy"),
				},
				Containers: []corev1.Container{container("done", "agent:1.0.0", "done")},
			}},
		},
	}
}

func createNode(t *testing.T) string {
	t.Helper()
	names, err := CreateNodes(t.Context(), shared.Config(), 1, NodeOptions{Prefix: fmt.Sprintf("n%d-", time.Now().UnixNano())})
	if err != nil {
		t.Fatal(err)
	}
	return names[0]
}

func createJob(t *testing.T, job *batchv1.Job) {
	t.Helper()
	if _, err := sharedClient.BatchV1().Jobs(job.Namespace).Create(t.Context(), job, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitJob(t *testing.T, name string, want batchv1.JobConditionType) *batchv1.Job {
	t.Helper()
	var job *batchv1.Job
	eventually(t, settle, fmt.Sprintf("job %s is %s", name, want), func() (err error) {
		if job, err = sharedClient.BatchV1().Jobs(metav1.NamespaceDefault).Get(t.Context(), name, metav1.GetOptions{}); err != nil {
			return err
		}
		for _, condition := range job.Status.Conditions {
			if condition.Type == want && condition.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("conditions %v", job.Status.Conditions)
	})
	return job
}

// waitPod waits for a state of the Job's pod.
func waitPod(t *testing.T, jobName, what string, check func(pod *corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var found *corev1.Pod
	eventually(t, settle, "the pod of "+jobName+" "+what, func() error {
		pods, err := sharedClient.CoreV1().Pods(metav1.NamespaceDefault).List(t.Context(),
			metav1.ListOptions{LabelSelector: batchv1.JobNameLabel + "=" + jobName})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if check(&pods.Items[i]) {
				found = &pods.Items[i]
				return nil
			}
		}
		return fmt.Errorf("pods %v", pods.Items)
	})
	return found
}

func running(pod *corev1.Pod) bool {
	return len(pod.Status.InitContainerStatuses) > 0 && pod.Status.InitContainerStatuses[0].State.Running != nil
}

func TestJobSucceeds(t *testing.T) {
	createJob(t, job("succeeds", createNode(t), nil))
	waitJob(t, "succeeds", batchv1.JobComplete)
	pod := waitPod(t, "succeeds", "has succeeded", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
		if ended := status.State.Terminated; ended == nil || ended.ExitCode != 0 {
			t.Errorf("container %s: state %+v, want exit code 0", status.Name, status.State)
		}
	}
}

func TestJobRunsAsLongAsItSays(t *testing.T) {
	node := createNode(t)
	began := time.Now()
	createJob(t, job("long", node, map[string]string{"SIM_DURATION": "1500ms"}))
	waitJob(t, "long", batchv1.JobComplete)
	if took := time.Since(began); took < 1500*time.Millisecond {
		t.Errorf("the job was complete after %s, want at least 1.5s", took)
	}
}

func TestJobFails(t *testing.T) {
	createJob(t, job("fails", createNode(t), map[string]string{
		"SIM_OUTCOME": "fail", "SIM_EXITCODE": "3", "SIM_REASON": "OOMKilled", "SIM_MESSAGE": "no: memory"}))
	waitJob(t, "fails", batchv1.JobFailed)
	pod := waitPod(t, "fails", "has failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	init := pod.Status.InitContainerStatuses
	if len(init) != 2 || init[0].State.Terminated == nil || init[0].State.Terminated.ExitCode != 0 {
		t.Errorf("init containers %+v: want the first one completed", init)
	}
	ended := init[1].State.Terminated
	if ended == nil || ended.ExitCode != 3 || ended.Reason != "OOMKilled" || ended.Message != "no: memory" {
		t.Errorf("step container ended with %+v", ended)
	}
	if waiting := pod.Status.ContainerStatuses[0].State.Waiting; waiting == nil || waiting.Reason != "PodInitializing" {
		t.Errorf("main container is %+v, want waiting in PodInitializing", pod.Status.ContainerStatuses[0].State)
	}
}

// The knobs that say where and when an outcome holds.
func TestOutcomeIsSelected(t *testing.T) {
	node := createNode(t)
	fail := map[string]string{"SIM_OUTCOME": "fail"}
	cases := map[string]struct {
		env     map[string]string
		attempt string
		want    batchv1.JobConditionType
	}{
		"first-attempt":   {env: map[string]string{"SIM_ATTEMPTS": "1"}, attempt: "1", want: batchv1.JobFailed},
		"no-attempt-said": {env: map[string]string{"SIM_ATTEMPTS": "1"}, want: batchv1.JobFailed},
		"second-attempt":  {env: map[string]string{"SIM_ATTEMPTS": "1"}, attempt: "2", want: batchv1.JobComplete},
		"this-node":       {env: map[string]string{"SIM_NODES": "^" + node + "$"}, want: batchv1.JobFailed},
		"other-node":      {env: map[string]string{"SIM_NODES": "^other"}, want: batchv1.JobComplete},
		"this-stage":      {env: map[string]string{"SIM_STAGES": "^(apply|config)$"}, want: batchv1.JobFailed},
		"other-stage":     {env: map[string]string{"SIM_STAGES": "^config$"}, want: batchv1.JobComplete},
		"cannot-be-read":  {env: map[string]string{"SIM_NODES": "("}, want: batchv1.JobFailed},
		"unknown-outcome": {env: map[string]string{"SIM_OUTCOME": "explode"}, want: batchv1.JobFailed},
	}
	for name, tc := range cases {
		env := maps.Clone(fail)
		maps.Copy(env, tc.env)
		job := job(name, node, env)
		if tc.attempt != "" {
			job.Spec.Template.Labels = map[string]string{"nodewright.nvidia.com/attempt": tc.attempt}
		}
		createJob(t, job)
	}
	for name, tc := range cases {
		waitJob(t, name, tc.want)
	}
	for _, name := range []string{"cannot-be-read", "unknown-outcome"} {
		waitPod(t, name, "says why", func(pod *corev1.Pod) bool { return pod.Status.Reason == "SimulationInvalid" })
	}
}

func TestImageCannotBePulled(t *testing.T) {
	job := job("pull", createNode(t), nil)
	job.Spec.Template.Spec.InitContainers[0].Image = "packages/driver:9.9.9"
	createJob(t, job)
	waits := func(reason string) func(pod *corev1.Pod) bool {
		return func(pod *corev1.Pod) bool {
			init := pod.Status.InitContainerStatuses
			return len(init) == 2 && init[0].State.Waiting != nil && init[0].State.Waiting.Reason == reason &&
				init[1].State.Waiting.Reason == "PodInitializing" && pod.Status.Phase == corev1.PodPending
		}
	}
	waitPod(t, "pull", "waits with ErrImagePull", waits("ErrImagePull"))
	pod := waitPod(t, "pull", "waits with ImagePullBackOff", waits("ImagePullBackOff"))

	// The image appears.
	patch := []byte(`{"metadata":{"annotations":{"sim.nodewright.nvidia.com/outcome":"succeed"}}}`)
	_, err := sharedClient.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	waitJob(t, "pull", batchv1.JobComplete)
}

func TestPodIsRejected(t *testing.T) {
	createJob(t, job("rejected", createNode(t), map[string]string{"SIM_OUTCOME": "reject"}))
	waitJob(t, "rejected", batchv1.JobFailed)
	waitPod(t, "rejected", "has no container status", func(pod *corev1.Pod) bool {
		return pod.Status.Reason == "OutOfcpu" && len(pod.Status.InitContainerStatuses)+len(pod.Status.ContainerStatuses) == 0
	})
}

func TestDeletedPodEndsBeforeItGoes(t *testing.T) {
	cases := map[string]struct {
		env      map[string]string
		grace    int64
		wantExit int32
	}{
		"ends":    {env: map[string]string{"SIM_OUTCOME": "hang", "SIM_TERM": "300ms"}, grace: 30, wantExit: 75},
		"ignores": {env: map[string]string{"SIM_OUTCOME": "hang", "SIM_TERM": "ignore"}, grace: 2, wantExit: 137},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			createJob(t, job("deleted-"+name, createNode(t), tc.env))
			pod := waitPod(t, "deleted-"+name, "runs", running)
			pods := sharedClient.CoreV1().Pods(pod.Namespace)
			watched, err := pods.Watch(t.Context(), metav1.ListOptions{
				FieldSelector: "metadata.name=" + pod.Name, ResourceVersion: pod.ResourceVersion})
			if err != nil {
				t.Fatal(err)
			}
			defer watched.Stop()
			began := time.Now()
			if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{GracePeriodSeconds: &tc.grace}); err != nil {
				t.Fatal(err)
			}
			eventually(t, settle, "the pod is gone", func() error {
				_, err := pods.Get(t.Context(), pod.Name, metav1.GetOptions{})
				if apierrors.IsNotFound(err) {
					return nil
				}
				return fmt.Errorf("still there: %w", err)
			})
			if took := time.Since(began); tc.wantExit == 137 && took < time.Second {
				t.Errorf("a pod that ignores SIGTERM was gone after %s", took)
			}
			var last *corev1.Pod
			for event := range watched.ResultChan() {
				last = event.Object.(*corev1.Pod)
				if event.Type == "DELETED" {
					break
				}
			}
			if last.Status.Phase != corev1.PodFailed {
				t.Errorf("last phase %s, want Failed", last.Status.Phase)
			}
			if ended := last.Status.InitContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != tc.wantExit {
				t.Errorf("the running container ended with %+v, want exit code %d", ended, tc.wantExit)
			}
			if waiting := last.Status.InitContainerStatuses[1].State.Waiting; waiting == nil {
				t.Errorf("a container that never ran is %+v", last.Status.InitContainerStatuses[1].State)
			}
		})
	}
}

func TestServingPodRunsUntilItIsDeleted(t *testing.T) {
	pods := sharedClient.CoreV1().Pods(metav1.NamespaceDefault)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "serves"}, Spec: corev1.PodSpec{
		NodeName: createNode(t), Containers: []corev1.Container{{Name: "web", Image: "web:1"}}}}
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	get := func() (*corev1.Pod, error) { return pods.Get(t.Context(), pod.Name, metav1.GetOptions{}) }
	eventually(t, settle, "the pod is ready", func() error {
		got, err := get()
		if err != nil || len(got.Status.ContainerStatuses) == 0 || !got.Status.ContainerStatuses[0].Ready {
			return fmt.Errorf("not ready: %w", err)
		}
		return nil
	})
	time.Sleep(5 * shared.opts.PodDuration)
	if got, err := get(); err != nil || got.Status.Phase != corev1.PodRunning {
		t.Errorf("the pod is %s, error %v", got.Status.Phase, err)
	}
	if err := pods.Delete(t.Context(), pod.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, settle, "the pod is gone", func() error {
		if _, err := get(); !apierrors.IsNotFound(err) {
			return fmt.Errorf("still there: %w", err)
		}
		return nil
	})
}

func TestNodeReboots(t *testing.T) {
	interrupt := base64.StdEncoding.EncodeToString([]byte(`{"type":"node_restart"}`))
	cases := map[string]func(t *testing.T, node string) error{
		"by annotation": func(t *testing.T, node string) error { return Reboot(t.Context(), shared.Config(), node) },
		"by an interrupt pod": func(t *testing.T, node string) error {
			job := job("reboot", node, nil)
			job.Spec.Template.Spec.InitContainers = job.Spec.Template.Spec.InitContainers[1:]
			job.Spec.Template.Spec.InitContainers[0].Args = []string{"interrupt", "/root", "/var/copy", interrupt}
			createJob(t, job)
			return nil
		},
	}
	for name, reboot := range cases {
		t.Run(name, func(t *testing.T) {
			name := createNode(t)
			nodes := sharedClient.CoreV1().Nodes()
			before, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if before.Status.NodeInfo.BootID == "" {
				t.Error("the node has no boot ID")
			}
			if err := reboot(t, name); err != nil {
				t.Fatal(err)
			}
			eventually(t, settle, "the node is back with another boot ID", func() error {
				node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				if node.Status.NodeInfo.BootID == before.Status.NodeInfo.BootID || !nodeReady(node, false) {
					return fmt.Errorf("boot ID %s, conditions %v", node.Status.NodeInfo.BootID, node.Status.Conditions)
				}
				if _, left := node.Annotations[RebootAnnotation]; left {
					return fmt.Errorf("the request is still there")
				}
				return nil
			})
		})
	}
}

func TestNodeIsNotReadyOnRequest(t *testing.T) {
	name := createNode(t)
	nodes := sharedClient.CoreV1().Nodes()
	for _, step := range []struct {
		value string
		want  bool
	}{{`"false"`, false}, {"null", true}} {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{"sim.nodewright.nvidia.com/ready":%s}}}`, step.value)
		if _, err := nodes.Patch(t.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, settle, fmt.Sprintf("ready is %v after ready=%s", step.want, step.value), func() error {
			node, err := nodes.Get(t.Context(), name, metav1.GetOptions{})
			if err != nil || nodeReady(node, true) != step.want {
				return fmt.Errorf("conditions %v, error %w", node.Status.Conditions, err)
			}
			return nil
		})
	}
}

func TestNothingMovesWhileKwokIsPaused(t *testing.T) {
	name := createNode(t)
	if err := shared.PauseKwok(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shared.ResumeKwok(); err != nil { // also after a failure: other tests need it
			t.Error(err)
		}
	})
	createJob(t, job("waits", name, nil))
	waitPod(t, "waits", "is there", func(*corev1.Pod) bool { return true })
	time.Sleep(5 * shared.opts.PodDuration)
	waitPod(t, "waits", "has not started", func(pod *corev1.Pod) bool { return pod.Status.StartTime == nil })
	if err := shared.ResumeKwok(); err != nil {
		t.Fatal(err)
	}
	waitJob(t, "waits", batchv1.JobComplete)
}

func TestAuditLogCountsWrites(t *testing.T) {
	user, err := shared.AddUser("writer", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	client := kubernetesFor(t, user.Config)
	maps := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	for i := range 3 {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("counted-%d", i)}}
		if _, err := maps.Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := maps.List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := maps.Delete(t.Context(), "counted-0", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, settle, "the log has the writes", func() error {
		got := map[string]int{}
		err := ReadAuditLog(shared.AuditLog(), func(event AuditEvent) {
			if event.User == "writer" {
				got[fmt.Sprintf("%s %s %d", event.Verb, event.Resource, event.Code)]++
			}
		})
		want := map[string]int{"create configmaps 201": 3, "delete configmaps 200": 1}
		if err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("got %v, want %v, error %w", got, want, err)
		}
		return nil
	})
}
