package plan

import (
	"fmt"
	"math"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// observe brings the entry up to what the Job of its attempt says.
func (w *work) observe(pkg *Package) {
	ref := w.ref(pkg.Name)
	e, ok := w.entry(pkg.Name)
	if !ok || w.p.malformed[ref] || e.UID != w.nw.UID || !w.unfinished(&e) {
		return
	}
	job := w.p.jobOf(&e)
	if job == nil || job.Unreadable {
		return
	}
	switch job.State {
	case JobSucceeded:
		e.State, e.Reason, e.Message = nodestate.StateComplete, "", ""
		w.put(e)
	case JobFailed:
		w.observeFailure(e)
	case JobUnfinished:
		w.observeStart(e, job)
	}
}

// observeFailure acts on a failed attempt, but only together with its
// evidence: without it exit code and log would be lost.
func (w *work) observeFailure(e nodestate.PackageStatus) {
	report, ok := w.p.in.Record.JobReports[e.Ref()]
	if !ok || !report.Of(&e) {
		return
	}
	failures := e.Failures
	// An attempt that was counted already (the retry limit was raised later) does
	// not count twice.
	if counted := e.State == nodestate.StateErroring && e.Reason == report.Reason; !report.Harmless && !counted {
		failures++
	}
	if failures > w.nw.RetryLimit {
		e.State, e.Failures, e.Reason = nodestate.StateErroring, failures, report.Reason
		e.Message = fmt.Sprintf("stage %s failed %d times, last with %s", e.Stage, failures, describe(&report))
		w.p.event(Event{w.nw.Name, true, ReasonErroring, fmt.Sprintf("package %s %s: %s", e.Name, e.Version, e.Message)})
		w.put(e)
		return
	}
	tries := failures
	if report.Harmless {
		tries = e.Attempt
	}
	at := w.p.backoffEnds(&report, tries)
	if w.p.in.Now.Before(at) {
		w.waitForRetry(e, &report, at)
		return
	}
	e.State, e.Failures, e.Attempt = nodestate.StateInProgress, failures, e.Attempt+1
	e.Reason, e.Message = "", ""
	w.put(e)
}

func (w *work) waitForRetry(e nodestate.PackageStatus, report *nodestate.JobReport, at time.Time) {
	w.p.due(at)
	w.active = true
	reason := ReasonAttemptFailed
	if report.Harmless {
		reason = ReasonAttemptLost
	}
	was := e
	e.State, e.Reason = nodestate.StateInProgress, ReasonBackOff
	e.Message = fmt.Sprintf("attempt %d of stage %s ended with %s; the next one starts at %s",
		e.Attempt, e.Stage, describe(report), nodestate.FormatTime(at))
	if was.Reason != e.Reason || was.Message != nodestate.CapString(e.Message, nodestate.MaxMessage) {
		w.p.event(Event{w.nw.Name, true, reason, fmt.Sprintf("package %s %s: %s", e.Name, e.Version, e.Message)})
	}
	w.put(e)
}

func describe(r *nodestate.JobReport) string {
	text := r.Reason
	if r.ExitCode != nil {
		text += fmt.Sprintf(" (exit code %d)", *r.ExitCode)
	}
	if r.Message != "" && r.Message != r.Reason {
		text += ": " + r.Message
	}
	return text
}

// backoffEnds is when the next attempt may start: base after the first
// failure, doubled for each further one up to the maximum.
func (p *planner) backoffEnds(report *nodestate.JobReport, failures int32) time.Time {
	ended, err := nodestate.ParseTime(report.FinishedAt)
	if err != nil {
		return p.in.Now
	}
	wait := p.in.Config.BackoffMax
	if shift := failures - 1; shift < 30 {
		wait = min(wait, p.in.Config.BackoffBase<<max(shift, 0))
	}
	// A clock ahead of ours must not make the wait longer than it is.
	if latest := p.in.Now.Add(wait); ended.Add(wait).After(latest) {
		return latest
	}
	return ended.Add(wait)
}

// observeStart shows a pod that cannot start. It is not the package's failure:
// the attempt goes on until its deadline, and heals by itself.
func (w *work) observeStart(e nodestate.PackageStatus, job *Job) {
	report, waits := w.p.in.Record.PodReports[e.Ref()]
	if waits && report.Job != job.Name {
		waits = false
	}
	if !waits {
		if e.State == nodestate.StateErroring || e.Reason != "" {
			e.State, e.Reason, e.Message = nodestate.StateInProgress, "", ""
			w.put(e)
		}
		return
	}
	since, err := nodestate.ParseTime(report.WaitingSince)
	if err != nil {
		return
	}
	shows := since.Add(w.p.in.Config.PodStartGrace)
	if w.p.in.Now.Before(shows) {
		w.p.due(shows)
		return
	}
	if e.State != nodestate.StateErroring {
		w.p.event(Event{w.nw.Name, true, ReasonErroring, fmt.Sprintf(
			"package %s %s: pod %s cannot start: %s: %s", e.Name, e.Version, report.Pod, report.Reason, report.Message)})
	}
	e.State, e.Reason = nodestate.StateErroring, report.Reason
	e.Message = report.Message
	w.put(e)
}

// ensureJob sees to it that the attempt the entry names has its Job, with the
// deadline of the present spec.
func (w *work) ensureJob(pkg *Package) {
	ref := w.ref(pkg.Name)
	e, ok := w.entry(pkg.Name)
	if !ok || w.p.malformed[ref] || e.UID != w.nw.UID || !w.unfinished(&e) || !runnable(e.Stage) {
		return
	}
	w.active = true
	job := w.p.jobOf(&e)
	switch {
	case job == nil:
		w.createJob(pkg, &e)
	case job.Unreadable:
		e.Reason = ReasonJobNameTaken
		e.Message = fmt.Sprintf("Job %s exists and is not this attempt's; delete it so that the stage can run", job.Name)
		w.put(e)
	case job.State == JobUnfinished && !job.Deleting && w.next(pkg).stage == "":
		if want := deadline(pkg.StageTimeout); !equalSeconds(want, job.DeadlineSeconds) {
			w.p.out.Patch = append(w.p.out.Patch, JobDeadline{Name: job.Name, UID: job.UID, DeadlineSeconds: want})
		}
	}
}

func (w *work) createJob(pkg *Package, e *nodestate.PackageStatus) {
	// The record may name an attempt that was to start when the hold came. A
	// missing slot or a revision that is being renewed does not stop it: the
	// attempt was decided on.
	if w.hold.reason != "" && w.hold.reason != ReasonWaiting || w.next(pkg).stage != "" {
		return
	}
	if w.p.stopExecutors(e.Ref(), ReasonSuperseded, "another attempt of the package is to start") {
		return
	}
	create := JobCreate{
		Identity: w.p.identity(e), SpecHash: e.SpecHash, ConfigHash: e.ConfigHash,
		Image: e.Image, ContainerSHA: e.ContainerSHA,
		DeadlineSeconds: deadline(pkg.StageTimeout), BootID: e.BootID,
	}
	if w.batch != nil {
		create.Order = w.batch.Order
	}
	w.p.out.Create = append(w.p.out.Create, create)
}

// identity of the attempt that the entry names.
func (p *planner) identity(e *nodestate.PackageStatus) packagejob.Identity {
	return identityOf(&p.in.Node, e)
}

// deadline rounds up to whole seconds; nil is no bound.
func deadline(timeout time.Duration) *int64 {
	if timeout <= 0 {
		return nil
	}
	seconds := int64(math.Ceil(timeout.Seconds()))
	return &seconds
}

func equalSeconds(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
