package task

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode/utf8"
)

// defaultIgnores stand in for a missing root .gitignore.
const defaultIgnores = "__pycache__/\n*.pyc\n.DS_Store\n*.swp\n*.swo\n*~\n"

// Digest is Harbor's content digest of a task directory: "sha256:" and the
// hash of one line (path, NUL, the file's hash, line feed) for each file that
// belongs to the task, in the order of the paths' code points. Modes, empty
// directories and links to directories do not count; a link to a file counts
// as that file, even one outside of the task. The directory need not hold a
// valid task.
//
// A Terminal-Bench 1 directory, which Harbor does not know, is hashed in the
// same way over all its files.
//
// It is an error when a name is not UTF-8, a file cannot be read, an ignore
// file is malformed, or the task is past the caps of this package.
func Digest(dir string) (string, error) {
	t, err := openTree(dir)
	if err != nil {
		return "", err
	}
	d := digester{t: t, f: newFilter(t)}
	sum, err := d.sum()
	if err != nil {
		return "", fmt.Errorf("digest of task %s: %w", t.dir, err)
	}
	return "sha256:" + hex.EncodeToString(sum), nil
}

type digester struct {
	t       *tree
	f       *filter
	ignore  *ignoreSpec
	files   []string
	entries int
	bytes   int64
}

func (d *digester) sum() ([]byte, error) {
	if err := d.readIgnore(); err != nil {
		return nil, err
	}
	if err := d.collect(); err != nil {
		return nil, err
	}
	slices.Sort(d.files)
	outer, inner := sha256.New(), sha256.New()
	buf := make([]byte, 256<<10)
	for _, rel := range d.files {
		if !utf8.ValidString(rel) {
			return nil, &LayoutError{Path: rel, Message: "its name is not UTF-8", Remedy: "rename it"}
		}
		inner.Reset()
		if err := d.hashFile(inner, rel, buf); err != nil {
			return nil, err
		}
		fmt.Fprintf(outer, "%s\x00%x\n", rel, inner.Sum(nil))
	}
	return outer.Sum(nil), nil
}

func (d *digester) readIgnore() error {
	text, err := defaultIgnores, error(nil)
	if _, serr := os.Stat(d.t.path(".gitignore")); serr == nil {
		text, err = d.t.readText(".gitignore", maxIgnoreFile)
	}
	if err != nil {
		return err
	}
	if d.ignore, err = parseIgnore(text, dialectBasic); err != nil {
		return fmt.Errorf(".gitignore: %w", err)
	}
	return nil
}

// collect finds the files that count.
func (d *digester) collect() error {
	if !d.t.exists(configName) && d.t.exists(legacyConfigName) {
		return d.below(".")
	}
	for _, name := range []string{configName, "instruction.md", "README.md", "trajectory.json"} {
		if _, err := os.Stat(d.t.path(name)); err == nil {
			d.add(name)
		}
	}
	for _, name := range []string{"environment", "tests", "solution", "steps"} {
		fi, err := os.Stat(d.t.path(name))
		if err != nil {
			continue
		}
		if !fi.IsDir() {
			return &LayoutError{Path: name, Message: "must be a directory"}
		}
		if err := d.entry(name); err != nil {
			return err
		}
	}
	return nil
}

// below visits a directory's entries; links to directories are not entered.
func (d *digester) below(dir string) error {
	names, err := os.ReadDir(d.t.path(dir))
	if err != nil {
		return &LayoutError{Path: dir, Message: "cannot be read: " + reason(err).Error(), Remedy: "make it readable"}
	}
	for _, n := range names {
		rel := n.Name()
		if dir != "." {
			rel = dir + "/" + rel
		}
		if err := d.entry(rel); err != nil {
			return err
		}
	}
	return nil
}

func (d *digester) entry(rel string) error {
	if d.entries++; d.entries > maxTreeEntries {
		return &LayoutError{Path: rel, Message: fmt.Sprintf("the task has more than %d files", maxTreeEntries)}
	}
	lfi, err := os.Lstat(d.t.path(rel))
	if err != nil {
		return &LayoutError{Path: rel, Message: reason(err).Error()}
	}
	fi, statErr := lfi, error(nil)
	link := lfi.Mode()&fs.ModeSymlink != 0
	if link {
		fi, statErr = os.Stat(d.t.path(rel))
	}
	isDir := statErr == nil && fi.IsDir()
	excluded, err := d.f.excluded(rel, isDir)
	if excluded || err != nil {
		return err
	}
	top := !strings.Contains(rel, "/") // tests/ itself may be a link
	switch {
	case statErr != nil:
	case isDir && (!link || top):
		return d.below(rel)
	case fi.Mode().IsRegular():
		d.add(rel)
	}
	return nil
}

func (d *digester) add(rel string) {
	if x, _ := d.ignore.match(rel); !x {
		d.files = append(d.files, rel)
	}
}

func (d *digester) hashFile(h hash.Hash, rel string, buf []byte) error {
	real, err := d.t.resolve(rel)
	if err != nil {
		return &LayoutError{Path: rel, Message: err.Error()}
	}
	f, err := openRegular(real)
	if err != nil {
		return &LayoutError{Path: rel, Message: reason(err).Error()}
	}
	defer f.Close()
	if fi, err := f.Stat(); err == nil && fi.Size() > maxDataFile {
		return &LayoutError{Path: rel, Message: fmt.Sprintf("holds %s, more than the %s a file of a task may hold", bytesWord(fi.Size()), bytesWord(maxDataFile)), Remedy: "make it smaller, or build it in the image"}
	}
	room := min(maxDataFile, maxTreeBytes-d.bytes)
	n, err := io.CopyBuffer(onlyWriter{h}, io.LimitReader(onlyReader{f}, room+1), buf)
	if err != nil && !errors.Is(err, io.EOF) {
		return &LayoutError{Path: rel, Message: reason(err).Error()}
	}
	if d.bytes += n; n > room {
		return &LayoutError{Path: rel, Message: "the task's files hold more than " + bytesWord(maxTreeBytes)}
	}
	return nil
}

// onlyWriter and onlyReader hide other methods, so that CopyBuffer uses buf.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)
