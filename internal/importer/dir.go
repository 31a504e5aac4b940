package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Dir is one task directory before it is on disk.
type Dir struct {
	Name  string // a single portable directory name
	Files []File
}

// File is one regular file of a Dir.
type File struct {
	Path string // relative, forward slashes
	Data []byte
	Exec bool // mode 0755 instead of 0644
}

const (
	tempPrefix = ".import-"
	staleAfter = time.Hour
)

// beside are files that others put next to a task and that are no part of it.
func beside(path string) bool { return path == "proof.json" }

func (d Dir) valid() error {
	if d.Name == "" || strings.HasPrefix(d.Name, ".") || strings.ContainsAny(d.Name, "/\\\x00\n") {
		return fmt.Errorf("import: %q cannot name a task directory", d.Name)
	}
	seen := map[string]bool{}
	for _, f := range d.Files {
		if !fs.ValidPath(f.Path) || f.Path == "." || !filepath.IsLocal(filepath.FromSlash(f.Path)) {
			return fmt.Errorf("import %s: %q cannot name a file", d.Name, f.Path)
		}
		if seen[f.Path] {
			return fmt.Errorf("import %s: two files %s", d.Name, f.Path)
		}
		seen[f.Path] = true
	}
	return nil
}

// compare says what publishing would do: Written, Unchanged or Replaced.
func (d Dir) compare(out string) (State, error) {
	root := filepath.Join(out, d.Name)
	info, err := os.Lstat(root)
	if errors.Is(err, fs.ErrNotExist) {
		return Written, nil
	}
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return Replaced, nil
	}
	want := map[string]File{}
	for _, f := range d.Files {
		want[f.Path] = f
	}
	same := true
	err = filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if beside(rel) {
			return nil
		}
		f, ok := want[rel]
		delete(want, rel)
		if ok {
			ok, err = f.matches(p)
		}
		if !ok && err == nil {
			same = false
			err = fs.SkipAll
		}
		return err
	})
	if err != nil {
		return "", err
	}
	if same && len(want) == 0 {
		return Unchanged, nil
	}
	return Replaced, nil
}

// matches reports whether the regular file at path has f's bytes and mode.
func (f File) matches(path string) (bool, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(len(f.Data)) || (info.Mode()&0o100 != 0) != f.Exec {
		return false, nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	return bytes.Equal(data, f.Data), nil
}

// publish writes the directory under a hidden name and renames it. A killed
// process leaves the old directory, the new one, or none, and never a part.
func (d Dir) publish(out string, replace bool) (err error) {
	temp, err := os.MkdirTemp(out, tempPrefix)
	if err != nil {
		return err
	}
	defer func() {
		if rmErr := os.RemoveAll(temp); err == nil {
			err = rmErr
		}
	}()
	fresh := filepath.Join(temp, "new")
	for _, f := range d.Files {
		if err := f.write(fresh); err != nil {
			return err
		}
	}
	final := filepath.Join(out, d.Name)
	if replace {
		if err := os.Rename(final, filepath.Join(temp, "old")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(fresh, final); err != nil {
		// Another import may have been quicker with the same task.
		if state, cmpErr := d.compare(out); cmpErr == nil && state == Unchanged {
			return nil
		}
		return err
	}
	return nil
}

func (f File) write(root string) error {
	path := filepath.Join(root, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if f.Exec {
		mode = 0o755
	}
	if err := os.WriteFile(path, f.Data, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode) // whatever the umask
}

// removeStale removes what killed imports left. Young ones may belong to an
// import that is running now. It is only tidying: an error is no reason to stop.
func removeStale(out string) {
	entries, err := os.ReadDir(out)
	if err != nil {
		return
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		if info, err := e.Info(); err == nil && info.IsDir() && time.Since(info.ModTime()) > staleAfter {
			_ = os.RemoveAll(filepath.Join(out, e.Name()))
		}
	}
}
