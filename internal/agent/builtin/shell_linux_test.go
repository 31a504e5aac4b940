package builtin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/sandbox"
)

func newShell(t *testing.T, s agent.Session) *shell {
	sh := &shell{s: s, env: s.Env, max: 4000, use: &use{}}
	t.Cleanup(sh.close)
	return sh
}

// both runs a test with bash, and with a plain shell where bash is not found.
func both(t *testing.T, open func() sandbox.Sandbox, f func(t *testing.T, sh *shell)) {
	for _, path := range []string{"PATH=/usr/bin:/bin", "PATH=/app/bin"} {
		t.Run(path, func(t *testing.T) {
			s := sessionIn(t, open(), "", nil)
			res, err := sandbox.Exec(t.Context(), s.Sandbox, sandbox.Command{Dir: "/", Args: []string{"/bin/sh", "-c",
				`mkdir /app/bin && for p in sh cat sleep printf seq head rm mkdir touch; do ln -s /usr/bin/$p /app/bin/; done`}}, sandbox.ExecOptions{})
			if err != nil || res.Exit.Code != 0 {
				t.Fatalf("%v %s", err, res.Stderr)
			}
			s.Env = append(s.Env, path)
			f(t, newShell(t, s))
		})
	}
}

func TestShellKeepsItsState(t *testing.T) {
	both(t, opener(t), func(t *testing.T, sh *shell) {
		for _, c := range []struct{ command, output, note string }{
			{"echo $FROM_SESSION; echo err >&2", "yes\nerr\n", ""},
			{"cd /app/bin; x='a b'; f() { echo \"f $1\"; }", "", ""},
			{"f \"$x\"; pwd", "f a b\n/app/bin\n", ""},
			{"printf 'no end of line'", "no end of line", ""},
			{"cat", "", ""}, // standard input is empty, not the shell's
			{"cat <<'E'\nit's\n\nE\n", "it's\n\n", ""},
			{"if", "", ""},
			{"echo \"$x\"", "a b\n", ""},
			{"exit 7", "", "ended with status 7"},
			{"echo \"[$x]\"; pwd", "[]\n/app/bin\n", ""},
			{"set -e; sh -c 'exit 3'; echo never", "", "ended with status 3"},
			{"nonsense-command", "", ""},
			{"echo 'assay-' 0 /", "assay- 0 /\n", ""},
		} {
			got, err := sh.run(t.Context(), c.command, 20*time.Second)
			if err != nil {
				t.Fatalf("%q: %v", c.command, err)
			}
			switch {
			case c.command == "if" && (got.status == 0 || !strings.Contains(strings.ToLower(got.output), "syntax error")),
				c.command == "nonsense-command" && (got.status != 127 || !strings.Contains(got.output, "not found")),
				c.output != "" && got.output != c.output, !strings.Contains(got.note, c.note), c.note == "" && got.note != "":
				t.Errorf("%q: %+v", c.command, got)
			}
		}
	})
}

