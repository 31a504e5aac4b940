package sandboxtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/sandbox"
)

// gate answers everything that reaches it.
type gate struct{ carries bool }

func (gate) Proxy(_ context.Context, c net.Conn) {
	defer c.Close()
	fmt.Fprintln(c, "this is the gate")
}

// Names answers every question with 192.0.2.7: a question with its header made
// an answer's, and one record behind it.
func (gate) Names(ctx context.Context, c net.PacketConn) {
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	b := make([]byte, 512)
	for {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		end := 12 + bytes.IndexByte(b[12:n], 0) + 5
		q := append([]byte(nil), b[:end]...)
		q[2], q[3] = q[2]|0x80, 0x80
		copy(q[4:12], []byte{0, 1, 0, 0, 0, 0, 0, 0})
		if q[end-3] == 1 { // A
			q[7] = 1
			q = append(q, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 7)
		}
		_, _ = c.WriteTo(q, from)
	}
}

// Carry sends back every packet of UDP over IPv4; the sums of a packet stay
// right when its ends change places.
func (gate) Carry(ctx context.Context, link io.ReadWriteCloser) error {
	defer link.Close()
	defer context.AfterFunc(ctx, func() { link.Close() })()
	b := make([]byte, 1<<16)
	for {
		n, err := link.Read(b)
		if err != nil {
			return err
		}
		if n < 28 || b[0] != 0x45 || b[9] != 17 {
			continue
		}
		p := append([]byte(nil), b[:n]...)
		copy(p[12:], b[16:20])
		copy(p[16:], b[12:16])
		copy(p[20:], b[22:24])
		copy(p[22:], b[20:22])
		if _, err := link.Write(p); err != nil {
			return err
		}
	}
}

func (g gate) Carries() bool { return g.carries }

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
	outlet(t, s, "proxy")
}

// outlet is what a sandbox says of its way out, if it says anything.
func outlet(t *testing.T, s sandbox.Sandbox, want string) {
	t.Helper()
	if o, ok := s.(sandbox.Outlet); ok {
		equal(t, "outlet", o.Outlet(), want)
	}
}

// interfaces: packets reach the gate, names are answered by it, and both still
// after the tree was replaced.
func (h harness) interfaces(t *testing.T) {
	if !slices.Contains(h.b.Capabilities().Networks, sandbox.NetFull) {
		t.Skip("no full network")
	}
	for _, bad := range []sandbox.Egress{nil, gate{}} {
		if s, err := h.b.Create(ctx(t), sandbox.Spec{Image: h.Image, Network: sandbox.NetFull, Egress: bad}); err == nil {
			s.Close()
			t.Errorf("a full network to %v, which carries nothing", bad)
		}
	}
	for _, n := range []sandbox.Network{sandbox.NetFull, sandbox.NetAllowlist} {
		s := h.create(t, func(sp *sandbox.Spec) { sp.Network, sp.Egress = n, gate{carries: true} })
		outlet(t, s, map[sandbox.Network]string{sandbox.NetFull: "interface", sandbox.NetAllowlist: "proxy+interface"}[n])
		need(t, s, "bash")
		need(t, s, "getent")
		need(t, s, "dd")
		first := snapshot(t, s)
		for _, when := range []string{"at first", "after a reset to a snapshot", "after a reset"} {
			switch when {
			case "after a reset to a snapshot":
				reset(t, s, first)
			case "after a reset":
				reset(t, s, "")
			}
			say := run(t, s, sandbox.Command{Args: []string{"bash", "-c",
				"exec 3<>/dev/udp/203.0.113.9/7 && echo hello >&3 && dd bs=64 count=1 <&3"}}, sandbox.ExecOptions{Timeout: 30 * time.Second})
			equal(t, string(n)+" "+when, string(say.Stdout), "hello\n")
			equal(t, string(n)+" names "+when, strings.Fields(ok(t, s, "getent ahostsv4 some.example") + " none")[0], "192.0.2.7")
		}
		if out := ok(t, s, "cat /proc/net/dev"); strings.Count(out, ":") != 2 {
			t.Errorf("not one interface besides loopback:\n%s", out)
		}
	}
}
