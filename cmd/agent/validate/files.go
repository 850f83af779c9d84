package validate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/nodewright/nodewright/cmd/agent/config"
)

const (
	rootDir = "root_dir"
	// maxFirstLine is how much Linux reads of a script to find its interpreter, in
	// bytes: BINPRM_BUF_SIZE.
	maxFirstLine = 256
)

// overlaid are put beside the package when it runs, over what is there.
var overlaid = map[string]string{
	"configmaps":    "the configMap of the package in the NodeWright",
	"node-metadata": "what the operator tells of the node",
}

// files checks what config.json needs of the directory. root keeps what is
// looked at inside, as the package is alone on the host.
func (r *Report) files(root *os.Root, c *config.Inspection) {
	steps := siblings(root)
	for _, mode := range sorted(c) {
		for i, step := range c.Steps[mode] {
			field, file := config.StepField(mode, i)+".path", path.Join(config.StepDir, step.Path)
			switch {
			case step.Path == "" || !filepath.IsLocal(file) || mode == never:
				// A path that leaves the package is a problem already, and a step that never
				// runs needs no file.
				continue
			case !strings.HasPrefix(file, config.StepDir+"/"):
				r.add(Warning, configFile, field, fmt.Sprintf("%.100q is not below %s", step.Path, config.StepDir), "the path of a file below "+config.StepDir)
			}
			r.program(root, field, file, steps)
		}
	}
	for _, name := range []string{"configmaps", "node-metadata"} {
		if _, err := root.Lstat(name); err == nil {
			r.add(Warning, name, "", "is in the package, and files in it are replaced by "+overlaid[name], "no such directory")
		}
	}
	info, err := root.Stat(rootDir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := root.Lstat(rootDir); err == nil {
			r.add(Warning, rootDir, "", "is a link to nothing, so nothing is copied over the host", "a directory in the package")
		}
	case leadsOut(err):
		r.add(Warning, rootDir, "", "is a link that leads out of the package, to whatever a host has there", "a directory in the package")
	case err != nil || !info.IsDir():
		r.add(Error, rootDir, "", "is not a directory", "a directory whose files are copied over the host")
	default:
		r.tree(root)
	}
}

// leadsOut tells whether a link on the way leads out of the package. os.Root has
// no error of its own for that.
func leadsOut(err error) bool { return err != nil && !errors.As(err, new(syscall.Errno)) }

// loops tells whether the links at a path have no end also for the kernel, which
// follows more of them than os.Root.
func loops(root *os.Root, file string) bool {
	_, err := os.Stat(filepath.Join(root.Name(), file))
	return errors.Is(err, syscall.ELOOP)
}

// program checks the file of a step.
func (r *Report) program(root *os.Root, field, file, steps string) {
	info, err := root.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		r.add(Error, configFile, field, file+" does not exist", "a file in the package; in "+config.StepDir+" there are: "+steps)
		return
	case leadsOut(err):
		r.add(Warning, configFile, field, file+" is a link that leads out of the package, to whatever a host has there", "a file in the package")
		return
	case errors.Is(err, syscall.ELOOP) && !loops(root, file):
		r.add(Warning, configFile, field, file+" is at the end of more links than are followed here, and is not looked at", "a file in the package")
		return
	case err != nil:
		r.add(Error, configFile, field, file+" cannot be reached: "+reason(err), "a regular file in the package")
		return
	case !info.Mode().IsRegular():
		r.add(Error, configFile, field, file+" is not a regular file", "a program or a script with #! in its first line")
		return
	}
	f, err := root.Open(file)
	if err != nil {
		r.add(Error, configFile, field, file+" cannot be read: "+reason(err), "a file that can be read")
		return
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReader(io.LimitReader(f, maxFirstLine)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		r.add(Error, file, "", "cannot be read: "+reason(err), "a file that can be read")
		return
	}
	r.start(file, line)
}

// start checks that the kernel can start what begins so.
func (r *Report) start(file, line string) {
	interpreter, script := strings.CutPrefix(line, "#!")
	switch {
	case script && len(line) == maxFirstLine && !strings.HasSuffix(line, "\n"):
		r.add(Error, file, "", "has a first line that is too long for Linux", fmt.Sprintf("at most %d bytes", maxFirstLine-1))
	case script && strings.HasSuffix(strings.TrimSuffix(line, "\n"), "\r"):
		r.add(Error, file, "", "has lines that end with CR LF, so the host looks for an interpreter with CR in its name", "lines that end with LF")
	case script && !strings.HasPrefix(strings.TrimSpace(interpreter), "/"):
		r.add(Error, file, "", "names no interpreter by an absolute path after #!", "a first line as #!/bin/sh")
	case !script && !strings.HasPrefix(line, "\x7fELF"):
		r.add(Error, file, "", "can be started by no host: it is neither a binary nor begins with #!", "a first line as #!/bin/sh")
	}
}

// siblings names the files of the steps.
func siblings(root *os.Root) string {
	const most = 10
	var names []string
	_ = fs.WalkDir(root.FS(), config.StepDir, func(file string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, config.Printable(strings.TrimPrefix(file, config.StepDir+"/")))
		}
		if len(names) > most {
			return fs.SkipAll
		}
		return nil
	})
	if len(names) == 0 {
		return "none"
	}
	if len(names) > most {
		names = append(names[:most], "and more")
	}
	return strings.Join(names, ", ")
}

// tree checks what is copied over the host.
func (r *Report) tree(root *os.Root) {
	_ = fs.WalkDir(root.FS(), rootDir, func(file string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrInvalid) && !utf8.ValidString(file):
			r.add(Warning, file, "", "has a name that is not UTF-8, and is not looked at", "a name in UTF-8")
		case err != nil:
			r.add(Error, file, "", "cannot be read: "+reason(err), "files that can be read")
		case d.Type() == fs.ModeSymlink:
			if _, err := root.Stat(file); errors.Is(err, syscall.ELOOP) && loops(root, file) {
				r.add(Warning, file, "", "is a link that leads back to itself", "a link that leads to a file")
			}
		case !d.IsDir() && !d.Type().IsRegular():
			r.add(Error, file, "", "is neither a file nor a directory nor a link, and the agent copies nothing else", "it to be made by a step")
		}
		return nil
	})
}

func sorted(c *config.Inspection) []config.Mode {
	var out []config.Mode
	for mode := range c.Steps {
		out = append(out, mode)
	}
	slices.Sort(out)
	return out
}
