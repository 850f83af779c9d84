package plan

import (
	"fmt"
	"slices"
	"time"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// observe brings the entry up to what the Job of its attempt says. That holds
// for an attempt of an earlier NodeWright of the name as well: what it achieved
// is on the host, and why it does not end has to be seen.
func (w *work) observe(pkg *Package) {
	ref := w.ref(pkg.Name)
	e, ok := w.entry(pkg.Name)
	if !ok || w.p.malformed[ref] {
		return
	}
	w.refreshInterrupt(pkg, e)
	if e.State != nodestate.StateInProgress && e.State != nodestate.StateErroring {
		return
	}
	if rebooting(&e) && !w.observeReboot(e, pkg) || !w.unfinished(&e) {
		return
	}
	if e.Reason == ReasonBackOff {
		w.retry(e)
		return
	}
	job := w.p.jobOf(&e)
	switch {
	case job == nil:
		// A failure that was reported counts, also if somebody deleted the Job since.
		if e.State == nodestate.StateInProgress {
			w.observeFailure(e)
		}
	case job.Unreadable:
	case job.State == JobSucceeded:
		e.State, e.Reason, e.Message, e.UID = nodestate.StateComplete, "", "", w.nw.UID
		w.put(e)
	case job.State == JobFailed:
		w.observeFailure(e)
	default:
		w.observeStart(e, job)
	}
}

// observeFailure acts on a failed attempt, but only together with its
// evidence: without it exit code and log would be lost.
func (w *work) observeFailure(e nodestate.PackageStatus) {
	report := w.report(&e)
	if report == nil || e.State == nodestate.StateErroring && e.Reason == report.Reason {
		return
	}
	if !report.Harmless {
		e.Failures++
	}
	if e.Failures > w.nw.RetryLimit {
		w.park(e)
		return
	}
	// A clock ahead of ours must not make the wait longer than it is, nor let its
	// end move.
	ended := w.p.in.Now
	if at, err := nodestate.ParseTime(report.FinishedAt); err == nil && at.Before(ended) {
		ended = at
	}
	since := nodestate.FormatTime(ended)
	reason, next := ReasonAttemptFailed, "now"
	if report.Harmless {
		reason = ReasonAttemptLost
	}
	if at := w.p.backoffEnds(since, e.Attempt); w.p.in.Now.Before(at) {
		next = "at " + nodestate.FormatTime(at)
	}
	// What comes next stands first: the end of a log may be longer than a message.
	e.Message = fmt.Sprintf("next attempt %s: attempt %d of stage %s ended with %s", next, e.Attempt, e.Stage, describe(&e, report))
	w.p.event(Event{w.nw.Name, e.Name, true, reason, fmt.Sprintf("package %s %s: %s", e.Name, e.Version, e.Message)})
	e.State, e.Reason, e.Since = nodestate.StateInProgress, ReasonBackOff, since
	w.put(e)
	w.retry(e)
}

// report is the evidence of the attempt that the entry names, nil if there is
// none.
func (w *work) report(e *nodestate.PackageStatus) *nodestate.JobReport {
	if r, ok := w.p.in.Record.JobReports[e.Ref()]; ok && r.Of(e) {
		return &r
	}
	return nil
}

// park ends the run: no further attempt follows.
func (w *work) park(e nodestate.PackageStatus) {
	reason, last := ReasonAttemptFailed, e.Message
	if report := w.report(&e); report != nil {
		reason, last = report.Reason, describe(&e, report)
	}
	w.giveUp(e, reason, fmt.Sprintf("stage %s failed %s and is not tried again before the package or the retry limit changes: %s",
		e.Stage, times(e.Failures), last))
}

// giveUp leaves the entry erroring, and tells of it.
func (w *work) giveUp(e nodestate.PackageStatus, reason, message string) {
	e.State, e.Reason, e.Message = nodestate.StateErroring, reason, message
	w.put(e)
	w.p.event(Event{w.nw.Name, e.Name, true, ReasonErroring, fmt.Sprintf("package %s %s: %s", e.Name, e.Version, message)})
}

// retry makes the next attempt of an entry in back-off due: it follows from the
// entry alone, since Job and evidence may be gone.
func (w *work) retry(e nodestate.PackageStatus) {
	if e.Failures > w.nw.RetryLimit {
		w.park(e)
		return
	}
	if at := w.p.backoffEnds(e.Since, e.Attempt); w.p.in.Now.Before(at) {
		w.p.due(at)
		w.active = true
		w.wait(nodestate.SlotBackOff, fmt.Sprintf("package %s: %s", e.Name, e.Message))
		return
	}
	e.Attempt++
	e.Reason, e.Message = "", ""
	w.put(e)
}

func times(n int32) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// describe says why an attempt failed. One whose pod never started tells that:
// that its time is over explains nothing.
func describe(e *nodestate.PackageStatus, r *nodestate.JobReport) string {
	text := r.Reason
	if e.State == nodestate.StateErroring {
		text += fmt.Sprintf(", its pod could not start (%s: %s)", e.Reason, e.Message)
	}
	if r.ExitCode != nil {
		text += fmt.Sprintf(" (exit code %d)", *r.ExitCode)
	}
	if r.Message != "" && r.Message != r.Reason {
		text += ": " + r.Message
	}
	return text
}

// backoffEnds is when the next attempt may start: base after the first one of
// the stage, doubled for each further one up to the maximum.
func (p *planner) backoffEnds(since string, attempt int32) time.Time {
	ended, err := nodestate.ParseTime(since)
	if err != nil {
		return p.in.Now
	}
	wait := p.in.Config.BackoffMax
	if shift := attempt - 1; shift < 30 {
		wait = min(wait, p.in.Config.BackoffBase<<max(shift, 0))
	}
	return ended.Add(wait)
}

// observeStart shows a pod that cannot start. It is not the package's failure:
// the attempt goes on until its deadline, and heals by itself.
func (w *work) observeStart(e nodestate.PackageStatus, job *Job) {
	if (job.Suspended || job.Ending) && e.State == nodestate.StateErroring {
		// It has no pod now, and nobody knows whether another one could start.
		return
	}
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
		w.wait(nodestate.SlotPodNotStarting, fmt.Sprintf("the pod of package %s, stage %s, does not start (%s); the package shows as erroring if that has not passed at %s",
			e.Name, e.Stage, report.Reason, nodestate.FormatTime(shows)))
		return
	}
	w.tellStart(&e, &report)
	e.State, e.Reason = nodestate.StateErroring, report.Reason
	e.Message = report.Message
	w.put(e)
}

