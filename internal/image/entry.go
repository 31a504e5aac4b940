package image

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Type is what kind of thing an entry is.
type Type string

const (
	TypeDir      Type = "dir"
	TypeFile     Type = "file"
	TypeSymlink  Type = "symlink"
	TypeFIFO     Type = "fifo"
	TypeChar     Type = "char"   // in the manifest only, never on disk
	TypeBlock    Type = "block"  // in the manifest only, never on disk
	TypeSocket   Type = "socket" // in the manifest only, never on disk
	TypeWhiteout Type = "whiteout"
)

// Entry is one name of a layer.
type Entry struct {
	// Path is relative, clean and slash-separated, in whatever bytes the image
	// uses; "." is the layer's root.
	Path string
	Type Type
	// Mode holds the twelve bits 07777. Symbolic links and whiteouts have none.
	Mode     uint32
	UID, GID int
	Xattrs   map[string]string // values are bytes
	Link     string            // a symbolic link's target, as it was written
	// Hardlink is another name of this file in the same layer: the least one
	// in path order once committed, empty for that one itself.
	Hardlink     string
	Major, Minor uint32 // of a device
	Opaque       bool   // a directory that hides what lower layers hold below it
	Size         int64  // bytes of a file; computed by LayerWriter.Add
	Digest       string // "sha256:…" of a file's content; computed by LayerWriter.Add

	// ModTime is kept on disk, so that build tools and byte-code caches keep
	// working, but is no part of a layer's identity. Zero means now.
	ModTime time.Time
}

// IsDir reports whether the entry is a directory.
func (e Entry) IsDir() bool { return e.Type == TypeDir }

const (
	maxComponent = 255
	modeBits     = 0o7777
	maxID        = 1<<32 - 2 // 2^32-1 means "none" to the kernel
)

// check refuses what no layer may hold.
func (e Entry) check(c Caps) error {
	if err := checkPath(e.Path, c); err != nil {
		return err
	}
	if e.Mode&^modeBits != 0 {
		return fmt.Errorf("%q: mode %o has bits beyond 7777", e.Path, e.Mode)
	}
	if e.UID < 0 || e.UID > maxID || e.GID < 0 || e.GID > maxID {
		return fmt.Errorf("%q: owner %d:%d is no user id", e.Path, e.UID, e.GID)
	}
	n := 0
	for k, v := range e.Xattrs {
		n += len(k) + len(v)
		if !HoldsXattr(k) {
			return fmt.Errorf("%q: extended attribute name %q", e.Path, k)
		}
		if reservedXattr(k) {
			return fmt.Errorf("%q: extended attribute %q belongs to the overlay file system", e.Path, k)
		}
	}
	if n > c.Xattrs {
		return fmt.Errorf("%q: extended attributes of %d bytes: %w (%d)", e.Path, n, ErrCap, c.Xattrs)
	}
	return e.checkType(c)
}

func (e Entry) checkType(c Caps) error {
	switch e.Type {
	case TypeDir, TypeFile, TypeFIFO, TypeChar, TypeBlock, TypeSocket:
		if e.Link != "" {
			return fmt.Errorf("%q: a %s has no link target", e.Path, e.Type)
		}
	case TypeSymlink:
		if e.Link == "" || len(e.Link) > c.Path || strings.Contains(e.Link, "\x00") {
			return fmt.Errorf("%q: link target %.80q", e.Path, e.Link)
		}
	case TypeWhiteout:
		if e.Link != "" || len(e.Xattrs) > 0 {
			return fmt.Errorf("%q: a whiteout has no content", e.Path)
		}
	default:
		return fmt.Errorf("%q: unknown entry type %q", e.Path, e.Type)
	}
	if e.Path == "." && e.Type != TypeDir {
		return fmt.Errorf("the root of a layer is a %s, not a directory", e.Type)
	}
	if e.Opaque && e.Type != TypeDir {
		return fmt.Errorf("%q: a %s cannot be opaque", e.Path, e.Type)
	}
	if e.Hardlink != "" && (e.Type == TypeDir || e.Type == TypeWhiteout) {
		return fmt.Errorf("%q: a %s cannot be a hard link", e.Path, e.Type)
	}
	return nil
}

// checkPath accepts relative clean paths without ".." that file systems hold.
func checkPath(p string, c Caps) error {
	if p == "." {
		return nil
	}
	if p == "" || p[0] == '/' || path.Clean(p) != p || p == ".." || strings.HasPrefix(p, "../") {
		return fmt.Errorf("path %.200q is not relative and clean", p)
	}
	if len(p) > c.Path {
		return fmt.Errorf("path %.80q… of %d bytes: %w (%d)", p, len(p), ErrCap, c.Path)
	}
	if d := strings.Count(p, "/") + 1; d > c.Depth {
		return fmt.Errorf("path %.80q… is %d levels deep: %w (%d)", p, d, ErrCap, c.Depth)
	}
	if strings.Contains(p, "\x00") {
		return fmt.Errorf("path %.200q holds a zero byte", p)
	}
	for s := range strings.SplitSeq(p, "/") {
		if len(s) > maxComponent {
			return fmt.Errorf("path %.80q…: a name of %d bytes: %w (%d)", p, len(s), ErrCap, maxComponent)
		}
	}
	return nil
}

// HoldsXattr reports whether a layer can hold an extended attribute of a name;
// kernels take any bytes, and tar archives do not.
func HoldsXattr(name string) bool {
	return name != "" && len(name) <= maxComponent && utf8.ValidString(name) && !strings.ContainsAny(name, "=\x00")
}

// reservedXattr reports attributes by which an overlay mount is steered: a
// layer that smuggled one in could redirect lookups.
func reservedXattr(k string) bool {
	return strings.HasPrefix(k, "user.overlay.") || strings.HasPrefix(k, "trusted.overlay.")
}

// comparePaths orders parents before children and whole subtrees together:
// bytewise with "/" below every other byte, the root first.
func comparePaths(a, b string) int {
	if a == b {
		return 0
	}
	if a == "." {
		return -1
	}
	if b == "." {
		return 1
	}
	n := min(len(a), len(b))
	for i := range n {
		if a[i] == b[i] {
			continue
		}
		if a[i] == '/' {
			return -1
		}
		if b[i] == '/' {
			return 1
		}
		return int(a[i]) - int(b[i])
	}
	return len(a) - len(b)
}

func sortEntries(es []Entry) {
	slices.SortFunc(es, func(a, b Entry) int { return comparePaths(a.Path, b.Path) })
}
