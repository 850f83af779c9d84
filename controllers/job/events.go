package job

import (
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/apis/nodewright/v1alpha1"
	"github.com/nodewright/nodewright/apis/packagejob"
)

// Reasons of events.
const (
	// EventIdentityUnreadable says on a Job that nobody can tell what it ran.
	EventIdentityUnreadable = "IdentityUnreadable"
	// EventOrphanDeleted says on the NodeWright that a Job was deleted with its node.
	EventOrphanDeleted = "OrphanDeleted"
	// EventNoRoom says on a node that reports of failed attempts do not fit.
	EventNoRoom = "NoRoom"

	actionRecord = "RecordOutcome"
	actionDelete = "DeleteJob"
)

// noteLimit is the longest note of an event that the API server takes, in
// bytes.
const noteLimit = 1024

func (r *Reconciler) tellUnreadable(job *batchv1.Job, err error) {
	r.tell(job, nil, corev1.EventTypeWarning, EventIdentityUnreadable, actionRecord,
		"Nobody can tell what this Job ran; it was left out and its TTL runs: "+err.Error())
}

// tellOrphan speaks on the NodeWright, or on the Job if that does not say whose
// it was.
func (r *Reconciler) tellOrphan(node string, job *batchv1.Job) {
	var on runtime.Object = job
	if id, err := packagejob.Parse(job); err == nil {
		on = &corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "NodeWright", Name: id.NodeWright, UID: id.NodeWrightUID,
		}
	}
	r.tell(on, job, corev1.EventTypeNormal, EventOrphanDeleted, actionDelete,
		"Deleted Job "+job.Name+": the node "+node+" that it was made for is gone")
}

func (r *Reconciler) tellNoRoom(node *corev1.Node, err error) {
	r.tell(node, nil, corev1.EventTypeWarning, EventNoRoom, actionRecord, err.Error())
}

func (r *Reconciler) tell(on, related runtime.Object, kind, reason, action, note string) {
	r.opts.Recorder.Eventf(on, related, kind, reason, action, "%s", nodestate.CapString(note, noteLimit))
}
