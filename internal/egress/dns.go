package egress

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds of what one sandbox's questions cost this machine.
const (
	maxQuestion  = 4096 // bytes; a question with options is far smaller
	maxQuestions = 32   // that are being looked up at once; more are left out, and asked again
	maxAnswers   = 8    // so that an answer fits into 512 bytes
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

// Codes of RFC 1035 and 3596.
const (
	dnsHeader      = 12
	dnsServFail    = 2
	dnsNoSuchName  = 3
	dnsNotImpl     = 4
	dnsInternet    = 1 // a class
	dnsA           = 1
	dnsAAAA        = 28
	dnsNameAt      = 0xc000 | dnsHeader // the question's name, once more
	dnsResponse    = 0x8000
	dnsOperation   = 0x7800
	dnsAskedFor    = dnsOperation | 0x0100 // with "recursion desired": as in the question
	dnsRecursion   = 0x0080
	dnsMaxName     = 255
	dnsMaxLabel    = 63
	dnsSizeOfClass = 4 // and type
)

// Answer is the answer to one question: addresses for names that the rules
// allow, at once that there is no such name for all others. Names that are
// allowed have nothing but addresses here. It is nil for what is no question.
//
// It is written by hand because package dnsmessage, by its place in the order
// of initialisation, would make the start of every sandbox slower.
func (g *Gate) Answer(ctx context.Context, question []byte) []byte {
	be := binary.BigEndian
	if len(question) < dnsHeader || be.Uint16(question[2:])&dnsResponse != 0 {
		return nil
	}
	flags := be.Uint16(question[2:])&dnsAskedFor | dnsResponse | dnsRecursion
	out := append(make([]byte, 0, 512), question[:2]...)
	name, end := dnsName(question)
	switch {
	case be.Uint16(question[2:])&dnsOperation != 0 || be.Uint16(question[4:]) != 1:
		return append(be.AppendUint16(out, flags|dnsNotImpl), make([]byte, 8)...)
	case end < 0 || end+dnsSizeOfClass > len(question):
		return nil
	}
	kind, class := be.Uint16(question[end:]), be.Uint16(question[end+2:])
	var addrs []netip.Addr
	if class != dnsInternet {
		flags |= dnsNotImpl
	} else {
		var err error
		addrs, err = g.resolve(ctx, name, kind)
		if notFound(err) {
			flags |= dnsNoSuchName
		} else if err != nil {
			flags |= dnsServFail
		}
	}
	addrs = slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return a.Is4() != (kind == dnsA) })
	if len(addrs) > maxAnswers {
		addrs = addrs[:maxAnswers]
	}
	out = be.AppendUint16(out, flags)
	out = be.AppendUint16(out, 1)
	out = be.AppendUint16(out, uint16(len(addrs)))
	out = append(out, 0, 0, 0, 0)
	out = append(out, question[dnsHeader:end+dnsSizeOfClass]...)
	for _, a := range addrs {
		out = be.AppendUint16(out, dnsNameAt)
		out = be.AppendUint16(out, kind)
		out = be.AppendUint16(out, class)
		out = be.AppendUint32(out, uint32(answerAge/time.Second))
		out = be.AppendUint16(out, uint16(a.BitLen()/8))
		out = append(out, a.AsSlice()...)
	}
	return out
}

// dnsName reads the name of a question, and says where it ends; -1: it is none.
// A dot inside of a label makes it a name that no rule knows.
func dnsName(q []byte) (name string, end int) {
	var b strings.Builder
	for at := dnsHeader; at < len(q); {
		n := int(q[at])
		at++
		switch {
		case n == 0:
			return b.String(), at
		case n > dnsMaxLabel || at+n > len(q) || at+n-dnsHeader > dnsMaxName: // pointers have no place in a question
			return "", -1
		}
		if b.Len() > 0 {
			b.WriteByte('.')
		}
		for _, c := range q[at : at+n] {
			if c == '.' {
				c = '!'
			}
			b.WriteByte(c)
		}
		at += n
	}
	return "", -1
}

// resolve is Lookup with a memory: programs ask for both kinds of addresses at
// once, and again for every connection.
func (g *Gate) resolve(ctx context.Context, name string, kind uint16) ([]netip.Addr, error) {
	name = strings.ToLower(name)
	if name == "localhost" || strings.HasSuffix(name, ".localhost") { // RFC 6761
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}, nil
	}
	if kind != dnsA && kind != dnsAAAA {
		if host, err := hostName(name); err != nil || len(g.policy.Load().naming(host)) == 0 {
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
