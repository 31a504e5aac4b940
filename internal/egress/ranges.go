package egress

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// class says what kind of address a sandbox asks for.
type class byte

const (
	classInvalid  class = iota
	classPublic         // of the internet at large
	classPrivate        // of somebody's own network
	classLoopback       // the machine itself, its own addresses included
	classReserved       // documentation, benchmarks, reserved: nobody's, so that somebody's own network may use it
	classSpecial        // link-local, cloud metadata, transition
	classNever          // no address of one host: unspecified, multicast, broadcast
)

func (c class) String() string {
	switch c {
	case classPublic:
		return "public"
	case classPrivate:
		return "private"
	case classLoopback:
		return "an address of this machine"
	case classReserved:
		return "reserved"
	case classSpecial:
		return "link-local, metadata or of a transition"
	case classNever:
		return "not the address of one host"
	}
	return "invalid"
}

type special struct {
	prefix netip.Prefix
	class  class
}

// specials are the ranges of IANA's special-purpose registries (RFC 6890 and
// its updates) that are not globally reachable, and the addresses at which
// clouds answer with credentials. The first match counts.
func specials() []special {
	p := netip.MustParsePrefix
	return []special{
		{p("168.63.129.16/32"), classSpecial},   // Azure's WireServer, in a public range
		{p("100.100.100.200/32"), classSpecial}, // Alibaba's metadata, in the shared range
		{p("fd00:ec2::254/128"), classSpecial},  // Amazon's metadata
		{p("fd20:ce::254/128"), classSpecial},   // Google's metadata

		{p("0.0.0.0/32"), classNever},
		{p("0.0.0.0/8"), classSpecial},
		{p("10.0.0.0/8"), classPrivate},
		{p("100.64.0.0/10"), classPrivate},
		{p("127.0.0.0/8"), classLoopback},
		{p("169.254.0.0/16"), classSpecial},
		{p("172.16.0.0/12"), classPrivate},
		{p("192.0.0.0/24"), classSpecial},
		{p("192.0.2.0/24"), classReserved},
		{p("192.88.99.0/24"), classSpecial},
		{p("192.168.0.0/16"), classPrivate},
		{p("198.18.0.0/15"), classReserved},
		{p("198.51.100.0/24"), classReserved},
		{p("203.0.113.0/24"), classReserved},
		{p("224.0.0.0/4"), classNever},
		{p("255.255.255.255/32"), classNever},
		{p("240.0.0.0/4"), classReserved},

		{p("::/128"), classNever},
		{p("::1/128"), classLoopback},
		{p("fc00::/7"), classPrivate},
		{p("fec0::/10"), classPrivate},
		{p("fe80::/10"), classSpecial},
		{p("ff00::/8"), classNever},
		{p("2001::/23"), classSpecial}, // Teredo, ORCHID, benchmarks
		{p("2001:db8::/32"), classReserved},
		{p("2002::/16"), classSpecial}, // 6to4: another address inside
		{p("3fff::/20"), classReserved},
		{p("2000::/3"), classPublic}, // all the rest of IPv6 that was ever given out
		{p("::/0"), classSpecial},
	}
}

// ranges classifies addresses, the machine's own among them.
type ranges struct {
	table []special

	mu   sync.Mutex
	own  map[netip.Addr]bool
	read time.Time
}

func newRanges() *ranges { return &ranges{table: specials()} }

// ownAge is how old the list of the machine's addresses may be.
const ownAge = 5 * time.Second

// class of an address, and the range that made it special; the zero prefix for
// a public one.
func (r *ranges) class(a netip.Addr) (class, netip.Prefix) {
	if !a.IsValid() || a.Zone() != "" {
		return classInvalid, netip.Prefix{}
	}
	a = embedded(a)
	for _, s := range r.table {
		if !s.prefix.Contains(a) {
			continue
		}
		if s.class == classPublic {
			break
		}
		if s.class == classPrivate && r.isOwn(a) {
			return classLoopback, netip.PrefixFrom(a, a.BitLen())
		}
		if s.prefix.Bits() == 0 {
			return s.class, netip.PrefixFrom(a, a.BitLen()) // only itself names it
		}
		return s.class, s.prefix
	}
	if r.isOwn(a) {
		return classLoopback, netip.PrefixFrom(a, a.BitLen())
	}
	return classPublic, netip.Prefix{}
}

// embedded is the IPv4 address that an IPv6 address leads to (RFC 4291, 6052).
func embedded(a netip.Addr) netip.Addr {
	a = a.Unmap()
	if !a.Is6() {
		return a
	}
	b := a.As16()
	if netip.PrefixFrom(netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b}), 96).Contains(a) {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return a
}

// isOwn reports whether an interface of this machine has the address: what is
// sent there never leaves it, and meets services that no firewall covers.
func (r *ranges) isOwn(a netip.Addr) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.own == nil || time.Since(r.read) > ownAge {
		r.own, r.read = map[netip.Addr]bool{}, time.Now()
		addrs, err := net.InterfaceAddrs()
		if err != nil {
			return false // a system that does not tell has its loopback in the table
		}
		for _, x := range addrs {
			if n, ok := x.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					r.own[ip.Unmap()] = true
				}
			}
		}
	}
	return r.own[a]
}
