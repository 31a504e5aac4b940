package ns

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"assay/internal/doctor"
	"assay/internal/egress"
	"assay/internal/egress/netstack"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// world is a host side that leads nowhere but to listeners of the test.
type world struct {
	gate   *egress.Gate
	ledger bytes.Buffer
	close  func()
}

type names map[string]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	a, ok := n[strings.TrimSuffix(host, ".")]
	if !ok {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return []netip.Addr{netip.MustParseAddr(a)}, nil
}

// newWorld has a web server at every address at port 80, an echo of UDP at port
// 7, and nothing at all elsewhere. What is asked for comes back.
func newWorld(t *testing.T, rules ...string) *world {
	t.Helper()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/echo" {
			b, err := io.ReadAll(r.Body)
			if err == nil {
				_, _ = w.Write(b)
			}
			return
		}
		_, _ = io.WriteString(w, "hello "+r.Host)
	}))
	echo, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.close = sync.OnceFunc(func() { web.CloseClientConnections(); web.Close(); echo.Close() })
	t.Cleanup(w.close)
	go func() {
		b := make([]byte, 1<<16)
		for {
			n, from, err := echo.ReadFrom(b)
			if err != nil {
				return
			}
			_, _ = echo.WriteTo(b[:n], from)
		}
	}()
	parsed, err := egress.ParseRules(rules, true)
	if err != nil {
		t.Fatal(err)
	}
	inside := []netip.Addr{netip.MustParsePrefix(sandbox.LinkAddr4).Addr(), netip.MustParsePrefix(sandbox.LinkAddr6).Addr()}
	w.gate = egress.New(egress.Config{
		Rules: parsed, Ledger: egress.NewLedger(&w.ledger, 0),
		Resolver: names{"good.example": "198.41.0.4", "bad.example": "198.41.0.5", "inside.example": "10.0.0.7", "six.example": "2620:fe::fe"},
		Link:     netstack.Config{Inside: inside, MTU: sandbox.LinkMTU}.Link,
		Dial: func(ctx context.Context, network, at string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(at)
			to := map[string]string{"tcp80": web.Listener.Addr().String(), "udp7": echo.LocalAddr().String()}[network+port]
			if err != nil || to == "" {
				return nil, errors.New("nobody there")
			}
			return (&net.Dialer{}).DialContext(ctx, network, to)
		}})
	t.Cleanup(func() { w.gate.Close() })
	return w
}

func (w *world) sandbox(t *testing.T, n sandbox.Network) sandbox.Sandbox {
	t.Helper()
	requireSandbox(t)
	if err := tryTun(tunDevice, realRoot()); err != nil {
		t.Skip(err)
	}
	b, _ := open(t)
	s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Network: n, Egress: w.gate})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if script(t, s, "command -v python3 && command -v curl || true") == "" {
		t.Skip("no python3 or no curl")
	}
	return s
}

// tries asks for things in one Python program; each line of the answer is what
// came of one.
const tries = `
import socket, sys
def tcp(host, port, said=b"GET / HTTP/1.0\r\nHost: x\r\n\r\n"):
    try:
        with socket.create_connection((host, port), timeout=30) as s:
            s.sendall(said)
            b = b""
            while (c := s.recv(4096)): b += c
            return b.split(b"\r\n\r\n")[-1].decode()
    except Exception as e: return type(e).__name__
def udp(host, port, said=b"ping"):
    try:
        a = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(a[0], a[1]) as s:
            s.settimeout(30); s.connect(a[4]); s.send(said)
            return s.recv(70000) == said
    except Exception as e: return type(e).__name__
def name(host):
    try: return " ".join(sorted({a[4][0] for a in socket.getaddrinfo(host, 80)}))
    except Exception as e: return type(e).__name__
`

// refusals of an address, by TCP and by UDP, are told at once.
const refusals = " ConnectionRefusedError ConnectionRefusedError\n"

