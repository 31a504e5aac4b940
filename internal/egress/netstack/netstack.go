// Package netstack ends the TCP and UDP of a sandbox's interface on the host, in
// user space, so that a gate decides about every connection: the user-mode
// network of a sandbox. It never opens a connection itself, gives no packet of
// a sandbox to the host's network, and answers nothing by itself but questions
// for names.
//
// Packets come from programs that may send anything. What is not TCP or UDP
// from the sandbox's own address is dropped before the stack sees it (package
// gvisor.dev/gvisor/pkg/tcpip), and so are IP options, source routes, and
// targets that are no single host. Connections, half-open ones, flows of UDP,
// new ones per second and the bytes that wait for somebody are bounded.
//
// A refused or failed connection is reset, a refused flow of UDP is answered
// with "port unreachable", so that programs learn of it at once. Questions for
// names (port 53) are answered by the gate, whatever server they were sent to.
package netstack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
	"gvisor.dev/gvisor/pkg/buffer"
	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/header"
	"gvisor.dev/gvisor/pkg/tcpip/link/channel"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv4"
	"gvisor.dev/gvisor/pkg/tcpip/network/ipv6"
	"gvisor.dev/gvisor/pkg/tcpip/stack"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"

	"assay/internal/egress"
)

// Config says what the interface is like.
type Config struct {
	Inside []netip.Addr // the sandbox's own, at most one of IPv4 and one of IPv6
	MTU    int
}

// Bounds of one sandbox. What a connection may hold in memory is what waits in
// its two buffers: with an interface in between that loses nothing and has no
// length, small ones are as fast as large ones.
const (
	maxInFlight = 64  // connections that are being opened
	maxTCP      = 384 // that are open, or that wait for the sandbox to take its last bytes
	maxUDP      = 128 // flows
	maxNew      = 500 // connections and flows per second, once as many were opened in a burst
	tcpBuffer   = 128 << 10
	udpBuffer   = 64 << 10

	udpIdle    = 60 * time.Second // without a packet in either direction
	nameIdle   = 2 * time.Second  // that a socket goes on asking for names as one flow
	lingerTime = 2 * time.Minute  // for a sandbox to take the last bytes of a connection that has ended
	nicID      = 1
)

