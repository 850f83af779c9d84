package validate

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/apis/nodestate"
	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/record"
)

var (
	// configKey is what a ConfigMap takes as a key.
	configKey = regexp.MustCompile(`^[-._a-zA-Z0-9]{1,253}$`)
	// imageTag is what a registry takes as a tag.
	imageTag = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}$`)
	// set are the variables that the agent sets last.
	set = []string{"STEP_ROOT", "SKYHOOK_DIR", "NODEWRIGHT_DIR"}
	// setToUpgrade are those of the modes upgrade and upgrade-check.
	setToUpgrade = []string{"PREVIOUS_VERSION", "CURRENT_VERSION"}
)

// maxArgument is what Linux takes as one argument or variable of a program, in bytes:
// MAX_ARG_STRLEN without the NUL.
const maxArgument = 128<<10 - 1

// never is a mode of the schema in which nothing runs.
const never config.Mode = "interrupt"

// meaning looks for what the schema accepts and hardly anybody means.
func (r *Report) meaning(c *config.Inspection) {
	for _, field := range c.Unknown {
		r.add(Warning, configFile, field, "is not known, and nobody reads it", "a field of schema v1; is it misspelt?")
	}
	r.names(c)
	for i, key := range c.ConfigFiles {
		field := fmt.Sprintf("expected_config_files[%d]", i)
		switch {
		case key != "" && (!configKey.MatchString(key) || key == "." || strings.HasPrefix(key, "..")):
			r.add(Error, configFile, field, fmt.Sprintf("%.100q can be no key of a configMap, so it never comes", key), "letters, digits, '-', '_' and '.', not '..' in front")
		case slices.Index(c.ConfigFiles, key) < i:
			r.add(Warning, configFile, field, fmt.Sprintf("%.100q is there twice", key), "each file once")
		}
	}
	total := 0
	for _, mode := range sorted(c) {
		total += len(c.Steps[mode])
		for i := range c.Steps[mode] {
			r.step(mode, config.StepField(mode, i), &c.Steps[mode][i])
		}
	}
	if total == 0 {
		r.add(Warning, configFile, "modes", "has no steps, so the package does nothing in any stage", "a list of steps, at least for apply")
	}
	if len(c.Steps[never]) > 0 {
		r.add(Warning, configFile, "modes."+string(never), "never runs: interrupts belong to the NodeWright", "the steps in post-interrupt")
	}
	for _, mode := range config.Modes() {
		if len(c.Steps[mode]) > 0 && len(c.Steps[mode.Check()]) == 0 {
			r.add(Warning, configFile, "modes."+string(mode), "has no check: that the steps ended well is all that is known of the host",
				"steps in "+string(mode.Check())+" that fail unless the host is as meant")
		}
	}
	r.sharedFlags(c)
}

func (r *Report) names(c *config.Inspection) {
	if c.Name != "" && !nodestate.ValidPackageName(c.Name) {
		r.add(Warning, configFile, "package_name", fmt.Sprintf("%.100q cannot be the name of a package in a NodeWright", c.Name),
			"lower-case letters, digits and dashes, beginning and ending with a letter, 2 to 43 characters")
	}
	if c.Version != "" && !imageTag.MatchString(c.Version) {
		r.add(Warning, configFile, "package_version", fmt.Sprintf("%.100q cannot be the tag of an image", c.Version),
			"a version without build metadata, or an image given with containerSHA")
	}
}

func (r *Report) step(mode config.Mode, field string, s *config.Step) {
	flagged := mode == config.Apply || mode == config.PostInterrupt
	if !s.OnHost {
		r.add(Warning, configFile, field+".on_host", "is false, but steps run on the host all the same", "true")
	}
	if !s.AlwaysRuns && !flagged && !mode.IsCheck() && mode != never {
		r.add(Warning, configFile, field+".idempotence", fmt.Sprintf("is false, but steps of %s run each time all the same", mode), "true, and a step that can run twice")
	}
	if s.Upgrades && mode.Of() != config.Upgrade {
		r.add(Warning, configFile, field+".upgrade_step", fmt.Sprintf("is true, but steps of %s are given no versions", mode), "false, or the step in upgrade")
	}
	r.values(mode, field, s)
}

// values looks at the exit codes, arguments and variables of a step.
func (r *Report) values(mode config.Mode, field string, s *config.Step) {
	for i, code := range s.ReturnCodes {
		if code < 0 {
			r.add(Warning, configFile, fmt.Sprintf("%s.returncodes[%d]", field, i), fmt.Sprintf("%d is no exit code that a step can have", code), "0 to 255")
		}
	}
	for i, arg := range s.Arguments {
		if len(arg) > maxArgument {
			r.add(Error, configFile, fmt.Sprintf("%s.arguments[%d]", field, i), fmt.Sprintf("has %d bytes, and Linux starts no program with that", len(arg)),
				fmt.Sprintf("at most %d", maxArgument))
		}
		if name, ok := strings.CutPrefix(arg, "env:"); ok && (name == "" || strings.Contains(name, "=")) {
			r.add(Error, configFile, fmt.Sprintf("%s.arguments[%d]", field, i), fmt.Sprintf("%.100q names no variable, so the step always fails", arg), "env: and the name of a variable of the container")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if size := len(name) + 1 + len(s.Env[name]); size > maxArgument {
			r.add(Error, configFile, field+".env."+name, fmt.Sprintf("has %d bytes with its name, and Linux starts no program with that", size),
				fmt.Sprintf("at most %d", maxArgument))
		}
		if slices.Contains(set, name) || mode.Of() == config.Upgrade && slices.Contains(setToUpgrade, name) {
			r.add(Warning, configFile, field+".env."+name, "is set by the agent, whatever stands here", "another name")
		}
	}
}

// sharedFlags finds steps that are skipped because another step of the same run
// has set the flag: flags tell path, arguments and return codes apart, and
// neither names nor modes.
func (r *Report) sharedFlags(c *config.Inspection) {
	first := map[string]string{}
	for _, mode := range []config.Mode{config.Apply, config.PostInterrupt} {
		for i := range c.Steps[mode] {
			s, field := &c.Steps[mode][i], config.StepField(mode, i)
			key := s.Path + "_" + record.Marker(s)
			before, shared := first[key]
			switch {
			case !shared:
				first[key] = field
			case !s.AlwaysRuns:
				r.add(Warning, configFile, field, "is skipped: "+before+" has the same path, arguments and returncodes, so it counts as done",
					"idempotence: true, or an argument that tells them apart")
			}
		}
	}
}
