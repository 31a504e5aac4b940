package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// Lookup answers for the DNS inside the sandbox: the addresses of a name that
// the rules let it reach, and pins them. An error that is a *net.DNSError with
// IsNotFound says that there is no such name, as far as the sandbox is told.
//
// Where connections go through an upstream proxy, a name that this machine
// cannot resolve gets an address that stands for it (see placeholders): the
// proxy will know it.
func (g *Gate) Lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	notFound := &net.DNSError{Err: "no such host", Name: clip(name), IsNotFound: true}
	if !g.enter() {
		return nil, notFound
	}
	defer g.open.Done()
	p := g.policy.Load()
	e := Entry{Begin: time.Now().UTC(), Phase: p.phase, Via: ViaDNS, Host: clip(name), Verdict: Refused}
	host, err := hostName(strings.ToLower(name))
	if err != nil {
		e.Why = err.Error()
		g.refusedName(e)
		return nil, notFound
	}
	e.Host = host
	rules := p.naming(host)
	if len(rules) == 0 {
		e.Why = "no rule allows it"
		g.refusedName(e)
		return nil, notFound
	}
	e.Verdict, e.Rule = Allowed, rules[0].String()
	upstream := g.conf.Upstream.route(Target{Name: host, Port: 443}, true)
	found, err := g.lookupFor(ctx, host, upstream != nil)
	var out []netip.Addr
	for _, a := range found {
		if _, ok := g.leadsAnyPort(p, rules, a); ok {
			out = append(out, a)
		}
	}
	switch {
	case len(found) == 0 && upstream != nil && ctx.Err() == nil:
		if a, ok := g.pins.placeholder(host); ok {
			out, err, e.Addr, e.Upstream = []netip.Addr{a}, nil, a.String(), upstream.host
		}
	case err != nil:
		e.Why = err.Error()
	case len(out) == 0 && len(found) > 0:
		e.Verdict, e.Rule, e.Why = Refused, "", fmt.Sprintf("it is %s, which no rule reaches", found[0])
	case len(out) > 0:
		e.Addr = out[0].String()
		g.pins.add(host, out)
	}
	g.ledger.add(e)
	if len(out) == 0 && err == nil {
		err = notFound
	}
	return out, err
}

// besideProxy is how long a name is looked up where a proxy would know it too:
// resolvers of networks that lead nowhere often do not even answer.
const besideProxy = 2 * time.Second

func (g *Gate) lookupFor(ctx context.Context, host string, proxied bool) ([]netip.Addr, error) {
	if proxied {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, besideProxy)
		defer cancel()
	}
	return g.lookup(ctx, host)
}

// lookup asks the host's resolver, within the time for connecting.
func (g *Gate) lookup(ctx context.Context, name string) ([]netip.Addr, error) {
	ctx, cancel := context.WithTimeout(ctx, g.conf.Caps.Connect)
	defer cancel()
	found, err := g.conf.Resolver.LookupNetIP(ctx, "ip", name+".") // rooted: the host's search list is nobody's business
	if err != nil && !strings.Contains(name, ".") {
		found, err = g.conf.Resolver.LookupNetIP(ctx, "ip", name) // a name of the host's own network
	}
	for i := range found {
		found[i] = found[i].Unmap()
	}
	slices.SortStableFunc(found, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() }) // IPv4 first: a host without IPv6 does not wait
	return slices.Compact(found), err
}

// naming lists the rules that name a host at any port.
func (p *policy) naming(host string) []Rule {
	var rules []Rule
	for _, r := range p.rules {
		if r.Port = 0; r.names(host, 0) {
			rules = append(rules, r)
		}
	}
	if p.all {
		rules = append(rules, Rule{Name: "*"})
	}
	return rules
}

func (g *Gate) leadsAnyPort(p *policy, rules []Rule, a netip.Addr) (string, bool) {
	c, within := g.ranges.class(a)
	for _, r := range rules {
		if r.reaches(c) {
			return r.String(), true
		}
	}
	for _, r := range p.rules {
		if r.Port = 0; r.Prefix.IsValid() && r.covers(a, 0, c, within) {
			return r.String(), true
		}
	}
	return "", false
}

// refusedName writes a name down once: resolvers ask again and again.
func (g *Gate) refusedName(e Entry) {
	if g.pins.first(e.Host) {
		g.ledger.add(e)
	}
}

// notFound reports whether an error of Lookup says that there is no such name.
func notFound(err error) bool {
	var d *net.DNSError
	return errors.As(err, &d) && d.IsNotFound
}

// pins remember which names led to an address in this sandbox, and which names
// were refused already. All of it is bounded: a program can make up any number.
type pins struct {
	mu    sync.Mutex
	by    map[netip.Addr][]string
	asked map[string]bool

	stands map[string]netip.Addr // placeholders by name
	meant  map[netip.Addr]string // and back
}

const maxPins = 4096

func (p *pins) add(name string, addrs []netip.Addr) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by == nil || len(p.by) > maxPins {
		p.by = map[netip.Addr][]string{}
	}
	for _, a := range addrs {
		if names := p.by[a]; !slices.Contains(names, name) && len(names) < 64 {
			p.by[a] = append(names, name)
		}
	}
}

func (p *pins) names(a netip.Addr) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.by[a])
}

func (p *pins) first(name string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asked == nil || len(p.asked) > maxPins {
		p.asked = map[string]bool{}
	}
	if p.asked[name] {
		return false
	}
	p.asked[name] = true
	return true
}

// placeholders are addresses that stand for names which only an upstream proxy
// can resolve: the upper half of the range for benchmarks (RFC 2544), whose
// lower half has the sandbox's own address. They mean nothing outside.
func placeholders() netip.Prefix { return netip.MustParsePrefix("198.19.0.0/16") }

// placeholder is the address that stands for a name; false: too many names.
func (p *pins) placeholder(name string) (netip.Addr, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if a, ok := p.stands[name]; ok {
		return a, true
	}
	if p.stands == nil {
		p.stands, p.meant = map[string]netip.Addr{}, map[netip.Addr]string{}
	}
	if len(p.stands) >= maxPins {
		return netip.Addr{}, false
	}
	n := len(p.stands) + 1
	b := placeholders().Addr().As4()
	b[2], b[3] = byte(n>>8), byte(n)
	a := netip.AddrFrom4(b)
	p.stands[name], p.meant[a] = a, name
	return a, true
}

// meaning is what a target with a placeholder stands for.
func (p *pins) meaning(t Target) Target {
	p.mu.Lock()
	defer p.mu.Unlock()
	if name, ok := p.meant[t.Addr]; ok && t.Name == "" {
		return Target{Name: name, Port: t.Port}
	}
	return t
}
