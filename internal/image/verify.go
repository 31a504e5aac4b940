package image

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// VerifyOptions shape Verify.
type VerifyOptions struct {
	// ReadData reads every file of every layer, too, and compares it with the
	// manifest: type, mode, size, content, link target, and that there is no
	// other name.
	ReadData bool
}

// Verified says what was looked at and what is wrong.
type Verified struct {
	Images   int       `json:"images"`
	Layers   int       `json:"layers"`
	Jobs     int       `json:"jobs"`
	Files    int       `json:"files"` // read, as the next
	Bytes    int64     `json:"bytes"`
	Problems []Problem `json:"-"`
}

// Problem is something that is lost or damaged.
type Problem struct {
	Kind   string `json:"kind"` // "image", "job" or "layer"
	Name   string `json:"name"` // of the image, the job's directory, the layer
	Detail string `json:"detail"`
	Remedy string `json:"remedy"`
}

// Verify looks whether every layer's manifest is the one that its id digests,
// and whether every layer is there that an image or a job needs. Other
// processes may go on using the store; what they remove meanwhile is no
// problem. The error is only about looking.
func (s *Store) Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	// A hold of its own, so that nothing goes while it is read.
	c := &checker{ctx: ctx, o: o, s: &Store{root: s.root, opt: s.opt}, users: map[LayerID][]string{}}
	defer c.s.Close()
	layers, err := c.references()
	if err != nil {
		return c.v, fmt.Errorf("verify store: %w", err)
	}
	for _, id := range layers {
		if err := ctx.Err(); err != nil {
			return c.v, err
		}
		c.v.Layers++
		if err := c.layer(id); err != nil {
			if ctx.Err() != nil {
				return c.v, ctx.Err()
			}
			c.problem("layer", string(id), err.Error(), c.remedy(id))
		}
	}
	return c.v, nil
}

// checker is one Verify.
type checker struct {
	ctx   context.Context
	o     VerifyOptions
	s     *Store
	v     Verified
	users map[LayerID][]string // names of images and jobs
}

func (c *checker) problem(kind, name, detail, remedy string) {
	c.v.Problems = append(c.v.Problems, Problem{kind, name, detail, remedy})
}

func (c *checker) remedy(id LayerID) string {
	users := c.users[id]
	if len(users) == 0 {
		return "nothing needs it: assay image gc"
	}
	return "remove what needs it (" + strings.Join(users, ", ") + "), then: assay image gc, and import, pull, build or run it again"
}

// references checks images and leases, and returns the layers that are there,
// held.
func (c *checker) references() ([]LayerID, error) {
	l, err := c.s.storeLock(shared)
	if err != nil {
		return nil, err
	}
	defer l.unlock()
	dirs, err := os.ReadDir(c.s.path(layersDir))
	if err != nil {
		return nil, err
	}
	var layers []LayerID
	there := map[LayerID]bool{}
	for _, d := range dirs {
		id := LayerID("sha256:" + d.Name())
		if !id.valid() {
			c.problem("layer", d.Name(), "its name is no digest", "nothing needs it: assay image gc")
			continue
		}
		layers, there[id] = append(layers, id), true
	}
	if err := c.s.hold(layers...); err != nil {
		return nil, err
	}
	if err := c.images(there); err != nil {
		return nil, err
	}
	leases, err := c.s.leases()
	if err != nil {
		return nil, err
	}
	for _, j := range leases {
		if j.gone || j.job == "" {
			continue
		}
		c.v.Jobs++
		c.needs("job", j.job, j.layers, there, "its end states cannot be opened; run those trials again: assay job resume JOB --rerun TRIAL")
	}
	return layers, nil
}

func (c *checker) images(there map[LayerID]bool) error {
	files, err := os.ReadDir(c.s.path(imagesDir))
	if err != nil {
		return err
	}
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") || !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		p := c.s.path(imagesDir, f.Name())
		im, err := readImage(p)
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed just now
		}
		c.v.Images++
		if err == nil {
			if want, _ := c.s.imagePath(im.Name); want != p {
				err = fmt.Errorf("%s: it is called %q inside", p, im.Name)
			}
		}
		if err != nil {
			c.problem("image", strings.TrimSuffix(f.Name(), ".json"), err.Error(), "remove "+p+", then import, pull or build the image again")
			continue
		}
		c.needs("image", im.Name, im.Layers, there, "import, pull or build it again, or remove it: assay image rm "+im.Name)
	}
	return nil
}

