package forge

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
)

// A record says both directions, and a directory that goes there and back is
// what it was.
func TestFaultThereAndBack(t *testing.T) {
	dir := t.TempDir()
	write := func(p, text string, mode os.FileMode) {
		t.Helper()
		at := filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	write("app/config", "a=1\n", 0o640)
	write("app/data/x", "x", 0o644)
	if err := os.Symlink("config", filepath.Join(dir, "app/link")); err != nil {
		t.Fatal(err)
	}
	before := listing(t, dir)
	d := Delta{
		{Path: "/app/config", Type: image.TypeDir, Mode: 0o700, UID: os.Getuid(), GID: os.Getgid()},
		{Path: "/app/config/inner", Type: image.TypeFile, Mode: 0o600, UID: os.Getuid(), GID: os.Getgid(), Data: []byte("b")},
		{Path: "/app/data"},
		{Path: "/app/link", Type: image.TypeSymlink, Link: "../elsewhere", UID: os.Getuid(), GID: os.Getgid()},
	}
	back := Delta{
		{Path: "/app/config", Type: image.TypeFile, Mode: 0o640, UID: os.Getuid(), GID: os.Getgid(), Data: []byte("a=1\n")},
		{Path: "/app/data", Type: image.TypeDir, Mode: 0o755, UID: os.Getuid(), GID: os.Getgid()},
		{Path: "/app/data/x", Type: image.TypeFile, Mode: 0o644, UID: os.Getuid(), GID: os.Getgid(), Data: []byte("x")},
		{Path: "/app/link", Type: image.TypeSymlink, Link: "config", UID: os.Getuid(), GID: os.Getgid()},
	}
	b, err := (&Fault{Version: 1, Environment: "x", Break: d, Mend: back}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	f, err := DecodeFault(b)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Break.Under(dir, nil); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "app/config/inner")); err != nil || string(b) != "b" {
		t.Errorf("%q, %v", b, err)
	}
	if err := f.Mend.Under(dir, nil); err != nil {
		t.Fatal(err)
	}
	if after := listing(t, dir); after != before {
		t.Errorf("there and back:\n%s\nbefore:\n%s", after, before)
	}
}

// A link below the directory leads no edit out of it.
func TestFaultStaysUnder(t *testing.T) {
	dir, out := t.TempDir(), t.TempDir()
	if err := os.Symlink(out, filepath.Join(dir, "app")); err != nil {
		t.Fatal(err)
	}
	err := Delta{{Path: "/app/x", Type: image.TypeFile, Mode: 0o644, Data: []byte("y")}}.Under(dir, nil)
	if es, _ := os.ReadDir(out); err == nil || len(es) > 0 {
		t.Errorf("%v, and outside lies %v", err, es)
	}
}

func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		link, _ := os.Readlink(p)
		text, _ := os.ReadFile(p)
		b.WriteString(p[len(dir):] + " " + fi.Mode().String() + " " + link + " " + string(text) + "\n")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func FuzzDecodeFault(f *testing.F) {
	f.Add([]byte(`{"v":1,"environment":"x","layers":[],"break":[{"path":"/a","type":"file","data":"aGk="}],"mend":[{"path":"/a","type":""}]}`))
	f.Add([]byte(`{"v":1,"break":[{"path":"../a"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeFault(b)
		if err != nil {
			return
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeFault(again); err != nil {
			t.Errorf("what was read is not read again: %v", err)
		}
	})
}
