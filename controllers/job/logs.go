package job

import (
	"context"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nodewright/nodewright/apis/nodestate"
)

const (
	// tailLines and logLimit bound what is read of a log. The kubelet counts
	// logLimit from the beginning of the lines it sends, so it must leave room for
	// all of them.
	tailLines int64 = 40
	logLimit  int64 = 1 << 20
)

// LogReader reads the end of a container's log.
type LogReader interface {
	// Tail gives the last lines of the log, of any bytes, at least the last
	// nodestate.MaxLogTail bytes if there are so many.
	Tail(ctx context.Context, namespace, pod, container string) (string, error)
}

// podLogs asks the API server, which asks the kubelet.
type podLogs struct {
	pods typedcorev1.PodsGetter
}

func (l podLogs) Tail(ctx context.Context, namespace, pod, container string) (string, error) {
	stream, err := l.pods.Pods(namespace).GetLogs(pod, &corev1.PodLogOptions{
		Container: container, TailLines: ptr.To(tailLines), LimitBytes: ptr.To(logLimit),
	}).Stream(ctx)
	if err != nil {
		return "", fmt.Errorf("open log: %w", err)
	}
	tail, err := readTail(stream, 2*nodestate.MaxLogTail)
	return tail, errors.Join(err, stream.Close())
}

// readTail reads to the end and keeps the last limit bytes.
func readTail(r io.Reader, limit int) (string, error) {
	var kept []byte
	chunk := make([]byte, 16<<10)
	for {
		n, err := r.Read(chunk)
		kept = append(kept, chunk[:n]...)
		if drop := len(kept) - limit; drop > 0 {
			kept = append(kept[:0], kept[drop:]...)
		}
		switch {
		case errors.Is(err, io.EOF):
			return string(kept), nil
		case err != nil:
			return string(kept), fmt.Errorf("read log: %w", err)
		}
	}
}
