// Command earlieragent stands for an agent from before NodeWright: it knows the
// arguments, the variables and the files that those agents have, and nothing that
// came later. It shares no code with the agent of this project, which it is to
// tell apart from. Not there: root_dir, logs of old attempts, checks of the schema.
//
//	earlieragent MODE ROOT COPY_DIR [INTERRUPT]
//
// A failure is exit code 1, whatever it is.
package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// agent is one call.
type agent struct {
	mode, root, copyDir string
	// state and logs are directories in the container, below the mounted root.
	state, logs string
}

type step struct {
	Path        string            `json:"path"`
	Arguments   []string          `json:"arguments"`
	ReturnCodes []int             `json:"returncodes"`
	Idempotence bool              `json:"idempotence"`
	UpgradeStep bool              `json:"upgrade_step"`
	Env         map[string]string `json:"env"`
}

type config struct {
	Name    string            `json:"package_name"`
	Version string            `json:"package_version"`
	Modes   map[string][]step `json:"modes"`
}

// history is what stands in history/PACKAGE.json.
type history struct {
	Current string `json:"current-version"`
	History []past `json:"history"`
}

type past struct {
	Version string `json:"version"`
	Time    string `json:"time"`
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 3 {
		return fmt.Errorf("want MODE ROOT COPY_DIR, got %q", args)
	}
	a := &agent{mode: args[0], root: args[1], copyDir: args[2]}
	a.state = a.root + os.Getenv("SKYHOOK_ROOT_DIR")
	a.logs = a.root + os.Getenv("SKYHOOK_LOG_DIR")
	id := os.Getenv("SKYHOOK_RESOURCE_ID")
	parts := strings.Split(id, "_")
	if len(parts) != 3 {
		return fmt.Errorf("SKYHOOK_RESOURCE_ID %q has %d parts", id, len(parts))
	}
	if os.Getenv("COPY_RESOLV") != "false" {
		if err := os.WriteFile(a.root+"/etc/resolv.conf", []byte("of the container\n"), 0o600); err != nil {
			return err
		}
	}
	fmt.Printf("mode: %s\nroot_mount: %s\ncopy_dir: %s\n", a.mode, a.root, a.copyDir)
	if a.mode == "interrupt" {
		if len(args) != 4 {
			return errors.New("an interrupt has four arguments")
		}
		return a.interrupt(id, parts[1], parts[2], args[3])
	}
	return a.steps()
}

// host runs a program of the host, with its output also in a file.
func (a *agent) host(pkg, version, name string, env []string, args ...string) (int, error) {
	log := filepath.Join(a.logs, pkg, version, name+time.Now().UTC().Format("-2006-01-02-150405.log"))
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return 0, err
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Err = nil // The program is looked for after the change of root.
	cmd.Env, cmd.Dir = env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: a.root}
	out, err := cmd.CombinedOutput()
	fmt.Print(string(out))
	if werr := os.WriteFile(log, out, 0o600); werr != nil {
		return 0, werr
	}
	var ended *exec.ExitError
	if errors.As(err, &ended) {
		return ended.ExitCode(), nil
	}
	return 0, err
}

func (a *agent) interrupt(id, pkg, version, data string) error {
	text, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return err
	}
	var i struct {
		Type     string   `json:"type"`
		Services []string `json:"services"`
	}
	if err := json.Unmarshal(text, &i); err != nil {
		return err
	}
	var commands [][]string
	switch i.Type {
	case "node_restart":
		commands = [][]string{{"/usr/sbin/reboot"}}
	case "service_restart":
		commands = [][]string{{"/usr/bin/systemctl", "daemon-reload"}}
		for _, s := range i.Services {
			commands = append(commands, []string{"/usr/bin/systemctl", "restart", s})
		}
	default:
		return fmt.Errorf("interrupt %q is not known", i.Type)
	}
	for n, command := range commands {
		name := fmt.Sprintf("%s_%d", i.Type, n)
		flag := filepath.Join(a.state, "interrupts", "flags", id, name+".complete")
		if _, err := os.Stat(flag); err == nil {
			fmt.Println("Skipping interrupt", name)
			continue
		}
		// Before it is done, as those agents do.
		if err := write(flag, "1"); err != nil {
			return err
		}
		code, err := a.host(pkg, version, "interrupts/"+name, os.Environ(), command...)
		if err != nil || code != 0 {
			return errors.Join(fmt.Errorf("interrupt %s: exit code %d", name, code), err, os.Remove(flag))
		}
	}
	return nil
}

