package image

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MissingError says that an image is not in the store. Nothing is fetched.
type MissingError struct{ Ref string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("image %q is not in the local store; fetch it with: assay image pull %s, or import it with: assay image import PATH --name %s", e.Ref, e.Ref, e.Ref)
}

// New returns an image with its id: the digest of layers, binds and
// configuration, so that one content has one id whatever its name.
func New(name string, layers []LayerID, binds []Bind, c Config) Image {
	im := Image{Name: name, Layers: layers, Binds: binds, Config: c}
	b, err := json.Marshal(struct {
		Layers []LayerID
		Binds  []Bind
		Config Config
	}{layers, binds, c})
	if err != nil { // strings and slices of them always marshal
		panic("image: " + err.Error())
	}
	sum := sha256.Sum256(b)
	im.ID = ID("sha256:" + hex.EncodeToString(sum[:]))
	return im
}

// Put gives an image its name in the store, in place of another of that name.
func (s *Store) Put(im Image) error {
	if im.Name == "" {
		return errors.New("name image: the name is empty")
	}
	l, err := s.storeLock(shared)
	if err != nil {
		return fmt.Errorf("name image %q: %w", im.Name, err)
	}
	defer l.unlock()
	for _, id := range im.Layers {
		if !s.installed(id) {
			return fmt.Errorf("name image %q: layer %s: %w", im.Name, id.Short(), ErrNoLayer)
		}
	}
	b, err := json.MarshalIndent(im, "", "  ")
	if err != nil {
		return err
	}
	p, err := s.imagePath(im.Name)
	if err != nil {
		return err
	}
	return s.replace(p, append(b, '\n'), s.opt.Volatile)
}

// replace writes a small file in one step. The caller has the store's lock,
// shared: what one that was killed leaves is removed under the exclusive one.
func (s *Store) replace(p string, b []byte, volatile bool) error {
	tmp := filepath.Join(filepath.Dir(p), "."+random())
	defer os.Remove(tmp)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil && !volatile {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, p); err != nil || volatile {
		return err
	}
	return syncDir(filepath.Dir(p))
}

const maxRef = 200 // bytes; escaped it must still be a file name

func (s *Store) imagePath(name string) (string, error) {
	e := url.PathEscape(name)
	if name == "" || len(e) > maxRef || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return "", fmt.Errorf("image name %.80q: at most %d bytes, no blanks or control characters", name, maxRef)
	}
	return s.path(imagesDir, e+".json"), nil
}

// List returns every named image in order of names.
func (s *Store) List() ([]Image, error) {
	files, err := os.ReadDir(s.path(imagesDir))
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	var all []Image
	for _, f := range files {
		if strings.HasPrefix(f.Name(), ".") || !strings.HasSuffix(f.Name(), ".json") {
			continue
		}
		im, err := readImage(s.path(imagesDir, f.Name()))
		if errors.Is(err, fs.ErrNotExist) {
			continue // removed just now
		}
		if err != nil {
			return nil, fmt.Errorf("list images: %w", err)
		}
		all = append(all, im)
	}
	slices.SortFunc(all, func(a, b Image) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

func readImage(p string) (Image, error) {
	var im Image
	b, err := os.ReadFile(p)
	if err != nil {
		return im, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if err := d.Decode(&im); err != nil {
		return im, fmt.Errorf("%s: %w", p, err)
	}
	return im, nil
}

// Resolve finds an image of the store by name, in Docker's short or long
// spelling, or by id, of which 12 hex digits are enough, and holds its layers. What is not there is
// a *MissingError; a layer of it that is not there is ErrNoLayer.
func (s *Store) Resolve(ref string) (Image, error) {
	im, err := s.find(ref)
	if err != nil {
		return Image{}, err
	}
	for _, id := range im.Layers {
		err := s.holdInstalled(id)
		if errors.Is(err, ErrNoLayer) {
			return Image{}, fmt.Errorf("image %q: layer %s: %w; import it again", ref, id.Short(), ErrNoLayer)
		}
		if err != nil {
			return Image{}, fmt.Errorf("image %q: %w", ref, err)
		}
	}
	return im, nil
}

func (s *Store) find(ref string) (Image, error) {
	if p, err := s.imagePath(ref); err == nil {
		im, err := readImage(p)
		if err == nil || !errors.Is(err, fs.ErrNotExist) {
			return im, err
		}
	}
	all, err := s.List()
	if err != nil {
		return Image{}, err
	}
	want := familiar(ref)
	for _, im := range all {
		if familiar(im.Name) == want {
			return im, nil
		}
	}
	if repo, digest, ok := strings.Cut(ref, "@"); ok {
		want := repository(repo) + "@" + digest
		for _, im := range all {
			if slices.ContainsFunc(im.Digests, func(d string) bool { return familiar(d) == want }) {
				return im, nil
			}
		}
	}
	h := strings.TrimPrefix(ref, "sha256:")
	if len(h) >= 12 && strings.Trim(h, "0123456789abcdef") == "" {
		for _, im := range all {
			if strings.HasPrefix(strings.TrimPrefix(string(im.ID), "sha256:"), h) {
				return im, nil
			}
		}
	}
	return Image{}, &MissingError{Ref: ref}
}

// familiar brings Docker's spellings of one name together: without the default
// registry, its "library" folder and the default tag.
func familiar(ref string) string {
	n := strings.TrimPrefix(ref, "index.docker.io/")
	n = strings.TrimPrefix(n, "docker.io/")
	n = strings.TrimPrefix(n, "library/")
	if tail := n[strings.LastIndexByte(n, '/')+1:]; !strings.ContainsAny(tail, ":@") {
		n += ":latest"
	}
	return n
}

// repository is a name without tag and digest, in Docker's short spelling.
func repository(ref string) string {
	ref, _, _ = strings.Cut(ref, "@")
	n := familiar(ref)
	if i := strings.LastIndexByte(n, ':'); i > strings.LastIndexByte(n, '/') {
		n = n[:i]
	}
	return n
}

// Remove takes an image's name away; its layers stay until GC.
func (s *Store) Remove(ref string) error {
	im, err := s.find(ref)
	if err != nil {
		return err
	}
	p, err := s.imagePath(im.Name)
	if err != nil {
		return err
	}
	if err := os.Remove(p); err != nil {
		return fmt.Errorf("remove image %q: %w", ref, err)
	}
	return nil
}
