package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"assay/internal/image"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/klauspost/compress/zstd"
)

// ociImage is two layers, the second of which hides a file of the first, with
// a configuration.
func ociImage(t testing.TB, user string) v1.Image {
	t.Helper()
	im := v1.Image(empty.Image)
	for _, b := range [][]byte{
		archive(t, tar.Header{Name: "etc/", Typeflag: tar.TypeDir, Mode: 0o711}, tar.Header{Name: "etc/a"}, tar.Header{Name: "bin", Typeflag: tar.TypeSymlink, Linkname: "usr/bin"}),
		archive(t, tar.Header{Name: "etc/.wh.a"}, tar.Header{Name: "etc/b"}, tar.Header{Name: "bin/sh", Mode: 0o4755}),
	} {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b)), nil })
		if err != nil {
			t.Fatal(err)
		}
		if im, err = mutate.AppendLayers(im, l); err != nil {
			t.Fatal(err)
		}
	}
	c, err := im.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = "linux", runtime.GOARCH
	c.Config = v1.Config{Env: []string{"A=b"}, WorkingDir: "app/../srv", User: user, Entrypoint: []string{"/e"}, Cmd: []string{"c"}, Labels: map[string]string{"k": "v"}}
	if im, err = mutate.ConfigFile(im, c); err != nil {
		t.Fatal(err)
	}
	return im
}

const ociWant = `. dir 0755 0:0
bin symlink 0000 0:0 -> usr/bin
etc dir 0711 0:0
etc/b file 0644 0:0 5 "etc/b"
usr dir 0755 0:0
usr/bin dir 0755 0:0
usr/bin/sh file 4755 0:0 6 "bin/sh"
`

func tag(t testing.TB, s string) name.Tag {
	t.Helper()
	n, err := name.NewTag(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// tarDir writes a directory as a tar.
func tarDir(t testing.TB, dir, to string) {
	t.Helper()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := tar.NewWriter(f)
	if err := w.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

func pack(t testing.TB, from, to string, w func(io.Writer) io.WriteCloser) string {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z := w(f)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return to
}

func zst(w io.Writer) io.WriteCloser { z, _ := zstd.NewWriter(w); return z }
func gz(w io.Writer) io.WriteCloser  { return gzip.NewWriter(w) }

// One image in every form has one tree, one configuration and one id.
func TestImportImages(t *testing.T) {
	dir := t.TempDir()
	im := ociImage(t, "u")
	save := filepath.Join(dir, "save.tar")
	if err := tarball.WriteToFile(save, tag(t, "my/app:1"), im); err != nil {
		t.Fatal(err)
	}
	oci := filepath.Join(dir, "oci")
	p, err := layout.Write(oci, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.AppendImage(im, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "my/app:1"})); err != nil {
		t.Fatal(err)
	}
	nested := filepath.Join(dir, "nested")
	if p, err = layout.Write(nested, empty.Index); err != nil {
		t.Fatal(err)
	}
	other := v1.Platform{OS: "linux", Architecture: "s390x"}
	here := v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: ociImage(t, "other"), Descriptor: v1.Descriptor{Platform: &other}},
		mutate.IndexAddendum{Add: im, Descriptor: v1.Descriptor{Platform: &here}})
	if err := p.AppendIndex(index, layout.WithAnnotations(map[string]string{"io.containerd.image.name": "my/app:1"})); err != nil {
		t.Fatal(err)
	}
	ociTar := filepath.Join(dir, "oci.tar")
	tarDir(t, oci, ociTar)

	s := open(t)
	var id image.ID
	for _, path := range []string{save, pack(t, save, filepath.Join(dir, "save.tgz"), gz), oci, ociTar,
		pack(t, ociTar, filepath.Join(dir, "oci.tar.zst"), zst), nested} {
		got, err := s.Import(t.Context(), image.HostPath(path), "")
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
			continue
		}
		if d := cmp.Diff(ociWant, merged(t, s, got.Layers)); d != "" {
			t.Errorf("%s:\n%s", filepath.Base(path), d)
		}
		want := image.Config{Env: []string{"A=b"}, Workdir: "/srv", User: "u", Entrypoint: []string{"/e"}, Cmd: []string{"c"}, Labels: map[string]string{"k": "v"}}
		if d := cmp.Diff(want, got.Config); d != "" {
			t.Errorf("%s:\n%s", filepath.Base(path), d)
		}
		if id == "" {
			id = got.ID
		}
		if got.ID != id || familiarTag(got.Name) != "my/app:1" {
			t.Errorf("%s: %s is %s, want %s", filepath.Base(path), got.Name, got.ID, id)
		}
	}
	if left, err := os.ReadDir(filepath.Join(string(s.Root()), "tmp")); err != nil || len(left) > 0 {
		t.Errorf("tmp holds %v, %v", left, err)
	}
}

