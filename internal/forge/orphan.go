package forge

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"assay/internal/gitdir"
	"assay/internal/image"
)

// Caps of what is read of a healthy image's git directory.
const (
	maxObject  = 64 << 20
	maxTracked = 500_000
)

// orphanage is the one commit of a healthy image: what of it a broken state
// shares, and what it must not have.
type orphanage struct {
	v       *image.View
	workdir string
	dir     string // "/app/.git"
	uid     int
	gid     int
	head    string // the file that names the commit
	commit  gitdir.Hash
	rest    []byte                             // of the commit, without its tree
	trees   map[string]gitdir.Hash             // by directory; "" is the root
	names   map[string]map[string]gitdir.Entry // of each directory
	used    map[gitdir.Hash]int                // how often an object stands in the trees
	index   []gitdir.IndexEntry
	plainly []string // files that tell of the old commit and are taken away
}

// readOrphanage reads a healthy image's git directory; nil: it has none.
func readOrphanage(v *image.View, workdir string) (*orphanage, error) {
	dir := path.Join(workdir, ".git")
	e, err := v.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil || !e.IsDir() {
		return nil, fmt.Errorf("%s is a %s, not a git directory: %w", dir, e.Type, err)
	}
	o := &orphanage{v: v, workdir: workdir, dir: dir, uid: e.UID, gid: e.GID,
		trees: map[string]gitdir.Hash{}, names: map[string]map[string]gitdir.Entry{}, used: map[gitdir.Hash]int{}}
	if err := o.read(); err != nil {
		return nil, fmt.Errorf("git directory of the healthy image: %w", err)
	}
	return o, nil
}

func (o *orphanage) read() error {
	if packs, err := o.v.ReadDir(path.Join(o.dir, "objects/pack")); err == nil && len(packs) > 0 {
		return fmt.Errorf("it has packs (%s): only loose objects can be taken away one by one; make the image anew with 'assay repo setup'", packs[0].Path)
	}
	if err := o.readHead(); err != nil {
		return err
	}
	body, err := o.object(o.commit, gitdir.Commit)
	if err != nil {
		return err
	}
	root, rest, err := gitdir.CommitTree(body)
	if err != nil {
		return err
	}
	o.rest = rest
	if err := o.readTree("", root); err != nil {
		return err
	}
	b, err := o.v.ReadFile(path.Join(o.dir, "index"), maxObject)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		o.index, err = gitdir.DecodeIndex(b)
	}
	return err
}

// readHead finds the commit and every file that names it.
func (o *orphanage) readHead() error {
	b, err := o.v.ReadFile(path.Join(o.dir, "HEAD"), 1<<10)
	if err != nil {
		return err
	}
	o.head = path.Join(o.dir, "HEAD")
	text := strings.TrimSpace(string(b))
	if ref, ok := strings.CutPrefix(text, "ref: "); ok {
		if path.Clean(ref) != ref || !strings.HasPrefix(ref, "refs/") {
			return fmt.Errorf("HEAD names %.80q", ref)
		}
		o.head = path.Join(o.dir, ref)
		if b, err = o.v.ReadFile(o.head, 1<<10); err != nil {
			return fmt.Errorf("the branch of HEAD is no file of its own: %w", err)
		}
		text = strings.TrimSpace(string(b))
	}
	if o.commit, err = gitdir.ParseHash(text); err != nil {
		return err
	}
	for _, name := range []string{"ORIG_HEAD", "FETCH_HEAD", "packed-refs", "logs", "info/refs", "objects/info/commit-graph"} {
		if _, err := o.v.Lstat(path.Join(o.dir, name)); err == nil {
			o.plainly = append(o.plainly, path.Join(o.dir, name))
		}
	}
	return o.v.Walk(path.Join(o.dir, "refs"), func(e image.Entry) error {
		if p := "/" + e.Path; e.Type == image.TypeFile && p != o.head {
			o.plainly = append(o.plainly, p)
		}
		return nil
	})
}

func (o *orphanage) object(h gitdir.Hash, want string) ([]byte, error) {
	b, err := o.v.ReadFile(path.Join(o.dir, h.Path()), maxObject)
	if err != nil {
		return nil, fmt.Errorf("its objects must be loose: %w", err)
	}
	kind, body, err := gitdir.Decode(b, h, maxObject)
	if err == nil && kind != want {
		err = fmt.Errorf("git object %s is a %s, not a %s", h, kind, want)
	}
	return body, err
}