// tellStart tells of a pod that cannot start, once: also of one that came at last
// and cannot start either, and not of each reason that the same pod has.
func (w *work) tellStart(e *nodestate.PackageStatus, report *nodestate.PodReport) {
	came := report.Pod != "" && (e.Reason == nodestate.PodFailedCreate || e.Reason == nodestate.PodJobNotBegun)
	if e.State == nodestate.StateErroring && !came {
		return
	}
	pod := "pod " + report.Pod
	if report.Pod == "" {
		pod = "the pod of Job " + report.Job
	}
	w.p.event(Event{w.nw.Name, e.Name, true, ReasonErroring, fmt.Sprintf(
		"package %s %s: %s cannot start: %s: %s", e.Name, e.Version, pod, report.Reason, report.Message)})
}

// ensureJob sees to it that the attempt the entry names has its Job, with the
// deadline of the present spec.
func (w *work) ensureJob(pkg *Package) {
	e, ok := w.entry(pkg.Name)
	if !ok || !w.needsJob(pkg, &e) {
		return
	}
	job := w.p.jobOf(&e)
	switch {
	case e.Reason == ReasonBackOff:
		w.active = true
	case job == nil:
		w.createJob(pkg, &e)
	case job.Unreadable:
		w.active = true
		e.Reason = ReasonJobNameTaken
		e.Message = fmt.Sprintf("Job %s exists and is not this attempt's; delete it so that the stage can run", job.Name)
		w.put(e)
	default:
		w.active = true
		w.keepGoing(pkg, job)
	}
}

// needsJob tells whether the attempt that the entry names is to run: it is of this
// NodeWright and not over, and nothing is to start in its place.
func (w *work) needsJob(pkg *Package, e *nodestate.PackageStatus) bool {
	switch {
	case w.p.malformed[e.Ref()], e.UID != w.nw.UID, !w.unfinished(e):
		return false
	case w.nw.Deleting && !e.Stage.Uninstalls() && (!pkg.CanUninstall || !interrupting(e)):
		return false
	default:
		return w.next(pkg).stage == ""
	}
}

