package plan

import (
	"cmp"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

const (
	// PodPatience is how long a Job may be without a pod before anybody asks why.
	PodPatience = 30 * time.Second
	// withoutCheck is how often a Job is looked at that is without a pod: nothing
	// tells when it gets one.
	withoutCheck = 10 * time.Second
)

// Without is a Job that has no pod, whose events are to be read.
type Without struct {
	Ref nodestate.PackageRef
	Job *batchv1.Job
}

// findWithout looks for Jobs without a pod. The API server takes a Job whose pods
// a quota, a limit range or Pod Security does not let in, and nothing but events
// of the Job says so.
func (p *Plan) findWithout(in *Input) {
	has := map[string]bool{}
	for _, pod := range in.Pods {
		has[packagejob.JobOf(pod)] = true
	}
	for _, job := range in.Jobs {
		id, err := packagejob.Parse(job)
		if err != nil || id.NodeUID != in.NodeUID || !MayLackPod(job) || has[job.Name] {
			continue
		}
		if due := begun(job).Add(min(PodPatience, in.Grace)); in.Now.Before(due) {
			p.due(due)
			continue
		}
		p.due(in.Now.Add(withoutCheck))
		p.Without = append(p.Without, Without{Ref: id.Ref(), Job: job})
	}
	slices.SortFunc(p.Without, func(a, b Without) int { return cmp.Compare(a.Job.Name, b.Job.Name) })
}

// begun is when the Job began, or came.
func begun(job *batchv1.Job) time.Time {
	if at := job.Status.StartTime; at != nil {
		return at.Time
	}
	return job.CreationTimestamp.Time
}

// MayLackPod tells whether a Job of a package is to have a pod.
func MayLackPod(job *batchv1.Job) bool {
	_, finished := packagejob.Finished(job)
	return !finished && job.DeletionTimestamp == nil && !packagejob.Suspended(job) && packagejob.Owned(job.Labels)
}

// ReportWithout adds the report of a Job without a pod, as its events have it.
// Where they say nothing of a Job that has begun, its pod is on its way.
func (p *Plan) ReportWithout(in *Input, w Without, events []corev1.Event) {
	var newest *corev1.Event
	for i := range events {
		if e := &events[i]; e.Reason == nodestate.PodFailedCreate && (newest == nil || seenAt(newest).Before(seenAt(e))) {
			newest = e
		}
	}
	report := nodestate.PodReport{Job: w.Job.Name, Name: w.Ref.Package, NodeWright: w.Ref.NodeWright}
	since := in.Now
	switch {
	case newest != nil:
		report.Reason, since = newest.Reason, seenAt(newest)
		report.Message = nodestate.CapString(withoutSuffix(newest.Message, w.Job.Name), nodestate.MaxMessage)
	case w.Job.Status.StartTime == nil:
		report.Reason = nodestate.PodJobNotBegun
		report.Message = "Kubernetes has not begun the Job: see that kube-controller-manager runs"
	default:
		return
	}
	report.WaitingSince = nodestate.FormatTime(since)
	if before, stands := in.Standing[w.Ref]; stands && before.Job == report.Job {
		if at, err := nodestate.ParseTime(before.WaitingSince); err == nil && at.Before(since) {
			report.WaitingSince = before.WaitingSince
		}
	}
	if p.Reports == nil {
		p.Reports = make(map[nodestate.PackageRef]nodestate.PodReport)
	}
	p.Reports[w.Ref] = report
}

// withoutSuffix takes the random end off the name of a pod that was not created:
// with it, each try would be news.
func withoutSuffix(message, job string) string {
	before, after, found := strings.Cut(message, `"`+job+"-")
	if !found {
		return message
	}
	_, rest, _ := strings.Cut(after, `"`)
	return before + `"` + job + `"` + rest
}