func (o *orphanage) readTree(dir string, h gitdir.Hash) error {
	body, err := o.object(h, gitdir.Tree)
	if err != nil {
		return err
	}
	all, err := gitdir.DecodeTree(body)
	if err != nil {
		return err
	}
	o.trees[dir] = h
	o.used[h]++
	o.names[dir] = make(map[string]gitdir.Entry, len(all))
	for _, e := range all {
		o.names[dir][e.Name] = e
		if e.Mode == gitdir.ModeDir {
			if err := o.readTree(path.Join(dir, e.Name), e.Hash); err != nil {
				return err
			}
			continue
		}
		if o.used[e.Hash]++; len(o.used) > maxTracked {
			return fmt.Errorf("more than %d tracked files", maxTracked)
		}
	}
	return nil
}

// born is the delta that makes the repository one of the broken state: a commit
// of its own without a parent, and none of the objects that only the healthy
// state needs. Nothing where the delta changes nothing that is tracked.
func (o *orphanage) born(d Delta) (Delta, error) {
	c := &child{o: o, changed: map[string]map[string]*gitdir.Entry{}, blobs: map[gitdir.Hash][]byte{}, gone: map[gitdir.Hash]int{}}
	for _, e := range d {
		rel, ok := strings.CutPrefix(e.Path, o.workdir+"/")
		if !ok || rel == ".git" || strings.HasPrefix(rel, ".git/") {
			continue
		}
		if err := c.take(rel, e); err != nil {
			return nil, err
		}
	}
	if len(c.changed) == 0 {
		return nil, nil
	}
	root, err := c.tree("")
	if err != nil {
		return nil, err
	}
	name, loose := gitdir.Encode(gitdir.Commit, gitdir.EncodeCommit(root.Hash, o.rest))
	c.blobs[name] = loose
	return c.delta(name), nil
}

// child is a commit in the making.
type child struct {
	o       *orphanage
	changed map[string]map[string]*gitdir.Entry // names of directories; nil: taken away
	blobs   map[gitdir.Hash][]byte              // loose objects that are new
	gone    map[gitdir.Hash]int                 // how often an object stands no more
}

// take notes what becomes of a path.
func (c *child) take(rel string, e Edit) error {
	dir, name := path.Split(rel)
	dir = strings.TrimSuffix(dir, "/")
	old, tracked := c.o.names[dir][name]
	if tracked && old.Mode == gitdir.ModeSub {
		return nil // another repository's
	}
	keeps := e.Type == image.TypeDir
	if tracked && !(keeps && old.Mode == gitdir.ModeDir) {
		c.forget(rel, old)
		c.put(dir, name, nil)
	}
	if e.Type != image.TypeFile && e.Type != image.TypeSymlink || !tracked && !c.watched(dir) {
		return nil
	}
	content, mode := []byte(e.Link), gitdir.ModeLink
	if e.Type == image.TypeFile {
		var err error
		if content, err = e.Content(c.o.v); err != nil {
			return err
		}
		mode = gitdir.ModeFile
		if e.Mode&0o100 != 0 {
			mode = gitdir.ModeExec
		}
	}
	h, loose := gitdir.Encode(gitdir.Blob, content)
	c.blobs[h] = loose
	c.put(dir, name, &gitdir.Entry{Name: name, Mode: mode, Hash: h})
	return nil
}

// watched reports whether a new file in a directory belongs to the repository:
// the nearest directory that there was before has files of it. What stands
// beside installed packages or build results is none of it.
func (c *child) watched(dir string) bool {
	for {
		if _, ok := c.o.trees[dir]; ok {
			return true
		}
		if e, err := c.o.v.Lstat(path.Join(c.o.workdir, dir)); err == nil && e.IsDir() || dir == "" {
			return false
		}
		dir = above(dir)
	}
}

func (c *child) put(dir, name string, e *gitdir.Entry) {
	for d := dir; ; d = above(d) {
		if c.changed[d] == nil {
			c.changed[d] = map[string]*gitdir.Entry{}
		}
		if d == "" {
			break
		}
	}
	c.changed[dir][name] = e
}

// forget counts an entry, and all below it, as gone.
func (c *child) forget(rel string, e gitdir.Entry) {
	c.gone[e.Hash]++
	if e.Mode == gitdir.ModeDir {
		for name, below := range c.o.names[rel] {
			c.forget(path.Join(rel, name), below)
		}
	}
}

