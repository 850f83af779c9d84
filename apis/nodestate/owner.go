package nodestate

// Owner is a server-side-apply field manager of the operator. Each key of the
// contract has exactly one.
type Owner string

// The field managers of the operator, one per controller.
const (
	// OwnerNode records where packages stand, cordons and slots.
	OwnerNode Owner = "nodewright-node"
	// OwnerJob records evidence of failed attempts.
	OwnerJob Owner = "nodewright-job"
	// OwnerPod records pods that cannot start.
	OwnerPod Owner = "nodewright-pod"
	// OwnerRollout grants slots.
	OwnerRollout Owner = "nodewright-rollout"
	// OwnerMigration keeps the legacy blob in step and prunes it.
	OwnerMigration Owner = "nodewright-migration"
)

// Owners lists all field managers in a fixed order.
func Owners() []Owner {
	return []Owner{OwnerNode, OwnerJob, OwnerPod, OwnerRollout, OwnerMigration}
}

// Controller is the short name of the controller behind the field manager
// (node, job, pod, rollout, migration), as in seq_<controller>. It is empty
// for a manager that is not ours.
func (o Owner) Controller() string {
	for _, e := range seqOwners {
		if e.owner == o {
			return e.controller
		}
	}
	return ""
}

// SeqKey is the full annotation key of the fence of this owner: a number that
// grows with every apply of the owner on a node.
func (o Owner) SeqKey() string { return Prefix + seqPrefix + o.Controller() }

var seqOwners = []struct {
	controller string
	owner      Owner
}{
	{"node", OwnerNode},
	{"job", OwnerJob},
	{"pod", OwnerPod},
	{"rollout", OwnerRollout},
	{"migration", OwnerMigration},
}

// kindTable is the ownership matrix: the one table that writers, admission,
// command line and documentation use.
var kindTable = []struct {
	kind    Kind
	word    string
	owner   Owner
	pkgPart bool
	nwPart  bool
}{
	{KindNodeState, "nodeState", OwnerNode, true, true},
	{KindStatus, "status", OwnerNode, false, true},
	{KindSlot, "slot", OwnerNode, false, true},
	{KindCordon, "cordon", OwnerNode, false, true},
	{KindDrainStart, "drainStart", OwnerNode, false, true},
	{KindHandled, "handled", OwnerNode, false, true},
	{KindLegacySeen, "legacySeen", OwnerNode, false, true},
	{KindJobState, "jobState", OwnerJob, true, true},
	{KindPodState, "podState", OwnerPod, true, true},
	{KindBatch, "batch", OwnerRollout, false, true},
	{KindLegacy, "legacy", OwnerMigration, false, true},
	{KindBlob, "nodeState", OwnerMigration, false, true},
	{KindRequest, "request", "", false, true},
	{KindPackageRequest, "request", "", true, true},
}

// OwnerOf is the ownership matrix for one full key (annotation or label): the
// field manager that owns it. owned is false for keys that belong to users,
// which the operator never touches; this includes request keys, which users
// write and the node controller consumes.
func OwnerOf(key string) (owner Owner, owned bool) {
	k, ok := ParseKey(key)
	if !ok {
		return "", false
	}
	return k.Owner()
}

// Owner gives the field manager that owns the key; owned is false for request
// keys, which users write.
func (k Key) Owner() (owner Owner, owned bool) {
	if k.Kind == KindSeq {
		return k.seqOwner, true
	}
	for _, e := range kindTable {
		if e.kind == k.Kind {
			return e.owner, e.owner != ""
		}
	}
	return "", false
}
