package pid1

import (
	"syscall"
	"unsafe"
)

// dnsPort is where every resolver without configuration asks, on the loopback.
const dnsPort = 53

// dnsMost is the largest question that is answered.
const dnsMost = 512

// listenDNS makes names fail at once instead of leaving programs to wait for a
// network that is not there. A tree whose programs serve DNS themselves keeps
// their port: what cannot be bound is left out, and other sockets may share it.
func (s *server) listenDNS() {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return
	}
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1)
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: dnsPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		syscall.Close(fd)
		return
	}
	s.dns = fd
}

func (s *server) closeDNS() {
	if s.dns > 0 {
		syscall.Close(s.dns)
	}
	s.dns = 0
}

// await returns when the control socket has a message, and answers names until
// then. It needs no thread of its own.
func (s *server) await() {
	for s.dns > 0 {
		fds := [2]struct {
			fd              int32
			events, revents int16
		}{{fd: control, events: 1}, {fd: int32(s.dns), events: 1}} // POLLIN
		_, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&fds)), 2, 0, 0, 0, 0)
		if e != 0 && e != syscall.EINTR {
			return
		}
		if fds[1].revents != 0 && e == 0 {
			s.answerDNS()
		}
		if fds[0].revents != 0 && e == 0 {
			return
		}
	}
}

// answerDNS answers one question; control messages come between any two.
func (s *server) answerDNS() {
	var b [dnsMost]byte
	n, from, err := syscall.Recvfrom(s.dns, b[:], 0)
	if err != nil || n > len(b) {
		return
	}
	if out := noSuchName(b[:n]); out != nil {
		_ = syscall.Sendto(s.dns, out, 0, from) // who asked may be gone
	}
}
