package dockerfile

import (
	"context"
	"maps"
	"path"
	"slices"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Inherited is one setting of this machine that every RUN of a build had. It
// never holds a credential.
type Inherited struct {
	Kind   string `json:"kind"` // "file", "env", "host-side"
	Name   string `json:"name"` // path inside, variable, or what the host does
	For    string `json:"for"`  // "trust", "proxy" or a package manager
	From   string `json:"from"` // where this machine has it
	Value  string `json:"value,omitempty"`
	Secret bool   `json:"secret,omitempty"` // its value is not recorded
}

// inherited are the machine's mounts for a RUN. A file that the image has of
// its own stays in sight.
func (x *execution) inherited() ([]sandbox.Mount, error) {
	if len(x.b.o.RunMounts) == 0 {
		return nil, nil
	}
	v, err := x.b.o.Store.View(x.stack)
	if err != nil {
		return nil, err
	}
	var all []sandbox.Mount
	for _, m := range x.b.o.RunMounts {
		at, err := v.Resolve(string(m.Target))
		if err == nil {
			if e, err := v.Lstat(at); err == nil && !e.IsDir() {
				continue
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// withoutStubs takes what a backend made in the tree to mount on out of a
// RUN's layer: directories and files that were not there before and are empty.
// Most backends leave none.
func (x *execution) withoutStubs(ctx context.Context, id image.LayerID, mounts []sandbox.Mount) (image.LayerID, error) {
	if id == "" || len(mounts) == 0 {
		return id, nil
	}
	below, err := x.b.o.Store.View(x.stack)
	if err != nil {
		return "", err
	}
	stub := map[string]bool{}
	for _, m := range mounts {
		for p := realPath(below, string(m.Target)); p != "." && !stub[p]; p = path.Dir(p) {
			if _, err := below.Lstat(p); err == nil {
				break
			}
			stub[p] = true
		}
	}
	if len(stub) == 0 {
		return id, nil
	}
	man, err := x.b.o.Store.Manifest(id)
	if err != nil {
		return "", err
	}
	kept := map[string]bool{} // directories of the layer with something in them
	drop := map[string]bool{}
	lost := map[string]bool{}                        // directories that lost something
	for _, e := range slices.Backward(man.Entries) { // what is in a directory comes after it
		old, err := below.Lstat(e.Path)
		empty := e.IsDir() && !kept[e.Path] && !e.Opaque
		unchanged := err == nil && empty && lost[e.Path] && old.Mode == e.Mode && old.UID == e.UID && old.GID == e.GID && maps.Equal(old.Xattrs, e.Xattrs)
		if unchanged || err != nil && stub[e.Path] && (empty || e.Type == image.TypeFile && e.Size == 0 && e.Hardlink == "") {
			drop[e.Path], lost[path.Dir(e.Path)] = true, true
			continue
		}
		kept[path.Dir(e.Path)] = true
	}
	if len(drop) == 0 {
		return id, nil
	}
	if len(drop) == len(man.Entries) {
		return "", nil
	}
	return x.b.o.Store.Filter(ctx, id, func(e image.Entry) (image.Entry, bool) { return e, !drop[e.Path] })
}

// realPath is a path of a tree without the links in it, also where its end does
// not exist.
func realPath(v *image.View, p string) string {
	rest := ""
	for p = path.Clean("/" + p); ; p = path.Dir(p) {
		at, err := v.Resolve(p)
		if err == nil {
			return path.Join(at, rest)
		}
		if p == "/" {
			return rest
		}
		rest = path.Join(path.Base(p), rest)
	}
}
