//go:build linux && !amd64 && !arm64

package pid1

import (
	"syscall"
	"unsafe"
)

// shared: without a few instructions of our own the child needs a copy.
const shared = 0

//go:nosplit
func vfork(flags uintptr, pidfd *int32) (pid, errno uintptr) {
	p, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, flags, 0, uintptr(unsafe.Pointer(pidfd)), 0, 0, 0)
	return p, uintptr(e)
}
