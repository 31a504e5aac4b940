package registry_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/image"
	"assay/internal/image/registry"
)

// By tag, by digest, from an index, with layers of every packing; what is here
// is not fetched again, and the digests lead to the image.
func TestPull(t *testing.T) {
	b := newBed(t)
	ls := []blob{layer(t, "gzip", map[string][]byte{"usr/a": []byte("one")}), layer(t, "zstd", map[string][]byte{"usr/b": noise(300_000)}),
		layer(t, "bare", map[string][]byte{"usr/a": []byte("two")})}
	here := b.publish("lib/app:here", runtime.GOARCH, ls)
	other := b.publish("lib/app:other", "s390x", ls[:1])
	index, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": []any{
		descriptor{"mediaType": here["mediaType"], "size": here["size"], "digest": other["digest"], "platform": map[string]any{"os": "unknown", "architecture": "unknown"}},
		other, here}})
	b.put("lib/app/manifests/1", "application/vnd.oci.image.index.v1+json", index)

	one, err := b.pull("lib/app:1")
	if err != nil {
		t.Fatal(err)
	}
	if b.read(one.Image, "usr/a") != "two" || b.read(one.Image, "usr/b") != string(noise(300_000)) {
		t.Error("the tree is not the image's")
	}
	if one.Digest != here["digest"] || one.Existing != 0 || one.Fetched != one.Bytes || one.Fetched == 0 {
		t.Errorf("%+v", one)
	}
	want := []string{b.ref("lib/app@") + digestOf(index), b.ref("lib/app@") + here["digest"].(string)}
	if d := cmp.Diff(want, one.Image.Digests); d != "" {
		t.Error(d)
	}
	for _, ref := range append(want, b.ref("lib/app:1"), string(one.Image.ID)) {
		if im, err := b.store.Resolve(ref); err != nil || im.ID != one.Image.ID {
			t.Errorf("resolve %s: %v", ref, err)
		}
	}
	before := b.count("GET /v2/lib/app/blobs/")
	two, err := b.pull("lib/app@" + here["digest"].(string))
	if err != nil || two.Image.ID != one.Image.ID || two.Existing != 3 || two.Fetched != 0 {
		t.Errorf("%+v, %v", two, err)
	}
	if n := b.count("GET /v2/lib/app/blobs/") - before; n != 1 { // the configuration
		t.Errorf("%d blobs fetched again", n)
	}
	if m, err := b.client().Missing(t.Context(), b.ref("lib/app:1"), registry.PullOptions{}); err != nil || m.Bytes != 0 || m.Total != one.Bytes {
		t.Errorf("%+v, %v", m, err)
	}
	alien, err := b.client().Pull(t.Context(), b.ref("lib/app:1"), registry.PullOptions{Platform: "linux/s390x", Name: "alien"})
	if err != nil || alien.Image.Platform != "linux/s390x" || alien.Image.Name != "alien" {
		t.Errorf("%+v, %v", alien, err)
	}
	if _, err := b.client().Pull(t.Context(), b.ref("lib/app:1"), registry.PullOptions{Platform: "linux/mips"}); err == nil || !strings.Contains(err.Error(), "linux/s390x") {
		t.Errorf("a platform that is not there: %v", err)
	}
	b.clean()
}

// clean: nothing is left of transfers and imports.
func (b *bed) clean() {
	b.t.Helper()
	for _, d := range []string{"partial", "tmp"} {
		if left, err := os.ReadDir(filepath.Join(string(b.store.Root()), d)); err != nil || len(left) > 0 {
			b.t.Errorf("%s holds %v, %v", d, left, err)
		}
	}
}

// cut ends each blob's answer after n bytes, as long as left is above zero.
func cut(n int, left *atomic.Int32, ranges bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !ranges {
				r.Header.Del("Range")
			}
			if r.Method != http.MethodGet || !strings.Contains(r.URL.Path, "/blobs/") || left.Load() <= 0 {
				next.ServeHTTP(w, r)
				return
			}
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			if rec.Body.Len() <= n {
				w.WriteHeader(rec.Code)
				w.Write(rec.Body.Bytes())
				return
			}
			left.Add(-1)
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			w.Header().Set("Content-Length", fmt.Sprint(rec.Body.Len()))
			w.WriteHeader(rec.Code)
			w.Write(rec.Body.Bytes()[:n])
			panic(http.ErrAbortHandler)
		})
	}
}

