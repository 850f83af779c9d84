package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
)

const labelPool = "pool"

// edit changes the spec of one NodeWright.
func (w *world) edit(what string, f func(*v1alpha1.NodeWright)) bool {
	var open []*v1alpha1.NodeWright
	for _, nw := range w.api.nodeWrights() {
		if nw.DeletionTimestamp == nil {
			open = append(open, nw)
		}
	}
	if len(open) == 0 {
		return false
	}
	name := pick(w, open).Name
	w.api.changeNodeWright(name, true, f)
	if nw := w.api.nodeWright(name); w.opts.Trace {
		w.log("user: %s of %s: %s %v", what, name, describeSpec(&nw.Spec), nw.Annotations)
	}
	return true
}

// editPackage changes one package of one NodeWright.
func (w *world) editPackage(what string, f func(*v1alpha1.NodeWrightSpec, *v1alpha1.Package)) bool {
	return w.edit(what, func(nw *v1alpha1.NodeWright) {
		all := nw.Spec.PackageNames()
		if len(all) == 0 {
			return
		}
		name := pick(w, all)
		p := nw.Spec.Packages[name]
		f(&nw.Spec, &p)
		nw.Spec.Packages[name] = p
	})
}

// follow lets dependencies ask for the versions that the packages have.
func follow(s *v1alpha1.NodeWrightSpec) {
	for name, p := range s.Packages {
		for other := range p.DependsOn {
			if dep, ok := s.Packages[other]; ok {
				p.DependsOn[other] = dep.Version
			} else {
				delete(p.DependsOn, other)
			}
		}
		s.Packages[name] = p
	}
}

// userPlays are what users do.
func (w *world) userPlays() []play {
	return []play{
		{4, func() bool {
			return w.edit("another version", func(nw *v1alpha1.NodeWright) {
				for _, name := range nw.Spec.PackageNames() {
					if p := nw.Spec.Packages[name]; w.chance(0.5) {
						p.Version = pick(w, []string{"0.9.0", "1.0.0", "1.2.0", "v2.0.0", "3.0.0"})
						nw.Spec.Packages[name] = p
					}
				}
				if w.chance(0.8) {
					follow(&nw.Spec)
				}
			})
		}},
		{3, func() bool {
			return w.editPackage("image", func(_ *v1alpha1.NodeWrightSpec, p *v1alpha1.Package) {
				p.Image = pick(w, []string{"reg/one", "reg/two", brokenImage})
			})
		}},
		{3, func() bool {
			return w.editPackage("configMap", func(_ *v1alpha1.NodeWrightSpec, p *v1alpha1.Package) {
				p.ConfigMap = map[string]string{"a.conf": fmt.Sprint(w.rng.IntN(3))}
			})
		}},
		{3, func() bool {
			return w.editPackage("env", func(_ *v1alpha1.NodeWrightSpec, p *v1alpha1.Package) {
				p.Env = []corev1.EnvVar{{Name: "A", Value: fmt.Sprint(w.rng.IntN(3))}}
			})
		}},
		{1, func() bool {
			return w.editPackage("stage timeout", func(_ *v1alpha1.NodeWrightSpec, p *v1alpha1.Package) {
				p.StageTimeout = &metav1.Duration{Duration: pick(w, []time.Duration{0, time.Minute, 2 * time.Hour})}
			})
		}},
		{3, func() bool {
			return w.edit("packages", func(nw *v1alpha1.NodeWright) {
				name := fmt.Sprintf("p%c", 'a'+w.rng.IntN(4))
				if _, there := nw.Spec.Packages[name]; there {
					delete(nw.Spec.Packages, name)
				} else {
					w.addPackage(&nw.Spec, name)
				}
				if w.chance(0.7) {
					follow(&nw.Spec)
				}
			})
		}},
		{3, w.setting("retry limit", func(s *v1alpha1.NodeWrightSpec) {
			s.Retry = &v1alpha1.Retry{Limit: ptr.To(int32(w.rng.IntN(4)))}
		})},
		{2, w.setting("serial", func(s *v1alpha1.NodeWrightSpec) { s.Serial = !s.Serial })},
		{1, w.setting("budget", func(s *v1alpha1.NodeWrightSpec) {
			s.InterruptionBudget = &v1alpha1.InterruptionBudget{Count: ptr.To(int32(w.rng.IntN(3)))}
			if w.chance(0.4) {
				s.InterruptionBudget = &v1alpha1.InterruptionBudget{Percent: ptr.To(pick(w, []int32{0, 20, 60, 100}))}
			}
		})},
		{1, w.setting("priority", func(s *v1alpha1.NodeWrightSpec) { s.Priority = ptr.To(int32(100 + 50*w.rng.IntN(4))) })},
		{1, w.setting("selector", func(s *v1alpha1.NodeWrightSpec) {
			s.NodeSelectors.MatchLabels = pick(w, []map[string]string{nil, {labelPool: "a"}, {labelPool: "b"}})
		})},
		{1, w.setting("runtime required", func(s *v1alpha1.NodeWrightSpec) {
			s.RuntimeRequired, s.AutoTaintNewNodes = w.chance(0.5), w.chance(0.5)
		})},
		{1, w.setting("tolerations", func(s *v1alpha1.NodeWrightSpec) {
			if s.AdditionalTolerations != nil {
				s.AdditionalTolerations = nil
			} else {
				s.AdditionalTolerations = []corev1.Toleration{tolerateMaintenance}
			}
		})},
		// Something that is not supported holds all of it.
		{1, w.setting("what is not supported", func(s *v1alpha1.NodeWrightSpec) {
			s.DeploymentPolicy = pick(w, []string{"", "", "slow"})
		})},
		{1, w.setting("sequencing", func(s *v1alpha1.NodeWrightSpec) {
			s.Sequencing = pick(w, []v1alpha1.SequencingMode{v1alpha1.SequencingNode, v1alpha1.SequencingAll})
		})},
		{1, w.setting("drain timeout", func(s *v1alpha1.NodeWrightSpec) {
			s.Drain = &v1alpha1.Drain{Timeout: &metav1.Duration{Duration: pick(w, []time.Duration{0, time.Minute, 10 * time.Minute})}}
		})},
		{3, func() bool {
			return w.editPackage("uninstall", func(_ *v1alpha1.NodeWrightSpec, p *v1alpha1.Package) {
				if p.Uninstall == nil {
					p.Uninstall = &v1alpha1.Uninstall{Enabled: true}
				}
				p.Uninstall = &v1alpha1.Uninstall{Enabled: true, Apply: !p.Uninstall.Apply}
			})
		}},
		{2, func() bool {
			return w.editPackage("interrupt", func(_ *v1alpha1.NodeWrightSpec, p *v1alpha1.Package) {
				interrupt := w.interrupt()
				if p.Interrupt = &interrupt; w.chance(0.4) {
					p.Interrupt = nil
				}
			})
		}},
		{3, w.annotate},
		{1, w.deleteOrCreate},
		{1, w.writeJunk},
		{2, w.askForWork},
	}
}

