package pid1

import (
	"syscall"
	"unsafe"
)

// openTerminal makes a terminal pair of the tree's own devpts.
func openTerminal(pts int, rows, cols uint16) (master, slave int, err error) {
	master, e := openat2(pts, "ptmx", syscall.O_RDWR|syscall.O_NOCTTY, 0)
	if e != 0 {
		return -1, -1, failed("open terminal", e)
	}
	var unlock int32
	_, _, e = syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock)))
	if e == 0 {
		size := [4]uint16{rows, cols}
		_, _, e = syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size)))
	}
	var s uintptr
	if e == 0 {
		s, _, e = syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), tiocgptpeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	}
	if e != 0 {
		syscall.Close(master)
		return -1, -1, failed("open terminal", e)
	}
	return master, int(s), nil
}

const tiocgptpeer = 0x5441
