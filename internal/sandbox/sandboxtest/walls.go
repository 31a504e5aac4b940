package sandboxtest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"assay/internal/sandbox"
)

// need skips what an image cannot show.
func need(t *testing.T, s sandbox.Starter, program string) {
	t.Helper()
	if sh(t, s, "command -v "+program).Exit.Code != 0 {
		t.Skipf("the image has no %s", program)
	}
}

func (h harness) terminal(t *testing.T) {
	if !h.b.Capabilities().TTY {
		t.Skip("not claimed")
	}
	s := h.create(t)
	p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"sh", "-c", "test -t 0 && test -t 1 && test -t 2 && echo terminal; stty size; read a; echo got-$a"},
		TTY: &sandbox.Size{Rows: 33, Cols: 77}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := io.WriteString(p.Stdin(), "word\n"); err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(p.Stdout())
	if err != nil {
		t.Error(err)
	}
	for _, want := range []string{"terminal", "33 77", "got-word"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in %q", want, out)
		}
	}
	if e, err := p.Wait(ctx(t)); err != nil || e.Code != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	t.Run("end of input", func(t *testing.T) {
		p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"cat"}, TTY: &sandbox.Size{Rows: 24, Cols: 80}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if err := p.Stdin().Close(); err != nil {
			t.Error(err)
		}
		if e, err := p.Wait(ctx(t)); err != nil || e.Code != 0 {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func (h harness) relays(t *testing.T) {
	if !h.b.Capabilities().Relays {
		t.Skip("not claimed")
	}
	var calls atomic.Int32
	s := h.create(t, func(sp *sandbox.Spec) {
		sp.Relays = []sandbox.Relay{{Port: 8080, Handle: func(ctx context.Context, c net.Conn) {
			defer c.Close()
			calls.Add(1)
			line, err := bufio.NewReader(c).ReadString('\n')
			if err == nil {
				fmt.Fprintf(c, "you said %s", line)
			}
		}}}
	})
	need(t, s, "bash")
	talk := func() string {
		r := run(t, s, sandbox.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && echo hello >&3 && cat <&3"}}, sandbox.ExecOptions{})
		return string(r.Stdout)
	}
	equal(t, "answer", talk(), "you said hello\n")
	snap := snapshot(t, s)
	equal(t, "after a snapshot", talk(), "you said hello\n")
	reset(t, s, snap)
	equal(t, "after a reset", talk(), "you said hello\n")
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls for 3 connections", n)
	}
	other := h.create(t)
	if r := run(t, other, sandbox.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080"}}, sandbox.ExecOptions{}); r.Exit.Code == 0 {
		t.Error("another sandbox reaches the relay")
	}
	t.Run("open connections end with the sandbox", func(t *testing.T) {
		ended := make(chan error, 1)
		begun := make(chan struct{})
		s := h.create(t, func(sp *sandbox.Spec) {
			sp.Relays = []sandbox.Relay{{Port: 81, Handle: func(ctx context.Context, c net.Conn) {
				defer c.Close()
				close(begun)
				_, err := c.Read(make([]byte, 1))
				ended <- err
			}}}
		})
		p, err := s.Start(ctx(t), sandbox.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/81; sleep 600"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		select {
		case <-begun:
		case <-time.After(10 * time.Second):
			t.Fatal("no connection")
		}
		s.Close()
		select {
		case err := <-ended:
			if err == nil {
				t.Error("a byte came from a dead sandbox")
			}
		case <-time.After(10 * time.Second):
			t.Error("a handler hangs")
		}
	})
}

// walls: two sandboxes see nothing of each other, and neither sees the host.
func (h harness) walls(t *testing.T) {
	if !h.Walls {
		t.Skip("this backend has none, and says so: " + h.b.Capabilities().Isolation)
	}
	a, b := h.create(t), h.create(t)
	t.Run("trees", func(t *testing.T) {
		places := "/root /home /tmp /var/tmp /dev/shm /dev /run /opt /"
		ok(t, a, "for d in "+places+"; do mkdir -p $d; echo secret > $d/planted || exit 1; done; mkdir -p /root/.cache; echo memory > /root/.cache/planted")
		r := sh(t, b, "for d in "+places+" /root/.cache; do test -e $d/planted && echo $d; done; exit 0")
		equal(t, "seen in the other", string(r.Stdout), "")
	})
	t.Run("processes", func(t *testing.T) {
		p, err := a.Start(ctx(t), sandbox.Command{Args: []string{"sleep", "4242"}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if out := ok(t, b, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '"); strings.Contains(out, "4242") {
			t.Errorf("the other's processes are seen: %q", out)
		}
		if out := ok(t, b, "echo /proc/[0-9]*"); len(strings.Fields(out)) > 4 {
			t.Errorf("too many processes: %s", out)
		}
	})
	t.Run("network", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		out := ok(t, a, "cat /proc/net/dev")
		for line := range strings.Lines(out) {
			if name, _, found := strings.Cut(line, ":"); found && strings.TrimSpace(name) != "lo" {
				t.Errorf("an interface besides loopback: %s", line)
			}
		}
		need(t, a, "bash")
		host := strings.Replace(l.Addr().String(), ":", "/", 1)
		if r := run(t, a, sandbox.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/" + host}}, sandbox.ExecOptions{}); r.Exit.Code == 0 {
			t.Error("the host's loopback is reached")
		}
		if r := run(t, a, sandbox.Command{Args: []string{"bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/80"}}, sandbox.ExecOptions{Timeout: 5 * time.Second}); r.Exit.Code == 0 || r.TimedOut {
			t.Errorf("there is a way out: %+v", r)
		}
	})
	t.Run("loopback works", func(t *testing.T) {
		need(t, a, "perl")
		equal(t, "echo", ok(t, a, `perl -MIO::Socket::INET -e '
			$s = IO::Socket::INET->new(Listen=>1, LocalAddr=>"127.0.0.1", LocalPort=>7777) or die $!;
			if (!fork) { $c = $s->accept; print $c "hi\n"; exit }
			$c = IO::Socket::INET->new("127.0.0.1:7777") or die $!; print scalar <$c>; wait'`), "hi")
	})
	t.Run("abstract sockets", func(t *testing.T) {
		need(t, a, "perl")
		const listen = `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); bind(S,pack_sockaddr_un("\0planted")) or die; listen(S,1); print "up\n"; $|=1; print ""; sleep 600'`
		p, err := a.Start(ctx(t), sandbox.Command{Args: []string{"sh", "-c", "perl -v > /dev/null; " + strings.Replace(listen, `print "up\n"; $|=1;`, `$|=1; print "up\n";`, 1)}})
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if _, err := io.ReadFull(p.Stdout(), make([]byte, 3)); err != nil {
			t.Fatal(err)
		}
		connect := `perl -MSocket -e 'socket(S,AF_UNIX,SOCK_STREAM,0); exit(connect(S,pack_sockaddr_un("\0planted")) ? 0 : 9)'`
		ok(t, a, connect)
		if r := sh(t, b, connect); r.Exit.Code != 9 {
			t.Errorf("the other's socket is reached: %+v", r)
		}
	})
	t.Run("system v ipc", func(t *testing.T) {
		need(t, a, "ipcmk")
		ok(t, a, "ipcmk -M 1000 > /dev/null")
		if n := ok(t, b, "ipcs -m | grep -c 0x || true"); n != "0" {
			t.Errorf("%s segments of the other are seen", n)
		}
		reset(t, a, "")
		if n := ok(t, a, "ipcs -m | grep -c 0x || true"); n != "0" {
			t.Errorf("%s segments outlive a reset", n)
		}
	})
}

func (h harness) limits(t *testing.T) {
	claims := map[string]bool{}
	for _, l := range h.b.Capabilities().Limits {
		what, by, found := strings.Cut(l, ":")
		if !found || by == "" {
			t.Errorf("claim %q does not say what holds the limit", l)
		}
		claims[what] = true
	}
	held := func(t *testing.T, s sandbox.Sandbox, what string) {
		t.Helper()
		hs, is := s.(sandbox.Held)
		if !is {
			t.Fatal("limits are claimed but not reported")
		}
		got, _ := hs.Held()
		for _, g := range got {
			if strings.HasPrefix(g, what+":") {
				return
			}
		}
		t.Errorf("%s is not among what is held: %v", what, got)
	}
	t.Run("disk", func(t *testing.T) {
		if !claims["disk"] {
			t.Skip("not claimed")
		}
		s := h.create(t, func(sp *sandbox.Spec) { sp.Limits.DiskBytes = 8 << 20 })
		held(t, s, "disk")
		r := sh(t, s, "head -c 20000000 /dev/zero > /fill")
		if r.Exit.Code == 0 || !strings.Contains(strings.ToLower(string(r.Stderr)), "no space") {
			t.Errorf("%+v %s", r.Exit, r.Stderr)
		}
		if err := s.Put(ctx(t), "/more", pack(t, entry{name: "x", mode: 0o644, body: strings.Repeat("x", 1<<20)})); err == nil {
			t.Error("put into a full sandbox")
		}
		ok(t, h.create(t), "head -c 20000000 /dev/zero > /fill") // the others have room
		ok(t, s, "rm /fill; head -c 4000000 /dev/zero > /fill")
		snapshot(t, s)
		if r := sh(t, s, "head -c 6000000 /dev/zero > /fill2"); r.Exit.Code == 0 {
			t.Error("a snapshot makes room that is not there")
		}
	})
	t.Run("inodes", func(t *testing.T) {
		if !claims["inodes"] {
			t.Skip("not claimed")
		}
		s := h.create(t, func(sp *sandbox.Spec) { sp.Limits.Inodes = 200 })
		held(t, s, "inodes")
		r := sh(t, s, "i=0; while test $i -lt 1000; do i=$((i+1)); echo > /tmp/$i || exit 1; done")
		if r.Exit.Code == 0 {
			t.Error("1000 files were made")
		}
	})
	t.Run("pids", func(t *testing.T) {
		if !claims["pids"] {
			t.Skip("not claimed")
		}
		s, other := h.create(t, func(sp *sandbox.Spec) { sp.Limits.Pids = 20 }), h.create(t)
		held(t, s, "pids")
		r := run(t, s, sandbox.Command{Args: []string{"sh", "-c", "i=0; while test $i -lt 60; do i=$((i+1)); sleep 600 & done; echo all"}}, sandbox.ExecOptions{Timeout: 20 * time.Second})
		if strings.Contains(string(r.Stdout), "all") {
			t.Error("60 processes were made")
		}
		ok(t, other, "true")
		if err := s.Kill(ctx(t)); err != nil {
			t.Error(err)
		}
		ok(t, s, "true")
	})
	t.Run("files", func(t *testing.T) {
		if !claims["files"] {
			t.Skip("not claimed")
		}
		s := h.create(t, func(sp *sandbox.Spec) { sp.Limits.OpenFiles = 64 })
		held(t, s, "files")
		equal(t, "open files", ok(t, s, "ulimit -n"), "64")
	})
	t.Run("memory", func(t *testing.T) {
		if !claims["memory"] {
			t.Skip("not claimed")
		}
		s, other := h.create(t, func(sp *sandbox.Spec) { sp.Limits.MemBytes = 96 << 20 }), h.create(t)
		held(t, s, "memory")
		keep := func(n int) sandbox.ExecResult { // tail keeps what may be the end
			return sh(t, s, fmt.Sprintf("head -c %d /dev/zero | tail -c %d | cat > /dev/null", n, n))
		}
		if r := keep(30_000_000); r.Exit.Code != 0 || r.Exit.OutOfMemory {
			t.Errorf("30 MB below a limit of 96 MiB: %+v", r.Exit)
		}
		if r := keep(1_500_000_000); !r.Exit.OutOfMemory {
			t.Errorf("1.5 GB: %+v %s", r.Exit, r.Stderr)
		}
		if r := sh(t, s, "ulimit -v; head -c 60000000 /dev/zero > /big"); r.Exit.Code != 0 || r.Exit.OutOfMemory || string(r.Stdout) != "unlimited\n" {
			t.Errorf("afterwards: %+v %s", r.Exit, r.Stdout) // address space and files are not memory
		}
		if r := sh(t, other, "true"); r.Exit.OutOfMemory {
			t.Error("the other sandbox paid for it")
		}
	})
}
