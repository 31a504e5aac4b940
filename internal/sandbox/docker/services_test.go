package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker"
)

// serve is a program that answers on a port with what a file holds.
const serve = `exec python3 -c '
import http.server, os, sys
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(open("/data/word").read().encode())
    def do_PUT(self):
        open("/data/word", "wb").write(self.rfile.read(int(self.headers["Content-Length"]))); self.send_response(200); self.end_headers()
    def log_message(self, *a): print("asked", flush=True)
http.server.HTTPServer(("", 80), H).serve_forever()'`

// gate answers for every host by itself.
type gate struct{}

func (gate) Proxy(_ context.Context, c net.Conn) {
	defer c.Close()
	if r, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
		said := "through the gate of " + r.Host
		fmt.Fprintf(c, "HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(said), said)
	}
}

func (gate) Lookup(context.Context, string) ([]netip.Addr, error) {
	return nil, &net.DNSError{IsNotFound: true}
}

func (gate) Carries() bool { return false }

func (gate) Names(_ context.Context, c net.PacketConn) { c.Close() }

func (gate) Carry(_ context.Context, link io.ReadWriteCloser) error { return link.Close() }

func healthy(line string) image.Healthcheck {
	return image.Healthcheck{Test: []string{"CMD-SHELL", line}, Interval: time.Second, Retries: 20}
}

func sh(t testing.TB, s sandbox.Starter, line string) (string, int) {
	t.Helper()
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", line}}, sandbox.ExecOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return string(r.Stdout) + string(r.Stderr), r.Exit.Code
}

// Services run beside a sandbox, in order, and are reached by name and by
// nothing else; they live on through what is done to the sandbox alone.
func services(t *testing.T, st *image.Store, im image.Image) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "word"), []byte("first"), 0o644); err != nil {
		t.Fatal(err)
	}
	b := open(t, st)
	web := sandbox.Service{Name: "web", Image: im, Args: []string{"sh", "-c", serve}, Aliases: []string{"shop"},
		Health: healthy("curl -fs http://127.0.0.1/"), Volumes: []sandbox.Volume{{Name: "shared", Target: "/shared"}},
		Files: []sandbox.HostFile{{Source: image.HostPath(dir), Target: "/data"}}}
	seed := sandbox.Service{Name: "seed", Image: im, Args: []string{"sh", "-c", `curl -fs -X PUT -d "seeded by $WHO" http://web/`}, Env: []string{"WHO=seed"},
		After: []sandbox.After{{Service: "web", Condition: sandbox.Healthy}}}
	flaky := sandbox.Service{Name: "flaky", Image: im, Args: []string{"sh", "-c", "echo x >> /n; [ $(wc -l < /n) = 3 ] || exit 1; exec sleep 1000"}, Restart: sandbox.RestartFailure,
		Health: healthy("[ $(wc -l < /n) = 3 ]")}
	// With a gate: what is no service is asked of it, by all of them.
	spec := sandbox.Spec{Image: im, Network: sandbox.NetAllowlist, Egress: gate{}, Set: &sandbox.Set{
		Main:   sandbox.Service{After: []sandbox.After{{Service: "seed", Condition: sandbox.Completed}}, Volumes: []sandbox.Volume{{Name: "shared", Target: "/shared"}}},
		Beside: []sandbox.Service{web, seed, flaky}}}
	s, err := b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(s sandbox.Starter, line, want string) {
		t.Helper()
		if out, code := sh(t, s, line); code != 0 || out != want {
			t.Errorf("%s: status %d %q, want %q", line, code, out, want)
		}
	}
	expect(s, "curl -fs http://web/", "seeded by seed")
	expect(s, "curl -fs http://shop/", "seeded by seed")
	n, ok := s.(sandbox.Composed).Beside("web")
	if !ok {
		t.Fatal("no service web")
	}
	for _, at := range []sandbox.Starter{s, n} {
		expect(at, "curl -s http://world.example/", "through the gate of world.example")
	}
	expect(s, "echo hello > /shared/x", "")
	expect(n, "cat /shared/x", "hello\n")
	if out := string(n.Log()); !strings.Contains(out, "asked") {
		t.Errorf("its log is %q", out)
	}
	if _, ok := s.(sandbox.Composed).Beside("main"); ok {
		t.Error("the sandbox is beside itself")
	}

	t.Run("no way out", func(t *testing.T) { noWayOut(t, s) })

	// The sandbox is frozen, and another takes its place beside the services as
	// they have become.
	expect(s, `curl -fs -X PUT -d "the agent's" http://web/`, "")
	expect(s, "echo work > /work", "")
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	judge, err := b.Create(t.Context(), sandbox.Spec{Image: im, From: snap, Beside: s})
	if err != nil {
		t.Fatal(err)
	}
	expect(judge, "cat /work /shared/x; curl -fs http://web/", "work\nhello\nthe agent's")
	expect(n, "getent hosts main >/dev/null && echo one", "one\n")
	if out, code := sh(t, s, "curl -fsm 5 http://web/"); code == 0 {
		t.Errorf("the sandbox that stepped back still reaches its services: %s", out)
	}
	if err := judge.Close(); err != nil {
		t.Error(err)
	}
	expect(s, "curl -fs http://web/", "the agent's")
	if err := s.Reset(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	expect(s, "cat /work; curl -fs http://web/", "work\nthe agent's")
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := docker.Left(t, engine(t), docker.Owner(b)); n > 3 { // keeper, its volume, the snapshot
		t.Errorf("%d things stay after a close", n)
	}

	t.Run("what does not start", func(t *testing.T) { unhealthy(t, b, im) })
}

