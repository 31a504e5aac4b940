package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Resolver looks names up; *net.Resolver is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// Config is what a gate needs to know. The zero value refuses everything.
type Config struct {
	Rules    []Rule
	All      bool                                                              // every name and every public address, besides Rules
	Ledger   *Ledger                                                           // nil: counts only
	Resolver Resolver                                                          // nil: the host's
	Dial     func(ctx context.Context, network, addr string) (net.Conn, error) // nil: the host's
	Upstream *Upstream                                                         // nil: connections are direct
	Caps     Caps
	// Rewrite may lead a plain request to another place, such as this machine's
	// mirror of an archive, also one behind TLS; what it gives is judged in the
	// request's stead. Credentials of that URL go to that place alone. Nil for a
	// URL, or nil: the request stays as it is.
	Rewrite func(*url.URL) *url.URL
	Roots   *x509.CertPool // authorities for the TLS of Rewrite; nil: the host's
	// Link ends the TCP and UDP of a whole interface; nil: there is none. See
	// package netstack.
	Link func(ctx context.Context, g *Gate, link io.ReadWriteCloser) error
}

// Caps bound what a sandbox can make the host do. Zero means the default.
type Caps struct {
	Conns   int           // at once, all ways together, a further one waits; 256
	Bytes   int64         // in both directions together; 16 GiB
	Connect time.Duration // waiting for others to end, lookup and connection together; 30 s
	Header  time.Duration // until a request or greeting is complete; 30 s
	Idle    time.Duration // without a byte in either direction; 10 min
}

func (c Caps) orDefaults() Caps {
	set := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	if c.Conns <= 0 {
		c.Conns = 256
	}
	if c.Bytes <= 0 {
		c.Bytes = 16 << 30
	}
	set(&c.Connect, 30*time.Second)
	set(&c.Header, 30*time.Second)
	set(&c.Idle, 10*time.Minute)
	return c
}

// Gate is the way out of one sandbox. It implements sandbox.Egress.
type Gate struct {
	conf   Config
	ranges *ranges
	ledger *Ledger
	policy atomic.Pointer[policy]
	conns  chan struct{} // one for each connection that is open
	queue  chan struct{} // one for each that waits
	bytes  atomic.Int64
	http   *httpProxy

	ctx    context.Context // ends with Close; the only one a Gate keeps, since connections outlive the calls that made them
	cancel context.CancelFunc

	pins      pins
	answers   answers
	questions chan struct{} // one for each name that is being looked up

	mu     sync.Mutex
	closed bool
	live   map[*Conn]bool
	open   sync.WaitGroup
}

// policy is what may change while a sandbox lives.
type policy struct {
	rules []Rule
	all   bool
	phase string
}

// New makes a gate. Close ends it.
func New(c Config) *Gate {
	c.Caps = c.Caps.orDefaults()
	if c.Ledger == nil {
		c.Ledger = &Ledger{}
	}
	if c.Resolver == nil {
		c.Resolver = net.DefaultResolver
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{}).DialContext
	}
	g := &Gate{conf: c, ranges: newRanges(), ledger: c.Ledger, conns: make(chan struct{}, c.Caps.Conns), queue: make(chan struct{}, c.Caps.Conns), questions: make(chan struct{}, maxQuestions), live: map[*Conn]bool{}}
	g.policy.Store(&policy{rules: slices.Clone(c.Rules), all: c.All})
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.http = newHTTPProxy(g)
	return g
}

// Allow replaces the rules: connections that they do not allow end. Phase is
// written into the ledger's lines from now on.
func (g *Gate) Allow(phase string, rules []Rule, all bool) {
	g.policy.Store(&policy{rules: slices.Clone(rules), all: all, phase: phase})
	g.http.forget()
	g.mu.Lock()
	open := slices.Collect(maps.Keys(g.live))
	g.mu.Unlock()
	for _, c := range open {
		c.judgeAgain()
	}
}

// Totals of the ledger so far.
func (g *Gate) Totals() Totals { return g.ledger.Totals() }

// Close ends every connection, waits for them, and closes the ledger. It may
// be repeated.
func (g *Gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	g.http.close()
	g.open.Wait()
	return g.ledger.Close()
}

// enter counts one piece of work that Close waits for; false: it is too late.
func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.open.Add(1)
	return true
}

// Target is where a sandbox wants to go. Exactly one of Name and Addr is set.
type Target struct {
	Name string // a valid host name
	Addr netip.Addr
	Port uint16
}

func (t Target) host() string {
	if t.Name != "" {
		return t.Name
	}
	return t.Addr.String()
}

// ParseTarget reads the host of a request. Addresses have to be in their plain
// spelling.
func ParseTarget(host string, port uint16) (Target, error) {
	host = strings.ToLower(host)
	if h, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(h, "]"); !ok || !strings.Contains(host, ":") {
			return Target{}, errors.New("not a host name")
		}
	}
	if port == 0 {
		return Target{}, errors.New("port 0")
	}
	if a, err := netip.ParseAddr(host); err == nil {
		if a.Zone() != "" {
			return Target{}, errors.New("an address with a zone")
		}
		return Target{Addr: a.Unmap(), Port: port}, nil
	}
	name, err := hostName(host)
	return Target{Name: name, Port: port}, err
}

