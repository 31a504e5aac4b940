package ns

import (
	"errors"
	"fmt"
	"syscall"
)

// step is a part of the set-up that a machine can refuse.
type step string

const (
	stepUserNS  step = "user namespaces"
	stepMount   step = "mounts in a user namespace"
	stepInit    step = "nested namespaces"
	stepProc    step = "fresh proc mount"
	stepOverlay step = "overlay in a user namespace"
	stepStore   step = "store file system"
	stepScratch step = "scratch file system"
)

// stepFailure is an error that knows its step on its way out of the keeper.
type stepFailure struct {
	step step
	err  error
}

func (e *stepFailure) Error() string { return string(e.step) + ": " + e.err.Error() }
func (e *stepFailure) Unwrap() error { return e.err }

func stepError(s step, err error) error {
	if err == nil {
		return nil
	}
	return &stepFailure{s, err}
}

// initError is a step of an init's own set-up.
func initError(what string, e syscall.Errno) error {
	s := stepInit
	if what == "mount proc" {
		s = stepProc
	}
	return &stepFailure{s, fmt.Errorf("%s: %w", what, e)}
}

// stepOf finds the step of an error; empty if it has none.
func stepOf(err error) step {
	var f *stepFailure
	if errors.As(err, &f) {
		return f.step
	}
	return ""
}
