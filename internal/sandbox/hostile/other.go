//go:build !linux

package hostile

import (
	"context"
	"errors"
)

// Main reports that there is nothing to do on this system.
func Main([]string, Host) (int, bool) { return 0, false }

// Run fails: there is nothing to attack on this system.
func Run(context.Context, Options, func(Result)) error {
	return errors.New("the hostile self-test needs Linux")
}

// List is empty.
func List() []Result { return nil }