// RefusedError says why a target is out of reach.
type RefusedError struct {
	Why  string
	Busy bool // not by a rule: another try may do better
}

func (e *RefusedError) Error() string { return e.Why }

func refusal(format string, args ...any) error {
	return &RefusedError{Why: fmt.Sprintf(format, args...)}
}

// route is a decision that allows.
type route struct {
	rule     string
	addrs    []netip.Addr // judged; empty when only an upstream can find them
	upstream *proxyURL    // nil: direct
}

// decide judges a target, looking its name up if a rule covers it.
func (g *Gate) decide(ctx context.Context, t Target, tls bool) (route, error) {
	p := g.policy.Load()
	var r route
	if t.Name == "" {
		rule, err := g.judge(p, t.Addr, t.Port)
		r.rule, r.addrs = rule, []netip.Addr{t.Addr}
		if err == nil {
			r.upstream = g.conf.Upstream.route(t, tls)
		}
		return r, err
	}
	rules := p.covering(t.Name, t.Port)
	if len(rules) == 0 {
		return r, refusal("no rule allows %s at port %d", t.Name, t.Port)
	}
	r.rule = rules[0].String()
	r.upstream = g.conf.Upstream.route(t, tls)
	found, err := g.lookupFor(ctx, t.Name, r.upstream != nil)
	if err != nil || len(found) == 0 {
		if r.upstream != nil {
			return r, nil // behind a proxy there is often no other way to find it
		}
		if err == nil {
			err = errors.New("no address")
		}
		return r, fmt.Errorf("look up %s: %w", t.Name, err)
	}
	worst := netip.Addr{}
	for _, a := range found {
		rule, ok := g.leads(p, rules, a, t.Port)
		if !ok {
			worst = a
			continue
		}
		if len(r.addrs) == 0 {
			r.rule = rule
		}
		r.addrs = append(r.addrs, a)
	}
	if len(r.addrs) == 0 {
		c, _ := g.ranges.class(worst)
		return r, refusal("%s is %s, which is %s: a rule for the name alone does not reach there", t.Name, worst, c)
	}
	return r, nil
}

// covering lists the rules for a name.
func (p *policy) covering(name string, port uint16) []Rule {
	var out []Rule
	for _, r := range p.rules {
		if r.names(name, port) {
			out = append(out, r)
		}
	}
	if p.all {
		out = append(out, Rule{Name: "*"})
	}
	return out
}

// leads reports whether rules that cover a name allow this address of it.
func (g *Gate) leads(p *policy, rules []Rule, a netip.Addr, port uint16) (string, bool) {
	c, within := g.ranges.class(a)
	for _, r := range rules {
		if r.reaches(c) {
			return r.String(), true
		}
	}
	for _, r := range p.rules { // the name by one rule, its address by another
		if r.Prefix.IsValid() && r.covers(a, port, c, within) {
			return rules[0].String() + " " + r.String(), true
		}
	}
	return "", false
}

// judge decides about an address that was asked for as one. If a lookup of this
// sandbox gave it, the rules for that name count too.
func (g *Gate) judge(p *policy, a netip.Addr, port uint16) (rule string, err error) {
	c, within := g.ranges.class(a)
	for _, r := range p.rules {
		if r.covers(a, port, c, within) {
			return r.String(), nil
		}
	}
	if p.all && c == classPublic {
		return "*", nil
	}
	for _, name := range g.pins.names(a) {
		if rules := p.covering(name, port); len(rules) > 0 {
			if rule, ok := g.leads(p, rules, a, port); ok {
				return rule, nil
			}
		}
	}
	if c != classPublic {
		return "", refusal("%s is %s and no rule names it", a, c)
	}
	return "", refusal("no rule allows %s at port %d", a, port)
}

// Carries reports whether there is something that ends packets.
func (g *Gate) Carries() bool { return g.conf.Link != nil }

// Carry ends the packets of an interface, by Config.Link.
func (g *Gate) Carry(ctx context.Context, link io.ReadWriteCloser) error {
	if g.conf.Link == nil {
		link.Close()
		return errors.New("carry packets: this gate has no link")
	}
	if !g.enter() {
		link.Close()
		return net.ErrClosed
	}
	defer g.open.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.ctx, cancel)()
	return g.conf.Link(ctx, g, link)
}

// status is the proxy's answer to an error of Connect.
func status(err error) int {
	var r *RefusedError
	switch {
	case errors.As(err, &r) && r.Busy:
		return http.StatusServiceUnavailable
	case errors.As(err, &r):
		return http.StatusForbidden
	case errors.Is(err, context.DeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
