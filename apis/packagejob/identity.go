package packagejob

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Annotations of a package Job.
const (
	// AnnotationIdentity holds the Identity as canonical JSON, on the Job and on
	// its pod template.
	AnnotationIdentity = nodestate.Prefix + "identity"
	// AnnotationSpecHash holds the hash of the stage's specification that the Job
	// was built from; its value is opaque.
	AnnotationSpecHash = nodestate.Prefix + "spec-hash"
	// AnnotationRecorded holds the RFC 3339 time at which a finished Job was left
	// behind: its outcome is in the record of the node, or no longer matters.
	AnnotationRecorded = nodestate.Prefix + "recorded"
	// AnnotationHeld on a Job says that the operator suspended it, since its
	// NodeWright is paused or disabled. Only such a Job is resumed.
	AnnotationHeld = nodestate.Prefix + "held"
	// AnnotationStage and AnnotationAttempt repeat parts of the identity as plain
	// text on the pod template, for tools.
	AnnotationStage   = nodestate.Prefix + "stage"
	AnnotationAttempt = nodestate.Prefix + "attempt"
)

const (
	// MaxJobName is the longest name of a Job, in bytes. Its pods add a dash and
	// five characters, and must stay within the 63 bytes of a host name.
	MaxJobName = 57
	// maxIdentity is the largest annotation value that is read, in bytes: two
	// names of 253, two UIDs, package, version and room.
	maxIdentity = 4 << 10
	jobHash     = 16
	maxUID      = 128
	maxName     = 253
)

// Identity names one attempt of one stage of one package on one node. No two
// attempts share one, also if node or NodeWright come again under their names.
// Fields are in the order of their JSON names: encoding is canonical.
type Identity struct {
	// Attempt counts the Jobs of this stage in this run, from 1.
	Attempt int32 `json:"attempt"`
	// Node and NodeUID say which node.
	Node    string    `json:"node"`
	NodeUID types.UID `json:"nodeUID"`
	// NodeWright and NodeWrightUID say which NodeWright.
	NodeWright    string    `json:"nodewright"`
	NodeWrightUID types.UID `json:"nodewrightUID"`
	// Package, in full.
	Package string `json:"package"`
	// Run of the package on the node, as in its nodeState key.
	Run int64 `json:"run"`
	// Stage that the Job runs.
	Stage nodestate.Stage `json:"stage"`
	// Version of the package, byte for byte as in the record.
	Version string `json:"version"`
}

var (
	// ErrNoIdentity says that an object does not carry an identity.
	ErrNoIdentity = errors.New("annotation " + AnnotationIdentity + " is missing")
	// ErrOtherJob says that the identity on a Job is the one of another Job, as on
	// a copy made by hand.
	ErrOtherJob = errors.New("annotation " + AnnotationIdentity + " is the one of another job")
)

// Encode writes the identity canonically: equal identities are equal bytes.
func (i Identity) Encode() (string, error) {
	if err := i.Validate(); err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(i); err != nil {
		return "", fmt.Errorf("encode identity: %w", err)
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// Annotations are the annotations of the pod template of this attempt; those
// of the Job are the identity alone.
func (i Identity) Annotations() (map[string]string, error) {
	value, err := i.Encode()
	if err != nil {
		return nil, err
	}
	return map[string]string{
		AnnotationIdentity: value,
		AnnotationStage:    string(i.Stage),
		AnnotationAttempt:  strconv.FormatInt(int64(i.Attempt), 10),
	}, nil
}

// Validate checks what every identity must hold.
func (i Identity) Validate() error {
	var errs []error
	if i.Node == "" || i.NodeUID == "" || i.NodeWright == "" || i.NodeWrightUID == "" {
		errs = append(errs, errors.New("names and UIDs of node and nodewright are required"))
	}
	if max(len(i.Node), len(i.NodeWright)) > maxName || max(len(i.NodeUID), len(i.NodeWrightUID)) > maxUID {
		errs = append(errs, errors.New("names or UIDs are too long"))
	}
	if !nodestate.ValidPackageName(i.Package) {
		errs = append(errs, fmt.Errorf("package %.64q is not a package name", i.Package))
	}
	if _, err := nodestate.ParseVersion(i.Version); err != nil {
		errs = append(errs, err)
	}
	if !i.Stage.Known() {
		errs = append(errs, fmt.Errorf("stage %.64q is not known", string(i.Stage)))
	}
	if i.Run < 0 || i.Attempt < 1 {
		errs = append(errs, errors.New("run must not be negative and attempts count from 1"))
	}
	return errors.Join(errs...)
}

// Parse reads the identity that a Job or a pod carries. The error wraps
// ErrNoIdentity or ErrOtherJob, or says what is wrong with the value.
func Parse(obj metav1.Object) (Identity, error) {
	value, ok := obj.GetAnnotations()[AnnotationIdentity]
	switch {
	case !ok:
		return Identity{}, ErrNoIdentity
	case len(value) > maxIdentity:
		return Identity{}, fmt.Errorf("parse %s: value has %d bytes, at most %d are read",
			AnnotationIdentity, len(value), maxIdentity)
	}
	var i Identity
	if err := json.Unmarshal([]byte(value), &i); err != nil {
		return Identity{}, fmt.Errorf("parse %s: %w", AnnotationIdentity, err)
	}
	if err := i.Validate(); err != nil {
		return Identity{}, fmt.Errorf("parse %s: %w", AnnotationIdentity, err)
	}
	if job, isJob := obj.(*batchv1.Job); isJob && job.Name != i.JobName() {
		return Identity{}, fmt.Errorf("%w: %s", ErrOtherJob, i.JobName())
	}
	return i, nil
}

// JobName is the name of the Job of this attempt: beginning of the package
// name, stage, and a hash over the whole identity. It is a valid DNS label of
// at most MaxJobName bytes. The identity must be valid.
func (i Identity) JobName() string {
	// Quoting keeps the parts apart: different identities are different inputs.
	sum := hash(fmt.Sprintf("%q %q %q %q %q %q %q %d %d", i.Node, i.NodeUID, i.NodeWright, i.NodeWrightUID,
		i.Package, i.Version, i.Stage, i.Run, i.Attempt), jobHash)
	tail := "-" + string(i.Stage) + "-" + sum
	room := max(MaxJobName-len(tail), 0)
	return strings.TrimRight(i.Package[:min(len(i.Package), room)], "-") + tail
}

// Ref is the reference of the package in the record of the node.
func (i Identity) Ref() nodestate.PackageRef {
	return nodestate.PackageRef{NodeWright: i.NodeWright, Package: i.Package}
}

// Interrupts tells whether the stage interrupts the node.
func (i Identity) Interrupts() bool { return i.Stage.Interrupts() }

// NamedBy tells whether the entry names this very attempt: a Job of it is the
// outcome that the entry waits for. The entry's UID must be the NodeWright's.
func (i Identity) NamedBy(s *nodestate.PackageStatus) bool {
	return i.NodeWright == s.NodeWright && string(i.NodeWrightUID) == s.UID && i.Package == s.Name &&
		i.Version == s.Version && i.Stage == s.Stage && i.Run == s.Run && i.Attempt == s.Attempt
}
