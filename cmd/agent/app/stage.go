package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/nodewright/nodewright/cmd/agent/config"
	"github.com/nodewright/nodewright/cmd/agent/record"
)

// stage runs one mode of the package in the copy directory.
func (a *agent) stage(ctx context.Context, mode config.Mode) error {
	name := a.env.name
	if name == "" {
		// Only an operator of another kind leaves it out.
		p, err := a.load()
		if err != nil {
			return err
		}
		name = p.Name
	}
	lock, err := a.lock(ctx, name)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	p, err := a.load()
	if err != nil {
		return err
	}
	if err := a.prepare(mode, p); err != nil {
		return err
	}
	s := &stage{
		agent: a, mode: mode, pkg: p,
		store: &record.Store{
			Host: a.host, Dir: a.env.rootDir, Package: name, InConfig: p.Name, Version: p.Version, Run: a.env.run, Now: a.now,
		},
	}
	if mode.Of() == config.Upgrade {
		previous, aside, err := s.store.Previous()
		if err != nil {
			return err
		}
		if aside != "" {
			a.say("warning: the history of the package cannot be read and was put aside as %s", aside)
		}
		s.previous = previous
	}
	if len(p.Steps[mode]) == 0 {
		a.say("warning: the package has no steps for %s, nothing is run", mode)
	}
	if err := s.steps(ctx); err != nil {
		return err
	}
	return s.finish()
}

// load reads config.json.
func (a *agent) load() (*config.Package, error) {
	data, err := a.host.ReadFile(path.Join(a.copyDir, "config.json"), config.MaxSize)
	if err != nil {
		return nil, exit(ExitPackage, err)
	}
	p, err := config.Decode(data)
	return p, exit(ExitPackage, err)
}

// prepare checks that all the mode needs is there, before anything is changed,
// and copies root_dir over the host.
func (a *agent) prepare(mode config.Mode, p *config.Package) error {
	var missing []string
	steps := p.Steps[mode]
	for i := range steps {
		info, err := a.host.Stat(a.program(&steps[i]))
		if err != nil || !info.Mode().IsRegular() {
			missing = append(missing, "step "+path.Join(config.StepDir, steps[i].Path))
		}
	}
	if mode.Of() != config.Uninstall {
		for _, f := range p.ConfigFiles {
			if _, err := a.host.Stat(path.Join(a.copyDir, "configmaps", f)); err != nil {
				missing = append(missing, "configuration "+path.Join("configmaps", f))
			}
		}
	}
	if len(missing) > 0 {
		return exit(ExitPackage, fmt.Errorf("the package lacks %s", strings.Join(missing, ", ")))
	}
	if mode.Of() == config.Uninstall {
		return nil
	}
	rootDir := path.Join(a.copyDir, "root_dir")
	if _, err := a.host.Stat(rootDir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return a.host.CopyTree(rootDir, "/")
}

// program is the path of a step on the host.
func (a *agent) program(step *config.Step) string {
	return path.Join(a.copyDir, config.StepDir, step.Path)
}