// What hangs is killed with all that it started, and the next command finds a
// new shell in the same directory.
func TestShellKillsWhatHangs(t *testing.T) {
	both(t, opener(t), func(t *testing.T, sh *shell) {
		if _, err := sh.run(t.Context(), "mkdir /app/here; cd /app/here; x=1", 20*time.Second); err != nil {
			t.Fatal(err)
		}
		got, err := sh.run(t.Context(), "(while :; do echo beat >>/app/beat; sleep 0.05; done) & trap '' TERM; echo begun; sleep 1000", 500*time.Millisecond)
		if err != nil || !got.failed || got.output != "begun\n" || !strings.Contains(got.note, "killed after 500ms") {
			t.Fatalf("%+v, %v", got, err)
		}
		got, err = sh.run(t.Context(), `echo "[$x]"; cd; cd /app/here; a=$(cat /app/beat); sleep 0.3; [ "$a" = "$(cat /app/beat)" ] && echo dead`, 20*time.Second)
		if err != nil || !strings.HasPrefix(got.output, "[]\n") || !strings.HasSuffix(got.output, "dead\n") {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestShellOutput(t *testing.T) {
	sh := newShell(t, sessionIn(t, opener(t)(), "", nil))
	got, err := sh.run(t.Context(), "seq 1 300000", time.Minute)
	if err != nil || !strings.HasPrefix(got.output, "1\n2\n3\n") || !strings.HasSuffix(got.output, "\n299999\n300000\n") || len(got.output) > 4200 || !strings.Contains(got.output, "bytes left out") {
		t.Errorf("%d bytes, %v: %.40q", len(got.output), err, got.output)
	}
	// A line that never ends, and no text at all.
	if got, err = sh.run(t.Context(), "head -c 3000000 /dev/zero", time.Minute); err != nil || len(got.output) > 4200 || got.status != 0 {
		t.Errorf("%d bytes, %v", len(got.output), err)
	}
	if got, err = sh.run(t.Context(), "printf '\\377\\376ok'", time.Minute); err != nil || !strings.HasSuffix(got.output, "ok") || !strings.HasPrefix(got.output, "\ufffd") {
		t.Errorf("%q, %v", got.output, err)
	}
	if got, err = sh.run(t.Context(), "a\x00b", time.Minute); err != nil || !strings.Contains(got.note, "zero byte") {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err = sh.run(t.Context(), "x='"+strings.Repeat("long ", 200_000)+"'; echo ${#x}", time.Minute); err != nil || got.output != "1000000\n" {
		t.Errorf("%q, %v", got.output, err)
	}
}

// A server in the background does not hold the shell, nor does the shell's end
// end it.
func TestShellBackground(t *testing.T) {
	s := sessionIn(t, opener(t)(), "", nil)
	sh := newShell(t, s)
	got, err := sh.run(t.Context(), "(sleep 0.3; echo late; sleep 0.5; echo done >/app/done) & echo started", 20*time.Second)
	if err != nil || got.output != "started\n" {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err = sh.run(t.Context(), "sleep 0.5; echo next", 20*time.Second); err != nil || got.output != "late\nnext\n" {
		t.Errorf("%+v, %v", got, err)
	}
	sh.close()
	for range 100 {
		if content(t, s, "/app/done") == "done\n" {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("the program in the background did not live on")
}

// The directory, and the shell itself, may go away under it.
func TestShellWithoutGround(t *testing.T) {
	sh := newShell(t, sessionIn(t, opener(t)(), "", nil))
	for i, c := range []struct{ command, want string }{
		{"mkdir /app/x; cd /app/x; rm -rf /app/x", ""},
		{"exit", "in /app/x"},
		{"pwd", "/app"},
		{"rm -rf /app; exit 1", "ended"},
		{"pwd", "no shell: "},
		{"pwd", "no shell: "},
	} {
		got, err := sh.run(t.Context(), c.command, 20*time.Second)
		if err != nil || !strings.Contains(got.output+got.note, c.want) {
			t.Errorf("%d: %+v, %v; want %q", i, got, err, c.want)
		}
	}
}

func TestShellIsCutOff(t *testing.T) {
	s := sessionIn(t, opener(t)(), "", nil)
	sh := newShell(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
	got, err := sh.run(ctx, "echo before; sleep 1000", time.Minute)
	if !errors.Is(err, stop) || got.output != "before\n" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := sh.run(ctx, "true", time.Minute); !errors.Is(err, stop) {
		t.Errorf("after the end: %v", err)
	}
	if sh.use.report.CPU == nil {
		t.Error("what the shell used is not counted")
	}
}

func TestHeadTail(t *testing.T) {
	for _, n := range []int{0, 1, 99, 100, 101, 150, 1000} {
		for _, chunk := range []int{1, 7, 64, 5000} {
			h := headTail{max: 100}
			var all strings.Builder
			for i := range n {
				fmt.Fprintf(&all, "%c", 'a'+i%26)
			}
			text := all.String()
			for b := text; b != ""; {
				k := min(chunk, len(b))
				h.Write([]byte(b[:k]))
				b = b[k:]
			}
			want := text
			if n > 100 {
				want = text[:50] + fmt.Sprintf("\n[… %d bytes left out …]\n", n-100) + text[n-50:]
			}
			if got := h.String(); got != want {
				t.Errorf("%d in chunks of %d: %q, want %q", n, chunk, got, want)
			}
		}
	}
	if got := clip(strings.Repeat("ä", 100), 101); strings.Contains(got, "\ufffd") || !strings.Contains(got, "bytes left out") {
		t.Errorf("a cut within a character: %q", got)
	}
}
