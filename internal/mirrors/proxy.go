package mirrors

import (
	"net/url"
	"strings"
)

// Proxy is this machine's way out. The URLs may hold credentials; they are for
// the host's side alone and never go into a sandbox.
type Proxy struct {
	HTTP, HTTPS string // URLs; empty: none
	No          string // NO_PROXY's list
	From        string // the variables, or a place in a file
}

// through notes a proxy of one manager alone, which it prefers to the
// variables; kind is "http", "https" or empty for both. The last counts, since
// stronger files are read later. A proxy of apt is often a cache that knows nothing but apt's.
func (s *Settings) through(manager, kind, raw, from string) {
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	if _, ok := serverURL(raw); !ok {
		s.LeftOut = append(s.LeftOut, from+": not the URL of a proxy")
		return
	}
	p := s.Own[manager]
	if kind != "https" {
		p.HTTP = raw
	}
	if kind != "http" {
		p.HTTPS = raw
	}
	p.From = from
	s.own(manager, p)
}

// ownProxies completes what managers were told, as they do: what goes by TLS
// uses the plain proxy where it has none of its own, and the variables' where
// there are exceptions alone.
func (s *Settings) ownProxies() {
	for manager, p := range s.Own {
		if p.HTTPS == "" {
			p.HTTPS = p.HTTP
		}
		if p.HTTP == "" && p.HTTPS == "" {
			p.HTTP, p.HTTPS, p.No = s.Proxy.HTTP, s.Proxy.HTTPS, strings.Trim(s.Proxy.No+","+p.No, ",")
		}
		s.Own[manager] = p
	}
}

func (s *Settings) own(manager string, p Proxy) {
	if s.Own == nil {
		s.Own = map[string]Proxy{}
	}
	s.Own[manager] = p
}

func (s *Settings) readProxy(h Host) error {
	var from []string
	get := func(names ...string) string {
		v, n := h.env(names...)
		if v == "" {
			return ""
		}
		if n != "no_proxy" && n != "NO_PROXY" {
			if !strings.Contains(v, "://") {
				v = "http://" + v // as curl reads it
			}
			if _, ok := serverURL(v); !ok {
				s.LeftOut = append(s.LeftOut, n+": not the URL of a proxy")
				return ""
			}
		}
		from = append(from, n)
		return v
	}
	all := []string{"all_proxy", "ALL_PROXY"}
	s.Proxy = Proxy{
		HTTP:  get(append([]string{"http_proxy", "HTTP_PROXY"}, all...)...),
		HTTPS: get(append([]string{"https_proxy", "HTTPS_PROXY"}, all...)...),
		No:    get("no_proxy", "NO_PROXY"),
	}
	s.Proxy.From = strings.Join(from, ", ")
	return nil
}

// Shown are the proxies without credentials.
func (p Proxy) Shown() string {
	var all []string
	for _, raw := range []string{p.HTTP, p.HTTPS} {
		if u, err := url.Parse(raw); err == nil && raw != "" && (len(all) == 0 || all[0] != public(u)) {
			all = append(all, public(u))
		}
	}
	return strings.Join(all, ", ")
}

func (s *Settings) readResolvers(h Host) error {
	b, err := h.read("/etc/resolv.conf")
	for l := range strings.Lines(string(b)) {
		if f := strings.Fields(l); len(f) >= 2 && f[0] == "nameserver" {
			s.Resolvers = append(s.Resolvers, f[1])
		}
	}
	return err
}

func (s *Settings) readNetrc(h Host) (err error) {
	p, _ := h.env("NETRC")
	if p == "" {
		p = h.home(".netrc")
	}
	s.netrc.path = p
	s.netrc.data, err = h.read(p)
	return err
}
