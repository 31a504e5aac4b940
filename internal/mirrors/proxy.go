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
	From        string // the variables
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
