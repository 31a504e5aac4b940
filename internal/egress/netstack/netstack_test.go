package netstack

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/internal/egress"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

var (
	inside4 = netip.MustParseAddr("198.18.0.2")
	inside6 = netip.MustParseAddr("fd61:7373:6179::2")
	public4 = netip.MustParseAddr("198.41.0.4")
	public6 = netip.MustParseAddr("2620:fe::fe")
	conf    = Config{Inside: []netip.Addr{inside4, inside6}, MTU: 1500}
)

// pair is a link: packets in both directions, as an interface has them.
func pair(t testing.TB) (host *os.File, sandbox *os.File) {
	t.Helper()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fds[0]), "host"), os.NewFile(uintptr(fds[1]), "sandbox")
}

// lossy loses what the other side has no room for, as an interface does.
type lossy struct{ *os.File }

func (l lossy) Write(b []byte) (int, error) {
	c, err := l.SyscallConn()
	if err != nil {
		return 0, err
	}
	return len(b), c.Write(func(fd uintptr) bool { _, _ = syscall.Write(int(fd), b); return true })
}

// carried runs Link for a gate; end waits for it.
func carried(t testing.TB, g *egress.Gate) (sandbox *os.File, end func()) {
	t.Helper()
	host, sandbox := pair(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- conf.Link(ctx, g, lossy{host}) }()
	return sandbox, func() {
		cancel()
		<-done
		sandbox.Close()
		g.Close()
	}
}

// sum is the checksum of the Internet (RFC 1071) on top of start.
func sum(b []byte, start uint32) uint16 {
	for i := 0; i+1 < len(b); i += 2 {
		start += uint32(b[i])<<8 | uint32(b[i+1])
	}
	if len(b)%2 == 1 {
		start += uint32(b[len(b)-1]) << 8
	}
	for start > 0xffff {
		start = start>>16 + start&0xffff
	}
	return ^uint16(start)
}

// mend gives a packet the lengths and sums that its content wants, where it is
// long enough to have any.
func mend(b []byte) []byte {
	if len(b) < 20 {
		return b
	}
	be := binary.BigEndian
	var body []byte
	var protocol byte
	var pseudo uint32
	switch b[0] >> 4 {
	case 4:
		be.PutUint16(b[2:], uint16(len(b)))
		be.PutUint16(b[10:], 0)
		be.PutUint16(b[10:], sum(b[:20], 0))
		body, protocol = b[20:], b[9]
		pseudo = uint32(^sum(b[12:20], 0))
	case 6:
		if len(b) < 40 {
			return b
		}
		be.PutUint16(b[4:], uint16(len(b)-40))
		body, protocol = b[40:], b[6]
		pseudo = uint32(^sum(b[8:40], 0))
	default:
		return b
	}
	pseudo += uint32(protocol) + uint32(len(body))
	switch {
	case protocol == protoTCP && len(body) >= 20:
		be.PutUint16(body[16:], 0)
		be.PutUint16(body[16:], sum(body, pseudo))
	case protocol == protoUDP && len(body) >= 8:
		be.PutUint16(body[4:], uint16(len(body)))
		be.PutUint16(body[6:], 0)
		be.PutUint16(body[6:], sum(body, pseudo))
	}
	return b
}

func packet(from, to netip.Addr, protocol byte, body []byte) []byte {
	var b []byte
	if to.Is4() {
		b = append(b, 0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0)
	} else {
		b = append(b, 0x60, 0, 0, 0, 0, 0, protocol, 64)
	}
	b = append(b, from.AsSlice()...)
	b = append(b, to.AsSlice()...)
	return mend(append(b, body...))
}

func segment(from, to uint16, flags byte) []byte {
	b := make([]byte, 20)
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	binary.BigEndian.PutUint32(b[4:], 1000)
	b[12], b[13] = 5<<4, flags
	binary.BigEndian.PutUint16(b[14:], 65535)
	return b
}

func datagram(from, to uint16, said string) []byte {
	b := make([]byte, 8, 8+len(said))
	binary.BigEndian.PutUint16(b, from)
	binary.BigEndian.PutUint16(b[2:], to)
	return append(b, said...)
}

const (
	fin, syn, rst, ack = 1, 2, 4, 16
)