func (c *checker) needs(kind, name string, ids []LayerID, there map[LayerID]bool, remedy string) {
	for _, id := range ids {
		if c.users[id] = append(c.users[id], name); !there[id] {
			c.problem(kind, name, fmt.Sprintf("layer %s is missing", id.Short()), remedy)
		}
	}
}

func (c *checker) layer(id LayerID) error {
	b, err := os.ReadFile(c.s.path(layersDir, id.hex(), "manifest.json"))
	if err != nil {
		return err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != id.hex() {
		return errors.New("its manifest is not the one that it is named after")
	}
	m, err := DecodeManifest(bytes.NewReader(b))
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(string(c.s.Dir(id)))
	if err != nil {
		return err
	}
	defer root.Close()
	if !c.o.ReadData {
		return nil
	}
	names := map[string]map[string]bool{} // on disk, by directory
	links := map[string]bool{}            // of files that are read already
	for _, e := range m.Entries {
		if e.IsDir() {
			names[e.Path] = map[string]bool{}
		}
		if !onDisk(e) {
			continue
		}
		if e.Path != "." {
			names[parent(e.Path)][base(e.Path)] = true
		}
		if err := c.entry(root, e, links); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
	}
	for dir, want := range names {
		if err := sameNames(root, dir, want); err != nil {
			return err
		}
	}
	return nil
}

// onDisk reports whether an entry has a counterpart outside of the manifest.
func onDisk(e Entry) bool {
	return slices.Contains([]Type{TypeDir, TypeFile, TypeSymlink, TypeWhiteout}, e.Type) || e.Type == TypeFIFO && canFIFO
}

func sameNames(root *os.Root, dir string, want map[string]bool) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	got, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range got {
		if !want[n] {
			return fmt.Errorf("%q is on disk but not in the manifest", filepath.Join(dir, n))
		}
	}
	return nil // names that are missing were met before
}

// entry compares what is on disk with its entry.
func (c *checker) entry(root *os.Root, e Entry, links map[string]bool) error {
	fi, err := root.Lstat(e.Path)
	if err != nil {
		return err
	}
	want := map[Type]fs.FileMode{TypeDir: fs.ModeDir, TypeSymlink: fs.ModeSymlink, TypeFIFO: fs.ModeNamedPipe}[e.Type]
	switch {
	case e.Type == TypeWhiteout:
		if fi.Mode()&fs.ModeCharDevice == 0 && (!fi.Mode().IsRegular() || fi.Size() != 0) {
			return fmt.Errorf("a %s where a deletion is marked", fi.Mode().Type())
		}
		return nil
	case fi.Mode().Type() != want:
		return fmt.Errorf("it is of type %s on disk, a %s in the manifest", fi.Mode().Type(), e.Type)
	case e.Type == TypeSymlink:
		if to, err := root.Readlink(e.Path); err != nil || to != e.Link {
			return fmt.Errorf("it leads to %q, to %q in the manifest (%v)", to, e.Link, err)
		}
		return nil
	}
	if got := fi.Mode() & (fs.ModePerm | fs.ModeSticky); got != diskMode(e) {
		return fmt.Errorf("its mode is %v on disk, should be %v", got, diskMode(e))
	}
	if e.Hardlink != "" && links[e.Hardlink] {
		first, err := root.Lstat(e.Hardlink)
		if err != nil || !os.SameFile(first, fi) {
			return fmt.Errorf("it is no hard link to %q on disk (%v)", e.Hardlink, err)
		}
		return nil
	}
	if e.Type != TypeFile {
		return nil
	}
	links[e.Path] = true
	return c.content(root, e)
}

func (c *checker) content(root *os.Root, e Entry) error {
	f, err := root.Open(e.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, &capReader{ctx: c.ctx, r: f, left: e.Size + 1})
	c.v.Files++
	c.v.Bytes += n
	if err != nil && !errors.Is(err, ErrCap) {
		return err
	}
	if got := "sha256:" + hex.EncodeToString(h.Sum(nil)); n != e.Size || got != e.Digest {
		return fmt.Errorf("its content is not what the manifest says: %d of %d bytes, digest %s", n, e.Size, got)
	}
	return nil
}
