package ns

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/sandbox"
)

// pester asks init's name server and a relay again and again, and waits for
// each answer.
func pester() error {
	names, err := net.Dial("udp", "127.0.0.1:53")
	if err != nil {
		return err
	}
	question := append([]byte("\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00"), "\x04some\x04name\x00\x00\x01\x00\x01"...)
	var b [512]byte
	for range 2000 {
		if _, err := names.Write(question); err != nil {
			return err
		}
		_ = names.SetReadDeadline(time.Now().Add(10 * time.Second))
		if n, err := names.Read(b[:]); err != nil || !bytes.Equal(b[:2], question[:2]) {
			return fmt.Errorf("answer of %d bytes: %w", n, err)
		}
	}
	for range 300 {
		c, err := net.Dial("tcp", "127.0.0.1:8000")
		if err != nil {
			return err
		}
		if n, err := c.Read(b[:]); n != 2 || err != nil {
			return fmt.Errorf("relay said %q: %w", b[:n], err)
		}
		c.Close()
	}
	return nil
}

// An init collects no garbage, and so must make none: whatever is asked of it
// from outside and inside, its memory stays what it was.
func TestInitMakesNothing(t *testing.T) {
	b, _ := open(t)
	relay := sandbox.Relay{Port: 8000, Handle: func(_ context.Context, c net.Conn) {
		_, _ = c.Write([]byte("ok"))
		c.Close()
	}}
	s := arena(t, b, func(spec *sandbox.Spec) { spec.Relays = []sandbox.Relay{relay} })
	long := strings.Repeat("x", 100<<10) // more than a packet
	work := func(rounds int) {
		if out := assault(t, s, "pester"); out != "" {
			t.Fatal(out)
		}
		for i := range rounds {
			cmd := sandbox.Command{Args: []string{"true"}, User: "1000"}
			if i%10 == 0 {
				cmd = sandbox.Command{Args: []string{"true", long}}
			}
			if r, err := sandbox.Exec(t.Context(), s, cmd, sandbox.ExecOptions{}); err != nil || r.Exit.Code != 0 {
				t.Fatal(r, err)
			}
		}
		for range rounds / 50 {
			p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"sleep", "100"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.Signal(t.Context(), syscall.SIGTERM); err != nil {
				t.Error(err)
			}
			if e, err := p.Wait(t.Context()); err != nil || e.Signal != syscall.SIGTERM {
				t.Error(e, err)
			}
			p.Close()
		}
	}
	work(50)
	before := ownMemory(t, s)
	work(500)
	more := ownMemory(t, s) - before
	t.Logf("%d KiB, and %d bytes more after all that", before>>10, more)
	if more > 16<<10 {
		t.Error("it grew")
	}
}

// ownMemory is what a sandbox's init shares with nobody, in bytes.
func ownMemory(t *testing.T, s sandbox.Sandbox) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(s.(*Sandbox).current().pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	return meminfo(string(text), "RssAnon")
}