func (a *agent) steps() error {
	text, err := os.ReadFile(filepath.Join(a.root, a.copyDir, "config.json"))
	if err != nil {
		return err
	}
	c := &config{}
	if err := json.Unmarshal(text, c); err != nil {
		return err
	}
	if err := write(filepath.Join(a.state, "flags", "START"), ""); err != nil {
		return err
	}
	before, err := a.history(c)
	if err != nil {
		return err
	}
	check := strings.HasSuffix(a.mode, "-check")
	for i := range c.Modes[a.mode] {
		s := &c.Modes[a.mode][i]
		flag := filepath.Join(a.state, "flags", c.Name, c.Version, s.Path+"_"+marker(s))
		_, err := os.Stat(flag)
		if err == nil && !s.Idempotence && (a.mode == "apply" || a.mode == "post-interrupt") {
			fmt.Println("Skipping", s.Path)
			continue
		}
		if err := a.step(c, s, before.Current); err != nil {
			return err
		}
		if !check {
			if err := write(flag, "last_run: "+time.Now().Format(time.RFC3339)); err != nil {
				return err
			}
		}
	}
	return a.end(c, before)
}

// end notes what is installed now.
func (a *agent) end(c *config, h *history) error {
	switch a.mode {
	case "apply-check", "upgrade-check":
		h.Current = c.Version
	case "uninstall-check":
		h.Current = "uninstalled"
		if err := os.RemoveAll(filepath.Join(a.state, "flags", c.Name, c.Version)); err != nil {
			return err
		}
	default:
		return nil
	}
	h.History = slices.Insert(h.History, 0, past{h.Current, time.Now().UTC().Format("2006-01-02T15:04:05.999999-07:00")})
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	return write(filepath.Join(a.state, "history", c.Name+".json"), string(text))
}

// history reads what was installed before.
func (a *agent) history(c *config) (*history, error) {
	h := &history{Current: "unknown", History: []past{}}
	text, err := os.ReadFile(filepath.Join(a.state, "history", c.Name+".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return nil, err
	}
	return h, json.Unmarshal(text, h)
}

func (a *agent) step(c *config, s *step, before string) error {
	program := filepath.Join(a.copyDir, "skyhook_dir", s.Path)
	if err := os.Chmod(filepath.Join(a.root, program), 0o755); err != nil {
		return err
	}
	env, args := os.Environ(), append([]string{program}, s.Arguments...)
	for k, v := range s.Env {
		env = append(env, k+"="+v)
	}
	env = append(env, "STEP_ROOT="+a.copyDir+"/skyhook_dir", "SKYHOOK_DIR="+a.copyDir)
	if strings.HasPrefix(a.mode, "upgrade") {
		env = append(env, "CURRENT_VERSION="+c.Version, "PREVIOUS_VERSION="+before)
		if s.UpgradeStep {
			args = append(args, before, c.Version)
		}
	}
	code, err := a.host(c.Name, c.Version, s.Path, env, args...)
	if err == nil && !slices.Contains(s.ReturnCodes, code) {
		err = fmt.Errorf("%s: exit code %d", s.Path, code)
	}
	return err
}

// marker is base64 of a list as Python prints it, an underscore, and another one.
func marker(s *step) string {
	args, codes := make([]string, len(s.Arguments)), make([]string, len(s.ReturnCodes))
	for i, arg := range s.Arguments {
		args[i] = "'" + arg + "'"
	}
	for i, code := range s.ReturnCodes {
		codes[i] = fmt.Sprint(code)
	}
	text := "[" + strings.Join(args, ", ") + "]_[" + strings.Join(codes, ", ") + "]"
	return base64.StdEncoding.EncodeToString([]byte(text))
}

func write(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, []byte(text), 0o600)
}
