package program

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"

	"assay/internal/sandbox"
)

// talk is a conversation with a process in a sandbox: lines of JSON, one
// question, one answer. The process is the candidate's; lines that it sends
// unasked are its next answers.
type talk struct {
	p     sandbox.Process
	lines chan line
	done  chan struct{} // closed: nobody reads lines any more
	read  sync.WaitGroup
	said  said
}

type line struct {
	text []byte
	err  error
}

var errEnded = errors.New("the process ended without an answer")

// begin starts a driver.
func begin(ctx context.Context, sb sandbox.Starter, cmd sandbox.Command) (*talk, error) {
	cmd.Stdin = true
	p, err := sb.Start(ctx, cmd)
	if err != nil {
		return nil, err
	}
	t := &talk{p: p, lines: make(chan line), done: make(chan struct{})}
	t.read.Go(t.listen)
	t.read.Go(func() { io.Copy(&t.said, p.Stderr()) })
	return t, nil
}

// listen reads whole lines; a longer one than MaxFrame ends it.
func (t *talk) listen() {
	r := bufio.NewReaderSize(t.p.Stdout(), 64<<10)
	var b []byte
	for {
		part, err := r.ReadSlice('\n')
		l := line{text: append(b, part...)}
		b = l.text
		switch {
		case len(b) > MaxFrame:
			l.err = fmt.Errorf("an answer of more than %d bytes", MaxFrame)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			l.err = errEnded
		}
		select {
		case t.lines <- l:
		case <-t.done:
			return
		}
		if b = nil; l.err != nil {
			return
		}
	}
}

// hear waits for the next line.
func (t *talk) hear(ctx context.Context) ([]byte, error) {
	select {
	case l := <-t.lines:
		return l.text, l.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// ask sends a line and waits for one. A process that does not read is not
// waited for any longer than ctx says: what is unsent then fails when the
// conversation ends.
func (t *talk) ask(ctx context.Context, question []byte) ([]byte, error) {
	t.tell(question)
	return t.hear(ctx)
}

// tell sends a line and does not wait until it has been read.
func (t *talk) tell(text []byte) {
	in := t.p.Stdin()
	t.read.Go(func() { in.Write(append(text, '\n')) })
}

// end kills the process and frees everything.
func (t *talk) end() {
	close(t.done)
	t.p.Close()
	t.read.Wait()
}

// said keeps the beginning of what a program prints.
type said struct {
	mu   sync.Mutex
	text []byte
}

const keptOutput = 2 << 10 // bytes of a candidate's own output, for people

func (s *said) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if room := keptOutput - len(s.text); room > 0 {
		s.text = append(s.text, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.text)
}
