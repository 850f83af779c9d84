package app

import "errors"

// Exit codes of the agent.
const (
	// ExitOK: all was done, or there was nothing to do.
	ExitOK = 0
	// ExitFailed: a step, a check or an interrupt failed.
	ExitFailed = 1
	// ExitUsage: the arguments or the variables of the agent are wrong; to
	// validate: there is no package to check.
	ExitUsage = 2
	// ExitPackage: the package is wrong, as config.json. Warnings of validate are
	// not.
	ExitPackage = 3
	// ExitHost: a file of the host cannot be read or written.
	ExitHost = 4
	// ExitTerminated: the agent was ended by SIGTERM. It is no failure of the
	// package, and the operator counts none.
	ExitTerminated = 75
)

// exitError is an error with the exit code that it asks for.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// exit gives the error with a code, unless it has one that says more.
func exit(code int, err error) error {
	var e *exitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		code = e.code
	}
	return &exitError{code, err}
}
