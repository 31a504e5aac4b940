package repo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"sync"
)

// Objects reads objects by one git that stays, one request after the other.
// It may be used concurrently; requests wait for each other.
type Objects struct {
	// MaxObject is the largest object that is read. Git.Objects makes it 32 MiB.
	MaxObject int64

	g *Git

	mu   sync.Mutex
	cmd  *exec.Cmd
	stop context.CancelFunc
	in   io.WriteCloser
	out  *bufio.Reader
}

// Object is one of git's objects.
type Object struct {
	Hash string
	Type string // "blob", "tree", "commit", "tag"
	Data []byte
}

var (
	// ErrNoObject: there is no object of that name.
	ErrNoObject = errors.New("no such object")
	// ErrObjectTooLarge: an object is larger than Objects.MaxObject.
	ErrObjectTooLarge = errors.New("object larger than the cap")
)

// Objects is a reader of objects. Close it.
func (g *Git) Objects() *Objects { return &Objects{MaxObject: 32 << 20, g: g} }

// Get reads the object that a name leads to: a hash, "COMMIT:PATH",
// "TAG^{tree}". Names out of a tree are safe in it, but for line breaks.
func (o *Objects) Get(ctx context.Context, name string) (Object, error) {
	if strings.ContainsAny(name, "\n\x00") || name == "" {
		return Object{}, fmt.Errorf("git object %q: %w: names with line breaks cannot be asked for", name, ErrNoObject)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Object{}, err
	}
	if err := o.start(); err != nil {
		return Object{}, err
	}
	release := context.AfterFunc(ctx, o.stop)
	obj, err := o.ask(name)
	release()
	if err != nil && !errors.Is(err, ErrNoObject) {
		o.end() // the stream is out of step
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		return Object{}, fmt.Errorf("git object %q: %w", name, err)
	}
	return obj, nil
}

func (o *Objects) start() error {
	if o.cmd != nil {
		return nil
	}
	ctx, stop := context.WithCancel(context.Background()) // it outlives requests
	cmd := o.g.command(ctx, "cat-file", "--batch")
	in, err := cmd.StdinPipe()
	if err == nil {
		var out io.ReadCloser
		if out, err = cmd.StdoutPipe(); err == nil {
			o.out = bufio.NewReaderSize(out, 64<<10)
			err = cmd.Start()
		}
	}
	if err != nil {
		stop()
		return fmt.Errorf("git cat-file: %w", err)
	}
	o.cmd, o.stop, o.in = cmd, stop, in
	return nil
}

func (o *Objects) ask(name string) (Object, error) {
	if _, err := io.WriteString(o.in, name+"\n"); err != nil {
		return Object{}, err
	}
	head, err := o.out.ReadString('\n')
	if err != nil {
		return Object{}, err
	}
	head = strings.TrimSuffix(head, "\n")
	// "HASH TYPE SIZE", or the name, which may hold blanks, and a word.
	if strings.HasSuffix(head, " missing") || strings.HasSuffix(head, " ambiguous") {
		return Object{}, ErrNoObject
	}
	f := strings.Fields(head)
	if len(f) != 3 {
		return Object{}, fmt.Errorf("git answers %q", oneLine(head))
	}
	size, err := strconv.ParseInt(f[2], 10, 64)
	if err != nil || size < 0 {
		return Object{}, fmt.Errorf("git answers %q", oneLine(head))
	}
	if size > o.MaxObject {
		return Object{}, fmt.Errorf("%w (%d bytes, at most %d)", ErrObjectTooLarge, size, o.MaxObject)
	}
	data := make([]byte, size+1)
	if _, err := io.ReadFull(o.out, data); err != nil {
		return Object{}, err
	}
	return Object{Hash: f[0], Type: f[1], Data: data[:size]}, nil
}

// end stops the process; the next Get starts another.
func (o *Objects) end() {
	if o.cmd == nil {
		return
	}
	o.stop()
	o.in.Close()
	_ = o.cmd.Wait() // it was killed
	o.cmd = nil
}

// Close ends git.
func (o *Objects) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.end()
	return nil
}
