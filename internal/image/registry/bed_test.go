package registry_test

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goreg "github.com/google/go-containerregistry/pkg/registry"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"assay/internal/image"
	"assay/internal/image/registry"
	"assay/internal/remove"
)

// bed is a registry on loopback behind a front that can misbehave, and a store.
type bed struct {
	t     *testing.T
	host  string
	front atomic.Pointer[func(next http.Handler) http.Handler]
	store *image.Store
	conf  registry.Config

	mu    sync.Mutex
	slept []time.Duration // guarded by mu
	asked []string        // guarded by mu; "GET /v2/… range"
}

func newBed(t *testing.T) *bed {
	t.Helper()
	b := &bed{t: t, store: openStore(t, image.Options{Volatile: true})}
	inner := goreg.New(goreg.Logger(log.New(io.Discard, "", 0)))
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		b.asked = append(b.asked, strings.TrimSpace(r.Method+" "+r.URL.Path+" "+r.Header.Get("Range")))
		b.mu.Unlock()
		if f := b.front.Load(); f != nil {
			(*f)(inner).ServeHTTP(w, r)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	b.host = strings.TrimPrefix(srv.URL, "http://")
	b.conf.Sleep = func(ctx context.Context, d time.Duration) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.slept = append(b.slept, d)
		return ctx.Err()
	}
	return b
}

func openStore(t *testing.T, o image.Options) *image.Store {
	t.Helper()
	dir := t.TempDir()
	t.Cleanup(func() { remove.Tree(dir) }) // layers keep their modes
	s, err := image.Open(image.HostPath(dir), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bed) misbehave(f func(next http.Handler) http.Handler) { b.front.Store(&f) }

func (b *bed) client() *registry.Client { return registry.New(b.store, b.conf) }

func (b *bed) ref(s string) string { return b.host + "/" + s }

func (b *bed) pull(ref string) (registry.Pulled, error) {
	return b.client().Pull(b.t.Context(), b.ref(ref), registry.PullOptions{})
}

// count says how many requests began so.
func (b *bed) count(prefix string) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range b.asked {
		if strings.HasPrefix(a, prefix) {
			n++
		}
	}
	return n
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// put writes straight into the registry, past all good manners.
func (b *bed) put(path, media string, body []byte) {
	b.t.Helper()
	url := "http://" + b.host + "/v2/" + path
	method := http.MethodPut
	if strings.HasSuffix(path, "/blobs/uploads/") {
		url, method = url+"?digest="+digestOf(body), http.MethodPost
	}
	req, err := http.NewRequest(method, url, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		text, _ := io.ReadAll(resp.Body)
		b.t.Fatalf("%s %s: %s %s", method, path, resp.Status, text)
	}
}

// blob is a layer as a registry holds it.
type blob struct {
	media string
	body  []byte
	diff  string // digest of the bare tar
}

func layer(t *testing.T, how string, files map[string][]byte) blob {
	t.Helper()
	var bare, out bytes.Buffer
	w := tar.NewWriter(&bare)
	for name, body := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(body)), Mode: 0o644, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		w.Write(body)
	}
	w.Close()
	l := blob{diff: digestOf(bare.Bytes())}
	switch how {
	case "gzip":
		l.media = "application/vnd.docker.image.rootfs.diff.tar.gzip"
		z := gzip.NewWriter(&out)
		z.Write(bare.Bytes())
		z.Close()
	case "zstd":
		l.media = "application/vnd.oci.image.layer.v1.tar+zstd"
		z, _ := zstd.NewWriter(&out)
		z.Write(bare.Bytes())
		z.Close()
	default:
		l.media = "application/vnd.oci.image.layer.v1.tar"
		out = bare
	}
	l.body = out.Bytes()
	return l
}

type descriptor map[string]any

// publish makes an image of layers and returns its manifest's descriptor.
func (b *bed) publish(ref, arch string, layers []blob, change ...func(m map[string]any)) descriptor {
	b.t.Helper()
	repo, tag, _ := strings.Cut(ref, ":")
	diffs, ds := []string{}, []any{}
	for _, l := range layers {
		b.put(repo+"/blobs/uploads/", "application/octet-stream", l.body)
		diffs = append(diffs, l.diff)
		ds = append(ds, map[string]any{"mediaType": l.media, "size": len(l.body), "digest": digestOf(l.body)})
	}
	config, _ := json.Marshal(map[string]any{"os": "linux", "architecture": arch, "config": map[string]any{"Env": []string{"A=" + arch}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs}})
	b.put(repo+"/blobs/uploads/", "application/octet-stream", config)
	media := "application/vnd.docker.distribution.manifest.v2+json"
	m := map[string]any{"schemaVersion": 2, "mediaType": media, "layers": ds, "config": map[string]any{
		"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(config), "digest": digestOf(config)}}
	for _, f := range change {
		f(m)
	}
	raw, _ := json.Marshal(m)
	b.put(repo+"/manifests/"+tag, media, raw)
	return descriptor{"mediaType": media, "size": len(raw), "digest": digestOf(raw),
		"platform": map[string]any{"os": "linux", "architecture": arch}}
}

func noise(n int) []byte {
	r := rand.NewChaCha8([32]byte{1, 2, 3})
	out := make([]byte, n)
	r.Read(out)
	return out
}

func (b *bed) read(im image.Image, p string) string {
	b.t.Helper()
	v, err := b.store.View(im.Layers)
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := v.ReadFile(p, 1<<30)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}