// A connection that is cut again and again: each answer is continued with a
// Range where the last one stopped.
func TestPullIsContinued(t *testing.T) {
	for _, ranges := range []bool{true, false} {
		b := newBed(t)
		b.publish("app:1", runtime.GOARCH, []blob{layer(t, "bare", map[string][]byte{"usr/x": noise(1 << 20)})})
		var left atomic.Int32
		left.Store(3)
		b.misbehave(cut(200_000, &left, ranges))
		got, err := b.pull("app:1")
		if err != nil {
			t.Fatalf("ranges %v: %v", ranges, err)
		}
		if b.read(got.Image, "usr/x") != string(noise(1<<20)) {
			t.Error("wrong content")
		}
		if ranges && (got.Fetched != got.Bytes || b.count("GET /v2/app/blobs/sha256:") != 5) {
			t.Errorf("fetched %d of %d bytes in %d requests: %v", got.Fetched, got.Bytes, b.count("GET /v2/app/blobs/"), b.asked)
		}
		b.clean()
	}
}

// A pull that was given up is continued by the next one, in another process as
// it were; bytes that were damaged on disk meanwhile are noticed.
func TestPullIsContinuedLater(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		b := newBed(t)
		b.publish("app:1", runtime.GOARCH, []blob{layer(t, "bare", map[string][]byte{"usr/x": noise(1 << 20)})})
		var left atomic.Int32
		left.Store(1)
		b.misbehave(cut(300_000, &left, true))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		patient := b.conf.Sleep
		b.conf.Sleep = func(context.Context, time.Duration) error { cancel(); return ctx.Err() }
		if _, err := b.client().Pull(ctx, b.ref("app:1"), registry.PullOptions{}); !errors.Is(err, context.Canceled) {
			t.Fatalf("the first: %v", err)
		}
		if im, err := b.store.List(); err != nil || len(im) > 0 {
			t.Errorf("half an image has a name: %v", im)
		}
		parts, _ := filepath.Glob(filepath.Join(string(b.store.Root()), "partial", "*[0-9a-f]"))
		if len(parts) != 1 {
			t.Fatalf("kept: %v", parts)
		}
		if damaged {
			f, err := os.OpenFile(parts[0], os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			f.WriteAt([]byte("damage"), 1000)
			f.Close()
		}
		b.conf.Sleep = patient
		got, err := b.pull("app:1")
		if err != nil {
			t.Fatal(err)
		}
		if b.read(got.Image, "usr/x") != string(noise(1<<20)) {
			t.Error("wrong content")
		}
		if !damaged && (got.Resumed != 300_000 || got.Fetched != got.Bytes-300_000) {
			t.Errorf("%+v", got)
		}
		if damaged && got.Fetched < got.Bytes {
			t.Errorf("%+v", got)
		}
		b.clean()
	}
}

