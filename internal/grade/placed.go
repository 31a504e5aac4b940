package grade

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
)

// placer puts the grader's files into verifiers' sandboxes: the tests at
// /tests, and what the plan places over directories of the image.
type placer struct {
	r    Request
	plan *checks.Plan
	tmp  *image.Temporary
	dir  string // the working directory, relative to the root
	base []image.LayerID
	home map[string]bool // below tests/: never put into a sandbox
	of   map[string]imageFile
	made time.Time // of the image's files that are placed, in every run
}

// imageFile is a file of the image that has canaries: it is placed as the image
// has it, or with them.
type imageFile struct {
	image.Entry
	content []byte
}

// place is a directory below tests/ and where it lies in the sandbox, relative
// to the root.
type place struct{ from, to string }

func (r Request) placer(p *checks.Plan, tmp *image.Temporary, base []image.LayerID, dir string) (*placer, error) {
	pl := &placer{r: r, plan: p, tmp: tmp, dir: dir, base: base, home: map[string]bool{checks.File: true, checks.QuarantineFile: true}, made: time.Now()}
	for _, c := range p.Commands {
		pl.home[c.FailToPassFile], pl.home[c.PassToPassFile] = true, true
	}
	for _, c := range p.Cases {
		pl.home[c.File], pl.home[c.Reference] = true, true
	}
	// The script is for Harbor, and tells what is expected.
	used := slices.ContainsFunc(p.Commands, func(c checks.Command) bool {
		return strings.Contains(c.Run+" "+strings.Join(c.Args, " "), r.Key.Script)
	})
	if !used {
		pl.home[r.Key.Script] = true
	}
	delete(pl.home, "")
	return pl, pl.ofImage()
}

// ofImage reads the image's files that canaries change.
func (p *placer) ofImage() error {
	var v *image.View
	for _, c := range p.plan.Commands {
		for _, k := range c.Canaries {
			if _, there := p.of[k.File]; there || !k.OfImage() {
				continue
			}
			if v == nil {
				var err error
				if v, err = p.r.Store.View(p.base); err != nil {
					return err
				}
				p.of = map[string]imageFile{}
			}
			e, err := v.Lstat(k.File)
			var b []byte
			if err == nil {
				b, err = v.ReadFile(k.File, maxScript)
			}
			if err != nil {
				return errPlan("canaries: a file of the image: %w", err)
			}
			p.of[k.File] = imageFile{e, b}
		}
	}
	return nil
}

// places lists the plan's, the tests themselves first.
func (p *placer) places() []place {
	all := []place{{"", testsDir}}
	for _, from := range slices.Sorted(maps.Keys(p.plan.Place)) {
		all = append(all, place{path.Clean(from), inBox(p.dir, p.plan.Place[from])})
	}
	return all
}

// layer makes the grader's layer in tmp. changed are files below tests/ that get
// another content there; everything else of the layer is the same without them.
func (p *placer) layer(ctx context.Context, tmp *image.Temporary, changed map[string][]byte) (image.LayerID, error) {
	files, err := p.files()
	if err != nil {
		return "", err
	}
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		tw := tar.NewWriter(w)
		err := p.write(ctx, tw, files, changed)
		if err == nil {
			err = tw.Close()
		}
		w.CloseWithError(err)
		done <- err
	}()
	id, err := tmp.FromTar(ctx, r, image.TarOptions{Below: p.base, Squash: true})
	r.CloseWithError(errSeen)
	if packErr := <-done; packErr != nil && (err == nil || errors.Is(err, packErr)) {
		err = packErr
	}
	if errors.Is(err, image.ErrCap) || err != nil && !full(err) && hostFault(err) {
		err = &taskError{fmt.Errorf("tests: %w", err)}
	}
	if err != nil {
		return "", fmt.Errorf("lay the tests: %w", err)
	}
	return id, nil
}

// mode is that of /tests. Where the work runs as another user than the assertions,
// it does not read there what is expected of it.
func (p *placer) mode() int64 {
	root := func(user string) bool {
		name, _, _ := strings.Cut(user, ":")
		return name == "" || name == "0" || name == "root"
	}
	img := p.r.Image
	if p.r.Mode == task.VerifierSeparate && p.r.VerifierImage != nil {
		img = *p.r.VerifierImage
	}
	separate := func(c checks.Command) bool { return c.Separate }
	other := func(c checks.Command) bool { return !root(cmp.Or(c.User, p.r.Key.User, img.Config.User)) }
	if slices.ContainsFunc(p.plan.Commands, separate) && !slices.ContainsFunc(p.plan.Commands, other) {
		return 0o700
	}
	return 0o755
}

