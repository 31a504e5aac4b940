package invert

import (
	"path"
	"slices"

	"assay/internal/forge"
	"assay/internal/image"
)

// Write makes a file's content another. A file that is there keeps its mode
// and owner; a new one has mode 0644 and the owner of the directory it comes
// to lie in, and missing directories above it come with it.
func (g *Ground) Write(p string, data []byte) forge.Delta { return g.put(p, data, 0o644) }

// Program is Write of something that can be run.
func (g *Ground) Program(p string, data []byte) forge.Delta { return g.put(p, data, 0o755) }

func (g *Ground) put(p string, data []byte, mode uint32) forge.Delta {
	if e, ok := g.Entry(p); ok && e.Type == image.TypeFile {
		return forge.Delta{{Path: p, Type: image.TypeFile, Mode: e.Mode, UID: e.UID, GID: e.GID, Data: data}}
	}
	d := g.parents(p)
	u, gr := g.owner(p)
	return append(d, forge.Edit{Path: p, Type: image.TypeFile, Mode: mode, UID: u, GID: gr, Data: data})
}

// Mkdir makes an empty directory, and those above it.
func (g *Ground) Mkdir(p string) forge.Delta {
	u, gr := g.owner(p)
	return append(g.parents(p), forge.Edit{Path: p, Type: image.TypeDir, Mode: 0o755, UID: u, GID: gr})
}

// Link makes a path a symbolic link.
func (g *Ground) Link(p, target string) forge.Delta {
	u, gr := g.owner(p)
	if e, ok := g.Entry(p); ok {
		u, gr = e.UID, e.GID
	}
	return append(g.parents(p), forge.Edit{Path: p, Type: image.TypeSymlink, UID: u, GID: gr, Link: target})
}

// Drop removes a path and all below it.
func (g *Ground) Drop(p string) forge.Delta { return forge.Delta{{Path: p}} }

// Chmod changes the mode of a file or directory, and nothing else of it.
func (g *Ground) Chmod(p string, mode uint32) forge.Delta {
	return forge.Delta{g.as(p, p, func(n *forge.Edit) { n.Mode = mode })}
}

// Chown changes the owner of a file or directory, and nothing else of it.
func (g *Ground) Chown(p string, uid, gid int) forge.Delta {
	return forge.Delta{g.as(p, p, func(n *forge.Edit) { n.UID, n.GID = uid, gid })}
}

// Touch changes the modification time of a file, in seconds.
func (g *Ground) Touch(p string, seconds int64) forge.Delta {
	return forge.Delta{g.as(p, p, func(n *forge.Edit) { n.Time, n.Nanos = seconds, 0 })}
}

// Copy makes what stands at from, with all below it, stand at to as well.
func (g *Ground) Copy(from, to string) (forge.Delta, error) {
	d, err := forge.CopyTree(g.Tree, from, to)
	return append(g.parents(to), d...), err
}

// Move is Copy, and Drop of where it was.
func (g *Ground) Move(from, to string) (forge.Delta, error) {
	d, err := g.Copy(from, to)
	if err != nil {
		return nil, err
	}
	return append(d, forge.Edit{Path: from}), nil
}

// as is the edit that makes to what stands at from, but for a change. What is
// not there stays away: a delta's check will tell.
func (g *Ground) as(from, to string, change func(*forge.Edit)) forge.Edit {
	n, err := forge.Was(g.Tree, from)
	if err != nil {
		return forge.Edit{Path: to}
	}
	n.Path = to
	if change != nil {
		change(&n)
	}
	return n
}

// parents are the missing directories above p, the highest first.
func (g *Ground) parents(p string) forge.Delta {
	var d forge.Delta
	u, gr := g.owner(p)
	for dir := path.Dir(p); dir != "/" && !g.Has(dir); dir = path.Dir(dir) {
		d = append(d, forge.Edit{Path: dir, Type: image.TypeDir, Mode: 0o755, UID: u, GID: gr})
	}
	slices.Reverse(d)
	return d
}

// owner is whose a new path would be: of the nearest directory that is there.
func (g *Ground) owner(p string) (uid, gid int) {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		if e, ok := g.Entry(dir); ok && e.IsDir() {
			return e.UID, e.GID
		}
		if dir == "/" {
			return 0, 0
		}
	}
}

// bytesOf is what a delta adds to a layer, about: contents, before they are
// compressed.
func (g *Ground) bytesOf(d forge.Delta) int64 {
	n := int64(0)
	for _, e := range d {
		n += int64(len(e.Data))
		if e.From != "" {
			from, _ := g.Entry(e.From)
			n += from.Size
		}
	}
	return n
}

// clash reports whether two deltas touch the same path, or one something below
// what the other makes or removes: such faults cannot be mended one by one.
// Directories that both bring are no clash.
func clash(a, b forge.Delta) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Path == y.Path && !(x.Type == image.TypeDir && y.Type == image.TypeDir) {
				return true
			}
			if x.Type != image.TypeDir && below(y.Path, x.Path) || y.Type != image.TypeDir && below(x.Path, y.Path) {
				return true
			}
		}
	}
	return false
}

// below reports whether p lies below dir.
func below(p, dir string) bool { return len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/' }
