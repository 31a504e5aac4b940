package hostile

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// int80 enters the kernel as a 32-bit program does, whose table of calls is
// another one. Numbers below zero are errors. A kernel without it kills the
// process.
func int80(number, a, b, c uintptr) uintptr

// foreignCalls are ways around a filter that knows one table alone.
func foreignCalls() tries {
	const (
		unshare386 = 310
		x32        = 0x40000000
	)
	return tries{
		"32-bit call": plain(func() error { return errno(syscall.Errno(-int32(int80(unshare386, unix.CLONE_NEWNS, 0, 0)))) }),
		"x32 call":    plain(func() error { return call(x32|unix.SYS_UNSHARE, unix.CLONE_NEWNS) }),
	}
}
