package v1alpha1

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// DefaultPriority is the priority of a NodeWright that does not set one.
const DefaultPriority int32 = 200

// PriorityOrDefault is the priority, also of an object that was never
// defaulted.
func (s *NodeWrightSpec) PriorityOrDefault() int32 {
	if s.Priority == nil {
		return DefaultPriority
	}
	return *s.Priority
}

// SequencingOrDefault is the sequencing mode, also of an object that was never
// defaulted.
func (s *NodeWrightSpec) SequencingOrDefault() SequencingMode {
	if s.Sequencing == "" {
		return SequencingNode
	}
	return s.Sequencing
}

// About is what an event is about that speaks of the NodeWright, or of one package
// of it where pkg is not empty. Events of one pass that differ in nothing but
// their notes become one, with the note of the first: so the package is part of it.
func (n *NodeWright) About(pkg string) *corev1.ObjectReference {
	about := &corev1.ObjectReference{
		APIVersion: GroupVersion.String(), Kind: KindNodeWright, Name: n.Name, UID: n.UID,
	}
	if pkg != "" {
		about.FieldPath = "spec.packages{" + pkg + "}"
	}
	return about
}

// PackageNames are the names of the packages in alphabetical order.
func (s *NodeWrightSpec) PackageNames() []string {
	return slices.Sorted(maps.Keys(s.Packages))
}

// Interrupts tells whether the package may interrupt its nodes, at once or when
// its configMap changes.
func (p *Package) Interrupts() bool { return p.Interrupt != nil || len(p.ConfigInterrupts) > 0 }

// CanUninstall tells whether the package has an uninstall stage.
func (p *Package) CanUninstall() bool { return p.Uninstall != nil && p.Uninstall.Enabled }

// Uninstalls tells whether the package is to be taken off the nodes now.
func (p *Package) Uninstalls() bool { return p.CanUninstall() && p.Uninstall.Apply }

// StageTimeoutOf is the bound of one attempt of a stage of the package: the
// package's own, else the NodeWright's, else fallback. 0 means no time bound.
func (s *NodeWrightSpec) StageTimeoutOf(pkg string, fallback time.Duration) time.Duration {
	if p, ok := s.Packages[pkg]; ok && p.StageTimeout != nil {
		return p.StageTimeout.Duration
	}
	if s.StageTimeout != nil {
		return s.StageTimeout.Duration
	}
	return fallback
}

// RetryLimitOr is how many more attempts a stage gets after the first failure,
// fallback if the spec does not say.
func (s *NodeWrightSpec) RetryLimitOr(fallback int32) int32 {
	if s.Retry == nil || s.Retry.Limit == nil {
		return fallback
	}
	return *s.Retry.Limit
}

// JobTTLOr is how long finished Jobs are kept by outcome, with fallbacks for
// what the spec does not say.
func (s *NodeWrightSpec) JobTTLOr(succeeded, failed time.Duration) (time.Duration, time.Duration) {
	if s.JobTTL == nil {
		return succeeded, failed
	}
	if s.JobTTL.Succeeded != nil {
		succeeded = s.JobTTL.Succeeded.Duration
	}
	if s.JobTTL.Failed != nil {
		failed = s.JobTTL.Failed.Duration
	}
	return succeeded, failed
}

// DrainSettings are the settings of a drain with defaults filled in.
type DrainSettings struct {
	// Timeout of the drain, 0 for none.
	Timeout time.Duration
	// GracePeriodSeconds that evicted pods get, nil for their own.
	GracePeriodSeconds *int64
	DeleteEmptyDirData bool
	Force              bool
	IgnoreDaemonSets   bool
	DisableEviction    bool
}

// DrainSettings are drain, or drainConfig where that is used, with defaults
// filled in.
func (s *NodeWrightSpec) DrainSettings() DrainSettings {
	out := DrainSettings{DeleteEmptyDirData: true, Force: true, IgnoreDaemonSets: true}
	d := s.Drain
	if d == nil {
		d = s.DrainConfig.drain()
	}
	if d == nil {
		return out
	}
	if d.Timeout != nil {
		out.Timeout = d.Timeout.Duration
	}
	out.GracePeriodSeconds = d.GracePeriodSeconds
	for _, f := range []struct {
		to   *bool
		from *bool
	}{
		{&out.DeleteEmptyDirData, d.DeleteEmptyDirData},
		{&out.Force, d.Force},
		{&out.IgnoreDaemonSets, d.IgnoreDaemonSets},
		{&out.DisableEviction, d.DisableEviction},
	} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return out
}

// drain gives the settings in the present form; a grace period is rounded up
// to whole seconds, so that it never becomes an immediate kill.
func (c *DrainConfig) drain() *Drain {
	if c == nil {
		return nil
	}
	d := &Drain{
		Timeout:            c.Timeout,
		DeleteEmptyDirData: c.DeleteEmptyDirData,
		Force:              c.Force,
		IgnoreDaemonSets:   c.IgnoreDaemonSets,
		DisableEviction:    c.DisableEviction,
	}
	if c.GracePeriod != nil {
		seconds := WholeSeconds(c.GracePeriod.Duration)
		d.GracePeriodSeconds = &seconds
	}
	return d
}

// WholeSeconds rounds a duration up to whole seconds, as fields of pods and
// Jobs take it.
func WholeSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	return seconds
}

// Count adds n nodes to the count of a status word; an unknown word counts as
// unknown.
func (c *NodeCounts) Count(word nodestate.StatusWord, n int32) {
	switch word {
	case nodestate.StatusComplete:
		c.Complete += n
	case nodestate.StatusInProgress:
		c.InProgress += n
	case nodestate.StatusErroring:
		c.Erroring += n
	case nodestate.StatusBlocked:
		c.Blocked += n
	case nodestate.StatusWaiting:
		c.Waiting += n
	case nodestate.StatusPaused:
		c.Paused += n
	case nodestate.StatusDisabled:
		c.Disabled += n
	default:
		c.Unknown += n
	}
	c.Selected += n
}