// Hostile registries are refused by name, and leave nothing behind.
func TestPullRefuses(t *testing.T) {
	good := func(t *testing.T) []blob {
		return []blob{layer(t, "gzip", map[string][]byte{"usr/x": noise(100_000)})}
	}
	first := func(m map[string]any) map[string]any { return m["layers"].([]any)[0].(map[string]any) }
	flip := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			next.ServeHTTP(rec, r)
			body := rec.Body.Bytes()
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/blobs/") && len(body) > 50_000 {
				body[40_000] ^= 1
			}
			w.WriteHeader(rec.Code)
			w.Write(body)
		})
	}
	for name, c := range map[string]struct {
		change func(m map[string]any)
		front  func(http.Handler) http.Handler
		layers func(t *testing.T) []blob
		want   string
	}{
		"corrupted blob":  {front: flip, want: "another digest"},
		"size too small":  {change: func(m map[string]any) { first(m)["size"] = 50 }, want: "more than the 50 bytes"},
		"size too large":  {change: func(m map[string]any) { first(m)["size"] = 200_000_000 }, want: "unexpected EOF"},
		"negative size":   {change: func(m map[string]any) { first(m)["size"] = -1 }, want: "larger than the cap"},
		"size beyond cap": {change: func(m map[string]any) { first(m)["size"] = 1 << 50 }, want: "larger than the cap"},
		"foreign media type": {change: func(m map[string]any) {
			first(m)["mediaType"] = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
		}, want: "foreign layer"},
		"foreign urls": {change: func(m map[string]any) { first(m)["urls"] = []string{"http://169.254.169.254/"} }, want: "foreign layer"},
		"not an image": {change: func(m map[string]any) {
			m["config"].(map[string]any)["mediaType"] = "application/vnd.cncf.helm.config.v1+json"
		}, want: "not an image"},
		"weak digest":   {change: func(m map[string]any) { first(m)["digest"] = "md5:d41d8cd98f00b204e9800998ecf8427e" }, want: ""},
		"layer missing": {change: func(m map[string]any) { m["layers"] = []any{} }, want: "configuration 1"},
		"lying configuration": {layers: func(t *testing.T) []blob {
			l := good(t)[0]
			l.diff = digestOf([]byte("something else"))
			return []blob{l}
		}, want: "the configuration says"},
		"bomb": {layers: func(t *testing.T) []blob {
			return []blob{layer(t, "gzip", map[string][]byte{"usr/zeros": make([]byte, 64<<20)})}
		}, want: "larger than the cap"},
		"escape": {layers: func(t *testing.T) []blob {
			return []blob{layer(t, "gzip", map[string][]byte{"../../etc/passwd": []byte("x")})}
		}, want: `".."`},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			b.store = openStore(t, image.Options{Volatile: true, Caps: image.Caps{Bytes: 4 << 20}})
			ls := good(t)
			if c.layers != nil {
				ls = c.layers(t)
			}
			var change []func(map[string]any)
			if c.change != nil {
				change = append(change, c.change)
			}
			b.publish("app:1", runtime.GOARCH, ls, change...)
			if c.front != nil {
				b.misbehave(c.front)
			}
			_, err := b.pull("app:1")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("want %q, got %v", c.want, err)
			}
			if ims, err := b.store.List(); err != nil || len(ims) > 0 {
				t.Errorf("it has a name: %v, %v", ims, err)
			}
		})
	}
}

