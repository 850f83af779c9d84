package packagejob

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// Labels of a package Job and of its pods. Values are made by LabelValue.
const (
	// LabelName holds the name of the NodeWright.
	LabelName = nodestate.Prefix + "name"
	// LabelPackage holds <package>-<version>. Its presence marks a Job or pod as
	// one that runs a package.
	LabelPackage = nodestate.Prefix + "package"
	// LabelInterrupt is InterruptTrue on Jobs and pods that interrupt a node.
	LabelInterrupt = nodestate.Prefix + "interrupt"
	// LabelNode holds the name of the node. It narrows lists for people; who needs
	// the node itself reads NodeName, since this value may be a hash.
	LabelNode = nodestate.Prefix + "node"

	// InterruptTrue is the value of LabelInterrupt, spelled as earlier operators
	// had it.
	InterruptTrue = "True"
)

const (
	labelHash     = 13
	labelHashMark = "--"
)

var hashEncoding = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

func hash(s string, length int) string {
	sum := sha256.Sum256([]byte(s))
	return hashEncoding.EncodeToString(sum[:])[:length]
}

// LabelValue makes a label value of s: s itself where the API server takes it
// (at most 63 bytes of letters, digits, '-', '_' and '.'), else its readable
// beginning and a hash of the whole.
func LabelValue(s string) string {
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	head := s[:min(len(s), validation.LabelValueMaxLength-len(labelHashMark)-labelHash)]
	head = strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '_':
			return r
		default:
			return '-'
		}
	}, head)
	if head = strings.Trim(head, "-_."); head == "" {
		return hash(s, labelHash)
	}
	return head + labelHashMark + hash(s, labelHash)
}

// Labels are the labels of the Job of this attempt, and of its pods.
func (i Identity) Labels() map[string]string {
	set := map[string]string{
		LabelName:    LabelValue(i.NodeWright),
		LabelPackage: LabelValue(i.Package + "-" + i.Version),
		LabelNode:    LabelValue(i.Node),
	}
	if i.Interrupts() {
		set[LabelInterrupt] = InterruptTrue
	}
	return set
}

// Owned tells by its labels whether a Job or pod runs a package, also if an
// earlier operator made it.
func Owned(set map[string]string) bool {
	_, ok := set[LabelPackage]
	return ok
}

// Selector selects what Owned accepts.
func Selector() labels.Selector {
	exists, err := labels.NewRequirement(LabelPackage, selection.Exists, nil)
	if err != nil {
		// The arguments are constants.
		panic(err)
	}
	return labels.NewSelector().Add(*exists)
}

// JobOf gives the name of the Job that a pod belongs to, as the Job controller
// of Kubernetes labels it; empty if it belongs to none.
func JobOf(pod metav1.Object) string { return pod.GetLabels()[batchv1.JobNameLabel] }
