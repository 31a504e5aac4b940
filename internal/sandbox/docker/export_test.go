package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"net/url"
	"testing"

	"assay/internal/image"
)

// Owner is the label of what a backend makes.
func Owner(b *Backend) string { return b.owner }

// Pretend makes a backend believe that its engine has a stack of layers.
func Pretend(t testing.TB, b *Backend, ids []image.LayerID) {
	t.Helper()
	var sizes []layerTar
	for _, id := range ids {
		size, err := b.tars.of(layerSource{id, func(w io.Writer) error { return b.conf.Store.ToTar(t.Context(), id, w) }})
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, size)
	}
	b.tars.loaded(ids, sizes)
}

// Left counts what an engine holds of an owner.
func Left(t testing.TB, host, owner string) int {
	t.Helper()
	c, err := newClient(host)
	if err != nil {
		t.Fatal(err)
	}
	all, err := (&Backend{api: c, owner: owner}).owned(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(all.containers) + len(all.images) + len(all.volumes) + len(all.networks)
}

// Make gives an engine a small image, until the test ends.
func Make(t testing.TB, host, tag string) string {
	t.Helper()
	c, err := newClient(host)
	if err != nil {
		t.Fatal(err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	_ = w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "word", Mode: 0o644}) // memory does not fail
	_ = w.Close()
	q := url.Values{"fromSrc": {"-"}, "repo": {tag[:len(tag)-2]}, "tag": {"1"}, "changes": {"ENV WORD=engine", "WORKDIR /here"}}
	r, err := c.do(t.Context(), "POST", "/images/create", q, &layer, "application/x-tar")
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, r)
	r.Close()
	t.Cleanup(func() { _ = c.call(context.Background(), "DELETE", "/images/"+tag, nil, nil, nil) })
	return tag
}
