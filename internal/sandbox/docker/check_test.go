package docker

import (
	"archive/tar"
	"bytes"
	"io"
	"path"
	"strings"
	"testing"
)

func stream(t testing.TB, hs ...tar.Header) *bytes.Buffer {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range hs {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(make([]byte, h.Size)); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	return &b
}

// What a tricked first process sends is refused on this side.
func TestStreamsAreChecked(t *testing.T) {
	for name, h := range map[string]tar.Header{
		"dots":      {Name: "../x", Typeflag: tar.TypeReg},
		"absolute":  {Name: "/x", Typeflag: tar.TypeReg},
		"device":    {Name: "x", Typeflag: tar.TypeChar},
		"hard link": {Name: "x", Typeflag: tar.TypeLink, Linkname: "../../etc/passwd"},
		"too large": {Name: "x", Typeflag: tar.TypeReg, Size: 11},
		"unclean":   {Name: "a//b", Typeflag: tar.TypeReg},
	} {
		if err := check(stream(t, h), io.Discard, 10); err == nil {
			t.Errorf("%s: it was taken", name)
		}
	}
	if err := check(stream(t, tar.Header{Name: "a", Typeflag: tar.TypeReg, Size: 6}, tar.Header{Name: "b", Typeflag: tar.TypeReg, Size: 5}), io.Discard, 10); err == nil {
		t.Error("two files beyond the cap were taken")
	}
	if err := check(stream(t, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Size: 10}), io.Discard, 10); err != nil {
		t.Error(err)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(stream(f, tar.Header{Name: "d/", Typeflag: tar.TypeDir}, tar.Header{Name: "d/f", Typeflag: tar.TypeReg, Size: 3}).Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		var out bytes.Buffer
		if check(bytes.NewReader(b), &out, 1<<20) != nil {
			return
		}
		tr := tar.NewReader(&out)
		for {
			h, err := tr.Next()
			if err == io.EOF {
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if path.IsAbs(h.Name) || strings.HasPrefix(path.Clean(h.Name), "..") {
				t.Fatalf("%q", h.Name)
			}
		}
	})
}
