package dockerfile

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync"
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
		return "", &UnsupportedError{"ADD of a URL without a network", "put the file into the build context, or give the build a network"}
	}
	resp, end, err := b.get(ctx, src)
	if err != nil {
		return "", err
	}
	defer end()
	defer resp.Body.Close()
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

// get asks for a URL by the build's way out. end must be called when the answer
// was read.
func (b *build) get(ctx context.Context, src string) (resp *http.Response, end func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var served sync.WaitGroup
	t := &http.Transport{
		Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: "egress"}),
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			served.Go(func() { b.o.Egress.Proxy(ctx, there) })
			return here, nil
		},
		OnProxyConnectResponse: refusedByProxy,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: b.o.Authorities},
		ResponseHeaderTimeout:  time.Minute, DisableKeepAlives: true, DisableCompression: true,
	}
	stop := func() { cancel(); t.CloseIdleConnections(); served.Wait() }
	defer func() {
		if err != nil {
			stop()
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, src, nil)
	if err != nil {
		return nil, nil, err
	}
	if resp, err = (&http.Client{Transport: t}).Do(req); err != nil {
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		if err := refusedByProxy(ctx, nil, nil, resp); err != nil && resp.Header.Get(refusedHeader) != "" {
			return nil, nil, err
		}
		return nil, nil, fmt.Errorf("the server answers %s", resp.Status)
	}
	return resp, stop, nil
}

// refusedHeader marks an answer of the egress itself; its text says why.
const refusedHeader = "X-Assay-Egress"

func refusedByProxy(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	why, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)) // what came before an error will do
	if s := strings.TrimSpace(string(why)); s != "" {
		return errors.New(s)
	}
	return errors.New(resp.Status)
}