// network is one interface that is being served.
type network struct {
	ctx   context.Context // ends with Link; what handlers of the stack get no other way
	gate  *egress.Gate
	stack *stack.Stack
	from  map[netip.Addr]bool
	fresh *rate.Limiter
	tcps  chan struct{}
	udps  chan struct{}

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

// Link serves link for a gate until ctx ends or link breaks. It owns link.
func (c Config) Link(ctx context.Context, g *egress.Gate, link io.ReadWriteCloser) error {
	defer link.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n := &network{ctx: ctx, gate: g, from: map[netip.Addr]bool{}, fresh: rate.NewLimiter(maxNew, maxNew),
		tcps: make(chan struct{}, maxTCP), udps: make(chan struct{}, maxUDP)}
	for _, a := range c.Inside {
		n.from[a] = true
	}
	device := &device{Endpoint: channel.New(0, uint32(c.MTU), ""), to: link}
	if err := n.open(device); err != nil {
		return fmt.Errorf("network in user space: %w", err)
	}
	defer context.AfterFunc(ctx, func() { link.Close() })()
	err := n.read(link, device, c.MTU)
	cancel()
	n.close()
	if ctx.Err() != nil && errors.Is(err, io.ErrClosedPipe) {
		return nil
	}
	return err
}

func (n *network) open(d *device) error {
	n.stack = stack.New(stack.Options{
		NetworkProtocols:   []stack.NetworkProtocolFactory{ipv4.NewProtocol, ipv6.NewProtocol},
		TransportProtocols: []stack.TransportProtocolFactory{tcp.NewProtocol, udp.NewProtocol},
	})
	if err := n.configure(d); err != nil {
		n.stack.Destroy()
		return errors.New(err.String())
	}
	n.stack.SetTransportProtocolHandler(tcp.ProtocolNumber, tcp.NewForwarder(n.stack, tcpBuffer, maxInFlight, n.serveTCP).HandlePacket)
	n.stack.SetTransportProtocolHandler(udp.ProtocolNumber, udp.NewForwarder(n.stack, n.serveUDP).HandlePacket)
	return nil
}

// configure lets the stack take packets for every address, and answer from it.
func (n *network) configure(d *device) tcpip.Error {
	if err := n.stack.CreateNIC(nicID, d); err != nil {
		return err
	}
	if err := n.stack.SetPromiscuousMode(nicID, true); err != nil {
		return err
	}
	if err := n.stack.SetSpoofing(nicID, true); err != nil {
		return err
	}
	n.stack.SetRouteTable([]tcpip.Route{
		{Destination: header.IPv4EmptySubnet, NIC: nicID}, {Destination: header.IPv6EmptySubnet, NIC: nicID},
	})
	sack, moderate, retries := tcpip.TCPSACKEnabled(true), tcpip.TCPModerateReceiveBufferOption(false), tcpip.TCPSynRetriesOption(4)
	for _, o := range []tcpip.SettableTransportProtocolOption{
		&sack, &moderate, &retries,
		&tcpip.TCPReceiveBufferSizeRangeOption{Min: 4 << 10, Default: tcpBuffer, Max: tcpBuffer},
		&tcpip.TCPSendBufferSizeRangeOption{Min: 4 << 10, Default: tcpBuffer, Max: tcpBuffer},
	} {
		if err := n.stack.SetTransportProtocolOption(tcp.ProtocolNumber, o); err != nil {
			return err
		}
	}
	if err := n.stack.SetOption(tcpip.ReceiveBufferSizeOption{Min: 4 << 10, Default: udpBuffer, Max: udpBuffer}); err != nil {
		return err
	}
	return n.stack.SetOption(tcpip.SendBufferSizeOption{Min: 4 << 10, Default: udpBuffer, Max: udpBuffer})
}

// read gives the sandbox's packets to the stack until link ends.
func (n *network) read(link io.Reader, d *device, mtu int) error {
	b := make([]byte, mtu+4)
	for {
		size, err := link.Read(b)
		if err != nil {
			return err
		}
		p, ok := n.accept(b[:size])
		if !ok {
			continue
		}
		pkt := stack.NewPacketBuffer(stack.PacketBufferOptions{Payload: buffer.MakeWithData(b[:size])})
		d.InjectInbound(p, pkt)
		pkt.DecRef()
	}
}

// close ends every connection and waits for all of them. One that is being
// opened waits for the sandbox, which may be gone.
func (n *network) close() {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	done := make(chan struct{})
	go func() { n.work.Wait(); close(done) }()
	for again := time.Millisecond; ; again = min(2*again, 100*time.Millisecond) {
		for _, ep := range n.stack.RegisteredEndpoints() {
			ep.Abort()
		}
		select {
		case <-done:
			n.stack.Destroy()
			return
		case <-time.After(again):
		}
	}
}

// enter counts one piece of work that close waits for; false: it is too late.
func (n *network) enter() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed || n.ctx.Err() != nil {
		return false
	}
	n.work.Add(1)
	return true
}

// device writes packets where they belong at once: an interface takes them
// without waiting, and whatever it drops is sent again as on any network.
type device struct {
	*channel.Endpoint
	to io.Writer
}

// WritePackets implements stack.LinkEndpoint.
func (d *device) WritePackets(list stack.PacketBufferList) (int, tcpip.Error) {
	n := 0
	for _, pkt := range list.AsSlice() {
		v := pkt.ToView()
		_, _ = d.to.Write(v.AsSlice()) // a link that broke ends Link
		v.Release()
		n++
	}
	return n, nil
}

// target is where a flow of the sandbox wants to go.
func target(id stack.TransportEndpointID) egress.Target {
	a, _ := netip.AddrFromSlice(id.LocalAddress.AsSlice())
	return egress.Target{Addr: a.Unmap(), Port: id.LocalPort}
}
