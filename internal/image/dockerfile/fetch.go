package dockerfile

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// fetched is the file of a URL. It goes the way of RUN: through the build's
// Egress, which decides and keeps the ledger.
func (x *execution) fetched(ctx context.Context, c transfer, src string) ([]piece, error) {
	u, err := url.Parse(src)
	if err != nil {
		return nil, err
	}
	name := path.Base(u.Path)
	if name == "." || name == "/" {
		name = "__unnamed__"
	}
	if c.checksum != "" && !strings.HasPrefix(c.checksum, "sha256:") {
		return nil, &UnsupportedError{"ADD --checksum=" + c.checksum, "write it as sha256:…"}
	}
	id, ok := image.LayerID(""), false
	key := "fetched " + executor + " " + c.checksum
	if c.checksum != "" && !x.b.o.NoCache {
		id, ok = x.b.o.Store.Cached(key)
	}
	if !ok {
		if id, err = x.b.download(ctx, src); err != nil {
			return nil, fmt.Errorf("%s: %w", u.Redacted(), err)
		}
	}
	v, err := x.b.o.Store.View([]image.LayerID{id})
	if err != nil {
		return nil, err
	}
	t := layers{v, u.Redacted()}
	it, err := t.lstat("file")
	if err != nil {
		return nil, err
	}
	if c.checksum != "" && it.entry.Digest != c.checksum {
		return nil, fmt.Errorf("%s has digest %s, not %s", u.Redacted(), it.entry.Digest, c.checksum)
	}
	if c.checksum != "" && !ok {
		if err := x.b.o.Store.Cache(key, id); err != nil {
			return nil, err
		}
	}
	it.from = "file"
	p := piece{tree: t, base: name, items: []item{it}}
	if c.unpack != nil && *c.unpack {
		p.archive, err = isArchive(t, it)
	}
	return []piece{p}, err
}

// download makes a layer with a URL's content as the file "file".
func (b *build) download(ctx context.Context, src string) (image.LayerID, error) {
	if b.o.Egress == nil || b.o.Network == "" || b.o.Network == sandbox.NetNone {
		return "", &UnsupportedError{"ADD of a URL without a network", "put the file into the build context"}
	}
	resp, err := b.get(ctx, src)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("the server answers %s", resp.Status)
	}
	w, err := b.o.Store.NewLayer(ctx)
	if err != nil {
		return "", err
	}
	defer w.Abort()
	e := image.Entry{Path: "file", Type: image.TypeFile, Mode: 0o600}
	if at, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
		e.ModTime = at
	}
	if err := w.Add(e, ctxReader{ctx, resp.Body}); err != nil { // the store caps its size
		return "", err
	}
	return w.Commit()
}

func (b *build) get(ctx context.Context, src string) (*http.Response, error) {
	client := &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "egress"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go b.o.Egress.Proxy(ctx, there) // ends when the connection does
			return here, nil
		},
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		ResponseHeaderTimeout: time.Minute, DisableKeepAlives: true, DisableCompression: true,
	}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, src, nil)
	if err != nil {
		return nil, err
	}
	return client.Do(req)
}
