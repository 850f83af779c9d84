package process

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
)

// maxFirstLine is how much of a script Linux reads for its interpreter, in bytes.
const maxFirstLine = 256

// explain says what the kernel means when it does not start a program that is
// there.
func (h *Host) explain(program, dir string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		// Its path is named already.
		err = p.Err
	}
	switch {
	case errors.Is(err, syscall.ENOENT):
		if info, err := h.Root.Stat(dir); err != nil || !info.IsDir() {
			return fmt.Errorf("the directory %s that it starts in does not exist: %w", dir, syscall.ENOENT)
		}
		if _, err := h.Root.Stat(program); err != nil {
			return syscall.ENOENT
		}
		if interpreter := h.interpreter(program); interpreter != "" {
			return fmt.Errorf("the interpreter %q, which its first line names, is not on the host: %w", interpreter, err)
		}
		return fmt.Errorf("the loader that it is linked for is not on the host, want a static binary or a script: %w", err)
	case errors.Is(err, syscall.ENOEXEC):
		return fmt.Errorf("it is neither a binary for this kind of machine nor a script whose first line is as #!/bin/sh: %w", err)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("the host does not let it run, want a file system that is not mounted noexec: %w", err)
	}
	return err
}

// interpreter is what the first line of a script names; of a binary, nothing.
func (h *Host) interpreter(program string) string {
	f, err := h.Root.Open(program)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	data := make([]byte, maxFirstLine)
	n, _ := f.Read(data)
	line, _, _ := strings.Cut(string(data[:n]), "\n")
	rest, script := strings.CutPrefix(line, "#!")
	if !script {
		return ""
	}
	// The kernel parts it at spaces, not at CR.
	name, _, _ := strings.Cut(strings.Trim(rest, " \t"), " ")
	return name
}
