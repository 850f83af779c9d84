package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

const look = 50 * time.Millisecond

// counts are what the operator did so far.
type counts struct {
	perKind   map[string]int
	conflicts int
	// reads are all other requests, watches included.
	reads int
}

// kindEviction is counted apart from writes.
const kindEviction = "pods/eviction"

func (c counts) writes() (n int) {
	for _, v := range c.perKind {
		n += v
	}
	return n - c.perKind[kindEviction]
}

// operatorRound starts the operator, rolls the NodeWright out, measures, and
// leaves the cluster as it was.
func (b *bench) operatorRound(ctx context.Context, r *Result, round int) (_ float64, err error) {
	c, err := b.client()
	if err != nil {
		return 0, err
	}
	auditBefore, err := b.audited()
	if err != nil {
		return 0, err
	}
	op := b.op
	if err := op.Start(); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, op.Stop()) }()
	if err := errors.Join(b.leads(ctx), op.Ready(ctx)); err != nil {
		return 0, err
	}
	if b.o.interrupts {
		if err := startWorkload(ctx, b.cp.Config(), b.nodes); err != nil {
			return 0, err
		}
	}
	file, err := b.writeManifest()
	if err != nil {
		return 0, err
	}
	cpuBefore, err := cpuSeconds(op.Process().Pid())
	if err != nil {
		return 0, err
	}
	used := b.cpu()
	stop := b.profiler.start(ctx, fmt.Sprintf("operator-%d", round))
	defer stop()
	began := time.Now()
	if _, err := op.Kubectl(ctx, "apply", "--server-side", "-f", file); err != nil {
		return 0, err
	}
	nw, err := b.waitReady(ctx, c)
	if err != nil {
		return 0, err
	}
	took := time.Since(began).Seconds()
	stop()
	b.sayCPU(used)
	status, err := json.Marshal(nw.Status)
	if err != nil {
		return 0, fmt.Errorf("measure status: %w", err)
	}
	r.StatusBytes = len(status)
	if err := b.settle(ctx, r, auditBefore); err != nil {
		return 0, err
	}
	cpuAfter, err := cpuSeconds(op.Process().Pid())
	if err != nil {
		return 0, err
	}
	r.CPUSeconds = cpuAfter - cpuBefore
	rss, err := peakMiB(op.Process().Pid())
	if err != nil {
		return 0, err
	}
	r.RSSMiB = max(r.RSSMiB, rss)
	return took, b.cleanUp(ctx, op)
}

func (b *bench) client() (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), batchv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("make scheme: %w", err)
	}
	c, err := client.NewWithWatch(b.cp.Config(), client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make client: %w", err)
	}
	return c, nil
}

// leads waits until the operator has the lease: its start is not what is
// measured.
func (b *bench) leads(ctx context.Context) error {
	return b.poll(ctx, "the operator leads", time.Minute, func(ctx context.Context) (bool, error) {
		families, err := scrape(ctx)
		if err != nil {
			// It does not listen yet.
			return false, nil
		}
		f := families["leader_election_master_status"]
		return f != nil && len(f.Metric) > 0 && f.Metric[0].GetGauge().GetValue() == 1, nil
	})
}

