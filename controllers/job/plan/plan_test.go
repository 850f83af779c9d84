package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/packagejob"
	"github.com/nodewright/nodewright/controllers/job/plan"
)

// what a plan says about the one Job of a test.
const (
	nothing  = "nothing"
	marked   = "marked"
	wanted   = "evidence wanted"
	stranger = "stranger"
)

func verdict(p *plan.Plan) string {
	switch {
	case len(p.Marks) == 1 && len(p.Evidence) == 0 && len(p.Strangers) == 0:
		return marked
	case len(p.Evidence) == 1 && len(p.Marks) == 0 && len(p.Strangers) == 0:
		return wanted
	case len(p.Strangers) == 1 && len(p.Marks) == 0 && len(p.Evidence) == 0:
		return stranger
	case len(p.Strangers)+len(p.Marks)+len(p.Evidence) == 0:
		return nothing
	default:
		return "several"
	}
}

func TestVerdictOnOneJob(t *testing.T) {
	t.Parallel()
	const complete, failed = batchv1.JobComplete, batchv1.JobFailed
	with := func(change func(*nodestate.PackageStatus)) nodestate.Record { return record(entry(change)) }
	reported := func(rec nodestate.Record, r nodestate.JobReport) nodestate.Record {
		rec.JobReports = map[nodestate.PackageRef]nodestate.JobReport{ref: r}
		return rec
	}
	for name, tc := range map[string]struct {
		outcome    batchv1.JobConditionType
		record     nodestate.Record
		job        func(*batchv1.Job)
		identity   func(*packagejob.Identity)
		want       string
		wantReport bool
	}{
		"running":                         {record: with(nil), want: nothing},
		"running, left behind":            {record: record(), want: nothing},
		"JB-22 about to fail":             {outcome: batchv1.JobFailureTarget, record: with(nil), want: nothing},
		"JB-22 about to succeed":          {outcome: batchv1.JobSuccessCriteriaMet, record: with(nil), want: nothing},
		"succeeded, record waits":         {outcome: complete, record: with(nil), want: nothing},
		"succeeded, shown as erroring":    {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.State = nodestate.StateErroring }), want: nothing},
		"succeeded, stage complete":       {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.State = nodestate.StateComplete }), want: marked},
		"succeeded, next stage":           {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.Stage = nodestate.StageInterrupt }), want: marked},
		"succeeded, stage before":         {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.Stage = nodestate.StageApply }), want: nothing},
		"succeeded, stage before is done": {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.Stage, s.State = nodestate.StageApply, nodestate.StateComplete }), want: nothing},
		"succeeded, next run":             {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.Run, s.Stage = 8, nodestate.StageApply }), want: marked},
		"succeeded, earlier run":          {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.Run = 6 }), want: nothing},
		"succeeded, next attempt":         {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.Attempt = 2 }), want: marked},
		"succeeded, entry removed":        {outcome: complete, record: record(), want: marked},
		"succeeded, run not seen yet":     {outcome: complete, record: record(), identity: func(i *packagejob.Identity) { i.Run = 10 }, want: nothing},
		"succeeded, other nodewright uid": {outcome: complete, record: with(func(s *nodestate.PackageStatus) { s.UID = "x" }), want: marked},
		"succeeded, marked already":       {outcome: complete, record: record(), job: recorded, want: nothing},
		"succeeded, being deleted":        {outcome: complete, record: record(), job: deleting, want: nothing},
		"JB-03 failed, no evidence yet":   {outcome: failed, record: with(nil), want: wanted},
		"failed, being deleted":           {outcome: failed, record: with(nil), job: deleting, want: wanted},
		"failed, reported":                {outcome: failed, record: reported(with(nil), report(nil)), want: nothing, wantReport: true},
		"failed, reported and terminal": {
			outcome: failed, want: marked, wantReport: true,
			record: reported(with(func(s *nodestate.PackageStatus) { s.State, s.Reason = nodestate.StateErroring, "Error" }), report(nil)),
		},
		"failed, erroring for its pod": {
			outcome: failed, want: nothing, wantReport: true,
			record: reported(with(func(s *nodestate.PackageStatus) {
				s.State, s.Reason, s.Since = nodestate.StateErroring, "ErrImagePull", nodestate.FormatTime(created)
			}), report(nil)),
		},
		"failed, terminal for a lowered limit": {
			outcome: failed, want: marked, wantReport: true,
			record: reported(with(func(s *nodestate.PackageStatus) {
				s.State, s.Reason, s.Since = nodestate.StateErroring, "AttemptFailed", nodestate.FormatTime(ended)
			}), report(nil)),
		},
		"failed, report is of another job": {
			outcome: failed, want: wanted,
			record: reported(with(nil), report(func(r *nodestate.JobReport) { r.Job = "x" })),
		},
		"failed, report is older than the job": {
			outcome: failed, want: wanted,
			record: reported(with(nil), report(func(r *nodestate.JobReport) { r.FinishedAt = nodestate.FormatTime(created.Add(-time.Second)) })),
		},
		"failed, report without end": {
			outcome: failed, want: wanted,
			record: reported(with(nil), report(func(r *nodestate.JobReport) { r.FinishedAt = "" })),
		},
		"failed, next attempt began": {
			outcome: failed, want: marked,
			record: reported(with(func(s *nodestate.PackageStatus) { s.Attempt = 2 }), report(nil)),
		},
		"failed, but the stage is complete": {
			outcome: failed, want: marked,
			record: reported(with(func(s *nodestate.PackageStatus) { s.State = nodestate.StateComplete }), report(nil)),
		},
		"failed, state key malformed": {
			outcome: failed, want: nothing, wantReport: true, record: reported(malformed(), report(nil)),
		},
		"succeeded, state key malformed": {outcome: complete, record: malformed(), want: nothing},
		"failed, neighbour malformed": {
			outcome: failed, want: wanted,
			record: func() nodestate.Record {
				rec := with(nil)
				rec.Malformed = []nodestate.Malformed{{Key: nodestate.Prefix + "nodeState_tuning_other", Kind: nodestate.KindNodeState}}
				return rec
			}(),
		},
		"of a former node":                {outcome: failed, record: with(nil), identity: func(i *packagejob.Identity) { i.NodeUID = "x" }, want: stranger},
		"running, of a former node":       {record: record(), identity: func(i *packagejob.Identity) { i.NodeUID = "x" }, want: stranger},
		"of a former node, being deleted": {record: record(), identity: func(i *packagejob.Identity) { i.NodeUID = "x" }, job: deleting, want: nothing},
		"unreadable, running":             {record: with(nil), job: unreadable, want: nothing},
		"unreadable, failed":              {outcome: failed, record: with(nil), job: unreadable, want: marked},
		"unreadable, marked already":      {outcome: failed, record: with(nil), job: func(j *batchv1.Job) { unreadable(j); recorded(j) }, want: nothing},
		"copy of a job":                   {outcome: failed, record: with(nil), job: func(j *batchv1.Job) { j.Name = "copy" }, want: marked},
		"identity is of another node":     {outcome: failed, record: with(nil), job: func(j *batchv1.Job) { j.Spec.Template.Spec.NodeName = "n2" }, want: marked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := job(t, identity(tc.identity), tc.outcome, "")
			if tc.job != nil {
				tc.job(j)
			}
			got := plan.Compute(input(tc.record, j))
			if v := verdict(got); v != tc.want {
				t.Errorf("Compute() says %q, want %q", v, tc.want)
			}
			want := map[nodestate.PackageRef]nodestate.JobReport(nil)
			if tc.wantReport {
				want = tc.record.JobReports
			}
			if diff := cmp.Diff(want, got.Reports); diff != "" {
				t.Errorf("reports (-want +got):\n%s", diff)
			}
		})
	}
}

