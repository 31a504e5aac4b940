package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"assay/internal/store"
)

const (
	maxFiles     = 2000     // entries of a trial's directory that are looked at
	maxDepth     = 8        // folders below a trial's directory
	maxTrajBytes = 64 << 20 // of trajectory.json that are read
)

// File is a regular file below a trial's directory.
type File struct {
	Path string // slash-separated, relative to the trial's directory
	Size int64
}

// openFile opens a file of a trial. The agent may have left anything there:
// only a regular file that is reached through no link opens.
func openFile(t *Trial, name string) (*os.File, fs.FileInfo, error) {
	if !filepath.IsLocal(name) {
		return nil, nil, fmt.Errorf("open %q of trial %q: %w", name, t.Name, fs.ErrNotExist)
	}
	f, err := (&store.Trial{Name: t.Name, Dir: t.Dir}).Open(name)
	if err != nil {
		return nil, nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

// listFiles names the regular files below root in order of their paths, at
// most maxFiles of them; more says whether some are missing from the list.
func listFiles(root *os.Root) (files []File, more bool) {
	seen := 0
	var walk func(dir string, depth int)
	walk = func(dir string, depth int) {
		d, err := root.OpenFile(dir, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return
		}
		names, err := d.ReadDir(maxFiles + 1)
		d.Close()
		if err != nil && !errors.Is(err, io.EOF) {
			return
		}
		slices.SortFunc(names, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
		for _, e := range names {
			if seen++; seen > maxFiles {
				more = true
				return
			}
			p := path.Join(dir, e.Name())
			switch {
			case e.IsDir() && depth < maxDepth:
				walk(p, depth+1)
			case e.IsDir():
				more = true
			case e.Type().IsRegular():
				if info, err := e.Info(); err == nil {
					files = append(files, File{Path: p, Size: info.Size()})
				}
			}
		}
	}
	walk(".", 0)
	return files, more
}

// readText reads head and tail of a file, at most limit bytes together.
// A binary file says so.
func readText(t *Trial, name string, limit int) (Text, error) {
	f, info, err := openFile(t, name)
	if err != nil {
		return Text{}, err
	}
	defer f.Close()
	head, tail := int64(limit)*3/4, int64(limit)-int64(limit)*3/4
	if info.Size() <= int64(limit) {
		head, tail = int64(limit), 0
	}
	h, err := io.ReadAll(io.LimitReader(f, head))
	if err != nil {
		return Text{}, err
	}
	if isBinary(h) {
		return Text{Head: "(binary)", Size: info.Size(), Lines: 1}, nil
	}
	if tail == 0 {
		return newText(string(h), "", 0, int64(len(h))), nil
	}
	end := make([]byte, tail)
	n, err := f.ReadAt(end, info.Size()-tail)
	if err != nil && !errors.Is(err, io.EOF) {
		return Text{}, err
	}
	return newText(string(h), string(end[:n]), info.Size()-int64(len(h))-int64(n), info.Size()), nil
}

// isBinary looks at the start of a file. A stray NUL does not make it binary:
// one byte must not be enough to hide an output from its reader.
func isBinary(b []byte) bool {
	b = b[:min(len(b), 4096)]
	return len(b) > 0 && bytes.Count(b, []byte{0}) > len(b)/10
}
