package builtin

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// shellProgram is bash where there is one. Both streams are one, so that their
// order is kept.
const shellProgram = `exec 2>&1
command -v bash >/dev/null 2>&1 && exec bash --noprofile --norc
exec sh`

// goodbye is how long a shell has to end when nobody needs it any more.
const goodbye = 2 * time.Second

// shell is one that lives from command to command: its directory, variables
// and background programs stay. It is started when it is first needed, and
// again after it ended. It is used by one goroutine.
type shell struct {
	s   agent.Session
	env []string
	max int // bytes of one command's output that are kept

	cwd  image.Path // of the last command
	live *liveShell
	use  *use
}

// liveShell is a shell that runs.
type liveShell struct {
	p     sandbox.Process
	mark  string // begins the line that ends a command's output
	ended chan struct{}
	exit  sandbox.Exit // when ended is closed
	err   error

	mu   sync.Mutex
	out  headTail      // since the last command's end
	done chan finished // of the command that runs
}

// finished is what a command's last line says.
type finished struct {
	status int
	cwd    string
	output string
}

// ran is what one command came to.
type ran struct {
	output string
	status int
	note   string // what happened to the shell
	failed bool
}

// run gives one command to the shell and waits for its end. An error means
// that ctx ended or that the sandbox is lost.
func (sh *shell) run(ctx context.Context, command string, timeout time.Duration) (ran, error) {
	if strings.ContainsRune(command, 0) {
		return ran{note: "not run: the command holds a zero byte", failed: true}, nil
	}
	if err := ctx.Err(); err != nil {
		return ran{}, context.Cause(ctx)
	}
	if err := sh.start(ctx); err != nil {
		if errors.Is(err, sandbox.ErrNotStarted) {
			return ran{note: "no shell: " + err.Error(), failed: true}, nil
		}
		return ran{}, err
	}
	l := sh.live
	done := make(chan finished, 1)
	l.mu.Lock()
	l.done = done
	l.mu.Unlock()
	// "command" takes from eval what ends a shell that meets a syntax error.
	line := "command eval " + quote(command) + " </dev/null\nprintf '\\n" + l.mark + " %d %s\\n' $? \"$PWD\"\n"
	go io.WriteString(l.p.Stdin(), line) // blocks while the shell does not read; ends with it at the latest

	limit := time.NewTimer(timeout)
	defer limit.Stop()
	select {
	case f := <-done:
		sh.cwd = image.Path(f.cwd)
		return ran{output: f.output, status: f.status, failed: f.status != 0}, nil
	case <-l.ended:
		sh.gone()
		if l.err != nil {
			return ran{}, fmt.Errorf("shell: %w", l.err)
		}
		select { // its last words, if it still said that it was done
		case f := <-done:
			return ran{output: f.output, status: f.status, failed: f.status != 0}, nil
		default:
		}
		return ran{output: l.taken(), status: l.exit.Code, failed: l.exit.Code != 0,
			note: fmt.Sprintf("the shell ended with status %d; the next command gets a new one in %s, without its variables", l.exit.Code, sh.dir())}, nil
	case <-limit.C:
		sh.kill()
		return ran{output: l.taken(), failed: true,
			note: fmt.Sprintf("killed after %v, with all that the shell had started; the next command gets a new shell in %s, without its variables", timeout, sh.dir())}, nil
	case <-ctx.Done():
		sh.kill()
		return ran{output: l.taken()}, context.Cause(ctx)
	}
}

func (sh *shell) dir() image.Path {
	if sh.cwd != "" {
		return sh.cwd
	}
	return sh.s.Workdir
}

// start begins a shell where there is none: where the last one was, or in the
// workdir if that place is gone.
func (sh *shell) start(ctx context.Context) error {
	if sh.live != nil {
		return nil
	}
	c := sandbox.Command{Args: []string{"/bin/sh", "-c", shellProgram}, Env: sh.env, Dir: sh.dir(), User: sh.s.User, Stdin: true}
	p, err := sh.s.Sandbox.Start(ctx, c)
	if errors.Is(err, sandbox.ErrNotStarted) && sh.cwd != "" {
		sh.cwd, c.Dir = "", sh.s.Workdir
		p, err = sh.s.Sandbox.Start(ctx, c)
	}
	if err != nil {
		return err
	}
	l := &liveShell{p: p, mark: "assay-" + rand.Text(), ended: make(chan struct{}), out: headTail{max: sh.max}}
	read := make(chan struct{})
	go func() { defer close(read); l.read() }()
	go io.Copy(io.Discard, p.Stderr()) // empty, since both streams are one; ends with the process
	go func() {
		l.exit, l.err = p.Wait(context.WithoutCancel(ctx))
		select {
		case <-read:
		case <-time.After(200 * time.Millisecond): // what it left running may hold the stream
		}
		close(l.ended)
	}()
	sh.live = l
	return nil
}

// read takes the output apart, until it ends.
func (l *liveShell) read() {
	r := bufio.NewReaderSize(l.p.Stdout(), 64<<10)
	for {
		line, err := r.ReadSlice('\n')
		if rest, ok := bytes.CutPrefix(line, []byte(l.mark+" ")); ok && l.finish(rest) {
			continue
		}
		l.mu.Lock()
		l.out.Write(line)
		l.mu.Unlock()
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return
		}
	}
}

// finish reads "STATUS DIRECTORY".
func (l *liveShell) finish(rest []byte) bool {
	status, cwd, ok := strings.Cut(strings.TrimSuffix(string(rest), "\n"), " ")
	n, err := strconv.Atoi(status)
	if !ok || err != nil {
		return false
	}
	output := strings.TrimSuffix(l.taken(), "\n") // the mark's own
	l.mu.Lock()
	done := l.done
	l.done = nil
	l.mu.Unlock()
	if done != nil {
		done <- finished{n, cwd, output}
	}
	return true
}

// taken is the output until now; the next one begins empty.
func (l *liveShell) taken() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.out.String()
	l.out = headTail{max: l.out.max}
	return s
}

// kill ends the shell and its whole session.
func (sh *shell) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_ = sh.live.p.Signal(ctx, syscall.SIGKILL) // it may be gone already
	select {
	case <-sh.live.ended:
	case <-ctx.Done():
	}
	sh.gone()
}

// gone forgets a shell that has ended.
func (sh *shell) gone() {
	sh.live.p.Close()
	sh.use.add(sh.live.exit)
	sh.live = nil
}

// close lets the shell end by itself, so that servers that it started live on.
func (sh *shell) close() {
	if sh.live == nil {
		return
	}
	sh.live.p.Stdin().Close()
	select {
	case <-sh.live.ended:
		sh.gone()
	case <-time.After(goodbye):
		sh.kill()
	}
}

// quote makes one word of the shell's language of any text.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
