package plan

import (
	"cmp"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// Input is everything that the reports of one node follow from. It is
// read-only.
type Input struct {
	Now     time.Time
	NodeUID types.UID
	// Standing are the reports on the node.
	Standing map[nodestate.PackageRef]nodestate.PodReport
	// Pods and Jobs of packages on this node.
	Pods []*corev1.Pod
	Jobs []*batchv1.Job
	// Grace is how long a pod may lack volumes, network or sandbox before that is
	// reported: it does so at each start for a moment.
	Grace time.Duration
}

// Plan is what to report. Slices are sorted by name.
type Plan struct {
	Reports map[nodestate.PackageRef]nodestate.PodReport
	// Without are Jobs that should have a pod by now and have none.
	Without []Without
	// Explain are reports of pods that lack volumes, network or sandbox and of
	// which nothing more is known: their events tell.
	Explain []Unexplained
	// NextCheck is when the next pod may be due for a report, zero for none.
	NextCheck time.Time
}

// Unexplained is a pod whose events are to be read.
type Unexplained struct {
	Ref nodestate.PackageRef
	Pod *corev1.Pod
}

// Compute makes the plan.
func Compute(in *Input) *Plan {
	out := &Plan{}
	for _, p := range candidates(in) {
		w, ok := StartWait(p.Pod)
		if !ok {
			continue
		}
		if due := w.Since.Add(in.Grace); w.Unprepared && in.Now.Before(due) {
			out.due(due)
			continue
		}
		if out.Reports == nil {
			out.Reports = make(map[nodestate.PackageRef]nodestate.PodReport)
		}
		report, explained := makeReport(in, p, &w)
		out.Reports[p.Ref] = report
		if !explained {
			out.Explain = append(out.Explain, p)
		}
	}
	out.findWithout(in)
	return out
}

func (p *Plan) due(at time.Time) {
	if p.NextCheck.IsZero() || at.Before(p.NextCheck) {
		p.NextCheck = at
	}
}

// candidates is, of each package, the pod that may be starting: the newest
// one. The result is sorted by pod name.
func candidates(in *Input) []Unexplained {
	newest := map[nodestate.PackageRef]*corev1.Pod{}
	for _, pod := range in.Pods {
		id, err := packagejob.Parse(pod)
		if err != nil || id.NodeUID != in.NodeUID || !packagejob.Owned(pod.Labels) {
			continue
		}
		if pod.DeletionTimestamp != nil {
			continue
		}
		if old := newest[id.Ref()]; old == nil || later(pod, old) {
			newest[id.Ref()] = pod
		}
	}
	var out []Unexplained
	for ref, pod := range newest {
		out = append(out, Unexplained{ref, pod})
	}
	slices.SortFunc(out, func(a, b Unexplained) int { return cmp.Compare(a.Pod.Name, b.Pod.Name) })
	return out
}

func later(a, b *corev1.Pod) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) > 0
}

// makeReport goes on from the report that stands about the same Job, so that
// the time does not begin anew with each other reason. explained is false if
// events could say more.
func makeReport(in *Input, p Unexplained, w *Waiting) (report nodestate.PodReport, explained bool) {
	report = nodestate.PodReport{
		Job: packagejob.JobOf(p.Pod), Name: p.Ref.Package, NodeWright: p.Ref.NodeWright, Pod: p.Pod.Name,
		Reason: w.Reason, Message: nodestate.CapString(w.Message, nodestate.MaxMessage),
	}
	since := w.Since
	if since.IsZero() || since.After(in.Now) {
		since = in.Now
	}
	report.WaitingSince = nodestate.FormatTime(since)
	before, stands := in.Standing[p.Ref]
	if !stands || before.Job != report.Job {
		return report, !w.Unprepared
	}
	if at, err := nodestate.ParseTime(before.WaitingSince); err == nil && at.Before(since) {
		report.WaitingSince = before.WaitingSince
	}
	switch {
	case before.Pod != report.Pod:
		return report, !w.Unprepared
	case w.Unprepared && before.Reason != report.Reason && unprepared(before.Reason):
		// Events said it; it is not read again at each pass.
		report.Reason, report.Message = before.Reason, before.Message
	case w.Reason == reasonBackOff && pullFailed(before.Reason):
		// The pod alternates between pull and back-off: only the pull has news.
		report.Reason, report.Message = before.Reason, before.Message
	case w.Unprepared:
		return report, false
	}
	return report, true
}

// unpreparedReasons are the reasons of events about pods that lack volumes,
// network or sandbox.
var unpreparedReasons = []string{
	"FailedMount", "FailedAttachVolume", "FailedMapVolume", "FailedCreatePodSandBox", "NetworkNotReady", "FailedCreatePodContainer",
}

func unprepared(reason string) bool { return slices.Contains(unpreparedReasons, reason) }

// Explain fills in what the events of the pod say. It gives the report back
// unchanged if they say nothing.
func Explain(report nodestate.PodReport, events []corev1.Event) nodestate.PodReport {
	var newest *corev1.Event
	for i := range events {
		e := &events[i]
		if !unprepared(e.Reason) || e.InvolvedObject.Name != report.Pod {
			continue
		}
		if newest == nil || seenAt(newest).Before(seenAt(e)) {
			newest = e
		}
	}
	if newest != nil {
		report.Reason = newest.Reason
		report.Message = nodestate.CapString(newest.Message, nodestate.MaxMessage)
	}
	return report
}

func seenAt(e *corev1.Event) time.Time {
	at := e.LastTimestamp.Time
	if e.EventTime.After(at) {
		at = e.EventTime.Time
	}
	if e.Series != nil && e.Series.LastObservedTime.After(at) {
		at = e.Series.LastObservedTime.Time
	}
	return at
}
