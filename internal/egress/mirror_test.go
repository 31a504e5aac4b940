package egress

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// archive is a server behind TLS, with an authority of its own, that wants a
// name and a password.
func archive(t *testing.T) (*httptest.Server, *x509.CertPool) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, pass, _ := r.BasicAuth()
		fmt.Fprintf(w, "%s %s %s:%s", r.Host, r.URL.Path, user, pass)
	}))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate()) // for example.com, 127.0.0.1 and ::1
	return s, roots
}

func toMirror(u *url.URL) *url.URL {
	if u.Host != "archive.example" {
		return nil
	}
	return &url.URL{Scheme: "https", Host: "example.com", User: url.UserPassword("dev", "pw"), Path: "/mirror" + u.Path}
}

// A plain request for an archive goes to the mirror of it behind TLS, which is
// judged in its stead; the password goes there alone.
func TestRewrite(t *testing.T) {
	for _, upstream := range []bool{false, true} {
		t.Run(fmt.Sprintf("upstream=%v", upstream), func(t *testing.T) {
			s, roots := archive(t)
			to := s.Listener.Addr().String()
			var tunnels []string
			var mu sync.Mutex
			w := newWorld(t, []string{"example.com:443@private"}, func(c *Config) {
				c.Rewrite, c.Roots = toMirror, roots
				c.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return (&net.Dialer{}).DialContext(ctx, network, to)
				}
				if !upstream {
					return
				}
				up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					mu.Lock()
					tunnels = append(tunnels, r.Method+" "+r.Host)
					mu.Unlock()
					tunnel(w, to)
				}))
				t.Cleanup(up.Close)
				var err error
				if c.Upstream, err = NewUpstream("", up.URL, ""); err != nil {
					t.Fatal(err)
				}
				c.Dial = nil
			})
			w.names.table["example.com"] = []string{"203.0.113.9"}
			get := func(u, want string, code int) {
				t.Helper()
				res, err := w.client(t).Get(u)
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if b, _ := io.ReadAll(res.Body); res.StatusCode != code || !strings.Contains(string(b), want) {
					t.Errorf("%s: %s %s", u, res.Status, b)
				}
			}
			get("http://archive.example/dists/x", "example.com /mirror/dists/x dev:pw", 200)
			get("http://other.example/dists/x", "no rule allows other.example", 403)
			w.g.Allow("later", nil, false)
			get("http://archive.example/dists/x", "no rule allows example.com at port 443", 403)
			lines := w.lines(t)
			slices.SortFunc(lines, func(a, b Entry) int { return a.Begin.Compare(b.Begin) }) // they stand in the order of their ends
			if len(lines) != 3 || lines[0].Host != "example.com" || lines[0].Asked != "archive.example" || lines[0].Port != 443 ||
				lines[0].Verdict != Allowed || lines[2].Verdict != Refused {
				t.Errorf("%+v", lines)
			}
			if upstream != (len(tunnels) == 1 && tunnels[0] == "CONNECT example.com:443") {
				t.Errorf("the upstream proxy was asked for %q", tunnels)
			}
		})
	}
}

// tunnel answers CONNECT by a connection to one place.
func tunnel(w http.ResponseWriter, to string) {
	out, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	io.WriteString(in, "HTTP/1.1 200 OK\r\n\r\n")
	go func() { io.Copy(out, buf); out.Close() }()
	io.Copy(in, out)
}

// A proxy that is itself behind TLS, with an authority that this machine has
// to be told of.
func TestUpstreamBehindTLS(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "reached") }))
	defer target.Close()
	up := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			tunnel(w, target.Listener.Addr().String())
			return
		}
		io.WriteString(w, "forwarded")
	}))
	defer up.Close()
	roots := x509.NewCertPool()
	roots.AddCert(up.Certificate())
	for _, known := range []bool{true, false} {
		upstream, err := NewUpstream(up.URL, up.URL, "")
		if err != nil {
			t.Fatal(err)
		}
		if known {
			upstream.Roots = roots
		}
		w := newWorld(t, []string{"good.example"}, func(c *Config) { c.Upstream, c.Dial = upstream, nil })
		c := w.program(t)
		fmt.Fprintf(c, "CONNECT good.example:80 HTTP/1.1\r\nHost: x\r\n\r\n")
		line, _ := bufio.NewReader(c).ReadString('\n')
		res, err := w.client(t).Get("http://good.example/")
		if err != nil {
			t.Fatal(err)
		}
		b, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if known != strings.Contains(line, " 200 ") || known != (string(b) == "forwarded") {
			t.Errorf("authority known: %v; tunnel %q, request %q", known, line, b)
		}
	}
}

