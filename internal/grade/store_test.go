package grade

import (
	"fmt"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/remove"
)

// newStore opens a layer store of the test's own.
func newStore(t testing.TB) *image.Store {
	t.Helper()
	dir := t.TempDir()
	// Layers keep their modes, closed directories among them.
	t.Cleanup(func() { _ = remove.Tree(dir) })
	s, err := image.Open(image.HostPath(filepath.Join(dir, "store")), storeOptions())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// content is an entry in short: what it is, and what a file holds.
type content struct {
	image.Entry
	text string
}

func file(path, text string) content {
	return content{image.Entry{Path: path, Type: image.TypeFile, Mode: 0o644}, text}
}

func exe(path, text string) content {
	return content{image.Entry{Path: path, Type: image.TypeFile, Mode: 0o755}, text}
}

func dir(path string) content {
	return content{Entry: image.Entry{Path: path, Type: image.TypeDir, Mode: 0o755}}
}

func opaque(path string) content {
	return content{Entry: image.Entry{Path: path, Type: image.TypeDir, Mode: 0o755, Opaque: true}}
}

func link(path, to string) content {
	return content{Entry: image.Entry{Path: path, Type: image.TypeSymlink, Link: to}}
}

func gone(path string) content {
	return content{Entry: image.Entry{Path: path, Type: image.TypeWhiteout}}
}

func special(path string, ty image.Type) content {
	return content{Entry: image.Entry{Path: path, Type: ty, Mode: 0o666}}
}

// layer commits a layer of the given entries.
func layer(t testing.TB, s *image.Store, below []image.LayerID, all ...content) image.LayerID {
	t.Helper()
	w, err := s.NewLayer(t.Context(), below...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, c := range all {
		var err error
		if c.Type == image.TypeFile && c.Hardlink == "" {
			err = w.Add(c.Entry, strings.NewReader(c.text))
		} else {
			err = w.Add(c.Entry, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// show lists what a stack looks like, one line a name: path, mode where it is
// unusual, link target or content.
func show(t testing.TB, s *image.Store, stack []image.LayerID) string {
	t.Helper()
	v, err := s.View(stack)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	err = v.Walk(".", func(e image.Entry) error {
		l := e.Path
		switch e.Type {
		case image.TypeDir:
			l += "/"
			if e.Mode != 0o755 {
				l += fmt.Sprintf(" %04o", e.Mode)
			}
		case image.TypeSymlink:
			l += " -> " + e.Link
		case image.TypeFile:
			b, err := v.ReadFile(e.Path, 1<<20)
			if err != nil {
				return err
			}
			if e.Mode != 0o644 {
				l += fmt.Sprintf(" %04o", e.Mode)
			}
			l += fmt.Sprintf(" %q", b)
		default:
			l += " " + string(e.Type)
		}
		if len(e.Xattrs) > 0 {
			l += fmt.Sprintf(" xattrs %d", len(e.Xattrs))
		}
		if l != "./" {
			lines = append(lines, l)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}
