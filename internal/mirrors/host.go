package mirrors

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// Host is the machine to read. Root and Home let a test make one up.
type Host struct {
	Root string                      // where its files are; empty: "/"
	Home string                      // of the user, as a path of the machine; may be empty
	Env  func(string) (string, bool) // nil: nothing is set
}

const maxFile = 4 << 20 // bytes; a bundle of certificates is below one

func (h Host) env(names ...string) (value, name string) {
	if h.Env == nil {
		return "", ""
	}
	for _, n := range names {
		if v, ok := h.Env(n); ok && v != "" {
			return v, n
		}
	}
	return "", ""
}

func (h Host) path(p string) string {
	if h.Root == "" || h.Root == "/" {
		return p
	}
	return filepath.Join(h.Root, p)
}

// home is a path in the user's home, empty if there is none.
func (h Host) home(p string) string {
	if h.Home == "" {
		return ""
	}
	return filepath.Join(h.Home, p)
}

// read returns a file's content, nil if there is none.
func (h Host) read(p string) ([]byte, error) {
	if p == "" {
		return nil, nil
	}
	f, err := os.Open(h.path(p))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return nil, nil // a file that the user cannot read does not work for the user's own tools either
	}
	if err != nil {
		return nil, fmt.Errorf("read the settings of this machine: %w", err)
	}
	defer f.Close()
	if fi, err := f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return nil, nil // a directory, /dev/null
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the settings of this machine: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("read the settings of this machine: %s is larger than %d bytes", p, maxFile)
	}
	return b, nil
}

const maxDir = 500 // files of one configuration directory

// list returns the files of a directory with one of the endings, in order.
func (h Host) list(dir string, endings ...string) []string {
	all, err := os.ReadDir(h.path(dir))
	if err != nil {
		return nil
	}
	var found []string
	for _, e := range all {
		if slices.Contains(endings, filepath.Ext(e.Name())) && len(found) < maxDir {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found
}