// Programs that know nothing of proxies reach public addresses, and nothing
// else; large things arrive whole.
func TestFullNetwork(t *testing.T) {
	w := newWorld(t, "*")
	s := w.sandbox(t, sandbox.NetFull)
	own := ownAddress(t)
	special := []string{"127.0.0.1", "169.254.169.254", "10.0.0.7", "192.168.1.1", own, sandbox.LinkHop4, "::ffff:10.0.0.7",
		"fd00:ec2::254", "fe80::1%tun0", "64:ff9b::a00:7", "0.0.0.0", sandbox.LinkHop6}
	got := script(t, s, "python3 - <<'EOF'\n"+tries+`
print(tcp("198.41.0.4", 80)); print(tcp("good.example", 80)); print(tcp("2620:fe::fe", 80)); print(tcp("six.example", 80))
print(udp("198.41.0.4", 7)); print(udp("2620:fe::fe", 7, b"x" * 3000))
print(name("good.example")); print(name("no.example")); print(name("inside.example")); print(name("localhost"))
for a in "`+strings.Join(special, " ")+`".split(): print(a, tcp(a, 80), udp(a, 7))
print("nobody", tcp("198.41.0.4", 81), udp("198.41.0.4", 8))
EOF
head -c 5000000 /dev/urandom >/tmp/large && curl -s --noproxy '*' -H Expect: http://good.example/echo --data-binary @/tmp/large | cmp - /tmp/large && echo same`)
	want := "hello x\nhello x\nhello x\nhello x\nTrue\nTrue\n198.41.0.4\ngaierror\ngaierror\n127.0.0.1 ::1\n"
	for _, a := range special {
		want += a + refusals
	}
	if want += "nobody" + refusals + "same"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	s.Close()
	if err := w.gate.Close(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`"via":"udp","host":"2620:fe::fe","name":"six.example","port":7,"addr":"[2620:fe::fe]:7","verdict":"allowed","rule":"*","sent":3000,"received":3000`,
		`"via":"tcp","host":"169.254.169.254","port":80,"verdict":"refused"`, `"via":"tcp","host":"` + own + `","port":80,"verdict":"refused"`,
		`"via":"dns","host":"inside.example","verdict":"refused"`,
	} {
		if !strings.Contains(w.ledger.String(), line) {
			t.Errorf("the ledger has no %s:\n%s", line, &w.ledger)
		}
	}
}

