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
	s.watch()
}

func (s *server) closeDNS() {
	if s.dns > 0 {
		syscall.Close(s.dns)
	}
	s.dns = 0
	s.watch()
}

// answerDNS answers one question; other things come between any two.
func (s *server) answerDNS() {
	var from syscall.RawSockaddrAny
	size := uint32(unsafe.Sizeof(from))
	n, _, e := syscall.Syscall6(syscall.SYS_RECVFROM, uintptr(s.dns), uintptr(unsafe.Pointer(&s.scratch)), dnsMost, syscall.MSG_DONTWAIT,
		uintptr(unsafe.Pointer(&from)), uintptr(unsafe.Pointer(&size)))
	if e != 0 {
		return
	}
	if out := noSuchName(s.scratch[:n], s.scratch[n:n:4*dnsMost]); out != nil { // who asked may be gone
		syscall.Syscall6(syscall.SYS_SENDTO, uintptr(s.dns), uintptr(unsafe.Pointer(&out[0])), uintptr(len(out)), syscall.MSG_DONTWAIT,
			uintptr(unsafe.Pointer(&from)), uintptr(size))
	}
}
