package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Conn is an allowed connection. Close writes it into the ledger.
type Conn struct {
	net.Conn
	g        *Gate
	sent     atomic.Int64
	received atomic.Int64
	last     atomic.Int64 // when a byte moved, in Unix nanoseconds
	entry    Entry
	stop     func() bool
	once     sync.Once
	cut      atomic.Bool
	target   Target
	shut     atomic.Bool // by new rules
	silent   bool        // counted by its requests, not as a connection
}

// ErrCut ends connections of a sandbox that has moved all the bytes it may.
var ErrCut = errors.New("the sandbox has used up its bytes")

// Connect opens a connection to a target, or says why not; both are written
// down. The error of a refusal is a *RefusedError.
func (g *Gate) Connect(ctx context.Context, via Via, t Target) (*Conn, error) {
	return g.connect(ctx, via, t, false)
}

func (g *Gate) connect(ctx context.Context, via Via, t Target, silent bool) (*Conn, error) {
	if !g.enter() {
		return nil, net.ErrClosed
	}
	t = g.pins.meaning(t)
	e := Entry{Begin: time.Now().UTC(), Phase: g.policy.Load().phase, Via: via, Host: clip(t.host()), Port: t.Port, Verdict: Refused}
	if t.Name == "" {
		if names := g.pins.names(t.Addr); len(names) > 0 {
			e.Name = names[0]
		}
	}
	fail := func(err error) (*Conn, error) {
		e.Why = err.Error()
		var r *RefusedError
		if !errors.As(err, &r) {
			e.Verdict = Allowed
		}
		if !silent {
			g.ledger.add(e)
		}
		g.open.Done()
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, g.conf.Caps.Connect)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	if err := g.slot(ctx); err != nil {
		return fail(err)
	}
	c, err := g.dial(ctx, via, t, &e)
	if err != nil {
		<-g.conns
		return fail(err)
	}
	e.Verdict = Allowed
	out := &Conn{Conn: c, g: g, entry: e, silent: silent, target: t}
	out.begin()
	return out, nil
}

// slot waits until the sandbox may have one more connection, beside as many
// others that wait.
func (g *Gate) slot(ctx context.Context) error {
	busy := &RefusedError{Why: fmt.Sprintf("more than %d connections at once", g.conf.Caps.Conns), Busy: true}
	select {
	case g.conns <- struct{}{}:
		return nil
	default:
	}
	select {
	case g.queue <- struct{}{}:
		defer func() { <-g.queue }()
	default:
		return busy
	}
	select {
	case g.conns <- struct{}{}:
		return nil
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return busy
		}
		return ctx.Err()
	}
}

// begin makes it one of the gate's connections. New rules that came while it was
// being made hold for it as well.
func (c *Conn) begin() {
	c.last.Store(time.Now().UnixNano())
	c.stop = context.AfterFunc(c.g.ctx, func() { c.Conn.Close() })
	c.g.mu.Lock()
	c.g.live[c] = true
	c.g.mu.Unlock()
	c.judgeAgain()
}

// judgeAgain ends it if the rules of now do not allow it.
func (c *Conn) judgeAgain() {
	if c.g.permits(c.target) != nil {
		c.shut.Store(true)
		c.Conn.Close()
	}
}

func (g *Gate) dial(ctx context.Context, via Via, t Target, e *Entry) (net.Conn, error) {
	if g.bytes.Load() >= g.conf.Caps.Bytes {
		return nil, refusal("%v", ErrCut)
	}
	r, err := g.decide(ctx, t, via != ViaHTTP)
	e.Rule = r.rule
	if err != nil {
		return nil, err
	}
	if r.upstream != nil && via != ViaUDP {
		e.Upstream = r.upstream.host
		if t.Name == "" { // a proxy may know no route to an address, but to its name
			if names := g.pins.names(t.Addr); len(names) > 0 {
				t = Target{Name: names[0], Port: t.Port}
			}
		}
		return r.upstream.connect(ctx, g.conf.Dial, t)
	}
	if len(r.addrs) == 0 {
		return nil, refusal("only the upstream proxy knows %s, and it carries no UDP", t.host())
	}
	network := "tcp"
	if via == ViaUDP {
		network = "udp"
	}
	return g.dialFirst(ctx, network, r.addrs, t.Port, e)
}

