package program

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/program/drivers"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// stand is a sandbox that is put back to one frozen tree before each case.
type stand struct {
	r      *Request
	sb     sandbox.Sandbox
	snap   sandbox.Snapshot
	driver []string
	broken string // why no case can be tried: it does not build
}

// notStarted: something that the candidate's tree should have cannot be started.
type notStarted struct{ err error }

func (e *notStarted) Error() string { return e.err.Error() }
func (e *notStarted) Unwrap() error { return e.err }

const buildTime = 5 * time.Minute

// newStand makes a sandbox ready for cases: overlay, if any, stands in the
// place of the source, and what has to be built is.
func (r *Request) newStand(ctx context.Context, open func(context.Context) (sandbox.Sandbox, error), overlay []byte) (*stand, error) {
	sb, err := open(ctx)
	if err != nil {
		return nil, err
	}
	s := &stand{r: r, sb: sb}
	if err := s.prepare(ctx, overlay); err != nil {
		sb.Close()
		return nil, err
	}
	return s, nil
}

func (s *stand) prepare(ctx context.Context, overlay []byte) error {
	g := s.r.Suite.Group
	if overlay != nil {
		source := path.Join(string(s.dir()), g.Source)
		if err := put(ctx, s.sb, image.Path(path.Dir(source)), map[string]string{path.Base(source): string(overlay)}); err != nil {
			return err
		}
	}
	s.driver = drivers.Driver(g.Call, g.Source)
	if g.Call == drivers.Go {
		s.driver = drivers.Driver(g.Call, drivers.GoBinary)
		if err := s.build(ctx); err != nil {
			return err
		}
	}
	var err error
	s.snap, err = s.sb.Snapshot(ctx)
	return err
}

// dir is where programs run: absolute, unless nothing says where.
func (s *stand) dir() image.Path {
	g := s.r.Suite.Group
	work := string(s.r.Workdir)
	if work == "" {
		work = "/"
	}
	if path.IsAbs(g.Dir) {
		return image.Path(path.Clean(g.Dir))
	}
	return image.Path(path.Join(work, g.Dir))
}

func (s *stand) reset(ctx context.Context) error { return s.sb.Reset(ctx, s.snap) }

func (s *stand) command(args []string, more ...string) sandbox.Command {
	return sandbox.Command{Args: args, Env: slices.Concat(s.r.Env, more), Dir: s.dir(), User: s.r.User}
}

// talk starts the driver.
func (s *stand) talk(ctx context.Context) (*talk, error) {
	t, err := begin(ctx, s.sb, s.command(s.driver))
	if errors.Is(err, sandbox.ErrNotStarted) {
		return nil, &notStarted{err}
	}
	return t, err
}

var goPackage = regexp.MustCompile(`(?m)^package[ \t]+([\pL_][\pL\pN_]*)`)

func (s *stand) build(ctx context.Context) error {
	source := path.Join(string(s.dir()), s.r.Suite.Group.Source)
	text, err := fetch(ctx, s.sb, image.Path(source), 4<<20)
	if lost(ctx, err) {
		return err
	}
	if err != nil {
		s.broken = fmt.Sprintf("%s: %v", s.r.Suite.Group.Source, err)
		return nil
	}
	m := goPackage.FindSubmatch(text)
	if m == nil {
		s.broken = s.r.Suite.Group.Source + " has no package clause"
		return nil
	}
	driver := drivers.GoDriver(string(m[1]), s.funcs())
	cmd := s.command([]string{"/bin/sh", "-c", drivers.GoBuild})
	cmd.Dir = image.Path(path.Dir(source))
	res, err := sandbox.Exec(ctx, s.sb, cmd, sandbox.ExecOptions{Stdin: strings.NewReader(driver), Timeout: buildTime})
	switch {
	case errors.Is(err, sandbox.ErrNotStarted):
		s.broken = err.Error()
	case err != nil && !unended(res, err):
		return err
	case res.TimedOut:
		s.broken = fmt.Sprintf("the build did not end within %v", buildTime)
	case res.Exit.Code != 0:
		s.broken = "does not build: " + strings.TrimSpace(string(res.Stdout)+string(res.Stderr))
	}
	return s.sb.Kill(ctx)
}

// funcs are the names that cases call, each once.
func (s *stand) funcs() []string {
	all := map[string]bool{}
	for _, c := range s.r.Suite.Cases {
		for _, call := range c.Calls {
			all[call.Func] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// put writes files below a directory of the sandbox.
func put(ctx context.Context, sb sandbox.Trees, dir image.Path, files map[string]string) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(files[name])), Typeflag: tar.TypeReg}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if _, err := io.WriteString(w, files[name]); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return sb.Put(ctx, dir, &b)
}

var errNoFile = errors.New("not a regular file")

// fetch reads one regular file of a sandbox, of at most limit bytes; a link is none.
func fetch(ctx context.Context, sb sandbox.Trees, name image.Path, limit int64) ([]byte, error) {
	pr, pw := io.Pipe()
	got := make(chan error, 1)
	go func() {
		err := sb.Get(ctx, name, pw, limit)
		pw.CloseWithError(err)
		got <- err
	}()
	data, err := oneFile(pr, path.Base(string(name)), limit)
	pr.CloseWithError(err)
	if getErr := <-got; getErr != nil && (err == nil || !errors.Is(err, errNoFile)) {
		return nil, getErr
	}
	return data, err
}

func oneFile(r io.Reader, name string, limit int64) ([]byte, error) {
	in := tar.NewReader(r)
	h, err := in.Next()
	if err == io.EOF {
		return nil, errNoFile
	}
	if err != nil {
		return nil, err
	}
	if h.Typeflag != tar.TypeReg || path.Clean(h.Name) != name {
		return nil, errNoFile
	}
	if h.Size > limit {
		return nil, sandbox.ErrTooLarge
	}
	data, err := io.ReadAll(io.LimitReader(in, limit))
	if err != nil {
		return nil, err
	}
	_, err = io.Copy(io.Discard, r)
	return data, err
}
