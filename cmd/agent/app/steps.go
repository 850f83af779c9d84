package app

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/process"
	"github.com/nodewright/nodewright/cmd/agent/record"
)

// stage is one mode of one package.
type stage struct {
	*agent
	mode     config.Mode
	pkg      *config.Package
	store    *record.Store
	previous string
}

// steps runs the steps in their order. The first one that fails ends the mode;
// checks all run, then fail together.
func (s *stage) steps(ctx context.Context) error {
	var failed []string
	steps := s.pkg.Steps[s.mode]
	for i := range steps {
		step := &steps[i]
		if err := ctx.Err(); err != nil {
			return err
		}
		skip, err := s.skips(step)
		if err != nil {
			return err
		}
		if skip {
			s.say("skipping %s: it was done in this run", step.Path)
			continue
		}
		err = s.step(ctx, step)
		switch {
		case err != nil && ctx.Err() != nil:
			return err
		case err != nil && !s.mode.IsCheck():
			return exit(ExitFailed, fmt.Errorf("%s: %w", s.mode, err))
		case err != nil:
			s.say("FAILED: %v", err)
			failed = append(failed, step.Path)
			continue
		}
		s.say("SUCCEEDED: %s", quoted(append([]string{step.Path}, step.Arguments...)))
		if !s.mode.IsCheck() {
			if err := s.store.SetDone(step); err != nil {
				return err
			}
		}
	}
	if len(failed) > 0 {
		return exit(ExitFailed, fmt.Errorf("%s: failed: %s", s.mode, strings.Join(failed, ", ")))
	}
	// Told to end, the agent says so, also if the last step came to its own end.
	return ctx.Err()
}

// skips tells whether the step was done in this run and does not run again.
func (s *stage) skips(step *config.Step) (bool, error) {
	once := s.mode == config.Apply || s.mode == config.PostInterrupt
	if !once || step.AlwaysRuns || s.env.alwaysRun {
		return false, nil
	}
	return s.store.Done(step)
}

// step runs one step and says how it failed.
func (s *stage) step(ctx context.Context, step *config.Step) error {
	args, err := s.arguments(step)
	if err != nil {
		return err
	}
	program := s.program(step)
	info, err := s.host.Stat(program)
	if err != nil {
		return exit(ExitHost, fmt.Errorf("step %s: %w", step.Path, err))
	}
	if mode := info.Mode(); mode&0o111 != 0o111 {
		if err := s.host.Chmod(program, mode.Perm()|0o111); err != nil {
			return exit(ExitHost, fmt.Errorf("step %s: make it executable: %w", step.Path, err))
		}
	}
	s.say("%s: running %s", s.mode, step.Path)
	code, err := s.command(ctx, s.logDir(s.store.Package, s.pkg.Version), step.Path, &process.Command{
		Program: program, Args: args, Env: s.variables(step),
	})
	if err != nil {
		return fmt.Errorf("step %s: %w", step.Path, err)
	}
	if !slices.Contains(step.ReturnCodes, code) {
		return fmt.Errorf("step %s ended with %d, want one of %v", step.Path, code, step.ReturnCodes)
	}
	return nil
}

// arguments are those of the step, with env:NAME replaced. Its error names all
// variables that are missing.
func (s *stage) arguments(step *config.Step) ([]string, error) {
	var args, missing []string
	for _, arg := range step.Arguments {
		name, variable := strings.CutPrefix(arg, "env:")
		if !variable {
			args = append(args, arg)
			continue
		}
		value, ok := s.env.get(name)
		if !ok {
			missing = append(missing, name)
		}
		args = append(args, value)
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("step %s: variables that its arguments name are not set: %s", step.Path, strings.Join(missing, ", "))
	}
	if step.Upgrades && s.mode.Of() == config.Upgrade {
		args = append(args, s.previous, s.pkg.Version)
	}
	return args, nil
}

func (s *stage) variables(step *config.Step) []string {
	var more [][2]string
	for _, name := range slices.Sorted(maps.Keys(step.Env)) {
		more = append(more, [2]string{name, step.Env[name]})
	}
	if s.mode.Of() == config.Upgrade {
		more = append(more, [2]string{"CURRENT_VERSION", s.pkg.Version}, [2]string{"PREVIOUS_VERSION", s.previous})
	}
	return s.env.forProgram(append(more,
		[2]string{"STEP_ROOT", path.Join(s.copyDir, config.StepDir)},
		[2]string{"SKYHOOK_DIR", s.copyDir},
		[2]string{"NODEWRIGHT_DIR", s.copyDir},
	)...)
}

// finish writes what the host has from now on.
func (s *stage) finish() error {
	switch s.mode {
	case config.Apply.Check(), config.Upgrade.Check():
		if err := s.store.SetCurrent(s.pkg.Version); err != nil {
			return err
		}
		s.removeOlder()
	case config.Config.Check():
		s.removeOlder()
	case config.Uninstall.Check():
		if err := s.store.SetCurrent(record.Uninstalled); err != nil {
			return err
		}
		return s.store.ClearFlags(s.pkg)
	}
	return nil
}
