package pid1

import (
	"syscall"
	"unsafe"
)

// LinkNums is how many numbers a Link message has: the interface's MTU, and the
// bits of its networks of IPv4 and IPv6. Its strings are addresses as bytes:
// its own and the next hop of IPv4, then of IPv6.
const (
	LinkNums = 3
	LinkStrs = 4
)

const linkName = "tun0"

// link hands the way out to the other side: the socket on which programs ask
// for names, and, if fds has the machine's /dev/net/tun, an interface. A
// namespace has one interface; who asks again gets the socket alone.
func (s *server) link(m *Message, fds []int) error {
	if !s.entered || len(fds) > 1 || (len(fds) == 1) != (len(m.Nums) == LinkNums && len(m.Strs) == LinkStrs) {
		return s.refuse(m.ID, StageInit, errMessage)
	}
	if s.dns <= 0 { // the tree's programs have had no time to take the port
		s.listenDNS()
	}
	if s.dns <= 0 {
		return s.refuse(m.ID, StageInit, failed("answer names", syscall.EADDRINUSE))
	}
	out := []int{s.dns}
	if len(fds) == 1 && !s.linked {
		tun, err := s.newInterface(m, fds[0])
		if err != nil {
			return s.refuse(m.ID, StageInit, err)
		}
		defer syscall.Close(tun)
		out = append(out, tun)
		s.linked = true
	}
	err := s.tell(Message{Kind: OK, ID: m.ID}, out...)
	s.closeDNS()
	return err
}

// newInterface makes one whose packets are read from and written to what it
// returns. The device belongs to the network namespace in which it is opened:
// an open path, unlike an open device, can come from outside.
func (s *server) newInterface(m *Message, device int) (_ int, err error) {
	if s.lacks(WithoutNet) {
		return -1, failed("make an interface in a network that is not ours", syscall.EPERM)
	}
	// /proc of this tree: nobody else has run in it yet.
	tun, err := syscall.Openat(s.proc, "self/fd/"+itoa(int64(device)), syscall.O_RDWR|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return -1, failed("open /dev/net/tun", errno(err))
	}
	defer func() {
		if err != nil {
			syscall.Close(tun)
		}
	}()
	const (
		tunSetIff = 0x400454ca
		plain     = 0x1000 | 1 // IFF_TUN, IFF_NO_PI: IP packets and nothing else
	)
	req := ifreq{}
	copy(req.name[:], linkName)
	req.value[0], req.value[1] = plain&0xff, plain>>8
	if _, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(tun), tunSetIff, uintptr(unsafe.Pointer(&req))); e != 0 {
		return -1, failed("make an interface", e)
	}
	fd, err := syscall.Socket(syscall.AF_NETLINK, syscall.SOCK_RAW|syscall.SOCK_CLOEXEC, syscall.NETLINK_ROUTE)
	if err != nil {
		return -1, failed("speak to the network", errno(err))
	}
	defer syscall.Close(fd)
	return tun, configure(fd, m)
}

// noLinkLocal keeps the kernel from giving the interface an address of its own
// making, from which nothing would be answered: IFLA_AF_SPEC { AF_INET6 {
// IFLA_INET6_ADDR_GEN_MODE: IN6_ADDR_GEN_MODE_NONE } }.
const (
	iflaAFSpec  = 26
	noLinkLocal = "\x0c\x00\x0a\x00" + "\x05\x00\x08\x00\x01\x00\x00\x00"
)

// ifreq is struct ifreq of the kernel, as long as on 64-bit machines.
type ifreq struct {
	name  [16]byte
	value [24]byte
}

