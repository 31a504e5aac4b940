package image

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Store is a directory of layers and of the images that name them:
//
//	layers/<hex>/fs/            the mountable tree
//	layers/<hex>/manifest.json  its truth; <hex> is its SHA-256
//	images/                     one file per named image
//	leases/                     which job directories need which layers
//	holds/                      which processes need which layers
//	cache/                      results of Dockerfile instructions
//	partial/                    blobs on their way from a registry
//	tmp/  trash/                under construction; under destruction
//
// A layer appears by one rename when it is complete and on disk, and goes by
// one rename into trash/. Several processes may use a store at once, and any
// of them may be killed at any moment: what it was making lies in tmp/, what
// only it needed is named in holds/, both under a lock that ends with it, and
// the next Open removes them.
//
// # What lies on disk
//
// fs/ can be a lower directory of an overlay mount with "userxattr". A
// whiteout is a character device 0:0, or where the file system refuses those,
// an empty file with the attribute user.overlay.whiteout in a directory with
// user.overlay.opaque=x (Linux 6.7). An opaque directory has
// user.overlay.opaque=y. Permission and sticky bits are as in the manifest
// except that the owner can always read: files have at least 0400,
// directories 0500. Setid bits, owners, devices, sockets and attributes other
// than user.* are in the manifest alone. Everything belongs to Options.Owner
// or else to the process that wrote it. Since modes are true, an ordinary user
// removes a whole store with "chmod -R u+w" before "rm -r".
type Store struct {
	root  HostPath
	opt   Options
	cache manifestCache
	views viewCache
	held  hold
	temps tempLayers
}

// Options shape a store. The zero value fits an ordinary user.
type Options struct {
	// Owner gets the layers' files when the process is root, so that sandboxes
	// whose only user is that one own them. Nil: the process's own user.
	Owner *Owner
	Caps  Caps
	// Volatile leaves out the sync before a layer appears: after a power
	// failure, not after a crash of the process, a layer may be incomplete.
	Volatile bool
}

// Owner is a user of this machine.
type Owner struct{ UID, GID int }

// ErrNoLayer: the store does not hold that layer.
var ErrNoLayer = errors.New("layer is not in the store")

const (
	layersDir = "layers"
	imagesDir = "images"
	leasesDir = "leases"
	holdsDir  = "holds"
	cacheDir  = "cache"
	tmpDir    = "tmp"
	trashDir  = "trash"
	// partialDir holds blobs on their way from a registry.
	partialDir = "partial"
)

// Open opens the store at root, makes it if it is missing, and removes what
// processes that were killed left behind.
func Open(root HostPath, o Options) (*Store, error) {
	abs, err := filepath.Abs(string(root))
	if err != nil {
		return nil, fmt.Errorf("open layer store: %w", err)
	}
	o.Caps = o.Caps.orDefault()
	s := &Store{root: HostPath(abs), opt: o}
	if os.Geteuid() != 0 {
		s.opt.Owner = nil
	}
	if err := os.MkdirAll(abs, 0o700); err != nil {
		return nil, fmt.Errorf("open layer store: %w", err)
	}
	// The owner of the layers must reach them but need not list them.
	open := fs.FileMode(0o700)
	if s.opt.Owner != nil {
		open = 0o711
	}
	modes := map[string]fs.FileMode{".": open, layersDir: open, tmpDir: open,
		imagesDir: 0o700, leasesDir: 0o700, holdsDir: 0o700, cacheDir: 0o700, trashDir: 0o700, partialDir: 0o700}
	for dir, mode := range modes {
		p := filepath.Join(abs, dir)
		if err := os.MkdirAll(p, 0o700); err != nil {
			return nil, fmt.Errorf("open layer store: %w", err)
		}
		if err := openUp(p, mode); err != nil {
			return nil, fmt.Errorf("open layer store: %w", err)
		}
	}
	s.tidy()
	return s, nil
}

// openUp adds the bits of mode to a directory's and takes none away: a root
// that the user opened wider stays as it is.
func openUp(p string, mode fs.FileMode) error {
	fi, err := os.Stat(p)
	if err != nil || fi.Mode().Perm()&mode == mode {
		return err
	}
	return os.Chmod(p, fi.Mode().Perm()|mode)
}

// Root returns the store's directory.
func (s *Store) Root() HostPath { return s.root }

func (s *Store) path(elem ...string) string {
	return filepath.Join(append([]string{string(s.root)}, elem...)...)
}

// Dir returns the mountable tree of a layer. It does not look whether the
// layer exists.
func (s *Store) Dir(id LayerID) HostPath {
	return HostPath(filepath.Join(s.place(id), "fs"))
}

// place is the directory of a layer: its own under layers/, or as long as only
// a Temporary has it, one under tmp/.
func (s *Store) place(id LayerID) string {
	own := s.path(layersDir, id.hex())
	temp := s.temps.dir(id)
	// An installed one lasts longer; held, as long as this process.
	if temp == "" || s.holdInstalled(id) == nil {
		return own
	}
	return temp
}

// Has reports whether the store holds the layer.
func (s *Store) Has(id LayerID) bool {
	return s.installed(id) || id.valid() && s.temps.dir(id) != ""
}

// installed is Has without temporary layers: what other processes see.
func (s *Store) installed(id LayerID) bool {
	if !id.valid() {
		return false
	}
	_, err := os.Lstat(s.path(layersDir, id.hex(), "manifest.json"))
	return err == nil
}

// Manifest returns a layer's manifest; callers must not change it. A layer
// that the store does not hold is ErrNoLayer.
func (s *Store) Manifest(id LayerID) (Manifest, error) {
	if !id.valid() {
		return Manifest{}, fmt.Errorf("layer %q: %w", id, ErrNoLayer)
	}
	if m, ok := s.cache.get(id); ok {
		return m, nil
	}
	return s.manifestIn(s.place(id), id)
}

// manifestIn reads the manifest of a layer that lies in dir.
func (s *Store) manifestIn(dir string, id LayerID) (Manifest, error) {
	b, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, fmt.Errorf("layer %s: %w", id.Short(), ErrNoLayer)
	}
	if err != nil {
		return Manifest{}, fmt.Errorf("layer %s: %w", id.Short(), err)
	}
	m, err := DecodeManifest(bytes.NewReader(b))
	if err != nil {
		return Manifest{}, fmt.Errorf("layer %s: %w", id.Short(), err)
	}
	s.cache.put(id, m)
	return m, nil
}

// Entries yields a layer's entries in path order. It ends after the first
// error.
func (s *Store) Entries(id LayerID) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		m, err := s.Manifest(id)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		for _, e := range m.Entries {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (l LayerID) valid() bool { return idPattern().MatchString(string(l)) }

func (l LayerID) hex() string { return strings.TrimPrefix(string(l), "sha256:") }

var idPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })

// random returns a name that no other process picks.
func random() string {
	var b [12]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// manifestCache keeps decoded manifests, up to a sum of entries.
type manifestCache struct {
	mu      sync.Mutex
	m       map[LayerID]Manifest
	entries int
}

const cachedEntries = 400_000 // about 100 MB

func (c *manifestCache) get(id LayerID) (Manifest, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, ok := c.m[id]
	return m, ok
}

func (c *manifestCache) put(id LayerID, m Manifest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil || c.entries+len(m.Entries) > cachedEntries {
		c.m, c.entries = map[LayerID]Manifest{}, 0
	}
	if _, ok := c.m[id]; !ok {
		c.m[id] = m
		c.entries += len(m.Entries)
	}
}