// input of a pass so late that no mark waits any more.
func input(rec nodestate.Record, jobs ...*batchv1.Job) *plan.Input {
	return &plan.Input{
		Now: ended.Add(ttlFailed), NodeUID: "node-uid", Record: rec, Jobs: jobs,
		TTL: func(_ string, succeeded bool) time.Duration {
			if succeeded {
				return ttlSucceeded
			}
			return ttlFailed
		},
	}
}

const (
	ttlSucceeded = time.Hour
	ttlFailed    = 10 * time.Hour
)

func TestMarksYieldToStages(t *testing.T) {
	t.Parallel()
	next := record(entry(func(s *nodestate.PackageStatus) { s.Attempt = 2 }))
	other := func(i *packagejob.Identity) { i.Package = "sysctl" }
	for name, tc := range map[string]struct {
		record  nodestate.Record
		outcome batchv1.JobConditionType
		// running is another Job of the node.
		running func(*packagejob.Identity)
		after   time.Duration
		want    string
		wantDue time.Duration
	}{
		"nothing else runs":             {record: record(), outcome: batchv1.JobComplete, want: marked},
		"record says that a stage runs": {record: next, outcome: batchv1.JobComplete, want: nothing, wantDue: ttlSucceeded / 2},
		"a Job runs":                    {record: record(), outcome: batchv1.JobComplete, running: other, want: nothing, wantDue: ttlSucceeded / 2},
		"a Job of a former node runs": {
			record: record(), outcome: batchv1.JobComplete, want: "several",
			running: func(i *packagejob.Identity) { other(i); i.NodeUID = "x" },
		},
		"failed, a Job runs":       {record: record(), outcome: batchv1.JobFailed, running: other, want: nothing, wantDue: ttlFailed / 2},
		"unreadable, a Job runs":   {record: record(), outcome: "unreadable", running: other, want: marked},
		"just before half the TTL": {record: next, outcome: batchv1.JobComplete, after: ttlSucceeded/2 - 1, want: nothing, wantDue: ttlSucceeded / 2},
		"half the TTL is over":     {record: next, outcome: batchv1.JobComplete, after: ttlSucceeded / 2, want: marked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jobs := []*batchv1.Job{job(t, identity(nil), tc.outcome, "")}
			if tc.outcome == "unreadable" {
				jobs[0] = job(t, identity(nil), batchv1.JobFailed, "")
				unreadable(jobs[0])
			}
			if tc.running != nil {
				jobs = append(jobs, job(t, identity(tc.running), "", ""))
			}
			in := input(tc.record, jobs...)
			in.Now = ended.Add(tc.after)
			got := plan.Compute(in)
			if v := verdict(got); v != tc.want {
				t.Errorf("Compute() says %q, want %q", v, tc.want)
			}
			var want time.Time
			if tc.wantDue != 0 {
				want = ended.Add(tc.wantDue)
			}
			if !got.NextCheck.Equal(want) {
				t.Errorf("NextCheck is %s, want %s", got.NextCheck, want)
			}
		})
	}
}