// waitReady waits until the NodeWright says for its present spec that all
// nodes are complete. It watches: to ask all the time would burden the API
// server, and that would count as the operator's time.
func (b *bench) waitReady(ctx context.Context, c client.WithWatch) (*v1alpha1.NodeWright, error) {
	limit := 5*time.Minute + time.Duration(b.o.nodes*b.o.packages)*500*time.Millisecond
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the NodeWright is not ready after %s", limit))
	defer cancel()
	w, err := c.Watch(ctx, &v1alpha1.NodeWrightList{}, client.MatchingFields{"metadata.name": b.nw.Name})
	if err != nil {
		return nil, fmt.Errorf("watch nodewright: %w", err)
	}
	defer w.Stop()
	last := time.Now()
	for {
		select {
		case e, ok := <-w.ResultChan():
			nw, isNW := e.Object.(*v1alpha1.NodeWright)
			if !ok || !isNW {
				return nil, fmt.Errorf("watch nodewright: it ended with %v", e.Object)
			}
			ready := meta.FindStatusCondition(nw.Status.Conditions, v1alpha1.ConditionReady)
			if ready != nil && ready.Status == metav1.ConditionTrue && ready.ObservedGeneration == nw.Generation {
				return nw, nil
			}
			if time.Since(last) > 10*time.Second {
				last = time.Now()
				progress("complete nodes: %s", nw.Status.CompleteNodes)
			}
		case err := <-b.op.Failed():
			return nil, err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// settle waits until the operator has recorded every Job and is at rest, and
// until its own count of writes is what the API server counted. The audit log of
// a large fleet takes seconds to read, so it is read where the own count rests.
func (b *bench) settle(ctx context.Context, r *Result, before map[string]int) error {
	var own counts
	var seen map[string]int
	rested := time.Now()
	err := b.poll(ctx, "transport and audit log agree on a count that does not change", 5*time.Minute, func(ctx context.Context) (bool, error) {
		now, err := ownCounts(ctx)
		if err != nil {
			return false, err
		}
		if !maps.Equal(now.perKind, own.perKind) {
			rested = time.Now()
		}
		own = now
		// Longer than any wait of the operator on success.
		if time.Since(rested) < 2*time.Second {
			return false, nil
		}
		if seen, err = b.audited(); err != nil {
			return false, err
		}
		for kind, n := range before {
			if seen[kind] -= n; seen[kind] == 0 {
				delete(seen, kind)
			}
		}
		return maps.Equal(now.perKind, seen), nil
	})
	if err != nil {
		return fmt.Errorf("%w: the operator counted %v, the API server %v", err, own.perKind, seen)
	}
	progress("  reads and watches of the operator: %d", own.reads)
	r.Writes, r.PerKind, r.Evictions = own.writes(), own.perKind, own.perKind[kindEviction]
	r.Conflicts = max(r.Conflicts, own.conflicts)
	return nil
}

func (b *bench) cleanUp(ctx context.Context, op *operator.Operator) error {
	if _, err := op.Kubectl(ctx, "delete", "nodewright", b.nw.Name, "--wait", "--timeout=5m"); err != nil {
		return err
	}
	f, err := newFloor(b.cp.Config(), b.nw, b.nodes, b.o.workers, 0)
	if err != nil {
		return err
	}
	return f.clear(ctx)
}

// audited counts the writes of the operator's user by resource, leases apart.
func (b *bench) audited() (map[string]int, error) {
	out := map[string]int{}
	err := controlplane.ReadAuditLog(b.cp.AuditLog(), func(e controlplane.AuditEvent) {
		if e.User == operator.UserName && e.Resource != "leases" {
			out[e.Resource]++
		}
	})
	return out, err
}

// ownCounts reads what the operator's transport counted.
func ownCounts(ctx context.Context) (counts, error) {
	families, err := scrape(ctx)
	if err != nil {
		return counts{}, err
	}
	out := counts{perKind: map[string]int{}}
	if f := families["nodewright_api_requests_total"]; f != nil {
		for _, m := range f.Metric {
			labels := map[string]string{}
			for _, l := range m.Label {
				labels[l.GetName()] = l.GetValue()
			}
			n := int(m.GetCounter().GetValue())
			switch labels["verb"] {
			case "create", "update", "patch", "delete":
			default:
				out.reads += n
				continue
			}
			if labels["resource"] == "leases" {
				continue
			}
			out.perKind[labels["resource"]] += n
			if labels["code"] == strconv.Itoa(http.StatusConflict) {
				out.conflicts += n
			}
		}
	}
	if f := families["controller_runtime_reconcile_errors_total"]; f != nil {
		for _, m := range f.Metric {
			out.conflicts += int(m.GetCounter().GetValue())
		}
	}
	return out, nil
}

func scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+metricsAddress+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("scrape metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("scrape metrics: %w", err)
	}
	return families, nil
}

// cpuSeconds is the processor time that a process used so far.
func cpuSeconds(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	// The name in parentheses may hold spaces; user and system time are the 12th
	// and 13th field after it, in hundredths of a second.
	_, rest, _ := strings.Cut(string(data), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("read processor time: %q is not the form expected", data)
	}
	user, errU := strconv.ParseFloat(fields[11], 64)
	system, errS := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100, errors.Join(errU, errS)
}

// peakMiB is the highest resident memory of a process so far.
func peakMiB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("read memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(value)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("read memory: no VmHWM")
}

func (b *bench) poll(ctx context.Context, what string, limit time.Duration, condition wait.ConditionWithContextFunc) error {
	err := wait.PollUntilContextTimeout(ctx, look, limit, true, func(ctx context.Context) (bool, error) {
		select {
		case err := <-b.op.Failed():
			return false, err
		default:
			return condition(ctx)
		}
	})
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	return nil
}
