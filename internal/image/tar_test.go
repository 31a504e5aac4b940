package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/image"

	"github.com/google/go-cmp/cmp"
)

// archive writes headers, each with its Name as content where it is a file.
func archive(t testing.TB, hs ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range hs {
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
		}
		if h.Mode == 0 {
			h.Mode = 0o644
		}
		body := ""
		if h.Typeflag == tar.TypeReg {
			body = h.Name
			h.Size = int64(len(body))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestFromTar(t *testing.T) {
	low := tree{link("lib", "usr/lib"), dir("usr/lib", 0o755), file("usr/lib/old", 0o600, "old"), dir("var/x", 0o700),
		link("loop", "loop")}
	for name, c := range map[string]struct {
		in   []tar.Header
		want string // the layer's lines, or what the error says after "!"
	}{
		"absolute":  {[]tar.Header{{Name: "/etc/passwd"}}, "etc dir 0755 0:0\netc/passwd file 0644 0:0 11\n"},
		"dots":      {[]tar.Header{{Name: "./a/./b"}}, "a dir 0755 0:0\na/b file 0644 0:0 7\n"},
		"up":        {[]tar.Header{{Name: "../x"}}, `!holds ".."`},
		"up inside": {[]tar.Header{{Name: "a/../../../x"}}, `!holds ".."`},
		"link then write through": {[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, {Name: "a/passwd"}},
			"a symlink 0000 0:0 -> /etc\netc dir 0755 0:0\netc/passwd file 0644 0:0 8\n"},
		"link up then write through": {[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "../../.."}, {Name: "a/x"}},
			"a symlink 0000 0:0 -> ../../..\nx file 0644 0:0 3\n"},
		"through a link below": {[]tar.Header{{Name: "lib/new"}}, "usr dir 0755 0:0\nusr/lib dir 0755 0:0\nusr/lib/new file 0644 0:0 7\n"},
		"cycle": {[]tar.Header{{Name: "a", Typeflag: tar.TypeSymlink, Linkname: "b"}, {Name: "b", Typeflag: tar.TypeSymlink, Linkname: "a"},
			{Name: "a/x"}}, "!too many levels"},
		"cycle below":            {[]tar.Header{{Name: "loop/x"}}, "!too many levels"},
		"hard link outside":      {[]tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"}}, `!holds ".."`},
		"hard link to the host":  {[]tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "/etc/passwd"}}, "!not a file of this layer"},
		"hard link to directory": {[]tar.Header{{Name: "d", Typeflag: tar.TypeDir}, {Name: "a", Typeflag: tar.TypeLink, Linkname: "d"}}, "!not a file of this layer"},
		"hard link below":        {[]tar.Header{{Name: "a", Typeflag: tar.TypeLink, Linkname: "lib/old"}}, "a file 0600 0:0 3\nusr dir 0755 0:0\nusr/lib dir 0755 0:0\nusr/lib/old file 0600 0:0 == a 3\n"},
		"hard link":              {[]tar.Header{{Name: "b", Mode: 0o4711}, {Name: "a", Typeflag: tar.TypeLink, Linkname: "./b"}}, "a file 4711 0:0 1\nb file 4711 0:0 == a 1\n"},
		"hard link to itself":    {[]tar.Header{{Name: "b"}, {Name: "b", Typeflag: tar.TypeLink, Linkname: "b"}}, "b file 0644 0:0 1\n"},
		"hard link to a link": {[]tar.Header{{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "/etc/shadow"}, {Name: "m", Typeflag: tar.TypeLink, Linkname: "l"}},
			"l symlink 0000 0:0 -> /etc/shadow\nm symlink 0000 0:0 -> /etc/shadow == l\n"},
		"devices": {[]tar.Header{{Name: "c", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3, Mode: 0o666}, {Name: "w", Typeflag: tar.TypeChar}},
			"c char 0666 0:0\nw char 0644 0:0\n"},
		"twice":            {[]tar.Header{{Name: "a"}, {Name: "a", Mode: 0o600}}, "a file 0600 0:0 1\n"},
		"file then dir":    {[]tar.Header{{Name: "a"}, {Name: "a", Typeflag: tar.TypeDir, Mode: 0o700}, {Name: "a/b"}}, "a dir 0700 0:0\na/b file 0644 0:0 3\n"},
		"dir then file":    {[]tar.Header{{Name: "a/b"}, {Name: "a"}}, "a file 0644 0:0 1\n"},
		"below a file":     {[]tar.Header{{Name: "a"}, {Name: "a/b"}}, "!not a directory"},
		"whiteout":         {[]tar.Header{{Name: "usr/lib/.wh.old"}}, "usr dir 0755 0:0\nusr/lib dir 0755 0:0\nusr/lib/old whiteout 0000 0:0\n"},
		"whiteout, then":   {[]tar.Header{{Name: ".wh.var"}, {Name: "var", Typeflag: tar.TypeDir, Mode: 0o711}}, "var dir 0711 0:0 opaque\n"},
		"then whiteout":    {[]tar.Header{{Name: "var", Typeflag: tar.TypeDir, Mode: 0o711}, {Name: ".wh.var"}}, "var dir 0711 0:0 opaque\n"},
		"file, whiteout":   {[]tar.Header{{Name: "var"}, {Name: ".wh.var"}}, "var file 0644 0:0 3\n"},
		"opaque":           {[]tar.Header{{Name: "var/x/.wh..wh..opq"}}, "var dir 0755 0:0\nvar/x dir 0700 0:0 opaque\n"},
		"opaque, then":     {[]tar.Header{{Name: "var/.wh..wh..opq"}, {Name: "var", Typeflag: tar.TypeDir, Mode: 0o711}}, "var dir 0711 0:0 opaque\n"},
		"aufs":             {[]tar.Header{{Name: ".wh..wh.plnk", Typeflag: tar.TypeDir}}, ""},
		"whiteout nothing": {[]tar.Header{{Name: ".wh."}}, "!hides no name"},
		"whiteout up":      {[]tar.Header{{Name: "a/.wh..."}}, "!hides no name"},
		"overlay attribute": {[]tar.Header{{Name: "d", Typeflag: tar.TypeDir, Mode: 0o755, PAXRecords: map[string]string{
			"SCHILY.xattr.user.overlay.redirect": "/", "SCHILY.xattr.user.k": "v"}}}, "d dir 0755 0:0\n"},
		"root mode": {[]tar.Header{{Name: "./", Typeflag: tar.TypeDir, Mode: 0o700}}, "."},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t)
			below := low.commit(t, s)
			id, err := s.FromTar(t.Context(), bytes.NewReader(archive(t, c.in...)), image.TarOptions{Below: []image.LayerID{below}})
			if msg, bad := strings.CutPrefix(c.want, "!"); bad {
				if err == nil || !strings.Contains(err.Error(), msg) {
					t.Errorf("error %v, want %q", err, msg)
				}
				if left, _ := os.ReadDir(filepath.Join(string(s.Root()), "tmp")); len(left) > 0 {
					t.Errorf("tmp holds %v", left)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := ". dir 0755 0:0\n" + c.want
			if c.want == "." {
				want = ". dir 0700 0:0\n"
			}
			if d := cmp.Diff(want, lines(t, s, id)); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestHostileSizes(t *testing.T) {
	sparse := func() io.Reader { // a file of 1 TiB, of which the archive holds a few bytes
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: "big", Size: 1 << 40, Mode: 0o644, Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	many := func() io.Reader {
		hs := make([]tar.Header, 2000)
		for i := range hs {
			hs[i] = tar.Header{Name: strings.Repeat("d/", i%100) + "x" + strings.Repeat("y", i/100), Typeflag: tar.TypeDir}
		}
		return bytes.NewReader(archive(t, hs...))
	}
	churn := func() io.Reader { // replaces one big directory again and again
		var hs []tar.Header
		for range 300 {
			hs = append(hs, tar.Header{Name: "d", Typeflag: tar.TypeDir}, tar.Header{Name: "d/x"}, tar.Header{Name: "d"})
		}
		return bytes.NewReader(archive(t, hs...))
	}
	for name, c := range map[string]struct {
		in   io.Reader
		caps image.Caps
		want error
	}{
		"huge":    {sparse(), image.Caps{}, image.ErrCap},
		"entries": {many(), image.Caps{Entries: 1000}, image.ErrCap},
		"depth":   {bytes.NewReader(archive(t, tar.Header{Name: strings.Repeat("d/", 50) + "x"})), image.Caps{Depth: 10}, image.ErrCap},
		"path":    {bytes.NewReader(archive(t, tar.Header{Name: strings.Repeat("ddddddddd/", 50) + "x"})), image.Caps{Path: 100}, image.ErrCap},
		"content": {bytes.NewReader(archive(t, tar.Header{Name: "0123456789"}, tar.Header{Name: "012345678"})), image.Caps{Bytes: 15}, image.ErrCap},
		"zeros":   {io.LimitReader(zeros{}, 1<<30), image.Caps{Bytes: 1 << 20, Entries: 10}, image.ErrCap},
		"torn":    {bytes.NewReader(archive(t, tar.Header{Name: "a"})[:512]), image.Caps{}, io.ErrUnexpectedEOF},
		"churn":   {churn(), image.Caps{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true, Caps: c.caps})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if _, err := s.FromTar(t.Context(), c.in, image.TarOptions{}); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if d := time.Since(start); d > 5*time.Second {
				t.Errorf("took %v", d)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }

func TestFromTarStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	r, w := io.Pipe()
	go func() {
		<-ctx.Done()
		w.Write(make([]byte, 512))
		w.Close()
	}()
	if _, err := open(t).FromTar(ctx, r, image.TarOptions{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestSparseFilesStaySparse(t *testing.T) {
	s := open(t)
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	const size = 64 << 20
	if err := w.Add(image.Entry{Path: "z", Type: image.TypeFile, Mode: 0o600}, io.LimitReader(zeros{}, size)); err != nil {
		t.Fatal(err)
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(string(s.Dir(id)), "z"))
	if err != nil || fi.Size() != size {
		t.Fatalf("%v, %v", fi, err)
	}
	if n := blocks(fi); n > 100 {
		t.Errorf("64 MiB of zeros use %d blocks", n)
	}
}

func TestTarRoundTrip(t *testing.T) {
	s := open(t)
	tr := tree{
		dir(".", 0o711), dir("usr", 0o755), file("usr/b", 0o4755, "set uid"),
		entry(image.Entry{Path: "usr/a", Type: image.TypeFile, Hardlink: "usr/b"}),
		entry(image.Entry{Path: "x", Type: image.TypeFile, Mode: 0o640, UID: 33, GID: 2000000, Xattrs: map[string]string{
			"user.k": "v\x00\xff", "security.capability": "\x01\x00"}}),
		link("l", "/nowhere/\xff"), whiteout("gone/x"), file("caf\xe9", 0, "latin-1"),
		entry(image.Entry{Path: "o", Type: image.TypeDir, Mode: 0o555, Opaque: true}), file("o/p", 0o444, "p"),
		entry(image.Entry{Path: "d", Type: image.TypeChar, Mode: 0o600, Major: 4, Minor: 64}),
		entry(image.Entry{Path: "f", Type: image.TypeFIFO, Mode: 0o600}),
	}
	one := tr.commit(t, s)
	var b bytes.Buffer
	if err := s.ToTar(t.Context(), one, &b); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for r := tar.NewReader(bytes.NewReader(b.Bytes())); ; {
		h, err := r.Next()
		if err != nil {
			break
		}
		names[h.Name] = true
	}
	for _, n := range []string{"gone/.wh.x", "o/.wh..wh..opq", "usr/"} {
		if !names[n] {
			t.Errorf("the archive lacks %s: %v", n, names)
		}
	}
	two, err := s.FromTar(t.Context(), &b, image.TarOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if one != two {
		t.Error(cmp.Diff(lines(t, s, one), lines(t, s, two)))
	}
}

func TestToTarRefusesNamesThatMeanSomethingElse(t *testing.T) {
	s := open(t)
	id := tree{file(".wh.x", 0o644, "")}.commit(t, s)
	if err := s.ToTar(t.Context(), id, io.Discard); err == nil || !strings.Contains(err.Error(), ".wh.x") {
		t.Errorf("error %v", err)
	}
	if err := s.ToTar(t.Context(), "sha256:"+image.LayerID(strings.Repeat("0", 64)), io.Discard); !errors.Is(err, image.ErrNoLayer) {
		t.Errorf("error %v", err)
	}
}

func FuzzFromTar(f *testing.F) {
	f.Add(archive(f, tar.Header{Name: "a/b"}, tar.Header{Name: "a/.wh.c"}, tar.Header{Name: "l", Typeflag: tar.TypeSymlink, Linkname: "../a"}, tar.Header{Name: "l/x"}))
	f.Add(archive(f, tar.Header{Name: "h", Typeflag: tar.TypeChar}, tar.Header{Name: "./", Typeflag: tar.TypeDir}, tar.Header{Name: "k", Typeflag: tar.TypeLink, Linkname: "h"}))
	outside := f.TempDir()
	s, err := image.Open(image.HostPath(filepath.Join(outside, "store")), image.Options{Volatile: true, Caps: image.Caps{Entries: 100, Bytes: 1 << 20}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, err := s.FromTar(t.Context(), bytes.NewReader(b), image.TarOptions{})
		if err != nil {
			return
		}
		m, err := s.Manifest(id)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := image.DecodeManifest(bytes.NewReader(m.Encode())); err != nil || again.ID() != id {
			t.Fatalf("manifest does not read back: %v", err)
		}
		if all, err := os.ReadDir(outside); err != nil || len(all) != 1 {
			t.Fatalf("outside the store lies %v, %v", all, err)
		}
		err = filepath.WalkDir(string(s.Dir(id)), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type()&fs.ModeCharDevice != 0 {
				rel, _ := filepath.Rel(string(s.Dir(id)), p)
				v, _ := s.View([]image.LayerID{id})
				if _, err := v.Lstat(rel); err == nil {
					t.Errorf("%s is a device on disk and no whiteout", rel)
				}
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}
