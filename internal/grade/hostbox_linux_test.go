package grade

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// hostBackend runs commands on this machine, below a directory each, with no
// walls at all: absolute paths of a command line are put below that directory,
// and scripts find it in $R, which is empty in a real sandbox. It is enough to
// test the order of grading wherever real sandboxes cannot be had.
type hostBackend struct {
	t     testing.TB
	store *image.Store

	mu    sync.Mutex
	n     int
	snaps map[sandbox.Snapshot]hostSnap
	boxes []*hostBox
}

type hostSnap struct {
	dir   string
	below []image.LayerID
}

func newHostBackend(t testing.TB, s *image.Store) *hostBackend {
	b := &hostBackend{t: t, store: s, snaps: map[sandbox.Snapshot]hostSnap{}}
	t.Cleanup(func() { b.Close() })
	return b
}

func (b *hostBackend) Capabilities() sandbox.Capabilities {
	return sandbox.Capabilities{Name: "host", UIDModes: []sandbox.UIDMode{sandbox.UIDSingle}, Snapshots: true}
}

func (b *hostBackend) Create(_ context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	b.mu.Lock()
	b.n++
	box := &hostBox{b: b, name: fmt.Sprint("box", b.n), env: spec.Image.Config.Env,
		root: filepath.Join(b.t.TempDir(), "root"), below: append(spec.Image.Layers[:len(spec.Image.Layers):len(spec.Image.Layers)], spec.Extra...)}
	b.boxes = append(b.boxes, box)
	b.mu.Unlock()
	v, err := b.store.View(box.below)
	if err != nil {
		return nil, err
	}
	err = v.Walk(".", func(e image.Entry) error {
		p := filepath.Join(box.root, e.Path)
		switch e.Type {
		case image.TypeDir:
			return errors.Join(os.MkdirAll(p, 0o755), os.Chmod(p, fs.FileMode(e.Mode&0o777)|0o700))
		case image.TypeSymlink:
			return os.Symlink(e.Link, p)
		case image.TypeFile:
			text, err := v.ReadFile(e.Path, 1<<30)
			if err != nil {
				return err
			}
			mode := fs.FileMode(e.Mode & 0o777)
			if e.Mode&0o4000 != 0 {
				mode |= fs.ModeSetuid
			}
			return errors.Join(os.WriteFile(p, text, 0o600), os.Chmod(p, mode))
		case image.TypeFIFO:
			return syscall.Mkfifo(p, 0o600)
		}
		return nil
	})
	return box, err
}

