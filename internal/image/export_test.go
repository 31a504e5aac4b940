package image_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"assay/internal/image"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// exported writes an image as an archive and imports that into a fresh store.
func exported(t testing.TB, s *image.Store, im image.Image, f image.Format) (*image.Store, image.Image) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "image.tar")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := s.Export(t.Context(), im, f, out); err != nil {
		t.Fatal(err)
	}
	to := open(t)
	got, err := to.Import(t.Context(), image.HostPath(file), im.Name)
	if err != nil {
		t.Fatalf("%s: %v", f, err)
	}
	return to, got
}

// Random stacks, out and in again: layer for layer the same manifests, and as
// one tree what the stack looked like.
func TestExportRoundTrip(t *testing.T) {
	// "usr" first: what has none of the usual directories is no root file system
	names := []string{"usr", "a", "b\xff", "ü", "with blank", strings.Repeat("n", 255), "back\\slash"}
	rapid.Check(t, func(rt *rapid.T) {
		s := open(t)
		var ids []image.LayerID
		for n := range rapid.IntRange(1, 3).Draw(rt, "layers") {
			tr := tree{}
			if n == 0 {
				tr = append(tr, dir("usr", 0o755))
			}
			taken, files := map[string]image.Type{"usr": image.TypeDir}, []string{}
			for range rapid.IntRange(0, 12).Draw(rt, "entries") {
				x := drawItem(rt, names, files)
				if bad := taken[x.e.Path] != "" || x.e.Path == "usr"; bad {
					continue
				}
				fits := true
				for d := path.Dir(x.e.Path); d != "."; d = path.Dir(d) {
					fits = fits && (taken[d] == "" || taken[d] == image.TypeDir)
				}
				if !fits {
					continue
				}
				for d := path.Dir(x.e.Path); d != "."; d = path.Dir(d) {
					taken[d] = image.TypeDir
				}
				taken[x.e.Path] = x.e.Type
				if x.e.Type == image.TypeFile && x.e.Hardlink == "" {
					files = append(files, x.e.Path)
				}
				tr = append(tr, x)
			}
			ids = append(ids, tr.commit(t, s, ids...))
		}
		im := image.New("my/app:1", ids, nil, image.Config{Env: []string{"A=b"}, Workdir: "/w", User: "u", Cmd: []string{"c"}})
		if err := s.Put(im); err != nil {
			rt.Fatal(err)
		}
		for _, f := range []image.Format{image.FormatDocker, image.FormatOCI} {
			to, got := exported(t, s, im, f)
			if got.ID != im.ID {
				for i := range ids {
					if d := cmp.Diff(lines(t, s, ids[i]), lines(t, to, got.Layers[i])); d != "" {
						rt.Errorf("%s, layer %d:\n%s", f, i, d)
					}
				}
				rt.Fatalf("%s: another image came back: %+v", f, got)
			}
		}
		flat, err := s.Flatten(t.Context(), ids)
		if err != nil {
			rt.Fatal(err)
		}
		if _, got := exported(t, s, im, image.FormatRootfs); got.Layers[0] != flat {
			rt.Fatalf("rootfs:\n%s", cmp.Diff(lines(t, s, flat), lines(t, s, got.Layers[0])))
		}
	})
}

func drawItem(rt *rapid.T, names, files []string) item {
	e := image.Entry{
		Path: strings.Join(rapid.SliceOfN(rapid.SampledFrom(names), 1, 4).Draw(rt, "path"), "/"),
		Type: rapid.SampledFrom([]image.Type{image.TypeDir, image.TypeFile, image.TypeFile, image.TypeSymlink, image.TypeFIFO,
			image.TypeChar, image.TypeBlock, image.TypeWhiteout}).Draw(rt, "type"),
	}
	if e.Type == image.TypeWhiteout {
		return entry(e)
	}
	if e.Type == image.TypeFile && len(files) > 0 && rapid.IntRange(0, 3).Draw(rt, "hard") == 0 {
		e.Hardlink = rapid.SampledFrom(files).Draw(rt, "to")
		return entry(e)
	}
	e.UID, e.GID = rapid.IntRange(0, 1<<32-2).Draw(rt, "uid"), rapid.IntRange(0, 70_000).Draw(rt, "gid")
	if e.Type == image.TypeSymlink {
		e.Link = rapid.SampledFrom([]string{"/etc/passwd", "../../..", "b\xff", strings.Repeat("long/", 300)}).Draw(rt, "link")
		return entry(e)
	}
	e.Mode = rapid.Uint32Range(0, 0o7777).Draw(rt, "mode")
	e.Opaque = e.IsDir() && rapid.Bool().Draw(rt, "opaque")
	if e.Type == image.TypeChar || e.Type == image.TypeBlock {
		e.Major, e.Minor = rapid.Uint32Range(0, 4000).Draw(rt, "major"), rapid.Uint32Range(0, 1<<20-1).Draw(rt, "minor")
	}
	if rapid.Bool().Draw(rt, "attributes") {
		e.Xattrs = map[string]string{"user.x": rapid.SampledFrom([]string{"", "v", "\x00\xff=\n"}).Draw(rt, "value"), "security.capability": "\x01\x00\x00\x02"}
	}
	x := item{e: e}
	if e.Type == image.TypeFile {
		x.content = rapid.SampledFrom([]string{"", "text", strings.Repeat("\x00", 300_000) + "end"}).Draw(rt, "content")
	}
	return x
}