// An allow-list is the same for programs that ignore proxies: names that are
// allowed, their addresses once they were asked for, and nothing else.
func TestAllowlistByInterface(t *testing.T) {
	w := newWorld(t, "good.example", "198.41.0.9:80", "10.0.0.0/24")
	s := w.sandbox(t, sandbox.NetAllowlist)
	ask := func() string {
		return script(t, s, "python3 - <<'EOF'\n"+tries+`
print(tcp("198.41.0.4", 80)); print(name("good.example")); print(tcp("198.41.0.4", 80)); print(tcp("good.example", 80))
print(name("bad.example")); print(tcp("198.41.0.5", 80)); print(tcp("198.41.0.9", 80)); print(udp("198.41.0.9", 7))
print(name("inside.example")); print(tcp("10.0.0.7", 80)); print(tcp("10.0.1.7", 80))
# whatever server somebody asks, the gate answers
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(30)
s.sendto(b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\4good\7example\0\0\1\0\1", ("192.0.2.53", 53))
print(socket.inet_ntoa(s.recv(512)[-4:]))
t = socket.create_connection(("192.0.2.53", 53), timeout=30)
t.sendall(b"\0\x1d\x12\x34\x01\0\0\1\0\0\0\0\0\0\3bad\7example\0\0\1\0\1"[:2] + b"\x12\x34\x01\0\0\1\0\0\0\0\0\0\3bad\7example\0\0\1\0\1")
print(t.recv(512)[5] & 15)
EOF
http_proxy= curl -s http://good.example/; echo; curl -s http://good.example/`)
	}
	rest := "198.41.0.4\nhello x\nhello x\ngaierror\nConnectionRefusedError\nhello x\nConnectionRefusedError\n" +
		"gaierror\nhello x\nConnectionRefusedError\n198.41.0.4\n3\nhello good.example\nhello good.example"
	if got, want := ask(), "ConnectionRefusedError\n"+rest; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := s.Reset(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if got, want := ask(), "hello x\n"+rest; got != want { // what a name led to stays known
		t.Errorf("after a reset: got\n%s\nwant\n%s", got, want)
	}
	w.gate.Allow("verifier", nil, false)
	if got := script(t, s, "python3 - <<'EOF'\n"+tries+"print(tcp('198.41.0.4', 80), name('good.example'))\nEOF"); got != "ConnectionRefusedError gaierror" {
		t.Errorf("after the network was cut: %s", got)
	}
}

// Whatever a program throws at its interface, the next connection works, and
// what this process holds for it is bounded.
func TestFloodedInterface(t *testing.T) {
	w := newWorld(t, "*")
	s := w.sandbox(t, sandbox.NetFull)
	got := script(t, s, "python3 - <<'EOF'\n"+tries+`
import os, random, struct, resource, select
resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
random.seed(1)
try:
    raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for i in range(20000):
        n = random.randrange(0, 1480)
        head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + n, i & 0xffff, random.choice([0, 0x2000, 0x1fff, 0x2001, 0x4000]), 64,
            random.choice([6, 17, 1, 58, 44, 0, 255]), 0, socket.inet_aton(random.choice(["198.18.0.2", "127.0.0.1", "8.8.8.8"])), socket.inet_aton("198.41.0.4"))
        try: raw.sendto(head + os.urandom(n), ("198.41.0.4", 0))
        except OSError: pass
    syn = lambda port: struct.pack("!HHIIBBHHH", port, 80, 1, 0, 0x50, 2, 65535, 0, 0)
    for port in range(1024, 11024):
        try: raw.sendto(struct.pack("!BBHHHBBH4s4s", 0x45, 0, 40, 1, 0, 64, 6, 0, socket.inet_aton("198.18.0.2"), socket.inet_aton("198.41.0.4")) + syn(port), ("198.41.0.4", 0))
        except OSError: pass
except PermissionError: print("no raw sockets")
u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); u.setblocking(False)
for i in range(20000):
    try: u.sendto(os.urandom(random.randrange(1, 3000)), (f"198.41.{i % 250}.{i % 200}", 1 + i % 60000))
    except OSError: pass
many = []
for i in range(3000):
    c = socket.socket(); c.setblocking(False); many.append(c); c.connect_ex(("198.41.0.4", 80))
poll = select.poll()
for c in many: poll.register(c, select.POLLOUT)
poll.poll(3000)
for c in many: c.close()
print("done")
EOF
for i in $(seq 60); do curl -s -m 20 --noproxy '*' http://good.example/ && exit; sleep 1; done`)
	if got != "done\nhello good.example" {
		t.Errorf("%s", got)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("%d MiB of heap, %d goroutines, %+v", m.HeapAlloc>>20, runtime.NumGoroutine(), w.gate.Totals())
	if m.HeapAlloc > 200<<20 || runtime.NumGoroutine() > 4000 {
		t.Errorf("%d MiB of heap, %d goroutines", m.HeapAlloc>>20, runtime.NumGoroutine())
	}
}

func ownAddress(t *testing.T) string {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && n.IP.To4() != nil {
			return n.IP.String()
		}
	}
	return "127.0.0.2"
}

// BenchmarkNetworks is what a network adds to a sandbox's life, and what an
// interface moves.
func BenchmarkNetworks(b *testing.B) {
	block := make([]byte, 1<<20)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 256 {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}))
	defer web.Close()
	inside := []netip.Addr{netip.MustParsePrefix(sandbox.LinkAddr4).Addr()}
	g := egress.New(egress.Config{All: true, Link: netstack.Config{Inside: inside, MTU: sandbox.LinkMTU}.Link,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, web.Listener.Addr().String())
		}})
	defer g.Close()
	be, _ := open(b)
	for _, n := range be.Capabilities().Networks {
		b.Run(string(n), func(b *testing.B) {
			for b.Loop() {
				s, err := be.Create(b.Context(), sandbox.Spec{Image: hostImage(), Network: n, Egress: g})
				if err != nil {
					b.Fatal(err)
				}
				s.Close()
			}
		})
	}
	b.Run("bytes", func(b *testing.B) {
		s, err := be.Create(b.Context(), sandbox.Spec{Image: hostImage(), Network: sandbox.NetFull, Egress: g})
		if err != nil {
			b.Skip(err)
		}
		defer s.Close()
		b.SetBytes(256 << 20)
		for b.Loop() {
			r, err := sandbox.Exec(b.Context(), s, sandbox.Command{Args: []string{"curl", "-s", "-o", "/dev/null", "http://198.41.0.4/"}}, sandbox.ExecOptions{})
			if err != nil || r.Exit.Code != 0 {
				b.Fatal(err, r)
			}
		}
	})
}

