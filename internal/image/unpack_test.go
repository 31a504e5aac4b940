package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"testing"
	"time"
)

// An archive whose first entry has a PAX header before it is one, too.
func TestArchiveBeginsWithPAX(t *testing.T) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	h := &tar.Header{Name: "app/", Typeflag: tar.TypeDir, Mode: 0o755, ModTime: time.Unix(1, 5), Format: tar.FormatPAX}
	if err := w.WriteHeader(h); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	r, ok, err := Archive(&b)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	defer r.Close()
	all, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	got, err := tar.NewReader(bytes.NewReader(all)).Next()
	if err != nil || got.Name != "app/" {
		t.Errorf("%+v, %v", got, err)
	}
}