func TestExportRefusesTheHost(t *testing.T) {
	s := open(t)
	im := image.New("host", nil, []image.Bind{{Source: "/usr", Target: "/usr"}}, image.Config{})
	for _, f := range []image.Format{image.FormatDocker, image.FormatOCI, image.FormatRootfs} {
		if err := s.Export(t.Context(), im, f, &bytes.Buffer{}); err == nil {
			t.Errorf("%s: this machine's directories were exported", f)
		}
	}
}

// A real engine loads what is exported and runs it, and its tree is the view's.
func TestExportRunsInDocker(t *testing.T) {
	if testing.Short() || os.Getenv("DOCKER_HOST") == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST")
	}
	docker := func(stdin *bytes.Buffer, args ...string) string {
		t.Helper()
		c := exec.CommandContext(t.Context(), "docker", args...)
		if stdin != nil {
			c.Stdin = stdin
		}
		var stderr strings.Builder
		c.Stderr = &stderr
		b, err := c.Output()
		if err != nil {
			t.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, stderr.String())
		}
		return string(b)
	}
	s := open(t)
	low := append(shell(t), file("etc/conf", 0o600, "low"), file("etc/gone", 0o644, ""), dir("o", 0o755), file("o/old", 0o644, ""),
		file("data/one", 0o644, "one"))
	owned := image.Entry{Path: "srv/tool", Type: image.TypeFile, Mode: 0o4750, UID: 1234, GID: 5678}
	top := tree{file("etc/conf", 0o640, "top"), whiteout("etc/gone"), entry(image.Entry{Path: "o", Type: image.TypeDir, Mode: 0o1777, Opaque: true}),
		file("o/new", 0o644, ""), {owned, "#!/bin/sh\n"}, entry(image.Entry{Path: "srv/same", Type: image.TypeFile, Hardlink: "srv/tool"}),
		link("srv/link", "../etc/conf"), file("srv/"+strings.Repeat("n", 200), 0o644, ""), dir("work", 0o700)}
	one := low.commit(t, s)
	ids := []image.LayerID{one, top.commit(t, s, one)}
	const name = "assay-export-test:1"
	im := image.New(name, ids, nil, image.Config{Env: []string{"WHO=assay"}, Workdir: "/work",
		Cmd: []string{"/bin/sh", "-c", `read x </etc/conf; echo "$WHO $PWD $x"; [ ! -e /etc/gone ] && [ ! -e /o/old ] && [ /srv/tool -ef /srv/same ] && echo right`}})
	var tarball bytes.Buffer
	if err := s.Export(t.Context(), im, image.FormatDocker, &tarball); err != nil {
		t.Fatal(err)
	}
	docker(&tarball, "load")
	defer docker(nil, "rmi", "-f", name)
	if got := docker(nil, "run", "--rm", "--network", "none", name); got != "assay /work top\nright\n" {
		t.Errorf("it printed %q", got)
	}
	id := strings.TrimSpace(docker(nil, "create", "--network", "none", name))
	defer docker(nil, "rm", "-f", id)
	tree := docker(nil, "export", id)
	back, err := s.FromTar(t.Context(), strings.NewReader(tree), image.TarOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// what the engine puts into every container
	added := regexp.MustCompile(`(?m)^(\.|\.dockerenv|dev|dev/.*|proc|sys|etc|etc/(hosts|hostname|resolv\.conf|mtab)) .*\n`)
	flat, err := s.Flatten(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(added.ReplaceAllString(lines(t, s, flat), ""), added.ReplaceAllString(lines(t, s, back), "")); d != "" {
		t.Errorf("the view (-), the engine (+):\n%s", d)
	}
}

// shell is this machine's shell with the libraries it needs.
func shell(t testing.TB) tree {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("containers need a Linux shell")
	}
	out, err := exec.Command("ldd", "/bin/sh").CombinedOutput()
	if err != nil && !strings.Contains(string(out), "not a dynamic executable") {
		t.Fatalf("ldd: %v: %s", err, out)
	}
	paths := append([]string{"/bin/sh"}, regexp.MustCompile(`/\S+\.so\S*`).FindAllString(string(out), -1)...)
	var tr tree
	for _, p := range paths {
		b, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		tr = append(tr, file(strings.TrimPrefix(p, "/"), 0o755, string(b)))
	}
	return append(tr, file("etc/passwd", 0o644, fmt.Sprintln("root:x:0:0:root:/:/bin/sh")))
}