// files are the key's single files, with their last places.
func (p *placer) files() (map[string][]byte, error) {
	files := map[string][]byte{}
	for name, b := range p.r.Key.TestFiles {
		if !filepath.IsLocal(name) {
			return nil, &taskError{fmt.Errorf("test file %q is not a path below tests/", name)}
		}
		if !p.home[name] {
			files[name] = b
		}
	}
	return files, nil
}

// write packs every place.
func (p *placer) write(ctx context.Context, w *tar.Writer, files, changed map[string][]byte) error {
	// It hides a name that nothing has, so that no other layer is equal.
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: ".wh..assay-" + rand.Text()}); err != nil {
		return err
	}
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: testsDir + "/", Mode: p.mode()}); err != nil {
		return err
	}
	for _, at := range p.places() {
		found := at.from == ""
		for _, dir := range p.r.Key.Tests {
			n, err := p.copy(ctx, w, dir, at, changed)
			if err != nil {
				return err
			}
			found = found || n > 0
		}
		if !found {
			return errPlan("place: tests/%s holds nothing", at.from)
		}
	}
	for _, name := range sortedKeys(p.of) {
		f := p.of[name]
		b := f.content
		if other, ok := changed[name]; ok {
			b = other
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: inBox("", name), Mode: int64(f.Mode), Uid: f.UID, Gid: f.GID, Size: int64(len(b))}
		if err := w.WriteHeader(p.fresh(h)); err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	for _, name := range sortedKeys(files) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: path.Join(testsDir, name), Mode: 0o755, Size: int64(len(files[name]))}
		if err := w.WriteHeader(p.fresh(h)); err != nil {
			return err
		}
		if _, err := w.Write(files[name]); err != nil {
			return err
		}
	}
	return nil
}

// copy packs one test directory's part of a place.
func (p *placer) copy(ctx context.Context, w *tar.Writer, dir string, at place, changed map[string][]byte) (n int, err error) {
	skip, err := p.r.skip(dir)
	if err != nil {
		return 0, &taskError{err}
	}
	caps := sandbox.TreeCaps{
		Skip: func(rel string, isDir bool) bool {
			if at.from != "" && !within(rel, at.from) && !within(at.from, rel) {
				return true
			}
			// Byte code that the author's own runs left says what the tests do
			// where a canary changes them.
			return p.home[rel] || isDir && path.Base(rel) == "__pycache__" || skip(rel, isDir)
		},
		Executable: func(rel string) bool { return rel == p.r.Key.Script },
	}
	pr, pw := io.Pipe()
	done := make(chan error, 1)
	go func() {
		tw := tar.NewWriter(pw)
		err := sandbox.AddDir(ctx, tw, "", dir, caps)
		if err == nil {
			err = tw.Close()
		}
		pw.CloseWithError(err)
		done <- err
	}()
	n, err = p.relay(w, tar.NewReader(pr), at, changed)
	pr.CloseWithError(errSeen)
	if packErr := <-done; packErr != nil && (err == nil || errors.Is(err, packErr)) {
		err = packErr
	}
	return n, err
}

// fresh gives a file the time at which grading began, in both runs: a build that
// goes by times would else keep what the work built of other tests before.
func (p *placer) fresh(h *tar.Header) *tar.Header {
	h.ModTime, h.Format = p.made, tar.FormatPAX // others have whole seconds
	return h
}

// relay writes what lies below a place's directory under its new name.
func (p *placer) relay(w *tar.Writer, r *tar.Reader, at place, changed map[string][]byte) (n int, err error) {
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		name := path.Clean(h.Name)
		if at.from != "" && (!within(name, at.from) || name == at.from) {
			continue
		}
		n++
		content := io.Reader(r)
		if b, ok := changed[name]; ok && h.Typeflag == tar.TypeReg {
			h.Size, content = int64(len(b)), bytes.NewReader(b)
		}
		h.Name = path.Join(at.to, strings.TrimPrefix(name, at.from))
		if h.Typeflag == tar.TypeDir {
			h.Name += "/"
		}
		if h.Typeflag == tar.TypeLink {
			h.Linkname = path.Join(at.to, strings.TrimPrefix(path.Clean(h.Linkname), at.from))
		}
		if h.Typeflag == tar.TypeReg {
			p.fresh(h)
		}
		if err := w.WriteHeader(h); err != nil {
			return n, err
		}
		if _, err := io.Copy(w, content); err != nil {
			return n, err
		}
	}
}