func familiarTag(s string) string { return strings.TrimPrefix(s, "index.docker.io/") }

func TestImportOfSeveralImages(t *testing.T) {
	save := filepath.Join(t.TempDir(), "save.tar")
	a, b := tag(t, "a:1"), tag(t, "b:1")
	if err := tarball.MultiWriteToFile(save, map[name.Tag]v1.Image{a: ociImage(t, "a"), b: ociImage(t, "b")}); err != nil {
		t.Fatal(err)
	}
	s := open(t)
	if _, err := s.Import(t.Context(), image.HostPath(save), ""); err == nil || !strings.Contains(err.Error(), "2 images") {
		t.Errorf("without a name: %v", err)
	}
	im, err := s.Import(t.Context(), image.HostPath(save), "b:1")
	if err != nil || im.Config.User != "b" || im.Name != "b:1" {
		t.Errorf("%v, %v", im, err)
	}
}

func TestImportRootfs(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "root")
	for p, mode := range map[string]fs.FileMode{"etc/conf": 0o640, "usr/bin/tool": 0o755, "usr/secret": 0} {
		p = filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte("x"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(p, mode|0o400); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc/shadow", filepath.Join(root, "etc/l")); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(filepath.Join(root, "usr/bin/tool"), filepath.Join(root, "usr/bin/alias")); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{"", "etc", "usr", "usr/bin"} {
		os.Chmod(filepath.Join(root, d), 0o755)
	}
	tarball := filepath.Join(dir, "root.tar")
	f, err := os.Create(tarball)
	if err != nil {
		t.Fatal(err)
	}
	f.Write(archive(t, tar.Header{Name: "./", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "./etc/conf", Mode: 0o600}))
	f.Close()

	s := open(t)
	im, err := s.Import(t.Context(), image.HostPath(root), "from-dir")
	if err != nil {
		t.Fatal(err)
	}
	want := `. dir 0755 0:0
etc dir 0755 0:0
etc/conf file 0640 0:0 1 "x"
etc/l symlink 0000 0:0 -> /etc/shadow
usr dir 0755 0:0
usr/bin dir 0755 0:0
usr/bin/alias file 0755 0:0 1 "x"
usr/bin/tool file 0755 0:0 == usr/bin/alias 1 "x"
usr/secret file 0400 0:0 1 "x"
`
	if d := cmp.Diff(want, merged(t, s, im.Layers)); d != "" {
		t.Error(d)
	}
	for _, path := range []string{tarball, pack(t, tarball, filepath.Join(dir, "r.tgz"), gz), pack(t, tarball, filepath.Join(dir, "r.zst"), zst)} {
		im, err := s.Import(t.Context(), image.HostPath(path), "from-tar")
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
			continue
		}
		if v, err := s.View(im.Layers); err != nil {
			t.Error(err)
		} else if e, err := v.Lstat("etc/conf"); err != nil || e.Mode != 0o600 {
			t.Errorf("%s: %v, %v", filepath.Base(path), e, err)
		}
	}
}

func TestImportRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(n string, b []byte) string {
		p := filepath.Join(dir, n)
		if err := os.WriteFile(p, b, 0o644); err != nil {
			t.Fatal(err)
		}
		return p
	}
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	io.Copy(z, io.LimitReader(zeros{}, 64<<20))
	z.Close()
	// An image whose layer is not what its configuration says.
	good := filepath.Join(dir, "good.tar")
	if err := tarball.WriteToFile(good, tag(t, "x:1"), ociImage(t, "u")); err != nil {
		t.Fatal(err)
	}
	forged := forge(t, good, filepath.Join(dir, "forged.tar"))
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"):                                            "no such file",
		write("text", []byte("hello, this is no archive at all")):                "not a tar archive",
		write("empty", nil):                                                      "not a tar archive",
		write("x.bz2", []byte("BZh91AY")):                                        "bzip2 or xz",
		write("no-root.tar", archive(t, tar.Header{Name: "hello"})):              "no root file system",
		write("repositories.tar", archive(t, tar.Header{Name: "repositories"})):  "Docker before 1.10",
		write("up.tar", archive(t, tar.Header{Name: "../../etc/x"})):             `holds ".."`,
		write("bad-manifest.tar", archive(t, tar.Header{Name: "manifest.json"})): "manifest.json",
		write("bomb.gz", bomb.Bytes()):                                           "not a tar archive",
		t.TempDir():                                                              "no root file system",
		forged:                                                                   "the configuration says",
		"/dev/null":                                                              "neither a directory nor an archive",
	} {
		s := open(t)
		_, err := s.Import(t.Context(), image.HostPath(path), "x")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
		for _, d := range []string{"tmp", "images"} {
			if left, err := os.ReadDir(filepath.Join(string(s.Root()), d)); err != nil || len(left) > 0 {
				t.Errorf("%s: %s holds %v, %v", path, d, left, err)
			}
		}
	}
	if _, err := open(t).Import(t.Context(), image.HostPath(write("r.tar", archive(t, tar.Header{Name: "etc/x"}))), ""); err == nil || !strings.Contains(err.Error(), "give one") {
		t.Errorf("no name: %v", err)
	}
}

