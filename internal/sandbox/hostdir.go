package sandbox

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"assay/internal/image"
)

// TreeCaps bound what is copied between host and sandbox. Zero means the
// defaults of 1 GiB and 100,000 entries.
type TreeCaps struct {
	Bytes int64
	Files int
	// Skip leaves out a path, slash-separated and relative to the tree's root;
	// a skipped directory is not entered. Nil skips nothing.
	Skip func(rel string, dir bool) bool
	// Executable gives a file all three execute bits. Nil gives none.
	Executable func(rel string) bool
}

func (c TreeCaps) orDefaults() TreeCaps {
	if c.Bytes == 0 {
		c.Bytes = 1 << 30
	}
	if c.Files == 0 {
		c.Files = 100_000
	}
	return c
}

// PutDir puts the content of a host directory below dst. The directory may be
// hostile: links are copied as links and never followed, devices, sockets and
// pipes are an error that names them, and a tree beyond the caps is
// ErrTooLarge. It streams: memory does not grow with the tree.
func PutDir(ctx context.Context, t Trees, dst image.Path, dir string, caps TreeCaps) error {
	return PutAll(ctx, t, dst, func(w *tar.Writer) error { return AddDir(ctx, w, "", dir, caps) })
}

// PutAll puts what write writes, in one stream: each takes its time, however
// small. What write returns is returned as it is.
func PutAll(ctx context.Context, t Trees, dst image.Path, write func(*tar.Writer) error) error {
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		buf := bufio.NewWriterSize(w, 64<<10) // a pipe's size
		tw := tar.NewWriter(buf)
		err := write(tw)
		if err == nil {
			err = tw.Close()
		}
		if err == nil {
			err = buf.Flush()
		}
		w.CloseWithError(err)
		done <- err
	}()
	putErr := t.Put(ctx, dst, r)
	r.CloseWithError(errors.New("the sandbox stopped reading")) // ends the writer if Put gave up early
	if err := <-done; err != nil && (putErr == nil || errors.Is(putErr, err)) {
		return err
	}
	return putErr
}

// AddDir adds the content of a host directory below at, which is relative and
// not itself an entry, as PutDir puts it.
func AddDir(ctx context.Context, w *tar.Writer, at, dir string, caps TreeCaps) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := tarRoot(ctx, w, at, root, caps.orDefaults()); err != nil {
		return fmt.Errorf("read %s: %w", dir, err)
	}
	return nil
}

// tarRoot writes root's content as tar entries in lexical order.
func tarRoot(ctx context.Context, tw *tar.Writer, at string, root *os.Root, caps TreeCaps) error {
	files := 0
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if p == "." {
			return nil
		}
		if caps.Skip != nil && caps.Skip(p, d.IsDir()) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if files++; files > caps.Files {
			return fmt.Errorf("more than %d entries: %w", caps.Files, ErrTooLarge)
		}
		n, err := tarEntry(tw, at, root, p, caps)
		caps.Bytes -= n
		return err
	})
}

// tarEntry writes one entry of at most caps.Bytes and returns its size.
func tarEntry(tw *tar.Writer, at string, root *os.Root, p string, caps TreeCaps) (int64, error) {
	info, err := root.Lstat(p)
	if err != nil {
		return 0, err
	}
	link := ""
	switch {
	case info.Mode().IsRegular(), info.IsDir():
	case info.Mode()&fs.ModeSymlink != 0:
		if link, err = root.Readlink(p); err != nil {
			return 0, err
		}
	default:
		return 0, fmt.Errorf("%s is a %s: only files, directories and links can be copied", p, kindOf(info.Mode()))
	}
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", p, err)
	}
	h.Name = path.Join(at, p)
	h.Uid, h.Gid, h.Uname, h.Gname = 0, 0, "", ""
	if info.IsDir() {
		h.Name += "/"
	}
	if !info.Mode().IsRegular() {
		return 0, tw.WriteHeader(h)
	}
	if caps.Executable != nil && caps.Executable(p) {
		h.Mode |= 0o111
	}
	if info.Size() > caps.Bytes {
		return 0, fmt.Errorf("%s: %w", p, ErrTooLarge)
	}
	f, err := root.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe swapped in must not block
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if err := tw.WriteHeader(h); err != nil {
		return 0, err
	}
	// exactly the announced size, however the file changes meanwhile
	n, err := io.Copy(tw, io.LimitReader(f, h.Size))
	if err == nil && n < h.Size {
		err = fmt.Errorf("%s shrank while it was read", p)
	}
	return n, err
}

func kindOf(m fs.FileMode) string {
	switch {
	case m&fs.ModeDevice != 0:
		return "device"
	case m&fs.ModeNamedPipe != 0:
		return "pipe"
	case m&fs.ModeSocket != 0:
		return "socket"
	}
	return "special file"
}