// What the stack may see, and what it may not.
func TestAccept(t *testing.T) {
	n := &network{from: map[netip.Addr]bool{inside4: true, inside6: true}}
	good := func(from, to netip.Addr) []byte { return packet(from, to, protoTCP, segment(1, 80, syn)) }
	options := good(inside4, public4)
	options[0] = 0x46
	long := good(inside4, public4)
	binary.BigEndian.PutUint16(long[2:], 2000)
	fragment := packet(inside6, public6, protoFragment, append([]byte{protoUDP, 0, 0, 1, 0, 0, 0, 1}, datagram(1, 2, "x")...))
	a := netip.MustParseAddr
	for name, c := range map[string]struct {
		p    []byte
		want bool
	}{
		"IPv4": {good(inside4, public4), true}, "IPv6": {good(inside6, public6), true}, "UDP": {packet(inside4, public4, protoUDP, datagram(1, 2, "x")), true},
		"fragment": {fragment, true}, "private": {good(inside4, a("10.0.0.1")), true}, // the gate refuses it aloud
		"nothing": {nil, false}, "short": {good(inside4, public4)[:19], false}, "short IPv6": {good(inside6, public6)[:39], false},
		"version": {append([]byte{0x55}, good(inside4, public4)[1:]...), false}, "options": {options, false}, "length": {long, false},
		"spoofed": {good(a("198.18.0.1"), public4), false}, "spoofed loopback": {good(a("127.0.0.1"), public4), false},
		"spoofed IPv6": {good(a("::1"), public6), false}, "target's own": {good(public4, public4), false}, "to itself": {good(inside4, inside4), false},
		"multicast": {good(inside4, a("224.0.0.251")), false}, "broadcast": {good(inside4, a("255.255.255.255")), false},
		"IPv6 multicast": {good(inside6, a("ff02::1")), false}, "unspecified": {good(inside4, a("0.0.0.0")), false},
		"loopback": {good(inside4, a("127.0.0.1")), false}, "mapped": {good(inside6, a("::ffff:198.41.0.4")), false},
		"ICMP": {packet(inside4, public4, 1, []byte{8, 0, 0, 0, 0, 0, 0, 0}), false}, "ICMPv6": {packet(inside6, public6, 58, make([]byte, 8)), false},
		"hop by hop": {packet(inside6, public6, 0, make([]byte, 16)), false}, "routing": {packet(inside6, public6, 43, make([]byte, 16)), false},
		"fragment of ICMP": {packet(inside6, public6, protoFragment, []byte{58, 0, 0, 1, 0, 0, 0, 1}), false},
		"in IP":            {packet(inside4, public4, 4, good(inside4, public4)), false},
	} {
		if _, got := n.accept(c.p); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// held is a host that every connection waits for.
type held struct {
	now, most, all atomic.Int64
	release        chan struct{}
}

func (h *held) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	h.all.Add(1)
	n := h.now.Add(1)
	defer h.now.Add(-1)
	for m := h.most.Load(); n > m && !h.most.CompareAndSwap(m, n); m = h.most.Load() {
	}
	select {
	case <-h.release:
	case <-ctx.Done():
	}
	return nil, errors.New("nobody there")
}

// send gives packets to the link, which takes them as fast as it can.
func send(t testing.TB, to *os.File, packets ...[]byte) {
	t.Helper()
	for _, p := range packets {
		if _, err := to.Write(p); err != nil {
			t.Fatal(err)
		}
	}
}

// Thousands of connections that are never completed hold no more of the host
// than their bound, nobody else's connections are lost by it, and the link ends
// at once whatever is half open.
func TestFloodOfConnections(t *testing.T) {
	h := &held{release: make(chan struct{})}
	g := egress.New(egress.Config{All: true, Dial: h.dial})
	sandbox, end := carried(t, g)
	for port := range 5000 {
		send(t, sandbox, packet(inside4, public4, protoTCP, segment(uint16(1024+port), 80, syn)),
			packet(netip.MustParseAddr("198.18.0.1"), public4, protoTCP, segment(uint16(1024+port), 80, syn)))
	}
	close(h.release)
	if n := h.most.Load(); n > maxInFlight || h.all.Load() == 0 {
		t.Errorf("%d connections were opened at once, %d in all", n, h.all.Load())
	}
	end()
}

// Connections that reach the host but are never completed by the sandbox.
func TestHalfOpen(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var conns []net.Conn
	var mu sync.Mutex
	arrived := make(chan struct{}, 64)
	var accepting sync.WaitGroup
	accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			conns = append(conns, c)
			mu.Unlock()
			arrived <- struct{}{}
		}
	})
	g := egress.New(egress.Config{All: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	}})
	sandbox, end := carried(t, g)
	for port := range 10 {
		send(t, sandbox, packet(inside4, public4, protoTCP, segment(uint16(2000+port), 80, syn)), packet(inside6, public6, protoTCP, segment(uint16(2000+port), 80, syn)))
	}
	for range 20 {
		<-arrived
	}
	b := make([]byte, 2000)
	if _, err := sandbox.Read(b); err != nil { // an answer to one of them
		t.Fatal(err)
	}
	end()
	l.Close()
	accepting.Wait()
	for _, c := range conns {
		if _, err := c.Read(b); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection of the host's lives on: %v", err)
		}
		c.Close()
	}
}