// Documents are read into memory, so their size is looked at before.
func TestImportOfHugeDocuments(t *testing.T) {
	dir := t.TempDir()
	sparse := func(name string) string {
		p := filepath.Join(dir, name)
		f, err := os.Create(p)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := tar.NewWriter(f).WriteHeader(&tar.Header{Name: "manifest.json", Size: 10 << 30, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(10<<30 + 2048); err != nil {
			t.Fatal(err)
		}
		return p
	}
	oci := filepath.Join(dir, "oci")
	if _, err := layout.Write(oci, empty.Index); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(oci, "index.json"), 1<<30); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{sparse("save.tar"), oci} {
		if _, err := open(t).Import(t.Context(), image.HostPath(p), "x"); !errors.Is(err, image.ErrCap) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// forge copies an archive with the first layer replaced.
func forge(t testing.TB, from, to string) string {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	w := tar.NewWriter(out)
	done := false
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(h.Name, ".tar.gz") && !done {
			done = true
			var z bytes.Buffer
			g := gzip.NewWriter(&z)
			g.Write(archive(t, tar.Header{Name: "etc/evil"}))
			g.Close()
			b = z.Bytes()
			h.Size = int64(len(b))
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		w.Write(b)
	}
	if err := w.Close(); err != nil || !done {
		t.Fatal(done, err)
	}
	return to
}

func TestCompressionBomb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bomb.tgz")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	for i := range 100 {
		w.WriteHeader(&tar.Header{Name: fmt.Sprintf("etc/%d", i), Size: 1 << 20, Mode: 0o644, Typeflag: tar.TypeReg})
		io.CopyN(w, zeros{}, 1<<20)
	}
	w.Close()
	z.Close()
	f.Close()
	s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true, Caps: image.Caps{Bytes: 5 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Import(t.Context(), image.HostPath(path), "x"); !errors.Is(err, image.ErrCap) {
		t.Errorf("%v", err)
	}
}

func TestFilter(t *testing.T) {
	s := open(t)
	id := tree{
		file("keep/a", 0o644, "a"), entry(image.Entry{Path: "keep/b", Type: image.TypeFile, Hardlink: "keep/a"}),
		file("drop/x/y", 0o644, "y"), file("drop-not", 0o644, "n"), file("mode", 0o600, "m"), whiteout("w"), link("l", "drop"),
	}.commit(t, s)
	got, err := s.Filter(t.Context(), id, func(e image.Entry) (image.Entry, bool) {
		switch e.Path {
		case "drop":
			return e, false
		case "mode":
			e.Mode = 0o755
		case "drop/x/y":
			t.Error("asked about what lies in a directory that is left out")
		}
		return e, true
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `. dir 0755 0:0
drop-not file 0644 0:0 1
keep dir 0755 0:0
keep/a file 0644 0:0 1
keep/b file 0644 0:0 == keep/a 1
l symlink 0000 0:0 -> drop
mode file 0755 0:0 1
w whiteout 0000 0:0
`
	if d := cmp.Diff(want, lines(t, s, got)); d != "" {
		t.Error(d)
	}
	stat := func(id image.LayerID, p string) os.FileInfo {
		fi, err := os.Stat(filepath.Join(string(s.Dir(id)), p))
		if err != nil {
			t.Fatal(err)
		}
		return fi
	}
	if !os.SameFile(stat(id, "keep/a"), stat(got, "keep/a")) {
		t.Error("equal content was copied")
	}
	if stat(id, "mode").Mode().Perm() != 0o600 || stat(got, "mode").Mode().Perm() != 0o755 {
		t.Error("a change of mode reached the other layer, or did not reach this one")
	}
	same, err := s.Filter(t.Context(), id, func(e image.Entry) (image.Entry, bool) { return e, true })
	if err != nil || same != id {
		t.Errorf("a filter that changes nothing gives %s, %v", same, err)
	}
	if _, err := s.Filter(t.Context(), id, func(e image.Entry) (image.Entry, bool) { e.Path = "../x"; return e, true }); err == nil {
		t.Error("a filter may leave the layer")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Filter(ctx, id, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