func recorded(j *batchv1.Job) {
	j.Annotations[packagejob.AnnotationRecorded] = nodestate.FormatTime(ended)
}

func deleting(j *batchv1.Job) { j.DeletionTimestamp = ptr.To(metav1.NewTime(ended)) }

func unreadable(j *batchv1.Job) { j.Annotations[packagejob.AnnotationIdentity] = "{" }

func malformed() nodestate.Record {
	rec := record()
	rec.Malformed = []nodestate.Malformed{{Key: nodestate.Prefix + "nodeState_tuning_driver", Kind: nodestate.KindNodeState}}
	return rec
}

func TestMarksCarryOutcomeAndCause(t *testing.T) {
	t.Parallel()
	good := job(t, identity(nil), batchv1.JobComplete, "")
	bad := job(t, identity(func(i *packagejob.Identity) { i.Attempt = 2 }), batchv1.JobFailed, "")
	strange := job(t, identity(func(i *packagejob.Identity) { i.Attempt = 3 }), batchv1.JobComplete, "")
	unreadable(strange)
	got := plan.Compute(input(record(), good, bad, strange))
	if len(got.Marks) != 3 {
		t.Fatalf("Compute() marks %d Jobs, want 3", len(got.Marks))
	}
	for _, m := range got.Marks {
		if wantSuccess := m.Job != bad; m.Succeeded != wantSuccess {
			t.Errorf("Job %s: succeeded = %t, want %t", m.Job.Name, m.Succeeded, wantSuccess)
		}
		if wantErr := m.Job == strange; (m.Err != nil) != wantErr || (m.Identity == packagejob.Identity{}) != wantErr {
			t.Errorf("Job %s: error = %v, identity = %+v", m.Job.Name, m.Err, m.Identity)
		}
	}
}

// Of any history the plan is the same for every order of Jobs, asks for at most
// one thing per Job, never marks what the record waits for, and leaves inputs
// alone.
func TestComputeProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		e := entry(func(s *nodestate.PackageStatus) {
			s.Run = rapid.Int64Range(6, 8).Draw(rt, "run")
			s.Attempt = rapid.Int32Range(1, 3).Draw(rt, "attempt")
			s.Stage = rapid.SampledFrom(nodestate.Stages()).Draw(rt, "stage")
			s.State = rapid.SampledFrom([]nodestate.State{nodestate.StateInProgress, nodestate.StateComplete}).Draw(rt, "state")
		})
		rec := record(e)
		var jobs []*batchv1.Job
		seen := map[string]bool{}
		for range rapid.IntRange(0, 6).Draw(rt, "jobs") {
			id := identity(func(i *packagejob.Identity) {
				i.Run = rapid.Int64Range(6, 8).Draw(rt, "job run")
				i.Attempt = rapid.Int32Range(1, 3).Draw(rt, "job attempt")
				i.Stage = rapid.SampledFrom(nodestate.Stages()).Draw(rt, "job stage")
			})
			if seen[id.JobName()] {
				continue
			}
			seen[id.JobName()] = true
			jobs = append(jobs, job(t, id, rapid.SampledFrom([]batchv1.JobConditionType{
				"", batchv1.JobComplete, batchv1.JobFailed,
			}).Draw(rt, "outcome"), ""))
		}
		got := plan.Compute(input(rec, jobs...))
		reversed := slices.Clone(jobs)
		slices.Reverse(reversed)
		again := plan.Compute(input(rec, reversed...))
		if diff := cmp.Diff(got, again); diff != "" {
			rt.Fatalf("another order of Jobs gives another plan:\n%s", diff)
		}
		asked := map[string]int{}
		for _, m := range got.Marks {
			asked[m.Job.Name]++
			if m.Identity.NamedBy(&e) && e.State == nodestate.StateInProgress {
				rt.Fatalf("Job %s is marked though the record waits for it", m.Job.Name)
			}
			if _, finished := packagejob.Finished(m.Job); !finished {
				rt.Fatalf("Job %s is marked though it runs", m.Job.Name)
			}
		}
		for _, a := range got.Evidence {
			asked[a.Job.Name]++
			if !a.Identity.NamedBy(&e) {
				rt.Fatalf("evidence is wanted of %s, which the record does not name", a.Job.Name)
			}
		}
		for name, n := range asked {
			if n > 1 {
				rt.Fatalf("%d things are asked for Job %s", n, name)
			}
		}
	})
}
