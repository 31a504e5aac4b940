package grade

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"

	"assay/internal/image"
)

// Given is what the job put into a sandbox before the agent began. It lies in
// the agent's layer, and is nobody's work.
type Given struct {
	// Dirs are directories of the host whose content was put into the workdir, a
	// later one over an earlier. What the agent changed of it counts.
	Dirs []string
	// Own are the harness's own files and directories, absolute: whatever is at
	// them or below them is left out.
	Own []image.Path
}

// ours reports whether a path of a layer belongs to the harness. A workdir that
// someone put into one of its directories is a workdir all the same.
func (d *differ) ours(p string) bool {
	for _, own := range d.given.Own {
		if o := relative(own); within(p, o) && !within(d.dir, o) {
			return true
		}
	}
	return false
}

// lay lists the files that were given, with the directory each is from. Links of
// the host's directories were put as links.
func (d *differ) lay() error {
	d.laid = map[string]string{}
	for _, dir := range d.given.Dirs {
		root, err := os.OpenRoot(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = fs.WalkDir(root.FS(), ".", func(p string, e fs.DirEntry, err error) error {
			if err == nil && (e.Type().IsRegular() || e.Type() == fs.ModeSymlink) && !inGit(p) {
				d.laid[path.Join(d.dir, p)] = dir
			}
			return err
		})
		root.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// before is a name as the agent found it: as it was given, else the image's.
func (d *differ) before(p string) (side, error) {
	dir, ok := d.laid[p]
	if !ok {
		return d.side(d.base, p)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return side{}, err
	}
	defer root.Close()
	name := below(p, d.dir)
	info, err := root.Lstat(name)
	if err != nil {
		return side{}, err
	}
	if info.Mode().Type() == fs.ModeSymlink {
		to, err := root.Readlink(name)
		return side{mode: "120000", id: "link " + to, text: to}, err
	}
	f, err := root.Open(name)
	if err != nil {
		return side{}, err
	}
	defer f.Close()
	s := side{mode: "100644"}
	if info.Mode()&0o111 != 0 {
		s.mode = "100755"
	}
	sum := sha256.New()
	b, err := io.ReadAll(io.LimitReader(io.TeeReader(f, sum), d.caps.File+1))
	if err != nil {
		return side{}, err
	}
	if s.big = int64(len(b)) > d.caps.File; s.big {
		if _, err := io.Copy(sum, f); err != nil {
			return side{}, err
		}
	} else {
		s.fill(b)
	}
	s.id = hexSum(sum.Sum(nil))
	return s, nil
}

// after is a name as the agent left it. A layer leaves out what is as the image
// has it, given or not.
func (d *differ) after(p string) (side, error) {
	if d.paths[p] {
		return d.side(d.over, p)
	}
	return d.side(d.base, p)
}
