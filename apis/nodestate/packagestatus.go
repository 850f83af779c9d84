package nodestate

import (
	"errors"
	"fmt"

	"github.com/Masterminds/semver/v3"
)

const (
	// MaxMessage is the longest message of an entry, in bytes of valid UTF-8.
	MaxMessage = 256
	// MaxPrevious is how many older versions of a package an entry remembers.
	MaxPrevious = 4
	// MaxStateValue is the largest value of a nodeState key that is read, in
	// bytes. The largest entry the operator writes is well below it.
	MaxStateValue = 16 << 10
)

// PackageStatus is the value of a nodeState key: where one package stands on
// one node. The first eight fields have the names of the legacy form, so a
// reader of that form reads this one.
//
// Fields are declared in the order of their JSON names: encoding is canonical,
// equal states are equal bytes.
type PackageStatus struct {
	// Attempt counts the Jobs of this stage in this run, from 1. It only names
	// the Job.
	Attempt int32 `json:"attempt,omitempty"`
	// BootID of the node: at the start of an interrupt, else at the last write of
	// the entry.
	BootID string `json:"bootID,omitempty"`
	// Carrier is the package whose interrupt a skipped entry shares.
	Carrier string `json:"carrier,omitempty"`
	// ConfigHash names the revision of the package's configMap that the node has
	// or is getting; empty without configMap.
	ConfigHash string `json:"configHash,omitempty"`
	// ConfigOnly says that the run only brings another configMap to a package that
	// was complete: configInterrupts say whether it interrupts the node.
	ConfigOnly bool `json:"configOnly,omitempty"`
	// ContainerSHA is the digest the image was pinned to (sha256:...), if any.
	ContainerSHA string `json:"containerSHA,omitempty"`
	// Failures counts the attempts of this run that failed, over all stages.
	Failures int32 `json:"failures,omitempty"`
	// Image is the repository of the package image, without version.
	Image string `json:"image"`
	// Interrupt is the interrupt that was decided on.
	Interrupt *Interrupt `json:"interrupt,omitempty"`
	// Message is a sentence for the user, at most MaxMessage bytes.
	Message string `json:"message,omitempty"`
	// Name of the package, in full.
	Name string `json:"name"`
	// NodeWright that the entry belongs to, in full. Empty in the legacy form.
	NodeWright string `json:"nodewright,omitempty"`
	// Previous are older versions still on the host, newest first, at most
	// MaxPrevious.
	Previous []PreviousVersion `json:"previous,omitempty"`
	// Reason in CamelCase why the entry stands where it stands.
	Reason string `json:"reason,omitempty"`
	// Restarts equals Failures; readers of the legacy form look for it.
	Restarts int32 `json:"restarts,omitempty"`
	// Rollout is the revision of the NodeWright the entry belongs to.
	Rollout string `json:"rollout,omitempty"`
	// Run is the seq_node of the apply that started this run, 0 for an entry
	// taken over from a legacy blob. It never repeats on a node.
	Run int64 `json:"run"`
	// Since when the entry stands in this stage and state, RFC 3339 in UTC. With
	// the reason BackOff it is the end of the attempt that failed.
	Since string `json:"since,omitempty"`
	// SpecHash identifies what the attempt runs besides image and configMap
	// (environment, resources and the like): an unfinished stage whose hash no
	// longer is the spec's starts anew.
	SpecHash string `json:"specHash,omitempty"`
	// Stage the package is in.
	Stage Stage `json:"stage"`
	// State within the stage.
	State State `json:"state"`
	// UID of the NodeWright.
	UID string `json:"uid,omitempty"`
	// Version of the package: its bytes are the tag of the image.
	Version string `json:"version"`
}

// PreviousVersion is an older version of a package that is still on the host.
type PreviousVersion struct {
	ContainerSHA string `json:"containerSHA,omitempty"`
	Image        string `json:"image,omitempty"`
	Version      string `json:"version"`
}

// Interrupt is an interrupt that was decided on for a package.
type Interrupt struct {
	// Services to restart, only with type service.
	Services []string `json:"services,omitempty"`
	// Type: reboot, restartAllServices, service or noop.
	Type string `json:"type"`
}

// Complete tells whether the package has passed the stage.
func (s *PackageStatus) Complete(stage Stage) bool {
	return s.Stage == stage && s.State == StateComplete
}

// Validate checks what every entry must hold, also one of the legacy form.
func (s *PackageStatus) Validate() error {
	var errs []error
	if !ValidPackageName(s.Name) {
		errs = append(errs, fmt.Errorf("name %s is not a package name", quote(s.Name)))
	}
	if _, err := ParseVersion(s.Version); err != nil {
		errs = append(errs, err)
	}
	if !s.Stage.Known() {
		errs = append(errs, fmt.Errorf("stage %s is not one of %v", quote(string(s.Stage)), Stages()))
	}
	if !s.State.Known() {
		errs = append(errs, fmt.Errorf("state %s is not one of %v", quote(string(s.State)), States()))
	}
	if s.Run < 0 || s.Attempt < 0 || s.Failures < 0 || s.Restarts < 0 {
		errs = append(errs, errors.New("run, attempt, failures and restarts must not be negative"))
	}
	if s.Since != "" {
		if _, err := ParseTime(s.Since); err != nil {
			errs = append(errs, fmt.Errorf("parse since: %w", err))
		}
	}
	return errors.Join(errs...)
}

// ParseVersion reads the version of a package: one to three numbers, optional
// leading v, pre-release and build, as semantic versioning has them.
func ParseVersion(version string) (*semver.Version, error) {
	v, err := semver.NewVersion(version)
	if err != nil {
		return nil, fmt.Errorf("version %s is not a semantic version (like 1.2.3 or v1.2.3-rc.1)", quote(version))
	}
	return v, nil
}

// SameVersion tells whether two versions are of equal rank, so that 1.2,
// v1.2.0 and 1.2.0+build2 are the same. Two versions that cannot be read are
// the same if their bytes are.
func SameVersion(a, b string) bool {
	if a == b {
		return true
	}
	va, errA := ParseVersion(a)
	vb, errB := ParseVersion(b)
	return errA == nil && errB == nil && va.Equal(vb)
}

// HigherVersion tells whether a version is known to be higher than another; of
// versions that cannot be read, nobody knows.
func HigherVersion(version, than string) bool {
	v, errV := ParseVersion(version)
	t, errT := ParseVersion(than)
	return errV == nil && errT == nil && v.GreaterThan(t)
}

func quote(s string) string {
	return fmt.Sprintf("%q", CapString(s, 64))
}