// changes are the test files with the chosen canaries of each command in them.
func (p *placer) changes(chosen [][]int) (map[string][]byte, error) {
	all := map[string][]checks.Canary{}
	for i, c := range p.plan.Commands {
		for _, n := range chosen[i] {
			y := c.Canaries[n]
			name := path.Clean(y.File)
			all[name] = append(all[name], y)
		}
	}
	out := map[string][]byte{}
	for _, name := range sortedKeys(all) {
		b, err := p.original(name)
		if err == nil {
			b, err = checks.Plant(b, all[name])
		}
		if err != nil {
			return nil, errPlan("canaries: %w", err)
		}
		out[name] = b
	}
	return out, nil
}

// original reads a test file where its last directory has it.
func (p *placer) original(name string) ([]byte, error) {
	if f, ok := p.of[name]; ok {
		return f.content, nil
	}
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("%q is not a path below tests/", name)
	}
	for _, dir := range slices.Backward(p.r.Key.Tests) {
		info, err := os.Lstat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("tests/%s is not a regular file", name)
		}
		if err != nil {
			return nil, err
		}
		return readHostFile(dir, name, maxScript)
	}
	return nil, fmt.Errorf("there is no tests/%s", name)
}

// placedFiles are the files and links of the grader's layer.
func placedFiles(store *image.Store, id image.LayerID) (map[string]image.Entry, error) {
	out := map[string]image.Entry{}
	for e, err := range store.Entries(id) {
		if err != nil {
			return nil, err
		}
		if e.Type == image.TypeFile || e.Type == image.TypeSymlink {
			out[e.Path] = e
		}
	}
	return out, nil
}

// wipe hides what lies where the plan's reports will, so that only what the
// commands leave is read. A link that the work put on the way to one goes, too.
func (p *placer) wipe(ctx context.Context, reports []string, stack []image.LayerID) ([]image.LayerID, error) {
	if len(reports) == 0 {
		return nil, nil
	}
	v, err := p.r.Store.View(stack)
	if err != nil {
		return nil, err
	}
	old := map[string]bool{}
	for _, pattern := range reports {
		if err := stale(v, pattern, old); err != nil {
			return nil, err
		}
	}
	if len(old) == 0 {
		return nil, nil
	}
	w, err := p.tmp.NewLayer(ctx, stack...)
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	for _, f := range sortedKeys(old) {
		if err := w.Add(image.Entry{Path: f, Type: image.TypeWhiteout}, nil); err != nil {
			return nil, err
		}
	}
	id, err := w.Commit()
	return []image.LayerID{id}, err
}

// reports are the patterns of one command's report, relative to the root, with
// the image's own links on the way followed.
func (p *placer) reports(c checks.Command) ([]string, error) {
	v, err := p.r.Store.View(p.base)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, f := range c.Files {
		pattern := inBox(p.dir, f)
		root, _ := globRoot(pattern)
		if to, err := v.Resolve("/" + root); err == nil && to != root {
			pattern = path.Join(to, below(pattern, root))
		}
		all = append(all, pattern)
	}
	return all, nil
}

// stale finds what matches a pattern in a tree, and what stands in the place of
// a directory above it.
func stale(v *image.View, pattern string, old map[string]bool) error {
	root, _ := globRoot(pattern)
	for _, dir := range append(above(root), root) {
		e, err := v.Lstat(dir)
		if err != nil {
			return nil // nothing there
		}
		if !e.IsDir() {
			old[dir] = true
			return nil
		}
	}
	err := v.Walk(root, func(e image.Entry) error {
		if e.Path == "." || !glob(pattern, e.Path) {
			return nil
		}
		old[e.Path] = true
		if e.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
	if isMissing(err) {
		return nil
	}
	return err
}