// Flows of UDP: what is allowed comes back, what is refused is told, and there
// are no more of them than their bound.
func TestFlows(t *testing.T) {
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var echoing sync.WaitGroup
	echoing.Go(func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	})
	defer echoing.Wait()
	defer echo.Close()
	rules, err := egress.ParseRules([]string{public4.String()}, true)
	if err != nil {
		t.Fatal(err)
	}
	var dials atomic.Int64
	g := egress.New(egress.Config{Rules: rules, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, echo.LocalAddr().String())
	}})
	sandbox, end := carried(t, g)
	defer end()
	b := make([]byte, 2000)
	for _, said := range []string{"one", "two"} {
		send(t, sandbox, packet(inside4, public4, protoUDP, datagram(5000, 9, said)))
		n, err := sandbox.Read(b)
		if err != nil || string(b[28:n]) != said || !slices.Equal(b[12:16], public4.AsSlice()) || binary.BigEndian.Uint16(b[22:]) != 5000 {
			t.Errorf("%x, %v", b[:max(n, 0)], err)
		}
	}
	if n := dials.Load(); n != 1 {
		t.Errorf("one flow was dialled %d times", n)
	}
	send(t, sandbox, packet(inside4, netip.MustParseAddr("198.41.0.5"), protoUDP, datagram(5000, 9, "x")))
	if n, err := sandbox.Read(b); err != nil || n < 28 || b[9] != 1 || b[20] != 3 || b[21] != 3 {
		t.Errorf("not port unreachable: %x, %v", b[:max(n, 0)], err)
	}
	send(t, sandbox, packet(inside6, public6, protoUDP, datagram(5000, 9, "x")))
	if n, err := sandbox.Read(b); err != nil || n < 48 || b[6] != 58 || b[40] != 1 || b[41] != 4 {
		t.Errorf("not port unreachable: %x, %v", b[:max(n, 0)], err)
	}
	for port := range 2000 {
		send(t, sandbox, packet(inside4, public4, protoUDP, datagram(uint16(6000+port), 9, "x")))
		if port%50 == 0 {
			drain(sandbox)
		}
	}
	if n := dials.Load(); n > maxUDP {
		t.Errorf("%d flows", n)
	}
}

// drain takes what the stack has to say.
func drain(f *os.File) {
	b := make([]byte, 2000)
	_ = f.SetReadDeadline(time.Now())
	for {
		if _, err := f.Read(b); err != nil {
			_ = f.SetReadDeadline(time.Time{})
			return
		}
	}
}

// FuzzPackets sends what a sandbox could send: bytes as they are, and with the
// addresses and sums that let them come further.
func FuzzPackets(f *testing.F) {
	for _, to := range []netip.Addr{public4, public6} {
		from := inside4
		if to.Is6() {
			from = inside6
		}
		for _, flags := range []byte{syn, syn | ack, ack, fin | ack, rst, 0xff, 0} {
			f.Add(packet(from, to, protoTCP, segment(1000, 80, flags)))
		}
		options := segment(1000, 80, syn)
		options[12] = 8 << 4
		f.Add(packet(from, to, protoTCP, append(options, 2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1)))
		f.Add(packet(from, to, protoUDP, datagram(1000, 53, "\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04good\x07example\x00\x00\x01\x00\x01")))
		f.Add(packet(from, to, protoUDP, datagram(1000, 9, "x")))
	}
	f.Add(packet(inside6, public6, protoFragment, append([]byte{protoUDP, 0, 0, 1, 0, 0, 0, 1}, datagram(1, 2, "x")...)))
	more := packet(inside4, public4, protoUDP, datagram(1, 2, "first half"))
	more[6] = 0x20 // more fragments
	f.Add(mend(more))
	g := egress.New(egress.Config{All: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		a, b := net.Pipe()
		go func() { _, _ = io.Copy(b, b); b.Close() }()
		return a, nil
	}})
	sandbox, end := carried(f, g)
	f.Cleanup(end)
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > conf.MTU {
			return
		}
		if len(b) > 0 {
			send(t, sandbox, b)
		}
		switch c := slices.Clone(b); {
		case len(c) >= 20 && c[0]>>4 == 4:
			c[0] = 0x45
			copy(c[12:], inside4.AsSlice())
			send(t, sandbox, mend(c))
		case len(c) >= 40 && c[0]>>4 == 6:
			copy(c[8:], inside6.AsSlice())
			send(t, sandbox, mend(c))
		}
		drain(sandbox)
	})
}