func TestSchema1IsRefusedByName(t *testing.T) {
	b := newBed(t)
	b.misbehave(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				w.Header().Set("Content-Type", "application/vnd.docker.distribution.manifest.v1+prettyjws")
				io.WriteString(w, `{"schemaVersion":1,"fsLayers":[]}`)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := b.pull("app:1"); err == nil || !strings.Contains(err.Error(), "schema 1") {
		t.Error(err)
	}
}

// A busy registry says when to come back, and is obeyed up to a limit.
func TestRateLimit(t *testing.T) {
	b := newBed(t)
	b.publish("app:1", runtime.GOARCH, []blob{layer(t, "gzip", map[string][]byte{"usr/x": []byte("x")})})
	var n atomic.Int32
	ask := "7"
	b.misbehave(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1)%3 != 0 {
				w.Header().Set("Retry-After", ask)
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := b.pull("app:1"); err != nil {
		t.Fatal(err)
	}
	if len(b.slept) == 0 {
		t.Error("never waited")
	}
	for _, d := range b.slept {
		if d != 7*time.Second {
			t.Errorf("waited %s, was asked for 7 s", d)
		}
	}
	ask = "86400"
	if _, err := b.pull("app:1"); err == nil || !strings.Contains(err.Error(), "24h0m0s") {
		t.Errorf("a day: %v", err)
	}
}

func TestMirrors(t *testing.T) {
	b, mirror := newBed(t), newBed(t)
	ls := []blob{layer(t, "gzip", map[string][]byte{"usr/x": []byte("x")})}
	b.publish("lib/app:1", runtime.GOARCH, ls)
	mirror.publish("lib/app:1", runtime.GOARCH, ls)
	b.conf.Mirrors = []registry.Mirror{{Registry: "unrelated.example", URL: "https://unrelated.example"}, {Registry: b.host, URL: "http://" + mirror.host}}
	got, err := b.pull("lib/app:1")
	if err != nil || got.Source != mirror.host || b.count("GET") != 0 {
		t.Errorf("%+v, %v, %v", got, err, b.asked)
	}
	// what the mirror lacks or spoils comes from the registry
	b.publish("lib/app:2", runtime.GOARCH, []blob{layer(t, "gzip", map[string][]byte{"usr/y": []byte("y")})})
	if got, err = b.pull("lib/app:2"); err != nil || got.Source != b.host {
		t.Errorf("%+v, %v", got, err)
	}
	b.conf.Mirrors = []registry.Mirror{{Registry: "*", URL: "https://mirror.example/path"}}
	if _, err := b.pull("lib/app:1"); err == nil || !strings.Contains(err.Error(), "without a path") {
		t.Error(err)
	}
}

// Plain HTTP is for loopback, and for nobody that a registry redirects to.
func TestPlainHTTP(t *testing.T) {
	b, other := newBed(t), newBed(t)
	b.publish("app:1", runtime.GOARCH, []blob{layer(t, "gzip", map[string][]byte{"usr/x": []byte("x")})})
	b.misbehave(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				http.Redirect(w, r, "http://"+other.host+r.URL.Path, http.StatusTemporaryRedirect)
				return
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := b.pull("app:1"); !errors.Is(err, registry.ErrPlainHTTP) {
		t.Errorf("redirected: %v", err)
	}
	if len(other.asked) > 0 {
		t.Errorf("it was asked: %v", other.asked)
	}
	b.conf.Transport = refuser{}
	if _, err := b.client().Pull(t.Context(), "10.1.2.3:5000/app:1", registry.PullOptions{}); !errors.Is(err, registry.ErrPlainHTTP) {
		t.Errorf("a private address: %v", err)
	}
}

// refuser stands for a network without TLS.
type refuser struct{}

func (refuser) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme == "https" {
		return nil, errors.New("http: server gave HTTP response to HTTPS client")
	}
	return nil, fmt.Errorf("%s was asked without TLS", r.URL.Host)
}

// What is pushed is what is pulled, into another store, by digest.
func TestPush(t *testing.T) {
	b := newBed(t)
	b.publish("app:1", runtime.GOARCH, []blob{layer(t, "gzip", map[string][]byte{"usr/x": []byte("x"), "usr/y": noise(100_000)}),
		layer(t, "gzip", map[string][]byte{"usr/.wh.x": nil, "usr/z": []byte("z")})})
	one, err := b.pull("app:1")
	if err != nil {
		t.Fatal(err)
	}
	pushed, err := b.client().Push(t.Context(), one.Image, b.ref("copy/app:2"))
	if err != nil {
		t.Fatal(err)
	}
	if im, err := b.store.Resolve(b.ref("copy/app@" + pushed.Digest)); err != nil || im.ID != one.Image.ID {
		t.Errorf("the pushed digest is not known: %v", err)
	}
	again, err := b.client().Push(t.Context(), one.Image, b.ref("copy/app:3"))
	if err != nil || again.Digest != pushed.Digest {
		t.Errorf("pushed twice: %+v, %v", again, err)
	}
	b.store = openStore(t, image.Options{Volatile: true})
	two, err := b.pull("copy/app@" + pushed.Digest)
	if err != nil {
		t.Fatal(err)
	}
	if two.Image.ID != one.Image.ID {
		t.Errorf("%+v is not %+v", two.Image, one.Image)
	}
	if _, err := b.client().Push(t.Context(), one.Image, b.ref("copy/app@"+pushed.Digest)); err == nil {
		t.Error("pushed to a digest")
	}
	b.clean()
}
