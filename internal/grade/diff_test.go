package grade

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/image"
)

var update = flag.Bool("update", false, "write the golden files anew")

// diffWorld is an image and a layer that changes it in every way there is.
func diffWorld(t testing.TB) (*image.Store, image.Image, image.LayerID) {
	s := newStore(t)
	img := image.Image{Config: image.Config{Workdir: "/app"}, Layers: []image.LayerID{layer(t, s, nil,
		file("app/edit.txt", "one\ntwo\nthree\nfour\nfive\nsix\nseven\neight\n"),
		file("app/same.txt", "same\n"), file("app/mode.sh", "#!/bin/sh\n"), file("app/gone.txt", "bye\n"),
		file("app/bin", "\x00\x01"), file("app/nonl", "no newline"), link("app/link", "old"), file("app/turns", "a file\n"),
		file("app/dir/a", "a\n"), file("app/dir/b", "b\n"), file("app/emptied/x", "x\n"), file("app/.git/HEAD", "ref: main\n"),
		file("etc/conf", "outside\n"),
	)}}
	end := layer(t, s, img.Layers,
		file("app/edit.txt", "one\nTWO\nthree\nfour\nfive\nsix\nseven\neight\nnine\n"),
		file("app/same.txt", "same\n"), exe("app/mode.sh", "#!/bin/sh\n"), gone("app/gone.txt"),
		file("app/bin", "\x00\x02"), file("app/nonl", "no newline still"), link("app/link", "new"), link("app/turns", "edit.txt"),
		gone("app/dir"), opaque("app/emptied"), file("app/emptied/y", "y\n"), file("app/.git/index", "x"),
		file("app/new/deep/file.txt", "hello\n"), file("app/empty", ""), file("app/with space", "s\n"),
		file("app/ev\nil\tname\"\\é", "x\n"), file("app/big", strings.Repeat("x", 3000)), special("app/pipe", image.TypeFIFO),
		file("etc/conf", "changed\n"), file("tmp/x", "x"),
	)
	return s, img, end
}

func TestWorkspaceDiffGolden(t *testing.T) {
	s, img, end := diffWorld(t)
	got, stat, err := WorkspaceDiff(s, img, end, "/app", Given{}, DiffCaps{File: 2000})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/workspace.diff"
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(got)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if d := cmp.Diff(DiffStat{Files: 16, Added: 9, Removed: 8, Binary: 2}, stat); d != "" {
		t.Errorf("stat (-want +got):\n%s", d)
	}
	for range 3 {
		again, _, err := WorkspaceDiff(s, img, end, "/app", Given{}, DiffCaps{File: 2000})
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("not the same twice (%v)", err)
		}
	}
}

// What the diff says is what happened: git applies it to the image's workspace
// and gets the agent's.
func TestWorkspaceDiffApplies(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("no git on this machine")
	}
	s := newStore(t)
	img := image.Image{Layers: []image.LayerID{layer(t, s, nil,
		file("app/a", "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"), file("app/gone", "x\n"), exe("app/run", "#!/bin/sh\n"), link("app/l", "a"), file("app/d/x", "x"),
		file("app/turns", "file\n"),
	)}}
	end := layer(t, s, img.Layers, file("app/a", "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n12\n13"), gone("app/gone"), file("app/run", "#!/bin/sh\nexit 1\n"),
		link("app/l", "b"), gone("app/d"), file("app/n e w/é", "new\n"), link("app/turns", "a"))
	diff, _, err := WorkspaceDiff(s, img, end, "app", Given{}, DiffCaps{})
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "app")
	unpackView(t, s, img.Layers, dir)
	cmd := exec.Command(git, "apply", "-p1", "--unidiff-zero", "-")
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(diff)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "HOME="+t.TempDir(), "GIT_CEILING_DIRECTORIES=/")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git apply: %v: %s\n%s", err, out, diff)
	}
	want := filepath.Join(t.TempDir(), "app")
	unpackView(t, s, append(img.Layers[:1:1], end), want)
	if d := cmp.Diff(tree(t, want), tree(t, dir)); d != "" {
		t.Errorf("after git apply (-want +got):\n%s\n%s", d, diff)
	}
}

// unpackView writes the files and links below app to a directory.
func unpackView(t testing.TB, s *image.Store, stack []image.LayerID, to string) {
	t.Helper()
	v, err := s.View(stack)
	if err != nil {
		t.Fatal(err)
	}
	err = v.Walk("app", func(e image.Entry) error {
		p := filepath.Join(to, strings.TrimPrefix(e.Path, "app"))
		switch e.Type {
		case image.TypeDir:
			return os.MkdirAll(p, 0o755)
		case image.TypeSymlink:
			return os.Symlink(e.Link, p)
		}
		b, err := v.ReadFile(e.Path, 1<<20)
		if err != nil {
			return err
		}
		return os.WriteFile(p, b, os.FileMode(e.Mode))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// tree lists files and links below dir with what they hold.
func tree(t testing.TB, dir string) []string {
	t.Helper()
	var out []string
	err := filepath.Walk(dir, func(p string, info os.FileInfo, err error) error {
		rel, _ := filepath.Rel(dir, p)
		switch {
		case err != nil || info.IsDir():
			return err
		case info.Mode()&os.ModeSymlink != 0:
			to, err := os.Readlink(p)
			out = append(out, rel+" -> "+to)
			return err
		}
		b, err := os.ReadFile(p)
		out = append(out, fmt.Sprintf("%s %v %q", rel, info.Mode()&0o111 != 0, b))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWorkspaceDiffCaps(t *testing.T) {
	s := newStore(t)
	var all []content
	for i := range 50 {
		all = append(all, file(fmt.Sprintf("app/f%02d", i), strings.Repeat("line\n", 200)))
	}
	end := layer(t, s, nil, all...)
	for _, caps := range []DiffCaps{{Files: 7}, {Bytes: 9000}} {
		got, stat, err := WorkspaceDiff(s, image.Image{}, end, "/app", Given{}, caps)
		if err != nil || !stat.Cut || stat.Files > 7 || len(got) > 10_000 || !strings.Contains(string(got), "# cut") {
			t.Errorf("%+v: %d bytes, %+v, %v", caps, len(got), stat, err)
		}
	}
	got, stat, err := WorkspaceDiff(s, image.Image{}, "", "/app", Given{}, DiffCaps{})
	if len(got) != 0 || stat.Files != 0 || err != nil {
		t.Errorf("no layer: %q, %+v, %v", got, stat, err)
	}
	// The whole root as a workspace.
	got, _, err = WorkspaceDiff(s, image.Image{}, end, "/", Given{}, DiffCaps{Files: 1})
	if err != nil || !strings.Contains(string(got), "+++ b/app/f00\n") {
		t.Errorf("root: %.200s, %v", got, err)
	}
}
