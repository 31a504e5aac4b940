package sandbox

import (
	"context"
	"io"
	"net"
	"strconv"
)

// Egress is the host's side of a sandbox's way out: it decides, connects and
// keeps the ledger. A backend only carries bytes to it. What leaves a sandbox
// leaves through its Egress alone, so that one gate holds every rule.
// Its methods are called concurrently. Package egress implements it.
type Egress interface {
	// Proxy serves one connection that a program made to [ProxyPort]. It owns c.
	Proxy(ctx context.Context, c net.Conn)
	// Names answers the DNS questions that come in on c, a socket of the
	// sandbox's loopback, until ctx ends. It owns c.
	Names(ctx context.Context, c net.PacketConn)
	// Carry moves IP packets until ctx ends or link breaks: one packet is one
	// Read or Write. It owns link.
	Carry(ctx context.Context, link io.ReadWriteCloser) error
	// Carries reports whether Carry does so, and not merely refuses. NetFull
	// needs it; a backend gives NetAllowlist an interface, beside the proxy, if
	// it is so and the machine has one to give.
	Carries() bool
}

// Outlet is implemented by sandboxes that know how their network is led out.
type Outlet interface {
	// Outlet is "proxy", "interface", or both with a "+" between; empty: none.
	Outlet() string
}

// ProxyPort is where programs find the proxy of NetAllowlist, on the loopback
// of their sandbox.
const ProxyPort = 3128

// ProxyEnv is what a backend puts into the environment of every command in a
// sandbox with NetAllowlist, before the command's own.
func ProxyEnv() []string {
	url := "http://127.0.0.1:" + strconv.Itoa(ProxyPort)
	const direct = "localhost,127.0.0.1,::1"
	return []string{
		"http_proxy=" + url, "https_proxy=" + url, "all_proxy=" + url, "no_proxy=" + direct,
		"HTTP_PROXY=" + url, "HTTPS_PROXY=" + url, "ALL_PROXY=" + url, "NO_PROXY=" + direct,
	}
}

// Addresses of a sandbox with an interface: its own, and the next hop, which answers
// nothing itself. They lie in the range for benchmarks (RFC 2544) and in a
// private one made at random (RFC 4193), so that no real host is hidden by them.
// Packets are as large as they may be: the way has no length, and five times as
// much gets through as with packets of 1,500 bytes.
const (
	LinkAddr4 = "198.18.0.2/30"
	LinkHop4  = "198.18.0.1"
	LinkAddr6 = "fd61:7373:6179::2/126"
	LinkHop6  = "fd61:7373:6179::1"
	LinkMTU   = 65520
)
