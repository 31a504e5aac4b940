package egress

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// book is a resolver that counts.
type book struct {
	by    map[string][]netip.Addr
	asked atomic.Int64
}

func (b *book) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	b.asked.Add(1)
	switch host {
	case "broken.example.":
		return nil, errors.New("the resolver is broken")
	case "many.example.":
		var all []netip.Addr
		for i := range 40 {
			all = append(all, netip.AddrFrom4([4]byte{198, 41, 1, byte(i)}))
			all = append(all, netip.MustParseAddr(fmt.Sprintf("2620:fe::%x", i+1)))
		}
		return all, nil
	}
	if a := b.by[strings.TrimSuffix(host, ".")]; a != nil {
		return a, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

func newBook() *book {
	return &book{by: map[string][]netip.Addr{
		"good.example": {netip.MustParseAddr("198.41.0.4"), netip.MustParseAddr("2620:fe::fe")},
		"in.example":   {netip.MustParseAddr("10.0.0.1")},
	}}
}

func ask(t testing.TB, name string, kind dnsmessage.Type) []byte {
	t.Helper()
	m := dnsmessage.Message{Header: dnsmessage.Header{ID: 0x1234, RecursionDesired: true},
		Questions: []dnsmessage.Question{{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}}}
	b, err := m.Pack()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The answers, read by a parser that is not ours.
func TestAnswer(t *testing.T) {
	b := newBook()
	rules, err := ParseRules([]string{"good.example:443", "*.deep.example", "in.example", "broken.example", "many.example"}, true)
	if err != nil {
		t.Fatal(err)
	}
	g := New(Config{Rules: rules, Resolver: b})
	defer g.Close()
	for _, c := range []struct {
		name string
		kind dnsmessage.Type
		want string
	}{
		{"good.example.", dnsmessage.TypeA, "RCodeSuccess [198.41.0.4]"},
		{"GOOD.example.", dnsmessage.TypeAAAA, "RCodeSuccess [2620:fe::fe]"},
		{"good.example.", dnsmessage.TypeMX, "RCodeSuccess []"},
		{"bad.example.", dnsmessage.TypeA, "RCodeNameError []"},
		{"bad.example.", dnsmessage.TypeTXT, "RCodeNameError []"},
		{"x.deep.example.", dnsmessage.TypeA, "RCodeNameError []"},
		{"in.example.", dnsmessage.TypeA, "RCodeNameError []"},
		{"broken.example.", dnsmessage.TypeA, "RCodeServerFailure []"},
		{"LocalHost.", dnsmessage.TypeA, "RCodeSuccess [127.0.0.1]"},
		{"a.localhost.", dnsmessage.TypeAAAA, "RCodeSuccess [::1]"},
		{"0x7f.1.", dnsmessage.TypeA, "RCodeNameError []"},
		{"many.example.", dnsmessage.TypeA, "RCodeSuccess [198.41.1.0 198.41.1.1 198.41.1.2 198.41.1.3 198.41.1.4 198.41.1.5 198.41.1.6 198.41.1.7]"},
		{"many.example.", dnsmessage.TypeAAAA, "RCodeSuccess [2620:fe::1 2620:fe::2 2620:fe::3 2620:fe::4 2620:fe::5 2620:fe::6 2620:fe::7 2620:fe::8]"},
	} {
		out := g.Answer(t.Context(), ask(t, c.name, c.kind))
		var m dnsmessage.Message
		if err := m.Unpack(out); err != nil || len(out) > 512 {
			t.Fatalf("%s: %v, %d bytes", c.name, err, len(out))
		}
		var addrs []netip.Addr
		for _, a := range m.Answers {
			switch r := a.Body.(type) {
			case *dnsmessage.AResource:
				addrs = append(addrs, netip.AddrFrom4(r.A))
			case *dnsmessage.AAAAResource:
				addrs = append(addrs, netip.AddrFrom16(r.AAAA))
			}
			if a.Header.Name.String() != c.name || a.Header.TTL == 0 {
				t.Errorf("%s: %+v", c.name, a.Header)
			}
		}
		if got := fmt.Sprint(m.RCode, " ", addrs); got != c.want || m.ID != 0x1234 || !m.Response || !m.RecursionAvailable || m.Questions[0].Name.String() != c.name {
			t.Errorf("%s %v: %s, want %s; %+v", c.name, c.kind, got, c.want, m.Header)
		}
	}
	// Both kinds of addresses, again and again, cost one lookup; a refused name none.
	before := b.asked.Load()
	for range 2 {
		g.Answer(t.Context(), ask(t, "good.example.", dnsmessage.TypeA))
		g.Answer(t.Context(), ask(t, "good.example.", dnsmessage.TypeAAAA))
		g.Answer(t.Context(), ask(t, "secret.bad.example.", dnsmessage.TypeA))
	}
	if n := b.asked.Load() - before; n != 0 || before != 5 { // one for each allowed name, and a second for what failed
		t.Errorf("%d lookups, then %d", before, n)
	}
	g.Allow("verifier", nil, false)
	if out := g.Answer(t.Context(), ask(t, "good.example.", dnsmessage.TypeA)); out[3]&15 != dnsNoSuchName {
		t.Error("a remembered answer outlives its rule")
	}
	many := ask(t, "good.example.", dnsmessage.TypeA)
	many[5] = 2
	if out := g.Answer(t.Context(), many); len(out) != dnsHeader || out[3]&15 != dnsNotImpl {
		t.Errorf("two questions: %x", out)
	}
	for _, bad := range [][]byte{nil, {1}, make([]byte, dnsHeader), append(ask(t, "a.", dnsmessage.TypeA)[:dnsHeader+1], 0xc0, dnsHeader)} {
		if out := g.Answer(t.Context(), bad); out != nil && len(out) != dnsHeader {
			t.Errorf("%x: %x", bad, out)
		}
	}
}

// A label with a dot in it is not the name that it looks like.
func TestNameWithDots(t *testing.T) {
	g := New(Config{All: true, Resolver: newBook()})
	defer g.Close()
	q := append([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0cgood.example\x00"), 0, 1, 0, 1)
	if out := g.Answer(t.Context(), q); out == nil || out[3]&15 != dnsNoSuchName {
		t.Errorf("%x", out)
	}
}

// Questions by a socket and by a stream; the socket's owner is gone after Close.
func TestNames(t *testing.T) {
	g := New(Config{All: true, Resolver: newBook()})
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); g.Names(t.Context(), c) }()
	udp, err := net.Dial("udp", c.LocalAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	q := ask(t, "good.example.", dnsmessage.TypeA)
	answer := make([]byte, 600)
	if _, err := udp.Write([]byte("no question")); err != nil {
		t.Fatal(err)
	}
	if _, err := udp.Write(q); err != nil {
		t.Fatal(err)
	}
	n, err := udp.Read(answer)
	if err != nil || !bytes.HasSuffix(answer[:n], []byte{198, 41, 0, 4}) {
		t.Errorf("%x, %v", answer[:max(n, 0)], err)
	}
	ours, theirs := net.Pipe()
	go g.NamesTCP(t.Context(), theirs)
	for range 2 {
		if _, err := ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
			t.Fatal(err)
		}
		var size [2]byte
		if _, err := io.ReadFull(ours, size[:]); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(ours, answer[:binary.BigEndian.Uint16(size[:])]); err != nil {
			t.Fatal(err)
		}
	}
	ours.Close()
	g.Close()
	<-done
}

// Behind a proxy that resolves, a name that this machine does not know gets an
// address that leads to the proxy, by its name.
func TestPlaceholder(t *testing.T) {
	proxy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	heard := make(chan string, 1)
	go func() {
		c, err := proxy.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 1024)
		n, _ := c.Read(b)
		heard <- string(b[:n])
		_, _ = c.Write([]byte("HTTP/1.1 200 fine\r\n\r\n"))
	}()
	up, err := NewUpstream("", "http://"+proxy.Addr().String(), "")
	if err != nil {
		t.Fatal(err)
	}
	rules, err := ParseRules([]string{"far.example"}, false)
	if err != nil {
		t.Fatal(err)
	}
	var ledger bytes.Buffer
	g := New(Config{Rules: rules, Resolver: newBook(), Upstream: up, Ledger: NewLedger(&ledger, 0)})
	out := g.Answer(t.Context(), ask(t, "far.example.", dnsmessage.TypeA))
	a := netip.AddrFrom4([4]byte(out[len(out)-4:]))
	if !placeholders().Contains(a) {
		t.Fatalf("%s", a)
	}
	c, err := g.Connect(t.Context(), ViaTCP, Target{Addr: a, Port: 443})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if got := <-heard; !strings.HasPrefix(got, "CONNECT far.example:443 HTTP/1.1\r\n") {
		t.Errorf("%q", got)
	}
	for _, refused := range []Target{{Addr: a.Next(), Port: 443}, {Addr: netip.MustParseAddr("198.41.0.4"), Port: 443}} {
		if c, err := g.Connect(t.Context(), ViaTCP, refused); err == nil {
			c.Close()
			t.Errorf("%v is allowed", refused)
		}
	}
	if c, err := g.Connect(t.Context(), ViaUDP, Target{Addr: a, Port: 443}); err == nil {
		c.Close()
		t.Error("UDP to a placeholder")
	}
	if out := g.Answer(t.Context(), ask(t, "other.example.", dnsmessage.TypeA)); out[3]&15 != dnsNoSuchName {
		t.Errorf("a name that no rule allows: %x", out)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(ledger.String(), `"via":"tcp","host":"far.example","port":443,"upstream":"`+proxy.Addr().String()+`","verdict":"allowed","rule":"far.example"`) {
		t.Error(ledger.String())
	}
}

// Whatever is asked, the answer is one that a parser that is not ours reads,
// about the name that it read in the question.
func FuzzAnswer(f *testing.F) {
	f.Add(ask(f, "good.example.", dnsmessage.TypeA))
	f.Add(ask(f, "x.localhost.", dnsmessage.TypeAAAA))
	f.Add(bytes.Repeat([]byte{0xc0, 0x0c}, 20))
	f.Add([]byte("\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x3f"))
	g := New(Config{All: true, Resolver: newBook()})
	f.Cleanup(func() { g.Close() })
	f.Fuzz(func(t *testing.T, q []byte) {
		out := g.Answer(t.Context(), q)
		if out == nil {
			return
		}
		if len(out) > 512 && len(out) > len(q)+20 || !bytes.Equal(out[:2], q[:2]) {
			t.Fatalf("%x: %x", q, out)
		}
		var p, asked dnsmessage.Parser
		h, err := p.Start(out)
		if err != nil || !h.Response {
			t.Fatalf("%x: %v", q, err)
		}
		if _, err := asked.Start(q); err != nil {
			t.Fatalf("%x is answered: %v", q, err)
		}
		if h.RCode == dnsmessage.RCodeNotImplemented {
			return
		}
		want, err := asked.Question()
		if name, end := dnsName(q); err != nil && end > 0 && strings.Contains(name, "!") && h.RCode == dnsmessage.RCodeNameError {
			return // a dot in a label, which that parser refuses
		}
		if err != nil {
			t.Fatalf("%x is answered: %v", q, err)
		}
		if got, err := p.Question(); err != nil || got != want {
			t.Fatalf("%x: %v, want %v; %v", q, got, want, err)
		}
		if err := p.SkipAllQuestions(); err != nil {
			t.Fatalf("%x: %v", q, err)
		}
		if _, err := p.AllAnswers(); err != nil {
			t.Fatalf("%x: %x: %v", q, out, err)
		}
	})
}

// New rules end the connections that they do not allow, and leave the others.
func TestRulesEndConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var ledger bytes.Buffer
	g := New(Config{All: true, Resolver: newBook(), Ledger: NewLedger(&ledger, 0), Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	}})
	var conns []*Conn
	for _, to := range []Target{{Name: "good.example", Port: 80}, {Addr: netip.MustParseAddr("198.41.0.9"), Port: 80}, {Addr: netip.MustParseAddr("198.41.0.8"), Port: 80}} {
		c, err := g.Connect(t.Context(), ViaTCP, to)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	rules, err := ParseRules([]string{"198.41.0.9"}, false)
	if err != nil {
		t.Fatal(err)
	}
	g.Allow("later", rules, false)
	for i, c := range conns {
		if _, err := c.Write([]byte("x")); errors.Is(err, net.ErrClosed) != (i != 1) {
			t.Errorf("connection %d: %v", i, err)
		}
		c.Close()
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(ledger.String(), "the rules do not allow it any more"); n != 2 {
		t.Errorf("%d of them say why:\n%s", n, &ledger)
	}
}
