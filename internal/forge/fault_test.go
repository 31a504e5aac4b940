package forge

import (
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

// Longer contents are packed, and neither twice nor without end.
func TestFaultPacks(t *testing.T) {
	text := []byte(strings.Repeat("one line of a file\n", 500))
	d := Delta{{Path: "/app/a", Type: image.TypeFile, Mode: 0o644, Data: text}, {Path: "/app/b", Type: image.TypeFile, Mode: 0o644, Data: []byte("short")}}
	b, err := (&Fault{Version: 2, Environment: "x", Break: d, Mend: d}).Encode()
	if err != nil || len(b) > len(text)/4 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	f, err := DecodeFault(b)
	if err != nil || string(f.Break[0].Data) != string(text) || string(f.Mend[1].Data) != "short" {
		t.Fatalf("%+v, %v", f, err)
	}
	twice := strings.Replace(string(b), `"gzip": `, `"data": "eA==", "gzip": `, 1)
	if _, err := DecodeFault([]byte(twice)); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("%v", err)
	}
	bomb, err := (&Fault{Version: 2, Break: Delta{{Path: "/a", Type: image.TypeFile, Data: make([]byte, maxData+1)}}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := DecodeFault(bomb); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("%v", err)
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
	f.Add([]byte(`{"v":2,"break":[{"path":"/a","type":"file","gzip":"H4sIAAAAAAACA8soBAAKvMCqAgAAAA=="}],"mend":[{"path":"/a","type":""}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := DecodeFault(b)
		if err != nil {
			return
		}
		again, err := r.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeFault(again); err != nil {
			t.Errorf("what was read is not read again: %v", err)
		}
	})
}
