package dockerfile

import (
	"errors"
	"fmt"
)

// Error is a fault of a Dockerfile at a line.
type Error struct {
	File        string
	Line        int    // from 1; 0 if it concerns the whole file
	Instruction string // "COPY", as written in capitals; may be empty
	Err         error
}

func (e *Error) Error() string {
	s := e.File
	if e.Line > 0 {
		s += fmt.Sprintf(":%d", e.Line)
	}
	var un *UnsupportedError // names the instruction itself
	if e.Instruction != "" && !errors.As(e.Err, &un) {
		s += ": " + e.Instruction
	}
	return s + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// UnsupportedError names a form that this package does not execute.
type UnsupportedError struct {
	What   string // "VOLUME", "COPY --from"
	Remedy string // what to write instead
}

func (e *UnsupportedError) Error() string {
	return e.What + " is not supported here; " + e.Remedy
}

// RunError says that the command of a RUN did not succeed.
type RunError struct {
	Code   int    // exit status; 128+signal when killed by one
	Output []byte // the last of stdout and stderr, at most 4 KiB
}

func (e *RunError) Error() string {
	s := fmt.Sprintf("exit status %d", e.Code)
	if len(e.Output) > 0 {
		s += "; its last output:\n" + string(e.Output)
	}
	return s
}
