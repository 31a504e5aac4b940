package label

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"assay/task"
)

// Caps of what is read of a task.
const (
	maxFile    = 8 << 20   // bytes of one text
	maxPacked  = 256 << 20 // bytes of an archive, unpacked
	maxEntries = 20_000
)

// source is a task's directory, of which no link leads out.
type source struct {
	root   *os.Root
	task   *task.Task
	record record
}

func open(t *task.Task) (*source, error) {
	r, err := os.OpenRoot(t.Dir)
	if err != nil {
		return nil, err
	}
	return &source{root: r, task: t, record: recordOf(t.Config)}, nil
}

func (d *source) close() { d.root.Close() }

// read is a regular file's first bytes; nil: there is none.
func (d *source) read(name string) ([]byte, error) {
	fi, err := d.root.Stat(name)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !fi.Mode().IsRegular() {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// list are the regular files below a directory, in order.
func (d *source) list(dir string) ([]string, error) {
	var all []string
	err := fs.WalkDir(d.root.FS(), dir, func(p string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) && p == dir {
			return fs.SkipAll
		}
		if err != nil {
			return err
		}
		if e.Type().IsRegular() {
			all = append(all, p)
		}
		if len(all) > maxEntries {
			return fmt.Errorf("%s: more than %d files", dir, maxEntries)
		}
		return nil
	})
	return all, err
}

// parts are the places in which a task of several steps keeps what one of one
// step keeps at its top.
func (d *source) parts(name string) []string {
	all := []string{name}
	for _, s := range d.task.Config.Steps {
		if s.Name != "" && fs.ValidPath(s.Name) && !strings.Contains(s.Name, "/") {
			all = append(all, "steps/"+s.Name+"/"+name)
		}
	}
	return all
}

func (d *source) instruction() string {
	var b strings.Builder
	for _, s := range d.task.Steps {
		b.WriteString(s.Instruction)
		b.WriteByte('\n')
	}
	return b.String()
}

// archive are the files of a tar, packed or not, by path; what is no tar is
// empty. A file that is removed by it, a whiteout, is left out.
func archive(b []byte) map[string][]byte {
	var r io.Reader = bytes.NewReader(b)
	if z, err := gzip.NewReader(bytes.NewReader(b)); err == nil {
		r = z
	}
	files := map[string][]byte{}
	t := tar.NewReader(io.LimitReader(r, maxPacked))
	for len(files) < maxEntries {
		h, err := t.Next()
		if err != nil {
			return files // of a broken archive what came before
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		content, err := io.ReadAll(io.LimitReader(t, maxFile))
		if err != nil {
			return files
		}
		files[path.Clean("/"+h.Name)] = content
	}
	return files
}

// own reports whether a path is git's or a cache: no part of a solution.
func own(p string) bool {
	return slices.ContainsFunc(strings.Split(p, "/"), func(s string) bool { return s == ".git" || s == "__pycache__" || s == ".pytest_cache" })
}
