package grade

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// frozenLayer makes a layer of entries; content of files is their path.
func frozenLayer(t *testing.T, entries ...image.Entry) Place {
	t.Helper()
	s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range entries {
		var r io.Reader
		if e.Type == image.TypeFile && e.Hardlink == "" {
			r = strings.NewReader(e.Path)
		}
		if e.Mode == 0 {
			e.Mode = 0o755
		}
		if err := w.Add(e, r); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return Frozen(s, id)
}

// collected collects from a place and lists what came.
func collected(t *testing.T, from Place) (names []string, notes []string) {
	t.Helper()
	dir := t.TempDir()
	notes, err := Collect(t.Context(), CollectRequest{Sandbox: from, Logs: image.HostPath(dir + "/agent"), Artifacts: image.HostPath(dir + "/artifacts")})
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, p)
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if rel == "artifacts/manifest.json" {
			for line := range strings.Lines(string(b)) {
				if strings.Contains(line, `"status"`) || strings.Contains(line, `"type"`) {
					names = append(names, strings.Trim(line, " ,\n"))
				}
			}
			return err
		}
		names = append(names, rel+" "+string(b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names, notes
}

func equalLists(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What is collected from a frozen tree is what would be from its sandbox.
func TestCollectFromFrozenTree(t *testing.T) {
	file := func(p string) image.Entry { return image.Entry{Path: p, Type: image.TypeFile, Mode: 0o644} }
	full := frozenLayer(t, file("logs/agent/a.txt"), file("logs/agent/deep/b"), image.Entry{Path: "logs/agent/hard", Type: image.TypeFile, Hardlink: "logs/agent/a.txt"},
		image.Entry{Path: "logs/agent/out", Type: image.TypeSymlink, Link: "/etc/passwd"}, image.Entry{Path: "logs/agent/pipe", Type: image.TypeFIFO},
		file("logs/artifacts/artifacts"), image.Entry{Path: "logs/artifacts/link", Type: image.TypeSymlink, Link: "artifacts"}, file("app/secret"))
	names, notes := collected(t, full)
	equalLists(t, names, "agent/a.txt logs/agent/a.txt", "agent/deep/b logs/agent/deep/b", "agent/hard logs/agent/a.txt",
		"artifacts/logs/artifacts/artifacts logs/artifacts/artifacts", "artifacts/logs/artifacts/link logs/artifacts/artifacts", `"status": "ok"`, `"type": "directory"`)
	if len(notes) != 1 || !strings.Contains(notes[0], "2 entries were not kept") {
		t.Errorf("notes %q", notes)
	}
	names, notes = collected(t, frozenLayer(t, image.Entry{Path: "logs/artifacts", Type: image.TypeDir}))
	equalLists(t, names, `"status": "ok"`, `"type": "directory"`)
	if len(notes) > 0 {
		t.Errorf("notes %q", notes)
	}
	// Links lead nowhere, an agent's own above all.
	names, _ = collected(t, frozenLayer(t, image.Entry{Path: "logs", Type: image.TypeSymlink, Link: "app"}, file("app/agent/x"), file("app/artifacts/x")))
	equalLists(t, names, `"status": "empty"`, `"type": "directory"`)
	names, _ = collected(t, Frozen(full.(frozenTree).store, ""))
	equalLists(t, names, `"status": "empty"`, `"type": "directory"`)

	if err := full.Get(t.Context(), "/logs/agent", io.Discard, 5); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("beyond the cap: %v", err)
	}
	if err := full.Get(t.Context(), "/logs/none", io.Discard, 0); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("what is not there: %v", err)
	}
}
