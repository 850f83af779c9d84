package apply

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/nodewright/nodewright/apis/nodestate"
)

// RequestTimeout ends each request to a node. It is well below the time that a
// leader needs to lose its lease, so that no request outlives its leader.
const RequestTimeout = 5 * time.Second

// ErrStaleView is returned by Apply for a view that was read before the
// writer's last write to the node ended. Reading again mends it.
var ErrStaleView = errors.New("view is older than the last write to the node")

// Outcome of an Apply. It is the zero value where Apply returns an error.
type Outcome int

// The outcomes.
const (
	// Unchanged means: all stood as wanted, nothing was sent.
	Unchanged Outcome = iota + 1
	// Written means: the set stands on the node now, and was verified.
	Written
	// NodeGone means: the node does not exist any more, or another one has its
	// name. Nothing was written, and there is nothing to retry: what exists under
	// the name now comes with an event of its own.
	NodeGone
)

func (o Outcome) String() string {
	switch o {
	case Unchanged:
		return "unchanged"
	case Written:
		return "written"
	case NodeGone:
		return "gone"
	default:
		return "failed"
	}
}

// Gate holds reads back until they are current. A LeaderBarrier is one.
type Gate interface {
	// Wait returns nil once reads may begin, or the error of the context.
	Wait(ctx context.Context) error
}

// Writer brings the keys of one field manager to nodes. It may be used by many
// workers at once, but for one node by one at a time: a second one gets
// ErrStaleView.
type Writer struct {
	client         client.Client
	live           client.Reader
	owner          nodestate.Owner
	gate           Gate
	timeout        time.Duration
	panicOnForeign bool
	memory         *memory
	refusals       *Refusals
}

// Option changes a Writer.
type Option func(*Writer)

// WithGate makes reads wait for the gate. Default: reads begin at once.
func WithGate(g Gate) Option { return func(w *Writer) { w.gate = g } }

// WithRequestTimeout changes the time that ends each request, and each wait for
// the cache. Default: RequestTimeout.
func WithRequestTimeout(d time.Duration) Option { return func(w *Writer) { w.timeout = d } }

// PanicOnForeignKey makes Apply panic where a set holds a key of another owner,
// instead of returning nodestate.ErrNotOwner. For tests: such a set is a fault
// of the program.
func PanicOnForeignKey() Option { return func(w *Writer) { w.panicOnForeign = true } }

// NewWriter makes the writer of one owner. There is one per owner and process:
// what it remembers of its writes is its own.
//
// c reads nodes from a cache and writes; it should be made with
// EnableReadYourWritesConsistency, which spares live reads, but the writer does
// not depend on it. live reads from the API server.
func NewWriter(c client.Client, live client.Reader, owner nodestate.Owner, opts ...Option) *Writer {
	w := &Writer{
		client: c, live: live, owner: owner,
		gate: open{}, timeout: RequestTimeout, memory: newMemory(),
	}
	for _, o := range opts {
		o(w)
	}
	return w
}

// Owner is the field manager that the writer stands for.
func (w *Writer) Owner() nodestate.Owner { return w.owner }

// open is the gate that holds nothing back.
type open struct{}

func (open) Wait(context.Context) error { return nil }
