package netstack

import (
	"encoding/binary"
	"net/netip"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
)

const (
	protoTCP      = 6
	protoUDP      = 17
	protoFragment = 44 // of IPv6
)

// accept reports whether the stack may see a packet, and of which protocol it is.
func (n *network) accept(b []byte) (tcpip.NetworkProtocolNumber, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var from, to netip.Addr
	var next byte
	var protocol tcpip.NetworkProtocolNumber
	switch b[0] >> 4 {
	case 4:
		if len(b) < 20 || b[0] != 0x45 || int(binary.BigEndian.Uint16(b[2:])) > len(b) { // options: nobody needs them
			return 0, false
		}
		from, to, next, protocol = netip.AddrFrom4([4]byte(b[12:])), netip.AddrFrom4([4]byte(b[16:])), b[9], ipv4.ProtocolNumber
	case 6:
		if len(b) < 40 {
			return 0, false
		}
		from, to, next, protocol = netip.AddrFrom16([16]byte(b[8:])), netip.AddrFrom16([16]byte(b[24:])), b[6], ipv6.ProtocolNumber
		if next == protoFragment && len(b) >= 48 {
			next = b[40]
		}
		if to.Is4In6() {
			return 0, false
		}
	}
	if next != protoTCP && next != protoUDP || !n.from[from] {
		return 0, false
	}
	if n.from[to] || to.IsUnspecified() || to.IsMulticast() || to.IsLoopback() || to == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return 0, false
	}
	return protocol, true
}