// tree makes the tree of a changed directory. One that holds nothing has no
// hash, as git has none of it.
func (c *child) tree(dir string) (gitdir.Entry, error) {
	all := maps.Clone(c.o.names[dir])
	if all == nil {
		all = map[string]gitdir.Entry{}
	}
	for name, e := range c.changed[dir] {
		if delete(all, name); e != nil {
			all[name] = *e
		}
	}
	for d := range c.changed {
		if d == "" || above(d) != dir {
			continue
		}
		sub, err := c.tree(d)
		if err != nil {
			return gitdir.Entry{}, err
		}
		switch was, there := all[sub.Name]; {
		case sub.Hash != (gitdir.Hash{}):
			all[sub.Name] = sub
		case there && was.Mode == gitdir.ModeDir:
			delete(all, sub.Name)
		}
	}
	// A directory that another kind took the place of was forgotten with all below it.
	if old, ok := c.o.trees[dir]; ok && !c.replaced(dir) {
		c.gone[old]++
	}
	out := gitdir.Entry{Name: path.Base(dir), Mode: gitdir.ModeDir}
	if len(all) == 0 && dir != "" {
		return out, nil
	}
	h, loose := gitdir.Encode(gitdir.Tree, gitdir.EncodeTree(slices.Collect(maps.Values(all))))
	c.blobs[h], out.Hash = loose, h
	return out, nil
}

// replaced reports whether a directory or one above it was taken away whole.
func (c *child) replaced(dir string) bool {
	for dir != "" {
		up, name := path.Split(dir)
		up = strings.TrimSuffix(up, "/")
		if _, ok := c.changed[up][name]; ok {
			return true
		}
		dir = up
	}
	return false
}

// delta puts the new objects, the branch and the index in place, and takes away
// what tells of the healthy state.
func (c *child) delta(commit gitdir.Hash) Delta {
	o := c.o
	c.gone[o.commit]++
	var d Delta
	for _, p := range o.plainly {
		d = append(d, Edit{Path: p})
	}
	file := func(p string, mode uint32, b []byte) {
		d = append(d, Edit{Path: p, Type: image.TypeFile, Mode: mode, UID: o.uid, GID: o.gid, Data: b})
	}
	dirs := map[string]bool{}
	for _, h := range slices.SortedFunc(maps.Keys(c.blobs), compareHash) {
		p := path.Join(o.dir, h.Path())
		if _, err := o.v.Lstat(p); err == nil {
			delete(c.gone, h)
			continue
		}
		if up := path.Dir(p); !dirs[up] {
			dirs[up] = true
			if _, err := o.v.Lstat(up); err != nil {
				d = append(d, Edit{Path: up, Type: image.TypeDir, Mode: 0o755, UID: o.uid, GID: o.gid})
			}
		}
		file(p, 0o444, c.blobs[h])
	}
	for _, h := range slices.SortedFunc(maps.Keys(c.gone), compareHash) {
		if c.gone[h] >= o.used[h] {
			d = append(d, Edit{Path: path.Join(o.dir, h.Path())})
		}
	}
	file(o.head, 0o644, []byte(commit.String()+"\n"))
	if o.index != nil {
		file(path.Join(o.dir, "index"), 0o644, gitdir.EncodeIndex(c.indexed()))
	}
	return d
}

// indexed is the index of the new commit.
func (c *child) indexed() []gitdir.IndexEntry {
	var all []gitdir.IndexEntry
	for _, e := range c.o.index {
		if !c.touches(e.Path) {
			all = append(all, e)
		}
	}
	for dir, names := range c.changed {
		for _, e := range names {
			if e != nil {
				all = append(all, gitdir.IndexEntry{Path: path.Join(dir, e.Name), Mode: e.Mode, Hash: e.Hash})
			}
		}
	}
	return all
}

// touches reports whether a tracked path, or a directory above it, is changed.
func (c *child) touches(rel string) bool {
	for rel != "" {
		dir, name := path.Split(rel)
		dir = strings.TrimSuffix(dir, "/")
		if _, ok := c.changed[dir][name]; ok {
			return true
		}
		rel = dir
	}
	return false
}

// above is the directory that holds a relative path; the root is "".
func above(dir string) string {
	if dir = path.Dir(dir); dir == "." {
		return ""
	}
	return dir
}

func compareHash(a, b gitdir.Hash) int { return cmp.Compare(a.String(), b.String()) }
