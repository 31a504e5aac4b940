package netstack

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"gvisor.dev/gvisor/pkg/tcpip"
	"gvisor.dev/gvisor/pkg/tcpip/adapters/gonet"
	"gvisor.dev/gvisor/pkg/tcpip/transport/tcp"
	"gvisor.dev/gvisor/pkg/tcpip/transport/udp"
	"gvisor.dev/gvisor/pkg/waiter"

	"assay/internal/egress"
)

const namePort = 53

// take is a slot of a bound, or none.
func take(slots chan struct{}) bool {
	select {
	case slots <- struct{}{}:
		return true
	default:
		return false
	}
}

// serveTCP decides about a connection before the sandbox hears of it. The stack
// calls it in a goroutine of its own.
func (n *network) serveTCP(r *tcp.ForwarderRequest) {
	if !n.enter() {
		r.Complete(false)
		return
	}
	defer n.work.Done()
	if !n.fresh.Allow() {
		r.Complete(false) // it will ask again
		return
	}
	if !take(n.tcps) {
		r.Complete(true)
		return
	}
	defer func() { <-n.tcps }()
	t := target(r.ID())
	if t.Port == namePort {
		if inside, ep := open(r); inside != nil {
			n.gate.NamesTCP(n.ctx, inside)
			n.finish(ep)
		}
		return
	}
	out, err := n.gate.Connect(n.ctx, egress.ViaTCP, t)
	if err != nil {
		r.Complete(true)
		return
	}
	inside, ep := open(r)
	if inside == nil {
		out.Close()
		return
	}
	out.Join(n.ctx, inside)
	n.finish(ep)
}

// open completes the handshake; nil: the sandbox did not.
func open(r *tcp.ForwarderRequest) (net.Conn, tcpip.Endpoint) {
	var q waiter.Queue
	ep, err := r.CreateEndpoint(&q)
	r.Complete(err != nil)
	if err != nil {
		return nil, nil
	}
	return gonet.NewTCPConn(&q, ep), ep
}

// finish holds a closed connection's slot until the sandbox has taken its last
// bytes, and breaks it off if it never does: its bytes are memory of this
// process's.
func (n *network) finish(ep tcpip.Endpoint) {
	defer ep.Abort()
	end := time.Now().Add(lingerTime)
	for wait := time.Millisecond; time.Now().Before(end); wait = min(2*wait, time.Second) {
		switch tcp.EndpointState(ep.State()) {
		case tcp.StateTimeWait, tcp.StateClose, tcp.StateError:
			return
		}
		select {
		case <-n.ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// serveUDP decides about the first packet of a flow, on the goroutine that
// reads packets. False is answered with "port unreachable".
func (n *network) serveUDP(r *udp.ForwarderRequest) bool {
	t := target(r.ID())
	if t.Port == 0 || !n.enter() {
		return true
	}
	if !n.fresh.Allow() || !take(n.udps) {
		n.work.Done()
		return true // lost, as packets are
	}
	done := func() { <-n.udps; n.work.Done() }
	if t.Port == namePort {
		inside := openUDP(r)
		if inside == nil {
			done()
			return false
		}
		_ = inside.SetReadDeadline(time.Now().Add(nameIdle)) // then the next question makes a new flow
		go func() {
			defer done()
			n.gate.Names(n.ctx, inside)
		}()
		return true
	}
	out, err := n.gate.Connect(n.ctx, egress.ViaUDP, t)
	if err != nil {
		done()
		return false
	}
	inside := openUDP(r)
	if inside == nil {
		out.Close()
		done()
		return false
	}
	go func() {
		defer done()
		n.joinUDP(out, inside)
	}()
	return true
}

func openUDP(r *udp.ForwarderRequest) *gonet.UDPConn {
	var q waiter.Queue
	ep, err := r.CreateEndpoint(&q)
	if err != nil {
		return nil
	}
	return gonet.NewUDPConn(&q, ep)
}

// joinUDP moves packets until neither side had one for a while. It closes both.
func (n *network) joinUDP(out *egress.Conn, inside net.Conn) {
	var both sync.WaitGroup
	var once sync.Once
	stop := func() { once.Do(func() { inside.Close(); out.Close() }) }
	idle := time.AfterFunc(udpIdle, stop)
	move := func(to io.Writer, from io.Reader) {
		defer stop()
		b := make([]byte, 64<<10)
		for {
			size, err := from.Read(b)
			if err != nil {
				return
			}
			idle.Reset(udpIdle)
			if _, err := to.Write(b[:size]); errors.Is(err, net.ErrClosed) || errors.Is(err, egress.ErrCut) {
				return // any other error lost one packet
			}
		}
	}
	defer context.AfterFunc(n.ctx, stop)()
	both.Go(func() { move(out, inside) })
	both.Go(func() { move(inside, out) })
	both.Wait()
	idle.Stop()
}
