package bootstrap

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// put copies the downloaded archive to its place in a sandbox.
func put(ctx context.Context, sb sandbox.Sandbox, file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() {
		tw := tar.NewWriter(w)
		err := tw.WriteHeader(&tar.Header{Name: "debs.tar.gz", Size: fi.Size(), Mode: 0o644})
		if err == nil {
			_, err = io.Copy(tw, f)
		}
		w.CloseWithError(errors.Join(err, tw.Close()))
	}()
	err = sb.Put(ctx, "/bootstrap", r)
	r.CloseWithError(err)
	return err
}

// layers is who makes a layer: the store, or for one that goes again a
// temporary set.
type layers interface {
	FromTar(ctx context.Context, r io.Reader, o image.TarOptions) (image.LayerID, error)
}

// layer makes one layer of a directory of the sandbox.
func layer(ctx context.Context, sb sandbox.Sandbox, dir image.Path, to layers) (image.LayerID, error) {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := sb.Get(ctx, dir, w, 0)
		w.CloseWithError(err)
		done <- err
	}()
	id, err := to.FromTar(ctx, r, image.TarOptions{})
	r.CloseWithError(errors.New("the layer is done"))
	if got := <-done; err == nil && got != nil {
		err = got
	}
	return id, err
}

func (o *Options) do(ctx context.Context, sb sandbox.Sandbox, args []string) ([]byte, error) {
	return o.feed(ctx, sb, args, nil)
}

// outputCap is how much of one step's output is read.
const outputCap = 16 << 20

func (o *Options) feed(ctx context.Context, sb sandbox.Sandbox, args []string, in io.Reader) ([]byte, error) {
	last := &tail{w: o.Progress}
	r, err := sandbox.Exec(ctx, sb, sandbox.Command{Args: args, Env: []string{"HOME=/root"}},
		sandbox.ExecOptions{Stdin: in, Stdout: quietly(args, last), Stderr: last, Cap: outputCap})
	switch {
	case err != nil:
		return nil, err
	case r.Cancelled:
		return nil, fmt.Errorf("cancelled: %w", context.Cause(ctx))
	case r.Exit.Code != 0:
		return nil, fmt.Errorf("exit status %d; its last output:\n%s", r.Exit.Code, last.last)
	}
	return r.Stdout, nil
}

// quietly keeps what is read as data off the progress.
func quietly(args []string, w io.Writer) io.Writer {
	if args[0] == "/bin/sh" {
		return w
	}
	return io.Discard
}

const lastKept = 4 << 10

// tail passes output on and keeps the last of it for an error.
type tail struct {
	w    io.Writer
	last []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.last = append(t.last, b...)
	if n := len(t.last) - lastKept; n > 0 {
		t.last = append(t.last[:0], t.last[n:]...)
	}
	return t.w.Write(b)
}
