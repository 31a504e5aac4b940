package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"
)

// ExecOptions shape one Exec. The zero value caps output at 1 MiB a stream and
// sets no deadline but ctx's.
type ExecOptions struct {
	Stdin   io.Reader
	Timeout time.Duration // 0: none
	Grace   time.Duration // between SIGTERM and SIGKILL; 0: straight to SIGKILL
	Cap     int64         // bytes kept per stream; 0: 1 MiB. The rest is read and dropped.
	Stdout  io.Writer     // gets every kept byte as it comes, besides ExecResult
	Stderr  io.Writer     // the same writer as Stdout merges both
}

// ExecResult is what a command did.
type ExecResult struct {
	Exit      Exit
	Stdout    []byte
	Stderr    []byte
	Dropped   int64 // bytes beyond the caps
	TimedOut  bool
	Wall      time.Duration
	Cancelled bool // ctx ended first
}

const defaultCap = 1 << 20

// Exec runs cmd to its end. An error means that it did not start or that the
// sandbox was lost; a timeout or a non-zero exit is a result, not an error.
// Output written by children that outlive the command is waited for only
// briefly: a daemon that holds the pipe open cannot hang the caller. Neither
// can o.Stdin: if its Read blocks after the command has ended, it is left
// behind and what it returns at last is dropped.
func Exec(ctx context.Context, s Starter, cmd Command, o ExecOptions) (ExecResult, error) {
	if o.Cap == 0 {
		o.Cap = defaultCap
	}
	cmd.Stdin = o.Stdin != nil
	start := time.Now()
	p, err := s.Start(ctx, cmd)
	if err != nil {
		return ExecResult{}, err
	}
	if o.Stdin != nil {
		go func() {
			in := p.Stdin()
			io.Copy(in, o.Stdin) // the program may close its end early; that is its right
			in.Close()
		}()
	}
	tee := &sync.Mutex{} // Stdout and Stderr may be the same writer
	out := &capture{cap: o.Cap, also: o.Stdout, mu: tee}
	errs := &capture{cap: o.Cap, also: o.Stderr, mu: tee}
	read := make(chan struct{})
	go func() {
		defer close(read)
		var rd sync.WaitGroup
		rd.Go(func() { io.Copy(out, p.Stdout()) })
		rd.Go(func() { io.Copy(errs, p.Stderr()) })
		rd.Wait()
	}()

	r := ExecResult{}
	err = r.await(ctx, p, o)
	r.Wall = time.Since(start)
	if err == nil {
		wait := time.NewTimer(drain)
		select {
		case <-read:
		case <-wait.C:
		}
		wait.Stop()
	}
	p.Close() // ends the streams, so that the readers return
	<-read
	r.Stdout, r.Stderr = out.buf.Bytes(), errs.buf.Bytes()
	r.Dropped = out.dropped + errs.dropped
	if err != nil {
		return r, fmt.Errorf("exec %q: %w", cmd.Args, err)
	}
	return r, nil
}

// await waits for the program, to its end or to the caller's.
func (r *ExecResult) await(ctx context.Context, p Process, o ExecOptions) (err error) {
	wctx, stop := ctx, context.CancelFunc(func() {})
	if o.Timeout > 0 {
		wctx, stop = context.WithTimeout(ctx, o.Timeout)
	}
	defer stop()
	r.Exit, err = p.Wait(wctx)
	if err != nil && wctx.Err() != nil {
		r.TimedOut = ctx.Err() == nil
		r.Cancelled = !r.TimedOut
		r.Exit, err = end(p, o.Grace)
	}
	return err
}

// drain is how long output is read after the program itself has ended.
const drain = 200 * time.Millisecond

// end kills p's session and waits for it, on a clock of its own since the
// caller's is up.
func end(p Process, grace time.Duration) (Exit, error) {
	ctx, cancel := context.WithTimeout(context.Background(), grace+10*time.Second)
	defer cancel()
	if grace > 0 {
		_ = p.Signal(ctx, syscall.SIGTERM) // it may be gone already
		g, cancel := context.WithTimeout(ctx, grace)
		defer cancel()
		if e, err := p.Wait(g); err == nil {
			return e, nil
		}
	}
	_ = p.Signal(ctx, syscall.SIGKILL)
	return p.Wait(ctx)
}

// capture keeps the first cap bytes and counts the rest.
type capture struct {
	cap, dropped int64
	buf          bytes.Buffer
	also         io.Writer
	mu           *sync.Mutex // guards also
}

// ReadFrom begins with a small buffer: most programs print little.
func (c *capture) ReadFrom(r io.Reader) (n int64, err error) {
	b := make([]byte, 512)
	for {
		m, err := r.Read(b)
		n += int64(m)
		c.Write(b[:m]) // never fails
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		if m == len(b) && m < 64<<10 { // a pipe holds no more
			b = make([]byte, 4*m)
		}
	}
}

func (c *capture) Write(b []byte) (int, error) {
	n := len(b)
	if room := c.cap - int64(c.buf.Len()); int64(len(b)) > room {
		c.dropped += int64(len(b)) - room
		b = b[:room]
	}
	c.buf.Write(b)
	if c.also != nil && len(b) > 0 {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.also.Write(b) // a full host disk must not stop the program; the caller checks its file
	}
	return n, nil
}
