package grade

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	"assay/internal/image"
	"assay/task"
)

// filter makes of an agent's layer what may cross to the grader.
type filter struct {
	store *image.Store
	tmp   *image.Temporary // of the layers that are made
	base  []image.LayerID  // what the layer lies upon
	guard *guard

	in   map[string]image.Entry // the agent's entries by path
	out  map[string]image.Entry // what crosses
	view *image.View            // of base, once somebody asks
	drop map[string]int         // what was left out, by reason
}

// outside is not worth a note: agents write logs and temporary files.
const outside = "outside the workspace"

// workspace is the patch filter: only names below workdir cross, as plain
// files, directories, links and deletions, without setid bits and extended
// attributes. A workdir that the agent removed or replaced is an empty one.
func (f *filter) workspace(workdir string) error {
	if f.moved(workdir) {
		e := f.baseEntry(workdir)
		if old := f.in[workdir]; old.IsDir() {
			e = old
		} else if e.Path == "" {
			e = image.Entry{Path: workdir, Type: image.TypeDir, Mode: 0o755}
		}
		e.Opaque = true
		f.out[workdir] = e
		f.drop[outside]++
	}
	for p, e := range f.in {
		if !within(p, workdir) {
			f.parent(e, workdir)
			continue
		}
		if _, done := f.out[p]; done {
			e = f.out[p]
		}
		if p != workdir && f.guard.covers(p) {
			f.drop["protected"]++
			continue
		}
		switch e.Type {
		case image.TypeDir, image.TypeFile, image.TypeSymlink, image.TypeWhiteout:
		default:
			f.drop["a device, socket or pipe"]++
			continue
		}
		if e.Mode&0o6000 != 0 || len(e.Xattrs) > 0 {
			e.Mode &^= 0o6000
			e.Xattrs = nil
			f.drop["setid bits or extended attributes"]++
		}
		f.out[p] = e
	}
	if e, ok := f.out[workdir]; ok && e.IsDir() {
		if was := f.baseEntry(workdir); was.Mode&^e.Mode != 0 { // closed, no verifier of another user could begin
			e.Mode |= was.Mode
			f.out[workdir] = e
			f.drop["a closed workspace"]++
		}
	}
	return f.restore()
}

// moved reports whether the image's workdir cannot be seen through the agent's
// layer: it, or a directory above it, was removed, replaced or emptied.
func (f *filter) moved(workdir string) bool {
	for _, dir := range above(workdir) {
		if e, ok := f.in[dir]; ok && hides(e) {
			return true
		}
	}
	e, ok := f.in[workdir]
	return ok && e.Type != image.TypeDir
}

// parent keeps a directory above the workspace as the image has it, and drops
// everything else outside.
func (f *filter) parent(e image.Entry, workdir string) {
	switch {
	case !within(workdir, e.Path):
		f.drop[outside]++
	case f.sameDir(e):
		f.out[e.Path] = e
	default:
		f.drop[outside]++
		b := f.baseEntry(e.Path)
		if b.Path == "" {
			b = image.Entry{Path: e.Path, Type: image.TypeDir, Mode: 0o755}
		}
		f.out[e.Path] = b
	}
}

// tree is the state filter: everything crosses but protected paths.
func (f *filter) tree() error {
	for p, e := range f.in {
		// An empty /logs/verifier is in every sandbox and a trace of nothing.
		switch {
		case within(p, "solution"):
			f.drop[outside]++ // the oracle's: nothing worth a note
			continue
		case f.guard.covers(p) && (p != verifierDir || hides(e)):
			f.drop["protected"]++
			continue
		}
		f.out[p] = e
	}
	return f.restore()
}

// restore lets the image's own protected paths be seen again where a directory
// above them was removed, replaced or emptied.
func (f *filter) restore() error {
	if !f.mayHide() {
		return nil
	}
	if _, err := f.baseView(); err != nil {
		return err
	}
	roots, err := f.guard.roots(f.view)
	if err != nil {
		return err
	}
	for _, r := range roots {
		for _, dir := range above(r) {
			if e, ok := f.out[dir]; ok && hides(e) {
				f.drop["over a protected path"]++
				f.open(dir, roots)
				break
			}
		}
	}
	return nil
}

// mayHide is a cheap look whether restore has anything to do: most layers
// hide nothing, and looking at a whole image takes time.
func (f *filter) mayHide() bool {
	for _, l := range f.guard.literal {
		for _, dir := range above(l) {
			if e, ok := f.out[dir]; ok && hides(e) {
				return true
			}
		}
	}
	if len(f.guard.patterns) == 0 {
		return false
	}
	for p, e := range f.out {
		if hides(e) && f.baseEntry(p).Path != "" {
			return true
		}
	}
	return false
}

// hides reports whether e hides what lower layers hold below its name.
func hides(e image.Entry) bool { return e.Type != image.TypeDir || e.Opaque }

// open takes away what hides the image's content of dir, and hides each of its
// names but the protected ones instead.
func (f *filter) open(dir string, roots []string) {
	b, err := f.view.Lstat(dir)
	isDir := err == nil && b.IsDir()
	if e := f.out[dir]; e.Type == image.TypeDir {
		e.Opaque = false
		f.out[dir] = e
	} else {
		delete(f.out, dir)
	}
	if !isDir {
		return
	}
	children, err := f.view.ReadDir(dir)
	if err != nil {
		return // it is a directory: it was looked up just now
	}
	for _, c := range children {
		p := c.Path
		if f.guard.covers(p) {
			continue
		}
		if c.IsDir() && slices.ContainsFunc(roots, func(r string) bool { return r != p && within(r, p) }) {
			f.open(p, roots)
			continue
		}
		e, ok := f.out[p]
		switch {
		case !ok:
			f.out[p] = image.Entry{Path: p, Type: image.TypeWhiteout}
		case e.Type == image.TypeDir:
			e.Opaque = true
			f.out[p] = e
		}
	}
}

