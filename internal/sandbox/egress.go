package sandbox

import (
	"context"
	"io"
	"net"
	"net/netip"
	"strconv"
)

// Egress is the host's side of a sandbox's way out: it decides, connects and
// keeps the ledger. A backend only carries bytes to it. What leaves a sandbox
// leaves through its Egress alone, so that one gate holds every rule.
// Its methods are called concurrently. Package egress implements it.
type Egress interface {
	// Proxy serves one connection that a program made to [ProxyPort]. It owns c.
	Proxy(ctx context.Context, c net.Conn)
	// Lookup answers the DNS inside. An error that is a *net.DNSError with
	// IsNotFound, or no address, becomes NXDOMAIN; any other one SERVFAIL.
	Lookup(ctx context.Context, name string) ([]netip.Addr, error)
	// Carry moves IP packets until ctx ends or link breaks: one packet is one
	// Read or Write. Only for NetFull. It owns link.
	Carry(ctx context.Context, link io.ReadWriteCloser) error
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

// Addresses of a sandbox with NetFull: its own, and the next hop, which answers
// nothing itself. They lie in the range for benchmarks (RFC 2544) and in a
// private one made at random (RFC 4193), so that no real host is hidden by them.
const (
	LinkAddr4 = "198.18.0.2/30"
	LinkHop4  = "198.18.0.1"
	LinkAddr6 = "fd61:7373:6179::2/126"
	LinkHop6  = "fd61:7373:6179::1"
	LinkMTU   = 1500
)