// Sandboxes with interfaces leave no descriptor and no goroutine behind,
// whatever is still open when they end.
func TestInterfacesLeaveNothing(t *testing.T) {
	requireSandbox(t)
	if err := tryTun(tunDevice, realRoot()); err != nil {
		t.Skip(err)
	}
	w := newWorld(t, "*")
	_, st := openStore(t)
	before := goleak.IgnoreCurrent()
	fds := descriptors(t)
	b, err := Open(t.Context(), Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Network: sandbox.NetFull, Egress: w.gate})
		if err != nil {
			t.Fatal(err)
		}
		const open = "bash -c 'exec 3<>/dev/tcp/198.41.0.4/80 4<>/dev/udp/198.41.0.4/7; echo x >&4; echo open; sleep 600 <&3' >/dev/null & sleep 0.1; echo"
		script(t, s, open)
		if _, err := s.Snapshot(t.Context()); err != nil {
			t.Fatal(err)
		}
		script(t, s, open)
		if i%2 == 0 {
			if err := s.Reset(t.Context(), ""); err != nil {
				t.Fatal(err)
			}
			script(t, s, open)
		}
		if i%3 == 0 { // the rest is the backend's to end
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.gate.Close(); err != nil { // it waits for what goes out
		t.Fatal(err)
	}
	w.close()
	goleak.VerifyNone(t, before)
	if n := descriptors(t); n > fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
}

// Where the kernel refuses an interface after all, an allow-list has its proxy,
// and full is refused with the remedy.
func TestNoInterface(t *testing.T) {
	requireSandbox(t)
	w := newWorld(t, "good.example")
	_, st := openStore(t)
	b, err := Open(t.Context(), Config{Store: st, device: "/dev/zero"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var r *doctor.Refusal
	if s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Network: sandbox.NetFull, Egress: w.gate}); !errors.As(err, &r) || r.Finding.Remedy == "" {
		if err == nil {
			s.Close()
		}
		t.Errorf("%v", err)
	}
	s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Network: sandbox.NetAllowlist, Egress: w.gate})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if got := s.(sandbox.Outlet).Outlet(); got != "proxy" {
		t.Errorf("outlet %q", got)
	}
	for range 2 {
		if got := script(t, s, "curl -s http://good.example/; grep -c : /proc/net/dev"); got != "hello good.example1" {
			t.Errorf("%q", got)
		}
		if err := s.Reset(t.Context(), ""); err != nil {
			t.Fatal(err)
		}
	}
}

// A machine without the device refuses, and says how to get it.
func TestNoTun(t *testing.T) {
	for _, c := range []struct {
		make   func(path string) error
		remedy string
	}{
		{func(string) error { return nil }, "modprobe tun"},
		{func(p string) error { return os.Mkdir(p, 0o755) }, "see the error"},
	} {
		root := t.TempDir()
		if err := os.MkdirAll(filepath.Join(root, "dev/net"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := c.make(filepath.Join(root, tunDevice)); err != nil {
			t.Fatal(err)
		}
		var r *doctor.Refusal
		if err := tryTun(filepath.Join(root, tunDevice), false); !errors.As(err, &r) || !strings.Contains(r.Finding.Remedy, c.remedy) {
			t.Errorf("%v", err)
		}
		if f := ProbeTun(Config{Root: image.HostPath(root)}); f.OK || f.Remedy == "" {
			t.Errorf("%+v", f)
		}
	}
}