// sameDir reports whether a directory outside the workspace is as the image
// has it: a layer names the parents of all that it holds.
func (f *filter) sameDir(e image.Entry) bool {
	if e.Type != image.TypeDir || e.Opaque || len(e.Xattrs) > 0 {
		return false
	}
	b := f.baseEntry(e.Path)
	return b.Type == e.Type && b.Mode == e.Mode && b.UID == e.UID && b.GID == e.GID
}

// baseEntry is the image's directory p; the zero Entry if it has none.
func (f *filter) baseEntry(p string) image.Entry {
	v, err := f.baseView()
	if err != nil {
		return image.Entry{} // commit meets the same error and returns it
	}
	e, err := v.Lstat(p)
	if err != nil || !e.IsDir() {
		return image.Entry{}
	}
	e.Xattrs = nil
	return e
}

func (f *filter) baseView() (*image.View, error) {
	if f.view == nil {
		v, err := f.store.View(f.base)
		if err != nil {
			return nil, err
		}
		f.view = v
	}
	return f.view, nil
}

// commit writes what crosses as layers, bottom first: the agent's own where
// nothing had to be changed, none where nothing crosses.
func (f *filter) commit(ctx context.Context, from image.LayerID) ([]image.LayerID, error) {
	if len(f.drop) == 0 {
		return []image.LayerID{from}, nil
	}
	var stack []image.LayerID
	if id, err := f.added(ctx); err != nil {
		return nil, err
	} else if id != "" {
		stack = append(stack, id)
	}
	id, err := f.tmp.Filter(ctx, from, func(e image.Entry) (image.Entry, bool) {
		e, ok := f.out[e.Path]
		return e, ok
	})
	if err != nil {
		return nil, err
	}
	return append(stack, id), nil
}

// added makes a layer of what crosses and has no counterpart in the agent's.
func (f *filter) added(ctx context.Context) (image.LayerID, error) {
	var w *image.LayerWriter
	for _, p := range sortedPaths(f.out) {
		if _, ok := f.in[p]; ok {
			continue
		}
		if w == nil {
			var err error
			if w, err = f.tmp.NewLayer(ctx, f.base...); err != nil {
				return "", err
			}
			defer w.Abort()
		}
		if err := w.Add(f.out[p], nil); err != nil {
			return "", err
		}
	}
	if w == nil {
		return "", nil
	}
	return w.Commit()
}

// notes say what was left out, for people.
func (f *filter) notes() []string {
	var out []string
	for _, why := range sortedKeys(f.drop) {
		if why == outside {
			continue
		}
		out = append(out, fmt.Sprintf("left out of grading: %d entries (%s)", f.drop[why], why))
	}
	return out
}

// crossing filters an agent's layer for one kind of grading. What crosses is
// layers, or a handful of files to be put.
func crossing(ctx context.Context, r Request, tmp *image.Temporary, layer image.LayerID, workdir string) ([]image.LayerID, *handful, []string, error) {
	protected := slices.Clone(r.Key.Protected)
	if r.Key.Grade != task.GradePatch {
		protected = append(protected, "/"+testsDir, "/"+verifierDir)
	}
	base, err := r.Store.View(r.Image.Layers)
	if err != nil {
		return nil, nil, nil, err
	}
	g, err := newGuard(workdir, byLinks(base, workdir, protected))
	if err != nil {
		return nil, nil, nil, &taskError{err}
	}
	g.placed = r.placed
	if layer == "" {
		return nil, nil, nil, nil
	}
	f := &filter{store: r.Store, tmp: tmp, base: r.Image.Layers, guard: g, view: base,
		in: map[string]image.Entry{}, out: map[string]image.Entry{}, drop: map[string]int{}}
	for e, err := range r.Store.Entries(layer) {
		if err != nil {
			return nil, nil, nil, err
		}
		f.in[e.Path] = e
	}
	if r.Key.Grade == task.GradePatch {
		err = f.workspace(workdir)
	} else {
		err = f.tree()
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if h := f.handful(r, layer, workdir); h != nil {
		return nil, h, f.notes(), nil
	}
	stack, err := f.commit(ctx, layer)
	return stack, nil, f.notes(), err
}

// above lists the directories above p, the topmost first, without the root.
func above(p string) []string {
	var dirs []string
	for i, c := range p {
		if c == '/' {
			dirs = append(dirs, p[:i])
		}
	}
	return dirs
}

// sortedPaths orders parents before their children.
func sortedPaths(m map[string]image.Entry) []string {
	keys := sortedKeys(m)
	slices.SortStableFunc(keys, func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
	return keys
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// relative makes an absolute path of a sandbox one of a layer.
func relative(p image.Path) string {
	c := strings.TrimPrefix(path.Clean("/"+string(p)), "/")
	if c == "" {
		return "."
	}
	return c
}

// readCapped reads at most limit bytes; more is ok == false.
func readCapped(r io.Reader, limit int64) (b []byte, ok bool, err error) {
	b, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, false, err
	}
	return b, int64(len(b)) <= limit, nil
}
