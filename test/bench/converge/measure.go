package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/cmd/devcluster/assets"
	"github.com/nodewright/nodewright/cmd/devcluster/controlplane"
	"github.com/nodewright/nodewright/cmd/devcluster/operator"
)

const (
	agentImage     = "nodewright.example/agent:7.0.0"
	metricsAddress = "127.0.0.1:18443"
	// manyNodes is from where on the control plane is set up for scale.
	manyNodes = 1000
)

type benchOptions struct {
	nodes, packages, rounds, workers int
	// interrupts says that each package interrupts the node, and that a pod runs on
	// each node that has to be evicted before.
	interrupts bool
	// profile is the directory for profiles of the API server; none if empty.
	profile string
}

// bench is one run on one control plane.
type bench struct {
	o     benchOptions
	cp    *controlplane.ControlPlane
	op    *operator.Operator
	nw    *v1alpha1.NodeWright
	nodes []string
	// profiler of the API server.
	profiler *profiler
}

func measure(ctx context.Context, o benchOptions) (_ *Result, err error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	progress("starting a control plane")
	cp, err := controlplane.Start(ctx, controlplane.Options{
		ControllerManager: true, Kwok: true, Audit: true, HighScale: o.nodes >= manyNodes,
		Assets: assets.Options{Out: os.Stderr},
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, cp.Stop()) }()
	progress("building and installing the operator")
	op, err := operator.Install(ctx, cp, operator.Options{Root: root, Configuration: fmt.Sprintf(`apiVersion: config.nodewright.nvidia.com/v1alpha1
kind: ManagerConfiguration
agentImage: %s
metrics:
  bindAddress: %s
  secure: false
concurrency:
  node: %d
`, agentImage, metricsAddress, o.workers)})
	if err != nil {
		return nil, err
	}
	progress("creating %d nodes", o.nodes)
	nodes, err := controlplane.CreateNodes(ctx, cp.Config(), o.nodes, controlplane.NodeOptions{})
	if err != nil {
		return nil, err
	}
	profiler, err := newProfiler(cp.Config(), o.profile)
	if err != nil {
		return nil, err
	}
	b := &bench{o: o, cp: cp, op: op, nw: makeNodeWright(o.packages, o.interrupts), nodes: nodes, profiler: profiler}
	return b.rounds(ctx)
}

func makeNodeWright(packages int, interrupts bool) *v1alpha1.NodeWright {
	nw := &v1alpha1.NodeWright{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeWright"},
		ObjectMeta: metav1.ObjectMeta{Name: "converge"},
		Spec:       v1alpha1.NodeWrightSpec{Packages: map[string]v1alpha1.Package{}},
	}
	if interrupts {
		// The default is one node at a time, which would measure the waits of a drain.
		nw.Spec.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To(int32(100))}
	}
	for i := range packages {
		name := fmt.Sprintf("package-%c%c", 'a'+i/26, 'a'+i%26)
		p := v1alpha1.Package{Version: "1.0.0", Image: "nodewright.example/" + name}
		if interrupts {
			p.Interrupt = &v1alpha1.Interrupt{Type: v1alpha1.InterruptService, Services: []string{"containerd.service"}}
		}
		nw.Spec.Packages[name] = p
	}
	return nw
}

func (b *bench) rounds(ctx context.Context) (*Result, error) {
	r := &Result{
		Nodes: b.o.nodes, Packages: b.o.packages, Stages: stages(b.o.packages, b.o.interrupts), Rounds: b.o.rounds,
	}
	r.WritesBudget = r.Nodes * (3*r.Stages + 6)
	if b.o.interrupts {
		// Once for each node: cordon, begin of the drain, end of the cordon, and the
		// events of cordon, interrupt and end.
		r.WritesBudget += 6 * r.Nodes
	}
	var raw, floors, seconds, ratios []float64
	for round := range b.o.rounds {
		took, err := b.bare(ctx, 2*round, false)
		if err != nil {
			return nil, err
		}
		raw = append(raw, took)
		progress("round %d: raw %.1fs", round+1, took)
		base, err := b.bare(ctx, 2*round+1, true)
		if err != nil {
			return nil, err
		}
		floors = append(floors, base)
		progress("round %d: floor %.1fs", round+1, base)
		if took, err = b.operatorRound(ctx, r, round+1); err != nil {
			return nil, err
		}
		seconds = append(seconds, took)
		ratios = append(ratios, took/base)
		progress("round %d: operator %.1fs, ratio %.2f, %d writes of %d, %d conflicts, %.0f MiB, %.1fs CPU",
			round+1, took, took/base, r.Writes, r.WritesBudget, r.Conflicts, r.RSSMiB, r.CPUSeconds)
	}
	r.RawSeconds, r.FloorSeconds, r.Seconds, r.Ratio = median(raw), median(floors), median(seconds), median(ratios)
	return r, nil
}

// bare measures the same Jobs without the operator, and removes them.
func (b *bench) bare(ctx context.Context, round int, ordered bool) (float64, error) {
	before := b.cpu()
	f, err := newFloor(b.cp.Config(), b.nw, b.nodes, b.o.workers, round)
	if err != nil {
		return 0, err
	}
	phase := "raw"
	if ordered {
		phase = "floor"
	}
	stop := b.profiler.start(ctx, fmt.Sprintf("%s-%d", phase, round/2+1))
	took, err := f.run(ctx, ordered)
	stop()
	if err != nil {
		return 0, err
	}
	b.sayCPU(before)
	return took.Seconds(), f.clear(ctx)
}

// cpu is what the processes of the control plane used so far.
func (b *bench) cpu() map[string]float64 {
	out := map[string]float64{}
	for name, pid := range b.cp.Pids() {
		if seconds, err := cpuSeconds(pid); err == nil {
			out[name] = seconds
		}
	}
	return out
}

// sayCPU tells which process used how much since before: where the time goes.
func (b *bench) sayCPU(before map[string]float64) {
	var parts []string
	for name, seconds := range b.cpu() {
		parts = append(parts, fmt.Sprintf("%s %.1fs", name, seconds-before[name]))
	}
	slices.Sort(parts)
	progress("  processor time: %s", strings.Join(parts, ", "))
}

// writeManifest writes the NodeWright as a user's file.
func (b *bench) writeManifest() (string, error) {
	// The status of the Go type has no place in a manifest.
	data, err := yaml.Marshal(struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        map[string]string       `json:"metadata"`
		Spec            v1alpha1.NodeWrightSpec `json:"spec"`
	}{b.nw.TypeMeta, map[string]string{"name": b.nw.Name}, b.nw.Spec})
	if err != nil {
		return "", fmt.Errorf("write manifest: %w", err)
	}
	file := filepath.Join(b.cp.Dir(), "converge.yaml")
	return file, os.WriteFile(file, data, 0o600)
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s "+format+"\n", append([]any{time.Now().Format("15:04:05")}, args...)...)
}