// keepGoing lets a Job that does not run go on, with the deadline of the present
// spec.
func (w *work) keepGoing(pkg *Package, job *Job) {
	if job.State != JobUnfinished || job.Deleting {
		return
	}
	if job.Suspended {
		w.resume(job)
	}
	if want := deadline(pkg.StageTimeout); !equalSeconds(want, job.DeadlineSeconds) {
		w.p.out.Patch = append(w.p.out.Patch, JobDeadline{Name: job.Name, UID: job.UID, DeadlineSeconds: want})
	}
}

// createJob makes the Job that the entry names. The attempt was decided on, so a
// revision that is being renewed does not stop it. Without a slot it waits: the
// node may have been out of the rollout, or its slot given back, since.
func (w *work) createJob(pkg *Package, e *nodestate.PackageStatus) {
	if !w.mayGoOn() || w.asked[e.Name] {
		w.wants = true
		return
	}
	w.active = true
	if w.p.stopExecutors(e.Ref(), ReasonSuperseded, "another attempt of the package is to start") {
		w.waitFor(e.Ref())
		return
	}
	if !w.mayDisturb(pkg, e) || w.refused(e) {
		return
	}
	create := JobCreate{
		Identity: w.p.identity(e), SpecHash: e.SpecHash, ConfigHash: e.ConfigHash,
		Image: e.Image, ContainerSHA: e.ContainerSHA,
		DeadlineSeconds: deadline(pkg.StageTimeout), BootID: e.BootID,
		Order: w.batch.Order, Unsure: w.lostSight(e.Ref()),
		Again: w.missing(e),
	}
	if e.Stage.Interrupts() {
		create.Interrupt = e.Interrupt
	}
	w.p.out.Create = append(w.p.out.Create, create)
}

// mayDisturb tells whether the node is fit for the Job of the entry: nothing runs
// while the node is interrupted, and what ends in an interrupt runs on an empty
// node.
func (w *work) mayDisturb(pkg *Package, e *nodestate.PackageStatus) bool {
	created := w.p.out.Create
	if w.p.interrupted(e.Ref()) || slices.ContainsFunc(created, func(c JobCreate) bool { return c.Interrupt != nil }) {
		w.wait(nodestate.SlotInterruptWaits, "the node is being interrupted")
		return false
	}
	if e.Stage.Interrupts() {
		other := w.p.runsAnything()
		if len(created) > 0 {
			other = "a Job that is created now"
		}
		if other != "" {
			w.wait(nodestate.SlotInterruptWaits, "the interrupt of the node waits for the end of "+other)
			return false
		}
	}
	if e.Interrupt == nil || e.Stage == nodestate.StagePostInterrupt {
		return true
	}
	if !w.quiet() {
		w.awaitQuiet = append(w.awaitQuiet, due{pkg: pkg})
		return false
	}
	delete(w.p.out.Set.DrainStarts, w.nw.Name)
	if e.Stage.Interrupts() {
		// A reboot is timed from here, however long the way to it was.
		e.Since = nodestate.FormatTime(w.p.in.Now)
		w.put(*e)
	}
	return true
}

// lostSight tells whether the record before this pass names a Job that is not
// there: it was never created, or somebody deleted it.
func (w *work) lostSight(ref nodestate.PackageRef) bool {
	old, had := w.p.in.Record.Packages[ref]
	return had && old.State != nodestate.StateComplete && w.p.jobOf(&old) == nil
}

// missing tells whether the record before this pass names the very Job that is to
// be created, as one that runs.
func (w *work) missing(e *nodestate.PackageStatus) bool {
	old, had := w.p.in.Record.Packages[e.Ref()]
	return had && old.State == nodestate.StateInProgress && old.Reason != ReasonBackOff && w.p.identity(&old) == w.p.identity(e)
}

// refused tells whether the API server did not take the Job of the entry a moment
// ago, and shows why until it does.
func (w *work) refused(e *nodestate.PackageStatus) bool {
	r, ok := w.p.in.Refused[e.Ref()]
	if !ok || r.Job != w.p.identity(e) {
		return false
	}
	w.wait(nodestate.SlotJobRefused, r.Message)
	if w.p.in.Now.Before(r.RetryAt) {
		w.p.due(r.RetryAt)
		return true
	}
	return false
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
	seconds := v1alpha1.WholeSeconds(timeout)
	return &seconds
}

func equalSeconds(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}
