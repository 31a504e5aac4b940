package forge

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
)

// gitIn runs git as people do, without this machine's configuration.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b",
		"GIT_AUTHOR_DATE=1600000000 +0000", "GIT_COMMITTER_DATE=1600000000 +0000"}
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, b)
	}
	return strings.TrimSpace(string(b))
}

// repoDir is a repository of one commit with loose objects in app/ of a tree.
func repoDir(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	app := filepath.Join(root, "app")
	for name, text := range files {
		p := filepath.Join(app, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	gitIn(t, app, "init", "-q", "-b", "main")
	gitIn(t, app, "add", "-A")
	gitIn(t, app, "commit", "-qm", "A project")
	return root
}

// unpackTree writes a view below a directory.
func unpackTree(t *testing.T, v *image.View) string {
	t.Helper()
	dir := t.TempDir()
	err := v.Walk(".", func(e image.Entry) error {
		p := filepath.Join(dir, e.Path)
		switch e.Type {
		case image.TypeDir:
			return os.MkdirAll(p, 0o755)
		case image.TypeSymlink:
			return os.Symlink(e.Link, p)
		case image.TypeFile:
			b, err := v.ReadFile(e.Path, 1<<20)
			if err != nil {
				return err
			}
			return os.WriteFile(p, b, fs.FileMode(e.Mode&0o777))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

const goldText = "return the answer that is right\n"

// The broken state is one orphan commit in which real git finds no fault, no
// change and none of the healthy text.
func TestBrokenStateIsOneOrphanCommit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git: ", err)
	}
	files := map[string]string{"a.py": goldText, "pkg/b.py": "b\n", "pkg/deep/c.py": "c\n", "pkg/deep/gone.py": goldText + "2\n", "twice.py": "same\n", "pkg/twice.py": "same\n",
		".gitignore": "build/\n", "build/x": "ignored\n", "name with space": "s\n"}
	for name, d := range map[string]Delta{
		"one line":       {{Path: "/app/a.py", Type: image.TypeFile, Mode: 0o644, Data: []byte("wrong\n")}},
		"gone":           {{Path: "/app/pkg/deep/gone.py"}},
		"directory gone": {{Path: "/app/pkg"}},
		"new":            {{Path: "/app/pkg/types.py", Type: image.TypeFile, Mode: 0o755, Data: []byte("shadow\n")}, {Path: "/app/n/e/w.txt", Type: image.TypeFile, Mode: 0o644}},
		"ignored":        {{Path: "/app/build/y", Type: image.TypeFile, Mode: 0o644}, {Path: "/app/a.py", Type: image.TypeFile, Mode: 0o644}},
		"one of twins":   {{Path: "/app/twice.py", Type: image.TypeFile, Mode: 0o644, Data: []byte("other\n")}},
		"both twins":     {{Path: "/app/twice.py"}, {Path: "/app/pkg/twice.py", Type: image.TypeSymlink, Link: "../a.py"}},
		"swapped":        {{Path: "/app/pkg/deep", Type: image.TypeFile, Mode: 0o644, Data: []byte("x")}, {Path: "/app/a.py", Type: image.TypeDir, Mode: 0o755}, {Path: "/app/a.py/in.py", Type: image.TypeFile, Mode: 0o644}},
		"mode":           {{Path: "/app/a.py", Type: image.TypeFile, Mode: 0o755, From: "/app/a.py"}},
		"renamed":        {{Path: "/app/pkg/b.py"}, {Path: "/app/pkg/b_windows.py", Type: image.TypeFile, Mode: 0o644, From: "/app/pkg/b.py"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t)
			id, err := s.FromDir(context.Background(), image.HostPath(repoDir(t, files)), image.DirOptions{Squash: true})
			if err != nil {
				t.Fatal(err)
			}
			stack := []image.LayerID{id}
			v, err := s.View(stack)
			if err != nil {
				t.Fatal(err)
			}
			o, err := readOrphanage(v, "/app")
			if err != nil {
				t.Fatal(err)
			}
			if d, err = d.On(v); err != nil {
				t.Fatal(err)
			}
			born, err := o.born(d)
			if err != nil {
				t.Fatal(err)
			}
			layer, err := Layer(t.Context(), s, stack, v, d.with(born))
			if err != nil {
				t.Fatal(err)
			}
			b, err := s.View(append(stack, layer))
			if err != nil {
				t.Fatal(err)
			}
			app := filepath.Join(unpackTree(t, b), "app")
			if got := gitIn(t, app, "fsck", "--full", "--strict", "--unreachable", "--no-reflogs"); got != "" {
				t.Errorf("fsck says %q", got)
			}
			if got := gitIn(t, app, "log", "--all", "--format=%s|%P"); got != "A project|" {
				t.Errorf("log %q", got)
			}
			if got := gitIn(t, app, "status", "--porcelain"); got != "" {
				t.Errorf("status %q", got)
			}
			gone := map[string]bool{"one line": true, "swapped": true, "ignored": true}[name]
			objects := gitIn(t, app, "cat-file", "--batch-all-objects", "--batch")
			if gone && strings.Contains(strings.ReplaceAll(objects, goldText+"2\n", ""), goldText) {
				t.Error("an object holds the gold text")
			}
			if name == "gone" && strings.Contains(objects, goldText+"2\n") {
				t.Error("an object holds what was removed")
			}
		})
	}
}