// setting is an edit of the spec as a whole.
func (w *world) setting(what string, f func(*v1alpha1.NodeWrightSpec)) func() bool {
	return func() bool {
		return w.edit(what, func(nw *v1alpha1.NodeWright) { f(&nw.Spec) })
	}
}

func (w *world) annotate() bool {
	return w.edit("pause or disable", func(nw *v1alpha1.NodeWright) {
		key := pick(w, []string{v1alpha1.AnnotationPause, v1alpha1.AnnotationDisable})
		if nw.Annotations[key] == "" {
			nw.Annotations[key] = "true"
		} else {
			delete(nw.Annotations, key)
		}
	})
}

// deleteOrCreate deletes a NodeWright or creates one that is missing. Sometimes
// one is taken away by force and comes again, as from a backup.
func (w *world) deleteOrCreate() bool {
	name := fmt.Sprintf("w%c", 'a'+w.rng.IntN(3))
	nw := w.api.nodeWright(name)
	switch {
	case nw == nil:
		w.createNodeWright(name)
	case nw.DeletionTimestamp != nil:
		return false
	case w.chance(0.4):
		again := nw.DeepCopy()
		again.UID, again.Generation, again.Status = w.api.uid("nw"), 1, v1alpha1.NodeWrightStatus{}
		again.CreationTimestamp = metav1.NewTime(w.now)
		w.api.remove(kindNodeWright, name)
		w.api.put(kindNodeWright, again)
		w.log("user: %s is restored from a backup with uid %s", name, again.UID)
	default:
		w.log("user: %s is deleted", name)
		w.api.deleteNodeWright(name)
	}
	return true
}

func (w *world) deleteJobOrPod() bool {
	if w.chance(0.5) {
		return anyOf(w, w.api.openPods(), func(pod *corev1.Pod) bool {
			if pod.DeletionTimestamp != nil {
				return false
			}
			w.log("user: pod %s is deleted", pod.Name)
			w.api.changePod(pod, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: w.now} })
			return true
		})
	}
	return anyOf(w, w.api.jobs(), func(job *batchv1.Job) bool {
		if job.DeletionTimestamp != nil {
			return false
		}
		foreground := w.chance(0.5)
		w.log("user: Job %s is deleted, in the foreground: %v", job.Name, foreground)
		w.deleteJob(job, foreground)
		return true
	})
}

// writeJunk makes an entry unreadable, or takes an unreadable one away.
func (w *world) writeJunk() bool {
	return anyOf(w, w.api.nodes(), func(n *corev1.Node) bool {
		for _, key := range slices.Sorted(maps.Keys(n.Annotations)) {
			if k, ok := nodestate.ParseKey(key); !ok || k.Kind != nodestate.KindNodeState || !w.chance(0.5) {
				continue
			}
			w.api.changeNode(n.Name, func(n *corev1.Node) {
				if n.Annotations[key] == junk {
					delete(n.Annotations, key)
				} else {
					n.Annotations[key] = junk
				}
			})
			w.log("user: %s on %s is now %q", key, n.Name, w.api.node(n.Name).Annotations[key])
			return true
		}
		return false
	})
}

const junk = "{junk"
