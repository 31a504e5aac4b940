//go:build linux && !amd64 && !arm64

package pid1

import "syscall"

// shared: without a few instructions of our own the child needs a copy.
const shared = 0

//go:nosplit
func vfork(flags uintptr) (pid, errno uintptr) {
	p, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, 0, 0, 0, 0)
	return p, uintptr(e)
}
