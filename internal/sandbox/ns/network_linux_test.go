package ns

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"assay/internal/egress"
	"assay/internal/sandbox"
)

type oneName struct{}

func (oneName) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("198.41.0.4")}, nil
}

// A real program of the sandbox, through the real gate, to a server on the host
// that its network namespace cannot reach.
func TestAllowlist(t *testing.T) {
	requireSandbox(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte("hello " + r.Host)) }))
	defer server.Close()
	rules, err := egress.ParseRules([]string{"good.example"}, true)
	if err != nil {
		t.Fatal(err)
	}
	var ledger bytes.Buffer
	g := egress.New(egress.Config{Rules: rules, Resolver: oneName{}, Ledger: egress.NewLedger(&ledger, 0),
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		}})
	defer g.Close()
	b, _ := open(t)
	s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Network: sandbox.NetAllowlist, Egress: g})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func(host string) string {
		return script(t, s, `bash -c 'exec 3<>/dev/tcp/127.0.0.1/3128; printf "GET http://'`+host+`'/ HTTP/1.0\r\n\r\n" >&3; cat <&3'`)
	}
	if got := ask("good.example"); !strings.HasSuffix(got, "hello good.example") {
		t.Errorf("%q", got)
	}
	if got := ask("bad.example"); !strings.Contains(got, " 403 ") {
		t.Errorf("%q", got)
	}
	if got := ask(server.Listener.Addr().String()); !strings.Contains(got, " 403 ") {
		t.Errorf("the host's loopback: %q", got)
	}
	s.Close()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	if got := g.Totals(); got.Connections != 1 || got.Refused != 2 || strings.Count(ledger.String(), "\n") != 3 {
		t.Errorf("%+v\n%s", got, &ledger)
	}
}

// Names fail at once, for good, in a sandbox without network; localhost is
// itself. After a reset too, when the namespace is another one.
func TestNamesWithoutNetwork(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if script(t, s, "command -v perl || true") == "" {
		t.Skip("no perl")
	}
	ask := func(name string) string {
		return script(t, s, `perl -MSocket=getaddrinfo,getnameinfo,:DEFAULT,SOCK_STREAM -e 'my ($e, @r) = getaddrinfo("`+name+`", "", {socktype => SOCK_STREAM}); print $e ? "$e" : join " ", map { (getnameinfo($_->{addr}, 1))[1] } @r'`)
	}
	for _, when := range []string{"at first", "after a snapshot", "after a reset"} {
		switch when {
		case "after a snapshot":
			if _, err := s.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		case "after a reset":
			if err := s.Reset(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
		}
		if got := ask("pypi.example"); got != "Name or service not known" {
			t.Errorf("%s: %q", when, got)
		}
		if got := ask("a.localhost"); !strings.Contains(got, "127.0.0.1") && !strings.Contains(got, "::1") {
			t.Errorf("%s: %q", when, got)
		}
	}
}
