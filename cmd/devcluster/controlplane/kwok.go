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
	"syscall"
)

const (
	// FakeNodeAnnotation with the value FakeNodeValue makes a node a simulated one.
	FakeNodeAnnotation = "kwok.x-k8s.io/node"
	// FakeNodeValue is the value of FakeNodeAnnotation.
	FakeNodeValue = "fake"

	kwokName = "kwok"
	// kwokPortTries is how often another port is tried for kwok's health endpoint.
	kwokPortTries = 3
)

// kwokConfig heads the configuration file. More workers than the default of 4: the API server answers them in milliseconds.
const kwokConfig = `apiVersion: config.kwok.x-k8s.io/v1alpha1
kind: KwokConfiguration
options:
  podPlayStageParallelism: 16
  nodePlayStageParallelism: 16
  nodeLeaseParallelism: 16
`

var errNoKwok = errors.New("this control plane has no kwok")

// startKwok starts kwok and waits until it watches.
func (cp *ControlPlane) startKwok(ctx context.Context) error {
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
			cp.mu.Lock()
			defer cp.mu.Unlock()
			cp.kwok, cp.processes = p, append(cp.processes, p)
			return nil
		}
		if try == kwokPortTries || !strings.Contains(err.Error(), "address already in use") {
			return fmt.Errorf("start kwok: %w", err)
		}
	}
}

// PauseKwok stops kwok where it is: from now on no node sends heartbeats and no pod moves, as if all kubelets were cut off. After
// 50 s (400 s with Options.HighScale) nodes become Unknown, with a controller manager.
//
// It is a stop signal and not an end: a kwok that starts while there are pods on its nodes may forget them (it looks for the node's
// lease in a cache that does not have it yet).
func (cp *ControlPlane) PauseKwok() error { return cp.signalKwok(syscall.SIGSTOP) }

// ResumeKwok lets kwok go on after PauseKwok.
func (cp *ControlPlane) ResumeKwok() error { return cp.signalKwok(syscall.SIGCONT) }

func (cp *ControlPlane) signalKwok(signal os.Signal) error {
	cp.mu.Lock()
	defer cp.mu.Unlock()
	if cp.kwok == nil {
		return errNoKwok
	}
	return cp.kwok.Signal(signal)
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
	port, err := FreePort()
	if err != nil {
		return nil, err
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
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
	if err := p.waitFor(ctx, func(ctx context.Context) error { return CheckHealth(ctx, "http://"+address+"/healthz") }); err != nil {
		return nil, errors.Join(err, p.Kill())
	}
	return p, nil
}

// FreePort is a port of 127.0.0.1 on which nobody listened just now.
func FreePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	if err := listener.Close(); err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// CheckHealth asks a health endpoint, and returns what it says if not 200.
func CheckHealth(ctx context.Context, url string) error {
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