func (b *hostBackend) Commit(ctx context.Context, s sandbox.Snapshot) (image.LayerID, error) {
	b.mu.Lock()
	snap, ok := b.snaps[s]
	b.mu.Unlock()
	if !ok {
		return "", fmt.Errorf("no snapshot %q", s)
	}
	base, err := b.store.View(snap.below)
	if err != nil {
		return "", err
	}
	w, err := b.store.NewLayer(ctx, snap.below...)
	if err != nil {
		return "", err
	}
	defer w.Abort()
	dirty := false
	add := func(e image.Entry, r io.Reader) error { dirty = true; return w.Add(e, r) }
	err = filepath.WalkDir(snap.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == snap.dir {
			return err
		}
		rel, _ := filepath.Rel(snap.dir, p)
		info, err := d.Info()
		if err != nil {
			return err
		}
		old, oldErr := base.Lstat(rel)
		e := image.Entry{Path: rel, Mode: uint32(info.Mode().Perm())}
		switch {
		case info.IsDir():
			if oldErr == nil && old.IsDir() {
				return nil
			}
			e.Type = image.TypeDir
			return add(e, nil)
		case info.Mode()&fs.ModeSymlink != 0:
			e.Type = image.TypeSymlink
			if e.Link, err = os.Readlink(p); err != nil || oldErr == nil && old.Link == e.Link {
				return err
			}
			return add(e, nil)
		case info.Mode()&fs.ModeNamedPipe != 0:
			e.Type = image.TypeFIFO
			return add(e, nil)
		case !info.Mode().IsRegular():
			return nil
		}
		e.Type = image.TypeFile
		if info.Mode()&fs.ModeSetuid != 0 {
			e.Mode |= 0o4000
		}
		now, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		if was, err := base.ReadFile(rel, 1<<30); err == nil && bytes.Equal(was, now) && old.Mode == e.Mode {
			return nil
		}
		return add(e, bytes.NewReader(now))
	})
	if err != nil {
		return "", err
	}
	err = base.Walk(".", func(e image.Entry) error {
		if _, err := os.Lstat(filepath.Join(snap.dir, e.Path)); err == nil {
			return nil
		}
		if err := add(image.Entry{Path: e.Path, Type: image.TypeWhiteout}, nil); err != nil {
			return err
		}
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if err != nil || !dirty {
		return "", err
	}
	return w.Commit()
}

func (b *hostBackend) Close() error {
	b.mu.Lock()
	boxes := b.boxes
	b.mu.Unlock()
	for _, x := range boxes {
		x.Close()
	}
	return nil
}

type hostBox struct {
	b          *hostBackend
	name, root string
	env        []string
	below      []image.LayerID
	closed     bool
}

// inside maps a path of the sandbox to this machine. Toolchains are shared.
func (x *hostBox) inside(p string) string {
	if strings.HasPrefix(p, "/bin/") || strings.HasPrefix(p, "/usr/") || strings.HasPrefix(p, "/dev/") {
		return p
	}
	return filepath.Join(x.root, p)
}

func (x *hostBox) Start(_ context.Context, c sandbox.Command) (sandbox.Process, error) {
	args := append([]string{}, c.Args...)
	for i, a := range args {
		if path.IsAbs(a) {
			args[i] = x.inside(a)
		} else if strings.Contains(a, " /logs") || strings.Contains(a, " /tests") {
			return nil, fmt.Errorf("a command line that would touch this machine: %q", a)
		}
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = x.inside(string(c.Dir))
	if info, err := os.Stat(cmd.Dir); err != nil || !info.IsDir() {
		return nil, fmt.Errorf("%w: no directory %s", sandbox.ErrNotStarted, c.Dir)
	}
	cmd.Env = append(append([]string{"PATH=/usr/local/bin:/usr/bin:/bin", "R=" + x.root}, x.env...), c.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	p := &hostProcess{cmd: cmd, done: make(chan struct{})}
	var ends [2]*os.File
	for i, to := range []*io.Writer{&cmd.Stdout, &cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		*to, ends[i], p.out[i] = w, w, r
	}
	err := cmd.Start()
	ends[0].Close()
	ends[1].Close()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", sandbox.ErrNotStarted, err)
	}
	go func() {
		_ = cmd.Wait() // the state says how it ended
		close(p.done)
	}()
	return p, nil
}

type hostProcess struct {
	cmd  *exec.Cmd
	out  [2]*os.File
	done chan struct{}
}

func (p *hostProcess) Stdin() io.WriteCloser { return nil }
func (p *hostProcess) Stdout() io.Reader     { return p.out[0] }
func (p *hostProcess) Stderr() io.Reader     { return p.out[1] }

func (p *hostProcess) Signal(_ context.Context, s syscall.Signal) error {
	return syscall.Kill(-p.cmd.Process.Pid, s)
}

func (p *hostProcess) Wait(ctx context.Context) (sandbox.Exit, error) {
	select {
	case <-ctx.Done():
		return sandbox.Exit{}, ctx.Err()
	case <-p.done:
	}
	ws := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	e := sandbox.Exit{Code: ws.ExitStatus()}
	if ws.Signaled() {
		e.Signal, e.Code = ws.Signal(), 128+int(ws.Signal())
	}
	return e, nil
}

func (p *hostProcess) Close() error {
	select {
	case <-p.done: // its number may be another's by now
	default:
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
	<-p.done
	p.out[0].Close()
	p.out[1].Close()
	return nil
}

// Kill finds every process by the mark in its environment, daemons included.
func (x *hostBox) Kill(ctx context.Context) error {
	mark := []byte("\x00R=" + x.root + "\x00")
	for range 200 {
		alive := 0
		dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
		for _, f := range dirs {
			env, err := os.ReadFile(f)
			if err != nil || !bytes.Contains(append([]byte{0}, env...), mark) {
				continue
			}
			var pid int
			if _, err := fmt.Sscanf(f, "/proc/%d/", &pid); err == nil {
				alive++
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
			}
		}
		if alive == 0 {
			return nil
		}
		time.Sleep(5 * time.Millisecond)
	}
	return errors.New("processes survive")
}

func (x *hostBox) Put(_ context.Context, dst image.Path, r io.Reader) error {
	at := x.inside(string(dst))
	if err := os.MkdirAll(at, 0o755); err != nil {
		return err
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()
	tr := tar.NewReader(r)
	for {
		h, err := tr.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name := path.Clean(h.Name)
		if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		switch h.Typeflag {
		case tar.TypeDir:
			err = errors.Join(root.MkdirAll(name, 0o755), root.Chmod(name, fs.FileMode(h.Mode).Perm()))
		case tar.TypeSymlink:
			_ = root.Remove(name)
			err = root.Symlink(h.Linkname, name)
		case tar.TypeReg:
			var f *os.File
			_ = root.Remove(name)
			if f, err = root.Create(name); err == nil {
				_, err = io.Copy(f, tr)
				err = errors.Join(err, f.Chmod(h.FileInfo().Mode()), f.Close())
			}
		}
		if err != nil {
			return err
		}
	}
}

func (x *hostBox) Get(_ context.Context, src image.Path, w io.Writer, limit int64) error {
	at := x.inside(string(src))
	info, err := os.Lstat(at)
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ELOOP) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return err
	}
	tw := tar.NewWriter(w)
	one := func(p, name string, info fs.FileInfo) error {
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			link, _ = os.Readlink(p)
		} else if info.Mode()&(fs.ModeDevice|fs.ModeSocket) != 0 && limit != sandbox.HeadOnly {
			return nil
		}
		if info.Mode()&fs.ModeSocket != 0 {
			return tw.WriteHeader(&tar.Header{Typeflag: tar.TypeChar, Name: name})
		}
		h, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		h.Name = name
		if limit == sandbox.HeadOnly {
			h.Size = 0
			return tw.WriteHeader(h)
		}
		if info.Mode().IsRegular() {
			if limit > 0 && info.Size() > limit {
				return sandbox.ErrTooLarge
			}
			limit -= min(info.Size(), max(limit-1, 0))
		}
		if err := tw.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
			return err
		}
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.CopyN(tw, f, info.Size())
		return err
	}
	if !info.IsDir() || limit == sandbox.HeadOnly {
		err = one(at, filepath.Base(at), info)
	} else {
		err = filepath.WalkDir(at, func(p string, d fs.DirEntry, err error) error {
			if err != nil || p == at {
				return err
			}
			i, err := d.Info()
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(at, p)
			return one(p, rel, i)
		})
	}
	if err != nil {
		return err
	}
	return tw.Close()
}

func (x *hostBox) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	if err := x.Kill(ctx); err != nil {
		return "", err
	}
	to := filepath.Join(x.b.t.TempDir(), "snap")
	if out, err := exec.Command("cp", "-a", x.root, to).CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	x.b.mu.Lock()
	defer x.b.mu.Unlock()
	s := sandbox.Snapshot(fmt.Sprint("snap", len(x.b.snaps)+1))
	x.b.snaps[s] = hostSnap{to, x.below}
	return s, nil
}

func (x *hostBox) Reset(context.Context, sandbox.Snapshot) error { return sandbox.ErrUnsupported }

func (x *hostBox) Peek(context.Context) (sandbox.Snapshot, error) {
	return "", sandbox.ErrUnsupported
}

func (x *hostBox) Close() error {
	if x.closed {
		return nil
	}
	x.closed = true
	return x.Kill(context.Background())
}
