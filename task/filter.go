package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// ignoreName is the ignore file of tests/, solution/ and their counterparts in
// steps/. It is obeyed only there, and is itself hashed and copied nowhere.
const ignoreName = ".harborignore"

// filter selects the inputs of a task by its .harborignore files.
type filter struct {
	t     *tree
	specs map[string]*ignoreSpec // by directory
}

func newFilter(t *tree) *filter { return &filter{t: t, specs: map[string]*ignoreSpec{}} }

// inScope says whether a path is one that .harborignore may speak of.
func inScope(parts []string, isDir bool) bool {
	if len(parts) >= 3 && parts[0] == "steps" {
		parts = parts[2:]
	}
	if len(parts) == 0 || (parts[0] != "tests" && parts[0] != "solution") {
		return false
	}
	return len(parts) > 1 || isDir
}

// spec reads the ignore file of a directory; a missing one is empty.
func (f *filter) spec(dir string) (*ignoreSpec, error) {
	if s, ok := f.specs[dir]; ok {
		return s, nil
	}
	name := path.Join(dir, ignoreName)
	text, err := f.t.readText(name, maxIgnoreFile)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	s, err := parseIgnore(text, dialectGit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.specs[dir] = s
	return s, nil
}

// excluded matches a path and, when it is a link within the task, its target.
func (f *filter) excluded(rel string, isDir bool) (bool, error) {
	real, err := f.t.resolve(rel)
	if err == nil {
		return f.excludedAs(rel, real, isDir)
	}
	if ok, merr := f.matches(rel, isDir); ok || merr != nil {
		return ok, merr
	}
	return false, &LayoutError{Path: rel, Message: err.Error(), Remedy: "remove the link"}
}

// excludedAs is excluded for a path whose target is known.
func (f *filter) excludedAs(rel, real string, isDir bool) (bool, error) {
	ok, err := f.matches(rel, isDir)
	if ok || err != nil {
		return ok, err
	}
	target, err := f.t.relative(real)
	if err != nil || target == rel {
		return false, nil // links that lead nowhere good are reported by the walk
	}
	return f.matches(target, isDir)
}

func (f *filter) matches(rel string, isDir bool) (bool, error) {
	parts := strings.Split(rel, "/")
	if parts[len(parts)-1] == ignoreName {
		return true, nil
	}
	if !inScope(parts, isDir) {
		return false, nil
	}
	type scope struct {
		depth int
		spec  *ignoreSpec
	}
	var scopes []scope
	for n := 1; n <= len(parts); n++ {
		if inScope(parts[:n-1], true) {
			s, err := f.spec(path.Join(parts[:n-1]...))
			if err != nil {
				return false, err
			}
			scopes = append(scopes, scope{n - 1, s})
		}
		dir := n < len(parts) || isDir
		if !inScope(parts[:n], dir) {
			continue
		}
		excluded := false
		for _, s := range scopes {
			p := strings.Join(parts[s.depth:n], "/")
			if dir {
				p += "/"
			}
			if x, decided := s.spec.match(p); decided {
				excluded = x
			}
		}
		if excluded {
			return true, nil
		}
	}
	return false, nil
}

// inputWalk visits everything below a directory that is copied into a sandbox,
// through directory links inside the task, and refuses what must not be there.
type inputWalk struct {
	t       *tree
	f       *filter // nil: nothing is excluded
	entries int
	linked  int // entries reached through a link to a directory
	bytes   int64
	report  func(*LayoutError) bool // returns whether to go on
}

// maxLinkedEntries is far below maxTreeEntries: a few links between
// directories make a small tree look endless.
const maxLinkedEntries = 10_000

var errStop = errors.New("stop")

// check walks rel if it exists.
func (w *inputWalk) check(rel string) error {
	real, err := w.t.resolve(rel)
	if err != nil {
		err = w.cycle(rel)
	} else {
		err = w.visit(rel, real, nil)
	}
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

func (w *inputWalk) bad(rel, message, remedy string) error {
	if w.report(&LayoutError{Path: rel, Message: message, Remedy: remedy}) {
		return nil
	}
	return errStop
}

// cycle reports a link that leads to itself, unless it is excluded.
func (w *inputWalk) cycle(rel string) error {
	if w.f != nil {
		if x, err := w.f.matches(rel, false); x || err != nil {
			return err
		}
	}
	return w.bad(rel, errCycle.Error(), "replace the link by the file itself")
}

// visit takes a path and where it leads; above are the directories it is in.
func (w *inputWalk) visit(rel, real string, above []string) error {
	fi, statErr := os.Lstat(real)
	isDir := statErr == nil && fi.IsDir()
	if w.f != nil {
		x, err := w.f.excludedAs(rel, real, isDir)
		if x || err != nil {
			return err
		}
	}
	at, err := w.t.relative(real)
	if err != nil {
		return w.bad(rel, err.Error(), "copy the file into the task")
	}
	if statErr != nil {
		return nil // missing, or a link to nothing
	}
	w.entries++
	if at != rel {
		w.linked++
	}
	if w.entries > maxTreeEntries || w.linked > maxLinkedEntries {
		return &LayoutError{Path: rel, Message: fmt.Sprintf("the task has more than %d files, or more than %d behind links to directories", maxTreeEntries, maxLinkedEntries)}
	}
	if !isDir {
		return w.file(rel, fi)
	}
	if slices.Contains(above, real) {
		return w.bad(rel, "links form a cycle", "remove the link")
	}
	names, err := os.ReadDir(real)
	if err != nil {
		return w.bad(rel, "cannot be read: "+reason(err).Error(), "make it readable")
	}
	if w.f != nil && !slices.ContainsFunc(names, func(e fs.DirEntry) bool { return e.Name() == ignoreName }) {
		w.f.specs[rel] = &ignoreSpec{} // spares the search for it
	}
	above = append(above[:len(above):len(above)], real)
	for _, n := range names {
		child := filepath.Join(real, n.Name())
		if n.Type()&fs.ModeSymlink != 0 {
			if child, err = w.t.resolve(at + "/" + n.Name()); err != nil {
				if err := w.cycle(rel + "/" + n.Name()); err != nil {
					return err
				}
				continue
			}
		}
		if err := w.visit(rel+"/"+n.Name(), child, above); err != nil {
			return err
		}
	}
	return nil
}

func (w *inputWalk) file(rel string, fi fs.FileInfo) error {
	if !fi.Mode().IsRegular() {
		return w.bad(rel, "is "+modeWord(fi.Mode()), "only files, directories and links belong into a task")
	}
	if fi.Size() > maxDataFile {
		return w.bad(rel, fmt.Sprintf("holds %s, more than the %s a file of a task may hold", bytesWord(fi.Size()), bytesWord(maxDataFile)), "make it smaller, or build it in the image")
	}
	if w.bytes += fi.Size(); w.bytes > maxTreeBytes {
		return &LayoutError{Path: rel, Message: "the task's files hold more than " + bytesWord(maxTreeBytes)}
	}
	return nil
}
