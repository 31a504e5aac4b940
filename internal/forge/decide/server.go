package decide

import (
	"bufio"
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"assay/internal/sandbox"
)

// Programs of ours that run in sandboxes, beside hostile code: what they say is
// bounded and not believed.
//
//go:embed drivers/*
var programs embed.FS

// inside is where they lie in a sandbox.
const inside = "/.assay-decide"

// server is such a program, which answers lines of JSON with lines of JSON that
// begin with a mark: other output of the command is passed over.
type server struct {
	sb  sandbox.Sandbox
	p   sandbox.Process
	out *bufio.Reader
	err *tail
	wg  sync.WaitGroup
}

const mark = "assay "

// startTime is how long the suite's command may take to become a server.
const startTime = 60 * time.Second

func startServer(ctx context.Context, d *Decider, c *command, run string, files ...string) (*server, error) {
	sb, err := d.box(ctx)
	if err != nil {
		return nil, err
	}
	if err := d.putPrograms(ctx, sb, files...); err != nil {
		sb.Close()
		return nil, err
	}
	return startIn(ctx, sb, d, c, run)
}

// putPrograms puts programs of ours into a sandbox.
func (d *Decider) putPrograms(ctx context.Context, sb sandbox.Trees, files ...string) error {
	put := map[string][]byte{}
	for _, f := range files {
		b, err := programs.ReadFile("drivers/" + f)
		if err != nil {
			return err
		}
		put[f] = b
	}
	return d.putAt(ctx, sb, inside, put)
}

// startIn starts a server in a sandbox, which is the server's from now on.
func startIn(ctx context.Context, sb sandbox.Sandbox, d *Decider, c *command, run string) (*server, error) {
	s := &server{sb: sb, err: &tail{}}
	var err error
	if s.p, err = sb.Start(ctx, sandbox.Command{Args: []string{"/bin/sh", "-c", run}, Env: c.variables(), Dir: d.dir(c), User: c.User, Stdin: true}); err != nil {
		sb.Close()
		return nil, err
	}
	s.out = bufio.NewReaderSize(s.p.Stdout(), 64<<10)
	s.wg.Go(func() { io.Copy(s.err, s.p.Stderr()) })
	var a answer
	if err := s.read(ctx, &a, startTime); err != nil {
		s.close()
		return nil, fmt.Errorf("the command did not become a server: %w%s", err, s.err.text())
	}
	return s, nil
}

// ask sends a question and reads the answer.
func (s *server) ask(ctx context.Context, q any, a any, limit time.Duration) error {
	b, err := json.Marshal(q)
	if err != nil {
		return err
	}
	if _, err := s.p.Stdin().Write(append(b, '\n')); err != nil {
		return fmt.Errorf("the server ended: %w%s", err, s.err.text())
	}
	return s.read(ctx, a, limit)
}

const maxAnswer = 64 << 20

func (s *server) read(ctx context.Context, a any, limit time.Duration) error {
	done := make(chan error, 1)
	go func() { done <- s.line(a) }()
	wait := time.NewTimer(limit)
	defer wait.Stop()
	select {
	case err := <-done:
		return err
	case <-wait.C:
		s.sb.Close() // ends the reader
		<-done
		return errors.New("the server does not answer")
	case <-ctx.Done():
		s.sb.Close()
		<-done
		return context.Cause(ctx)
	}
}

func (s *server) line(a any) error {
	var long bytes.Buffer
	for {
		part, more, err := s.out.ReadLine()
		if err != nil {
			return fmt.Errorf("the server ended: %w%s", err, s.err.text())
		}
		if long.Write(part); long.Len() > maxAnswer {
			return fmt.Errorf("an answer of more than %d bytes", maxAnswer)
		}
		if more {
			continue
		}
		if b, ok := bytes.CutPrefix(long.Bytes(), []byte(mark)); ok {
			return json.Unmarshal(b, a)
		}
		long.Reset()
	}
}

func (s *server) close() error {
	err := s.sb.Close()
	if s.p != nil {
		s.p.Close()
	}
	s.wg.Wait()
	return err
}

const etcProfile = ". /etc/profile"

// exported sets variables for a shell command: after the profile that every
// command of a suite reads first, which may set the same.
func exported(run string, vars ...string) string {
	set := "export " + strings.Join(vars, " ")
	if rest, ok := strings.CutPrefix(run, etcProfile); ok {
		return etcProfile + "; " + set + rest
	}
	return set + "; " + run
}

// tail keeps the last bytes that were written.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.b = append(t.b, p...); len(t.b) > 4000 {
		t.b = append([]byte(nil), t.b[len(t.b)-2000:]...)
	}
	return len(p), nil
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.b) == 0 {
		return ""
	}
	return "\n" + string(bytes.ToValidUTF8(t.b, nil))
}