// noWayOut tries what a network between containers could lead to.
func noWayOut(t *testing.T, s sandbox.Sandbox) {
	l, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Errorf("a program of the sandbox reached this machine from %s", c.RemoteAddr())
			c.Close()
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	// The first addresses of its own network are where an engine puts itself.
	out, _ := sh(t, s, fmt.Sprintf(`python3 - <<'E'
import socket, fcntl, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
own = socket.inet_ntoa(fcntl.ioctl(s.fileno(), 0x8915, struct.pack("256s", b"eth0"))[20:24])
nets = {own.rsplit(".", 1)[0] + ".1", own.rsplit(".", 2)[0] + ".0.1", "172.17.0.1"}
for a in sorted(nets | {"169.254.169.254", "192.0.2.1"}):
    c = socket.socket(); c.settimeout(1.5)
    try:
        c.connect((a, %d)); print("reached", a)
    except OSError as e: pass
E`, port))
	if out != "" {
		t.Error(out)
	}
	if out, _ := sh(t, s, "cat /proc/net/if_inet6; python3 -c 'import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)' 2>&1 | tail -n 1"); !strings.Contains(out, "PermissionError") || strings.Contains(out, "eth0") {
		t.Errorf("frames can be written by hand, or there is IPv6: %s", out)
	}
	begin := time.Now()
	if out, code := sh(t, s, "getent hosts example.com"); code == 0 {
		t.Errorf("a name of the world is answered: %s", out)
	}
	t.Logf("an unknown name is refused after %v", time.Since(begin))
}

func unhealthy(t *testing.T, b sandbox.Backend, im image.Image) {
	for name, c := range map[string]struct {
		services []sandbox.Service
		want     string
	}{
		"program ends": {[]sandbox.Service{{Name: "db", Image: im, Args: []string{"sh", "-c", "echo no licence >&2; exit 3"}, Health: healthy("false")}}, "status 3"},
		"no program":   {[]sandbox.Service{{Name: "db", Image: im, Args: []string{"/no/such"}}}, "program not started"},
		"not healthy": {[]sandbox.Service{{Name: "db", Image: im, Args: []string{"sleep", "100"},
			Health: image.Healthcheck{Test: []string{"CMD", "sh", "-c", "echo never >&2; false"}, Interval: 100 * time.Millisecond, Retries: 1}}}, "never"},
		"never first": {[]sandbox.Service{{Name: "db", Image: im, Args: []string{"false"}, Health: healthy("true")},
			{Name: "web", Image: im, Args: []string{"sleep", "100"}, After: []sandbox.After{{Service: "db", Condition: sandbox.Completed}}}}, "status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := b.Create(t.Context(), sandbox.Spec{Image: im, Set: &sandbox.Set{Beside: c.services}})
			if err == nil {
				s.Close()
				t.Fatal("it was made")
			}
			if !errors.Is(err, sandbox.ErrUnhealthy) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), `service "db"`) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