// A host may have a way of its own, or none.
func TestThrough(t *testing.T) {
	for _, general := range []string{"http://general.example:8", ""} {
		u, err := NewUpstream(general, general, "")
		if err != nil {
			t.Fatal(err)
		}
		if u == nil {
			u = &Upstream{}
		}
		for host, proxy := range map[string]string{"own.example": "http://own.example:3142", "198.41.0.9": "http://own.example:3142", "none.example": ""} {
			if err := u.Through(host, proxy, proxy, "spared.example"); err != nil {
				t.Fatal(err)
			}
		}
		if err := u.Through("x.example", "ftp://a", "", ""); err == nil {
			t.Error("a proxy of another kind")
		}
		for host, want := range map[string]string{"own.example": "own.example:3142", "198.41.0.9": "own.example:3142", "none.example": "",
			"other.example": strings.TrimPrefix(general, "http://")} {
			to, err := ParseTarget(host, 443)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if p := u.route(to, true); p != nil {
				got = p.host
			}
			if got != want {
				t.Errorf("general %q: %s goes by %q, not %q", general, host, got, want)
			}
		}
	}
}

// A name that an operator calls private may lead to a reserved address, never
// to metadata.
func TestPrivateNamesReachReservedAddresses(t *testing.T) {
	w := newWorld(t, []string{"lab.example@private", "meta.example@private", "link.example@private", "plain.example"})
	w.names.table["lab.example"] = []string{"203.0.113.5"}
	w.names.table["plain.example"] = []string{"203.0.113.5"}
	w.names.table["link.example"] = []string{"fe80::1"}
	for host, want := range map[string]string{"lab.example:443": " 200 ", "meta.example:80": " 403 ", "link.example:80": " 403 ", "plain.example:443": " 403 "} {
		if got := w.say(t, "CONNECT "+host+" HTTP/1.1\r\nHost: x\r\n\r\n"); !strings.Contains(got, want) {
			t.Errorf("%s: %s", host, got)
		}
	}
	for a, want := range map[string]class{"192.0.2.1": classReserved, "169.254.169.254": classSpecial, "100.100.100.200": classSpecial,
		"2002:a9fe:a9fe::1": classSpecial, "64:ff9b::cb00:7105": classReserved, "10.0.0.1": classPrivate} {
		if c, _ := newRanges().class(netip.MustParseAddr(a)); c != want {
			t.Errorf("%s is %v", a, c)
		}
	}
}

func TestHostTotals(t *testing.T) {
	var l Ledger
	l.add(Entry{Host: "b.example", Port: 443, Via: ViaConnect, Verdict: Allowed, Sent: 2, Received: 3})
	l.add(Entry{Host: "b.example", Port: 443, Via: ViaConnect, Verdict: Allowed, Sent: 2})
	l.add(Entry{Host: "a.example", Port: 80, Via: ViaHTTP, Verdict: Refused, Why: "first"})
	l.add(Entry{Host: "a.example", Port: 80, Via: ViaHTTP, Verdict: Refused, Why: "second"})
	l.add(Entry{Host: "b.example", Via: ViaDNS, Verdict: Allowed})
	for i := range 2 * maxHosts {
		l.add(Entry{Host: fmt.Sprintf("z%d.example", i), Verdict: Refused})
	}
	got := l.Hosts()
	if len(got) != maxHosts || got[0] != (HostTotals{Host: "a.example", Port: 80, Refused: 2, Why: "first"}) ||
		got[1] != (HostTotals{Host: "b.example"}) || got[2] != (HostTotals{Host: "b.example", Port: 443, Connections: 2, Sent: 4, Received: 3}) {
		t.Errorf("%d: %+v", len(got), got[:3])
	}
}
