package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// MaxSize is the largest config.json that is read, in bytes.
const MaxSize = 1 << 20

// StepDir is where the steps of a package are, below its directory.
const StepDir = "skyhook_dir"

// Mode is one of the lists of steps that a package has.
type Mode string

// Modes that have steps. Each but a check has a check, which runs after it.
const (
	Apply         Mode = "apply"
	Config        Mode = "config"
	PostInterrupt Mode = "post-interrupt"
	Upgrade       Mode = "upgrade"
	Uninstall     Mode = "uninstall"

	checkSuffix = "-check"
)

// Modes lists the modes that are no checks.
func Modes() []Mode { return []Mode{Apply, Config, PostInterrupt, Upgrade, Uninstall} }

// Check is the mode that checks what m did.
func (m Mode) Check() Mode { return m.Of() + checkSuffix }

// IsCheck tells whether the mode checks another one.
func (m Mode) IsCheck() bool { return strings.HasSuffix(string(m), checkSuffix) }

// Of is the mode that m checks, or m itself.
func (m Mode) Of() Mode { return Mode(strings.TrimSuffix(string(m), checkSuffix)) }

// Known tells whether there is such a mode.
func (m Mode) Known() bool { return slices.Contains(Modes(), m.Of()) }

// Step is one program that runs in a mode.
type Step struct {
	Name string
	// Path of the program below StepDir.
	Path      string
	Arguments []string
	// ReturnCodes that mean success.
	ReturnCodes []int
	OnHost      bool
	// AlwaysRuns says that the step cares itself for being run twice: it has no
	// flag. In config.json that is idempotence: true.
	AlwaysRuns bool
	// Upgrades says that in the modes of upgrade the step is given the version
	// before and its own as arguments.
	Upgrades bool
	Env      map[string]string
}

// Package is what config.json says.
type Package struct {
	Name    string
	Version string
	// ConfigFiles must be in configmaps, except to uninstall.
	ConfigFiles []string
	Steps       map[Mode][]Step
	// Unknown are fields that nobody reads, as modes.apply[0].retruncodes.
	Unknown []string
}

// Decode reads config.json. Its error names all fields that are wrong, and
// says what would be valid. A step's path stays in the package's directory.
func Decode(data []byte) (*Package, error) {
	r, err := Inspect(data)
	if err == nil && len(r.Problems) > 0 {
		err = r.Problems
	}
	if err != nil {
		return nil, fmt.Errorf("read config.json: %w", err)
	}
	return &r.Package, nil
}

var (
	fields     = []string{"schema_version", "package_name", "package_version", "expected_config_files", "modes", "$schema"}
	stepFields = []string{"name", "path", "arguments", "returncodes", "on_host", "idempotence", "upgrade_step", "env"}
)

func unknown(prefix string, object map[string]any, known []string) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		if !slices.Contains(known, name) {
			out = append(out, prefix+name)
		}
	}
	return out
}
