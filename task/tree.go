package task

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf8"
)

// Caps on what is read of a task directory. A task past them is refused, never
// read in part.
const (
	maxConfigFile  = 1 << 20 // bytes of task.toml, task.yaml, Compose files
	maxTextFile    = 8 << 20 // bytes of an instruction
	maxScriptFile  = 4 << 20 // bytes of a script that lint reads
	maxDataFile    = 1 << 30 // bytes of any one file that is hashed or copied
	maxTreeBytes   = 4 << 30 // bytes of all of them
	maxTreeEntries = 200_000
	maxLinks       = 40 // links met on the way to one file, as in Linux
)

// LayoutError is a file or directory of a task that is missing, or that is not
// what it must be.
type LayoutError struct {
	Path    string // relative to the task directory
	Message string
	Remedy  string
}

func (e *LayoutError) Error() string {
	s := fmt.Sprintf("%s: %s", quotePath(e.Path), e.Message)
	if e.Remedy != "" {
		s += "; " + e.Remedy
	}
	return s
}

// quotePath keeps names with line breaks or broken text on one line.
func quotePath(p string) string {
	if !utf8.ValidString(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fmt.Sprintf("%q", p)
	}
	return p
}

// tree is one task directory. Paths given to it are relative and
// slash-separated; links are followed only while they stay inside.
type tree struct {
	dir string // absolute, links resolved
}

func openTree(dir string) (*tree, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open task %q: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("open task: %w", err)
	}
	fi, err := os.Stat(real)
	if err != nil {
		return nil, fmt.Errorf("open task: %w", err)
	}
	if !fi.IsDir() {
		return nil, fmt.Errorf("open task %s: not a directory", abs)
	}
	return &tree{dir: real}, nil
}

func (t *tree) path(rel string) string { return filepath.Join(t.dir, filepath.FromSlash(rel)) }

var (
	errOutside = errors.New("a link leads out of the task")
	errCycle   = errors.New("links form a cycle")
)

// resolve follows all links on the way to rel. Parts that do not exist are
// taken as they stand. The result is absolute and inside or outside the task.
func (t *tree) resolve(rel string) (string, error) {
	todo := strings.Split(rel, "/")
	at := t.dir
	for links := 0; len(todo) > 0; {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		next := filepath.Join(at, part)
		target, err := os.Readlink(next)
		if err != nil { // not a link, or not there
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", errCycle
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		todo = append(strings.Split(target, "/"), todo...)
	}
	return at, nil
}

// inside gives rel's place in the task after links, or errOutside.
func (t *tree) inside(rel string) (string, error) {
	real, err := t.resolve(rel)
	if err != nil {
		return "", err
	}
	return t.relative(real)
}

func (t *tree) relative(real string) (string, error) {
	if real == t.dir {
		return ".", nil
	}
	rest, ok := strings.CutPrefix(real, strings.TrimSuffix(t.dir, "/")+"/")
	if !ok {
		return "", errOutside
	}
	return filepath.ToSlash(rest), nil
}

// stat describes what rel leads to. Links out of the task and cycles are
// errors; fs.ErrNotExist is given for what is not there.
func (t *tree) stat(rel string) (fs.FileInfo, error) {
	real, err := t.inside(rel)
	if err != nil {
		return nil, &LayoutError{Path: rel, Message: err.Error(), Remedy: "replace the link by the file itself"}
	}
	fi, err := os.Lstat(t.path(real))
	if err != nil {
		if errors.Is(err, syscall.ENOTDIR) {
			err = fs.ErrNotExist
		}
		return nil, fmt.Errorf("%s: %w", quotePath(rel), reason(err))
	}
	return fi, nil
}

func (t *tree) exists(rel string) bool {
	_, err := t.stat(rel)
	return err == nil
}

func (t *tree) isDir(rel string) bool {
	fi, err := t.stat(rel)
	return err == nil && fi.IsDir()
}

func (t *tree) isFile(rel string) bool {
	fi, err := t.stat(rel)
	return err == nil && fi.Mode().IsRegular()
}

// read returns a small file of the task.
func (t *tree) read(rel string, limit int64) ([]byte, error) {
	fi, err := t.stat(rel)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() {
		return nil, &LayoutError{Path: rel, Message: "is " + modeWord(fi.Mode()) + ", not a file"}
	}
	real, err := t.resolve(rel)
	if err != nil {
		return nil, err
	}
	f, err := openRegular(real)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quotePath(rel), reason(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", quotePath(rel), reason(err))
	}
	if int64(len(data)) > limit {
		return nil, &LayoutError{Path: rel, Message: fmt.Sprintf("is larger than %s", bytesWord(limit))}
	}
	return data, nil
}

// readText is read, for text: UTF-8, line ends made one kind.
func (t *tree) readText(rel string, limit int64) (string, error) {
	data, err := t.read(rel, limit)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(data) {
		return "", &LayoutError{Path: rel, Message: "is not UTF-8 text", Remedy: "save it as UTF-8"}
	}
	return string(newlines(data)), nil
}

// openRegular opens a file that must be regular, without waiting for the other
// end of a pipe and without following a link put there meanwhile.
func openRegular(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && !fi.Mode().IsRegular() {
		err = errors.New("is " + modeWord(fi.Mode()) + ", not a file")
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// reason drops the host path from an error that is shown beside a task path.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func modeWord(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeSymlink != 0:
		return "a link"
	case m.IsRegular():
		return "a file"
	}
	return "a special file"
}

func bytesWord(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d KiB", n>>10)
}
