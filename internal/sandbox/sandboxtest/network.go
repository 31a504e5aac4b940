package sandboxtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/sandbox"
)

// gate lets "allowed.example" through to a word and nothing else.
type gate struct{}

func (gate) Proxy(_ context.Context, c net.Conn) {
	defer c.Close()
	fmt.Fprintln(c, "this is the gate")
}

func (gate) Lookup(_ context.Context, name string) ([]netip.Addr, error) {
	if name == "allowed.example" {
		return []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("2001:db8::7")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: name, IsNotFound: true}
}

func (gate) Carry(_ context.Context, link io.ReadWriteCloser) error {
	link.Close()
	return errors.New("not in this test")
}

// networks: what is claimed works, what is not is refused, and nothing needs a
// route to the world.
func (h harness) networks(t *testing.T) {
	claimed := h.b.Capabilities().Networks
	for _, n := range []sandbox.Network{sandbox.NetAllowlist, sandbox.NetFull} {
		if slices.Contains(claimed, n) {
			continue
		}
		s, err := h.b.Create(ctx(t), sandbox.Spec{Image: h.Image, Network: n, Egress: gate{}})
		if err == nil {
			s.Close()
			t.Errorf("network %q is not claimed, and given", n)
		} else if !errors.Is(err, sandbox.ErrUnsupported) {
			t.Errorf("network %q: %v", n, err)
		}
	}
	if !slices.Contains(claimed, sandbox.NetAllowlist) {
		t.Skip("no allow-list")
	}
	if s, err := h.b.Create(ctx(t), sandbox.Spec{Image: h.Image, Network: sandbox.NetAllowlist}); err == nil {
		s.Close()
		t.Error("an allow-list without anybody who decides")
	}
	s := h.create(t, func(sp *sandbox.Spec) { sp.Network, sp.Egress = sandbox.NetAllowlist, gate{} })
	for _, v := range sandbox.ProxyEnv() {
		name, value, _ := strings.Cut(v, "=")
		equal(t, name, ok(t, s, "echo $"+name), value)
	}
	equal(t, "overridden", string(run(t, s, sandbox.Command{Args: []string{"sh", "-c", "echo $http_proxy"}, Env: []string{"http_proxy=mine"}}, sandbox.ExecOptions{}).Stdout), "mine\n")
	need(t, s, "bash")
	dial := func(at string) sandbox.ExecResult {
		return run(t, s, sandbox.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/" + at + " && cat <&3"}}, sandbox.ExecOptions{Timeout: 20 * time.Second})
	}
	port := fmt.Sprint(sandbox.ProxyPort)
	equal(t, "the gate", string(dial("127.0.0.1/"+port).Stdout), "this is the gate\n")
	snap := snapshot(t, s)
	equal(t, "the gate after a snapshot", string(dial("127.0.0.1/"+port).Stdout), "this is the gate\n")
	reset(t, s, snap)
	equal(t, "the gate after a reset", string(dial("127.0.0.1/"+port).Stdout), "this is the gate\n")
	for _, at := range []string{"192.0.2.7/80", "169.254.169.254/80", "10.0.0.1/80"} {
		if r := dial(at); r.Exit.Code == 0 || r.TimedOut {
			t.Errorf("%s is reached past the gate, or hangs: %+v", at, r)
		}
	}
	if out := ok(t, s, "cat /proc/net/dev"); strings.Count(out, ":") != 1 {
		t.Errorf("an interface besides loopback:\n%s", out)
	}
}