// upstreamConn opens a connection to an upstream proxy itself, for requests that
// it is to forward.
func (g *Gate) upstreamConn(ctx context.Context, up *proxyURL, t Target) (*Conn, error) {
	if !g.enter() {
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(ctx, g.conf.Caps.Connect)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	if err := g.slot(ctx); err != nil {
		g.open.Done()
		return nil, err
	}
	c, err := g.conf.Dial(ctx, "tcp", up.host)
	if err != nil {
		<-g.conns
		g.open.Done()
		return nil, fmt.Errorf("upstream proxy: %w", err)
	}
	out := &Conn{Conn: c, g: g, entry: Entry{Upstream: up.host}, silent: true, target: t}
	out.begin()
	return out, nil
}

// dialFirst tries the judged addresses in turn, each with its share of the time.
func (g *Gate) dialFirst(ctx context.Context, network string, addrs []netip.Addr, port uint16, e *Entry) (net.Conn, error) {
	end, _ := ctx.Deadline()
	var errs []error
	for i, a := range addrs {
		share := time.Until(end) / time.Duration(len(addrs)-i)
		try, cancel := context.WithTimeout(ctx, share)
		at := netip.AddrPortFrom(a, port).String()
		c, err := g.conf.Dial(try, network, at)
		cancel()
		if err == nil {
			e.Addr = at
			return c, nil
		}
		if errs = append(errs, err); len(errs) == 4 || ctx.Err() != nil {
			break
		}
	}
	return nil, fmt.Errorf("connect: %w", errors.Join(errs...))
}

// Read counts what the sandbox receives.
func (c *Conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return c.count(&c.received, n, err)
}

// Write counts what the sandbox sends.
func (c *Conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return c.count(&c.sent, n, err)
}

func (c *Conn) count(to *atomic.Int64, n int, err error) (int, error) {
	if n > 0 {
		to.Add(int64(n))
		c.last.Store(time.Now().UnixNano())
		if c.g.bytes.Add(int64(n)) > c.g.conf.Caps.Bytes {
			c.cut.Store(true)
			return n, ErrCut
		}
	}
	return n, err
}

// CloseWrite ends what the sandbox sends.
func (c *Conn) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return nil
}

// Close ends the connection and writes it into the ledger, once.
func (c *Conn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() {
		c.stop()
		c.entry.Sent, c.entry.Received = c.sent.Load(), c.received.Load()
		c.g.mu.Lock()
		delete(c.g.live, c)
		c.g.mu.Unlock()
		if c.cut.Load() {
			c.entry.Why = ErrCut.Error()
		} else if c.shut.Load() {
			c.entry.Why = "the rules do not allow it any more"
		}
		if !c.silent {
			c.g.ledger.add(c.entry)
		}
		<-c.g.conns
		c.g.open.Done()
	})
	return err
}

// Join moves bytes between a program's connection and an allowed one until both
// directions have ended, nothing moved for the idle time (once the program has
// said all it will, for a tenth of it), or ctx ends. It closes both.
func (c *Conn) Join(ctx context.Context, inside net.Conn) {
	defer inside.Close()
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { inside.Close(); c.Conn.Close() })
	defer stop()
	idle := c.g.conf.Caps.Idle
	done, ended := make(chan struct{}), make(chan struct{})
	half := ended
	var both, watch sync.WaitGroup
	watch.Go(func() {
		for wait := idle; ; {
			select {
			case <-done:
				return
			case <-half:
				// Of a program that is gone only an answer is still to come.
				half, idle = nil, idle/10
			case <-time.After(wait):
			}
			if wait = idle - time.Since(time.Unix(0, c.last.Load())); wait <= 0 {
				inside.Close()
				c.Conn.Close()
				return
			}
		}
	})
	both.Go(func() { move(c, inside); close(ended) })
	both.Go(func() { move(inside, c) })
	both.Wait()
	close(done)
	watch.Wait()
}

// move copies one direction and passes its end on; a broken one breaks both.
func move(to, from net.Conn) {
	_, err := io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
	if h, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = h.CloseWrite() // the other side is gone
		return
	}
	to.Close()
	from.Close()
}

// hostPort is a target as protocols write it.
func (t Target) hostPort() string { return net.JoinHostPort(t.host(), strconv.Itoa(int(t.Port))) }
