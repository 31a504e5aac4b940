package egress

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Bounds of what one sandbox's questions cost this machine.
const (
	maxQuestion  = 4096 // bytes; a question with options is far smaller
	maxQuestions = 32   // that are being looked up at once; more are left out, and asked again
	maxAnswers   = 16   // so that an answer fits into 512 bytes
	answerAge    = 30 * time.Second
	maxAnswered  = 1024
)

// Names answers the questions that come in on c until ctx ends or c breaks.
func (g *Gate) Names(ctx context.Context, c net.PacketConn) {
	defer c.Close()
	if !g.enter() {
		return
	}
	defer g.open.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	var asked sync.WaitGroup
	defer asked.Wait()
	b := make([]byte, maxQuestion)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		q := append([]byte(nil), b[:n]...)
		select {
		case g.questions <- struct{}{}:
		default:
			continue
		}
		asked.Go(func() {
			defer func() { <-g.questions }()
			if out := g.Answer(ctx, q); out != nil {
				_, _ = c.WriteTo(out, from) // who asked may be gone
			}
		})
	}
}

// NamesTCP answers the questions of one connection (RFC 1035, 4.2.2), one after
// the other. It owns c.
func (g *Gate) NamesTCP(ctx context.Context, c net.Conn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	for {
		_ = c.SetDeadline(time.Now().Add(g.conf.Caps.Header))
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, q); err != nil || len(q) > maxQuestion {
			return
		}
		out := g.Answer(ctx, q)
		if out == nil {
			return
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(out))), out...)); err != nil {
			return
		}
	}
}

// Answer is the answer to one question: addresses for names that the rules
// allow, at once that there is no such name for all others. Names that are
// allowed have nothing but addresses here. It is nil for what is no question.
func (g *Gate) Answer(ctx context.Context, question []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(question)
	if err != nil || h.Response {
		return nil
	}
	head := dnsmessage.Header{ID: h.ID, Response: true, OpCode: h.OpCode, RecursionDesired: h.RecursionDesired, RecursionAvailable: true}
	qs, err := p.AllQuestions()
	if err != nil || len(qs) != 1 || h.OpCode != 0 || qs[0].Class != dnsmessage.ClassINET {
		head.RCode = dnsmessage.RCodeNotImplemented
		return pack(head, nil, nil)
	}
	q := qs[0]
	addrs, err := g.resolve(ctx, strings.TrimSuffix(q.Name.String(), "."), q.Type)
	switch {
	case notFound(err):
		head.RCode = dnsmessage.RCodeNameError
	case err != nil:
		head.RCode = dnsmessage.RCodeServerFailure
	}
	return pack(head, &q, addrs)
}

func pack(head dnsmessage.Header, q *dnsmessage.Question, addrs []netip.Addr) []byte {
	b := dnsmessage.NewBuilder(make([]byte, 0, 512), head)
	b.EnableCompression()
	err := b.StartQuestions()
	if q != nil {
		err = errors.Join(err, b.Question(*q))
	}
	err = errors.Join(err, b.StartAnswers())
	if q != nil {
		rr := dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class, TTL: uint32(answerAge / time.Second)}
		n := 0
		for _, a := range addrs {
			if n == maxAnswers || a.Is4() != (q.Type == dnsmessage.TypeA) {
				continue
			}
			if n++; a.Is4() {
				err = errors.Join(err, b.AResource(rr, dnsmessage.AResource{A: a.As4()}))
			} else if n <= maxAnswers/2 {
				err = errors.Join(err, b.AAAAResource(rr, dnsmessage.AAAAResource{AAAA: a.As16()}))
			}
		}
	}
	out, ferr := b.Finish()
	if err != nil || ferr != nil {
		return nil
	}
	return out
}

// resolve is Lookup with a memory: programs ask for both kinds of addresses at
// once, and again for every connection.
func (g *Gate) resolve(ctx context.Context, name string, kind dnsmessage.Type) ([]netip.Addr, error) {
	if lower := strings.ToLower(name); lower == "localhost" || strings.HasSuffix(lower, ".localhost") { // RFC 6761
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	if kind != dnsmessage.TypeA && kind != dnsmessage.TypeAAAA {
		if host, err := hostName(strings.ToLower(name)); err != nil || len(g.policy.Load().naming(host)) == 0 {
			return nil, &net.DNSError{Err: "no such host", Name: clip(name), IsNotFound: true}
		}
		return nil, nil
	}
	return g.answers.get(name, g.policy.Load(), func() ([]netip.Addr, error) { return g.Lookup(ctx, name) })
}

// answers remembers lookups for as long as programs are told that they hold.
type answers struct {
	mu sync.Mutex
	by map[string]*answer
}

type answer struct {
	policy *policy // under which it was given
	until  time.Time
	done   chan struct{}
	addrs  []netip.Addr
	err    error
}

func (m *answers) get(name string, p *policy, look func() ([]netip.Addr, error)) ([]netip.Addr, error) {
	m.mu.Lock()
	a := m.by[name]
	if a != nil && a.policy == p && time.Now().Before(a.until) {
		m.mu.Unlock()
		<-a.done
		return a.addrs, a.err
	}
	if m.by == nil || len(m.by) >= maxAnswered {
		m.by = map[string]*answer{}
	}
	a = &answer{policy: p, until: time.Now().Add(answerAge), done: make(chan struct{})}
	m.by[name] = a
	m.mu.Unlock()
	defer close(a.done)
	a.addrs, a.err = look()
	if a.err != nil && !notFound(a.err) {
		m.mu.Lock()
		if m.by[name] == a {
			delete(m.by, name) // it may be found the next time
		}
		m.mu.Unlock()
	}
	return a.addrs, a.err
}
