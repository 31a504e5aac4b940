package sandbox

import "errors"

var (
	// ErrNotStarted: the program does not exist, is not executable, or its
	// directory or user does not exist. The message says which.
	ErrNotStarted = errors.New("program not started")
	// ErrLost: the sandbox died under its caller.
	ErrLost = errors.New("sandbox lost")
	// ErrOutOfMemory: it died for its memory limit; comes with ErrLost.
	ErrOutOfMemory = errors.New("sandbox out of memory")
	// ErrClosed: the sandbox or backend was closed by its caller.
	ErrClosed = errors.New("sandbox closed")
	// ErrUnsupported: the spec asks for what this backend cannot give.
	ErrUnsupported = errors.New("not supported by this sandbox")
	// ErrTooLarge: a tree is larger than the cap it was asked for with.
	ErrTooLarge = errors.New("tree larger than the cap")
)

// Ended reports whether err says that the sandbox is no more, and nothing about
// its tree or what runs in it.
func Ended(err error) bool { return errors.Is(err, ErrLost) || errors.Is(err, ErrClosed) }