// configure brings the interface up with its addresses and default routes.
func configure(netlink int, m *Message) error {
	index, err := linkIndex()
	if err != nil {
		return err
	}
	bare := newRoutemsg(syscall.RTM_NEWLINK, 0)
	put(bare, syscall.IfInfomsg{Index: index})
	bare.attr(iflaAFSpec, []byte(noLinkLocal))
	_ = bare.send(netlink) // of no use to a kernel without IPv6
	up := newRoutemsg(syscall.RTM_NEWLINK, 0)
	put(up, syscall.IfInfomsg{Index: index, Flags: syscall.IFF_UP, Change: syscall.IFF_UP})
	mtu := uint32(m.Nums[0])
	up.attr(syscall.IFLA_MTU, (*[4]byte)(unsafe.Pointer(&mtu))[:])
	if e := up.send(netlink); e != 0 {
		return failed("bring the interface up", e)
	}
	for i, family := range [...]uint8{syscall.AF_INET, syscall.AF_INET6} {
		own, hop := []byte(m.Strs[2*i]), []byte(m.Strs[2*i+1])
		addr := newRoutemsg(syscall.RTM_NEWADDR, syscall.NLM_F_CREATE|syscall.NLM_F_EXCL)
		put(addr, syscall.IfAddrmsg{Family: family, Prefixlen: uint8(m.Nums[1+i]), Flags: syscall.IFA_F_NODAD, Index: uint32(index)})
		addr.attr(syscall.IFA_LOCAL, own)
		addr.attr(syscall.IFA_ADDRESS, own)
		e := addr.send(netlink)
		if e != 0 && family == syscall.AF_INET6 {
			return nil // a kernel without IPv6, or one that is told to do without
		}
		if e != 0 {
			return failed("give the interface an address", e)
		}
		route := newRoutemsg(syscall.RTM_NEWROUTE, syscall.NLM_F_CREATE|syscall.NLM_F_EXCL)
		put(route, syscall.RtMsg{Family: family, Table: syscall.RT_TABLE_MAIN, Protocol: syscall.RTPROT_BOOT, Type: syscall.RTN_UNICAST})
		route.attr(syscall.RTA_GATEWAY, hop)
		route.attr(syscall.RTA_OIF, (*[4]byte)(unsafe.Pointer(&index))[:])
		if e := route.send(netlink); e != 0 {
			return failed("route to the interface", e)
		}
	}
	return nil
}

func linkIndex() (int32, error) {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_DGRAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, failed("find the interface", errno(err))
	}
	defer syscall.Close(fd)
	req := ifreq{}
	copy(req.name[:], linkName)
	_, _, e := syscall.Syscall(syscall.SYS_IOCTL, uintptr(fd), syscall.SIOCGIFINDEX, uintptr(unsafe.Pointer(&req)))
	return *(*int32)(unsafe.Pointer(&req.value)), failed("find the interface", e)
}

// routemsg is one request of rtnetlink(7); every part is a multiple of 4 bytes long.
type routemsg struct{ b []byte }

func newRoutemsg(kind, flags uint16) *routemsg {
	m := &routemsg{b: make([]byte, 0, 128)}
	put(m, syscall.NlMsghdr{Type: kind, Flags: flags | syscall.NLM_F_REQUEST | syscall.NLM_F_ACK, Seq: 1})
	return m
}

// put appends a struct of the kernel's as it lies in memory.
func put[T syscall.NlMsghdr | syscall.IfInfomsg | syscall.IfAddrmsg | syscall.RtMsg | syscall.RtAttr](m *routemsg, v T) {
	m.b = append(m.b, unsafe.Slice((*byte)(unsafe.Pointer(&v)), unsafe.Sizeof(v))...)
}

func (m *routemsg) attr(kind uint16, value []byte) {
	put(m, syscall.RtAttr{Len: uint16(syscall.SizeofRtAttr + len(value)), Type: kind})
	m.b = append(m.b, value...)
	for len(m.b)%4 != 0 {
		m.b = append(m.b, 0)
	}
}

// send asks and waits for the answer.
func (m *routemsg) send(netlink int) syscall.Errno {
	(*syscall.NlMsghdr)(unsafe.Pointer(&m.b[0])).Len = uint32(len(m.b))
	if err := syscall.Sendto(netlink, m.b, 0, &syscall.SockaddrNetlink{Family: syscall.AF_NETLINK}); err != nil {
		return errno(err)
	}
	var b [1 << 10]byte
	for {
		n, _, err := syscall.Recvfrom(netlink, b[:], 0)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return errno(err)
		}
		// An NlMsgerr: the header, then the negative error.
		if n < syscall.SizeofNlMsghdr+4 || (*syscall.NlMsghdr)(unsafe.Pointer(&b[0])).Type != syscall.NLMSG_ERROR {
			return syscall.EPROTO
		}
		return syscall.Errno(-*(*int32)(unsafe.Pointer(&b[syscall.SizeofNlMsghdr])))
	}
}
