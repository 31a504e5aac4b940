package ns

import (
	"fmt"
	"syscall"
)

// stepError names the step of a set-up that the kernel refused.
func stepError(step string, err error) error { return fmt.Errorf("%s: %w", step, err) }

// initStepError is a step of an init's.
func initStepError(step string, e syscall.Errno) error {
	return fmt.Errorf("sandbox init: %s: %w", step, e)
}
