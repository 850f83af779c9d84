package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

const (
	// FakeNodeAnnotation with the value FakeNodeValue makes a node a simulated one.
	FakeNodeAnnotation = "kwok.x-k8s.io/node"
	// FakeNodeValue is the value of FakeNodeAnnotation.
	FakeNodeValue = "fake"

	kwokName = "kwok"
	// kwokPortTries is how often another port is tried for kwok's health endpoint.
	kwokPortTries = 3
	// nodeLeaseNamespace is where kubelets, and kwok in their place, keep their leases.
	nodeLeaseNamespace = "kube-node-lease"
)

// kwokConfig heads the configuration file. More workers than the default of 4: the API server answers them in milliseconds.
const kwokConfig = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 16
  nodeLeaseParallelism: 16
`

var errKwokRuns = errors.New("kwok runs already")

// StartKwok starts kwok, which Start does with Options.Kwok, again after StopKwok. The nodes of the former one are taken over at once.
func (cp *ControlPlane) StartKwok(ctx context.Context) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.kwok != nil {
		return fmt.Errorf("start kwok: %w", errKwokRuns)
	}
	if cp.kwokRuns > 0 {
		// Otherwise the new kwok waits until the leases of the former one are over.
		client, err := coordinationv1client.NewForConfig(cp.Config())
		if err != nil {
			return fmt.Errorf("start kwok: %w", err)
		}
		err = client.Leases(nodeLeaseNamespace).DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{})
		if err != nil {
			return fmt.Errorf("start kwok: delete leases: %w", err)
		}
	}
	config, err := cp.writeKwokConfig()
	if err != nil {
		return fmt.Errorf("start kwok: %w", err)
	}
	user, err := cp.AddUser(kwokName, "system:masters")
	if err != nil {
		return fmt.Errorf("start kwok: %w", err)
	}
	for try := 1; ; try++ {
		p, err := cp.tryKwok(ctx, config, user.KubeconfigFile)
		if err == nil {
			cp.kwok, cp.processes = p, append(cp.processes, p)
			cp.kwokRuns++
			return nil
		}
		if try == kwokPortTries || !strings.Contains(err.Error(), "address already in use") {
			return fmt.Errorf("start kwok: %w", err)
		}
	}
}

// StopKwok ends kwok: from now on no node sends heartbeats and no pod moves, as if all kubelets were gone.
func (cp *ControlPlane) StopKwok() error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.kwok == nil {
		return nil
	}
	err := cp.kwok.Stop()
	cp.kwok = nil
	return err
}

func (cp *ControlPlane) writeKwokConfig() (string, error) {
	stages, err := renderStages(cp.opts.PodDuration)
	if err != nil {
		return "", err
	}
	path := cp.guard.path("kwok.yaml")
	if err := os.WriteFile(path, []byte(kwokConfig+"---\n"+stages), 0o600); err != nil {
		return "", fmt.Errorf("write configuration: %w", err)
	}
	return path, nil
}

// tryKwok starts kwok on a free port and waits until it serves, which it does after its watches have begun.
func (cp *ControlPlane) tryKwok(ctx context.Context, config, kubeconfig string) (*Process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	p, err := cp.guard.run(Command{
		Name: kwokName, Path: filepath.Join(cp.assetsDir, kwokName),
		Args: flagList(map[string]string{
			"config":                                config,
			"kubeconfig":                            kubeconfig,
			"manage-all-nodes":                      "false",
			"manage-nodes-with-annotation-selector": FakeNodeAnnotation + "=" + FakeNodeValue,
			"node-lease-duration-seconds":           strconv.Itoa(cp.opts.leaseSeconds()),
			"node-ip":                               "10.0.0.1",
			"cidr":                                  "10.128.0.0/9",
			"server-address":                        address,
		}),
		// Not the user's own configuration in ~/.kwok.
		Env: []string{"KWOK_WORKDIR=" + cp.guard.path("kwok")},
	})
	if err != nil {
		return nil, err
	}
	if err := p.waitFor(ctx, func(ctx context.Context) error { return checkHealth(ctx, "http://"+address+"/healthz") }); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	if err := listener.Close(); err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().String(), nil
}

func checkHealth(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	if err := response.Body.Close(); err != nil {
		return fmt.Errorf("ask for health: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("ask for health: %s", response.Status)
	}
	return nil
}
