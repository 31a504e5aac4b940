package docker

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker/wire"
)

// Commit makes a layer of what a snapshot differs by from its layers. A fresh
// container on the snapshot tells, in which nothing but our own process runs.
func (b *Backend) Commit(ctx context.Context, id sandbox.Snapshot) (image.LayerID, error) {
	b.mu.Lock()
	snap := b.snaps[id]
	b.mu.Unlock()
	if snap == nil {
		return "", fmt.Errorf("commit snapshot: %s is not of this backend or was dropped", id)
	}
	layer, err := b.commit(ctx, snap)
	if err != nil {
		return "", fmt.Errorf("commit snapshot: %w", err)
	}
	return layer, nil
}

func (b *Backend) commit(ctx context.Context, snap *snapshot) (_ image.LayerID, err error) {
	base, err := b.conf.Store.View(snap.layers)
	if err != nil {
		return "", err
	}
	s := &Sandbox{b: b, layers: snap.layers, procs: map[*process]bool{}, bare: true}
	if err := s.begin(ctx, *snap.state()); err != nil {
		return "", errors.Join(err, s.Close())
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	l, err := s.link()
	if err != nil {
		return "", err
	}
	// A clock that was set back since gave what came later an earlier time.
	since := snap.since - max(0, snap.boot-s.boot)
	c := &committer{base: base, first: map[[2]uint64]string{}}
	if err := c.scan(ctx, l, since); err != nil {
		return "", s.broken(l, err)
	}
	c.withoutPoints(snap.points)
	if len(c.entries) == 0 {
		return "", nil
	}
	w, err := b.conf.Store.NewLayer(ctx, snap.layers...)
	if err != nil {
		return "", err
	}
	defer w.Abort()
	if err := c.write(ctx, l, w); err != nil {
		return "", s.broken(l, err)
	}
	return w.Commit()
}

// engines are names that the engine puts into every container.
var engines = [...]string{".dockerenv", ".assay", "proc", "sys", "dev", "etc/hosts", "etc/hostname", "etc/resolv.conf", "etc/mtab"}

type committer struct {
	base    *image.View
	entries []image.Entry
	fetch   []string
	first   map[[2]uint64]string
	opaque  string
}

const maxChanged = 2_000_000

func (c *committer) scan(ctx context.Context, l *link, since int64) error {
	q := wire.Request{Op: wire.OpScan, Since: since}
	skip := map[string]bool{}
	for _, e := range engines {
		q.Skip = append(q.Skip, []byte(e))
		skip[e] = true
	}
	st, err := l.open(q)
	if err != nil {
		return err
	}
	defer st.Reset()
	stop := context.AfterFunc(ctx, st.Reset)
	defer stop()
	answers := json.NewDecoder(st)
	for n := 0; ; n++ {
		r, err := answer(ctx, answers)
		if err != nil || r.Entry == nil {
			return err
		}
		if n > maxChanged {
			return fmt.Errorf("more than %d names changed: %w", maxChanged, image.ErrCap)
		}
		if err := c.entry(*r.Entry, skip); err != nil {
			return err
		}
	}
}

func below(dir, p string) bool {
	return dir != "" && len(p) > len(dir) && p[:len(dir)] == dir && p[len(dir)] == '/'
}

func (c *committer) entry(w wire.Entry, skip map[string]bool) error {
	e := image.Entry{Path: string(w.Path), Type: image.Type(w.Kind), Mode: w.Mode, UID: w.UID, GID: w.GID,
		Link: string(w.Link), Size: w.Size, Digest: w.Digest, ModTime: time.Unix(0, w.Time)}
	for k, v := range w.Xattrs {
		if !image.HoldsXattr(k) {
			continue // an error would be a way out of being judged
		}
		if e.Xattrs == nil {
			e.Xattrs = map[string]string{}
		}
		e.Xattrs[k] = string(v)
	}
	if c.opaque != "" && e.Path != c.opaque && !below(c.opaque, e.Path) {
		c.opaque = ""
	}
	old, err := c.base.Lstat(e.Path)
	exists := err == nil && !below(c.opaque, e.Path)
	if exists && e.Type != image.TypeSymlink {
		for k, v := range old.Xattrs { // what only the system sets is not told
			if _, told := e.Xattrs[k]; !told && (len(k) < 5 || k[:5] != "user.") && old.Type == e.Type {
				if e.Xattrs == nil {
					e.Xattrs = map[string]string{}
				}
				e.Xattrs[k] = v
			}
		}
	}
	same := exists && old.Type == e.Type && old.UID == e.UID && old.GID == e.GID && maps.Equal(old.Xattrs, e.Xattrs)
	switch e.Type {
	case image.TypeDir:
		return c.dir(e, w, old, exists, same && old.Mode == e.Mode, skip)
	case image.TypeSymlink:
		e.Mode = 0
		if same && old.Link == e.Link && w.Inode == [2]uint64{} {
			return nil
		}
	case image.TypeFile, image.TypeFIFO:
		if same && old.Mode == e.Mode && old.Digest == e.Digest && old.Hardlink == "" && w.Inode == [2]uint64{} {
			return nil
		}
	default:
		return fmt.Errorf("the sandbox sent %.200q of kind %q", e.Path, e.Type)
	}
	if w.Inode != [2]uint64{} {
		if first, ok := c.first[w.Inode]; ok {
			e.Hardlink = first
			c.entries = append(c.entries, e)
			return nil
		}
		c.first[w.Inode] = e.Path
	}
	c.entries = append(c.entries, e)
	if e.Type == image.TypeFile {
		c.fetch = append(c.fetch, e.Path)
	}
	return nil
}

func (c *committer) dir(e image.Entry, w wire.Entry, old image.Entry, exists, same bool, skip map[string]bool) error {
	isDir := exists && old.IsDir()
	e.Opaque = w.New && isDir
	if c.opaque == "" && (e.Opaque || exists && !isDir) {
		c.opaque = e.Path
	}
	if e.Opaque || !same && !(e.Path == "." && !exists) {
		c.entries = append(c.entries, e)
	}
	if e.Opaque || !isDir {
		return nil
	}
	names := map[string]bool{}
	for _, n := range w.Names {
		names[string(n)] = true
	}
	was, err := c.base.ReadDir(e.Path)
	if err != nil {
		return err
	}
	for _, o := range was {
		if !names[path.Base(o.Path)] && !skip[o.Path] {
			c.entries = append(c.entries, image.Entry{Path: o.Path, Type: image.TypeWhiteout})
		}
	}
	return nil
}

// write fetches the files' content and makes the layer.
func (c *committer) write(ctx context.Context, l *link, w *image.LayerWriter) error {
	data, err := l.open(wire.Request{Op: wire.OpPipe})
	if err != nil {
		return err
	}
	defer data.Reset()
	st, err := l.open(wire.Request{Op: wire.OpFetch, Pipes: []uint32{data.ID()}})
	if err != nil {
		return err
	}
	defer st.Reset()
	stop := context.AfterFunc(ctx, func() { data.Reset(); st.Reset() })
	defer stop()
	go func() {
		for _, p := range c.fetch {
			if _, err := io.WriteString(st, p+"\x00"); err != nil {
				return // the other end tells why
			}
		}
		_ = st.CloseWrite()
	}()
	tr := tar.NewReader(data)
	for _, e := range c.entries {
		if e.Type != image.TypeFile || e.Hardlink != "" {
			if err := w.Add(e, nil); err != nil {
				return err
			}
			continue
		}
		h, err := tr.Next()
		if err != nil {
			return err
		}
		if h.Name != e.Path || h.Size != e.Size {
			return fmt.Errorf("the sandbox sent %.200q for %.200q", h.Name, e.Path)
		}
		if err := w.Add(e, tr); err != nil {
			return err
		}
	}
	return nil
}
