package gitdir

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "GIT_CONFIG_NOSYSTEM=1"}
	b, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, b)
	}
	return string(b)
}

// Objects and indices of every version are what real git makes and reads.
func TestAsGit(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git: ", err)
	}
	for _, version := range []string{"2", "3", "4"} {
		dir := t.TempDir()
		gitIn(t, dir, "init", "-q", "--object-format=sha1")
		names := []string{"a", "a.b", "a/b", "dir/one", "dir/two", strings.Repeat("long", 40), "é ü"}
		for _, n := range names {
			if n == "a" {
				continue
			}
			p := filepath.Join(dir, n)
			if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(p, []byte("content of "+n), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		gitIn(t, dir, "add", "-A")
		if version == "3" {
			gitIn(t, dir, "update-index", "--skip-worktree", "dir/one")
		}
		gitIn(t, dir, "update-index", "--index-version", version)
		want := gitIn(t, dir, "ls-files", "-s", "-z", "-v")
		tree := strings.TrimSpace(gitIn(t, dir, "write-tree"))
		at := filepath.Join(dir, ".git", "index")
		b, err := os.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		all, err := DecodeIndex(b)
		if err != nil {
			t.Fatalf("version %s: %v", version, err)
		}
		slices.Reverse(all)
		if err := os.WriteFile(at, EncodeIndex(all), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := gitIn(t, dir, "ls-files", "-s", "-z", "-v"); got != want {
			t.Errorf("version %s: %q, want %q", version, got, want)
		}
		h, err := ParseHash(tree)
		if err != nil {
			t.Fatal(err)
		}
		loose, err := os.ReadFile(filepath.Join(dir, ".git", h.Path()))
		if err != nil {
			t.Fatal(err)
		}
		kind, body, err := Decode(loose, h, 1<<20)
		if err != nil || kind != Tree {
			t.Fatal(kind, err)
		}
		entries, err := DecodeTree(body)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(entries)
		if again := EncodeTree(entries); !bytes.Equal(again, body) {
			t.Errorf("tree %q, want %q", again, body)
		}
		if got, _ := Encode(Tree, body); got != h {
			t.Errorf("tree %s, want %s", got, h)
		}
	}
}

func FuzzIndex(f *testing.F) {
	f.Add(EncodeIndex([]IndexEntry{{Path: "a", Mode: ModeFile}, {Path: "b/c", Mode: ModeExec, Extra: 0x4000}}))
	f.Add([]byte("DIRC\x00\x00\x00\x04\x00\x00\x00\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := DecodeIndex(b)
		if err != nil {
			return
		}
		if again, err := DecodeIndex(EncodeIndex(all)); err != nil || len(again) != len(all) {
			t.Errorf("%d entries, then %d: %v", len(all), len(again), err)
		}
	})
}

func FuzzObject(f *testing.F) {
	h, b := Encode(Tree, EncodeTree([]Entry{{"a", ModeFile, Hash{1}}, {"d", ModeDir, Hash{2}}}))
	f.Add(b, h[:])
	f.Fuzz(func(t *testing.T, b, name []byte) {
		var h Hash
		copy(h[:], name)
		kind, body, err := Decode(b, h, 1<<16)
		if err != nil {
			return
		}
		switch kind {
		case Tree:
			_, _ = DecodeTree(body)
		case Commit:
			_, _, _ = CommitTree(body)
		}
	})
}
