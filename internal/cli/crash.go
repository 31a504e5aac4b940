package cli

import (
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// crashPoint is the hook of the crash test: ASSAY_CRASH_AT=NAME:N kills this
// process with SIGKILL the Nth time the named boundary is passed. A process
// that a user starts has no such variable, and nothing else reads it.
func (a *app) crashPoint() func(string) {
	at, ok := a.Env("ASSAY_CRASH_AT")
	if !ok {
		return nil
	}
	name, times, _ := strings.Cut(at, ":")
	n, err := strconv.ParseInt(times, 10, 64)
	if err != nil {
		n = 1
	}
	left := &atomic.Int64{}
	left.Store(n)
	return func(boundary string) {
		if boundary == name && left.Add(-1) == 0 {
			_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
			select {} // the signal is on its way; nothing after the boundary may run
		}
	}
}
