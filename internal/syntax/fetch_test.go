package syntax

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func archive(t *testing.T, name, content string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
		t.Fatal(err)
	}
	w.Write([]byte(content))
	w.Close()
	z.Close()
	return b.Bytes()
}

// What a registry sends counts only when it is what was pinned, and nothing
// else ever reaches the cache.
func TestFetch(t *testing.T) {
	right := archive(t, "package/g.wasm", "grammar")
	digest := sha512.Sum512(right)
	want := artefact{"g", "1.0.0", "sha512-" + base64.StdEncoding.EncodeToString(digest[:]), "package/g.wasm", sum([]byte("grammar"))}
	answer, status, asked := right, http.StatusOK, ""
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path
		w.WriteHeader(status)
		w.Write(answer)
	}))
	defer srv.Close()
	c := Config{Cache: filepath.Join(t.TempDir(), "cache"), Registry: srv.URL + "/npm/", Client: srv.Client()}
	kept := filepath.Join(c.Cache, want.key())

	for name, wrong := range map[string]struct {
		answer []byte
		status int
		say    string
	}{
		"another archive": {archive(t, "package/g.wasm", "Grammar"), 200, "integrity"},
		"nothing":         {nil, 404, "404"},
		"no archive":      {[]byte("<html>"), 200, "integrity"},
	} {
		answer, status = wrong.answer, wrong.status
		if _, err := c.load(t.Context(), want); err == nil || !strings.Contains(err.Error(), wrong.say) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(kept); err == nil {
			t.Errorf("%s reached the cache", name)
		}
	}
	answer, status = right, 200
	if b, err := c.load(t.Context(), want); err != nil || string(b) != "grammar" || asked != "/npm/g/-/g-1.0.0.tgz" {
		t.Fatalf("%q, %v, asked for %s", b, err, asked)
	}
	c.Client = nil
	if _, err := c.load(t.Context(), want); err != nil {
		t.Errorf("offline, out of the cache: %v", err)
	}
	os.WriteFile(kept, []byte("something else"), 0o644)
	if _, err := c.load(t.Context(), want); !errors.Is(err, ErrNoGrammar) {
		t.Errorf("offline, with a changed cache: %v", err)
	}
}

func TestSizes(t *testing.T) {
	for _, b := range [][]byte{nil, {0}, []byte("\x00asm\x01\x00\x00\x00"), []byte("\x00asm\x01\x00\x00\x00\x00\x20\x08dylink.0\x01\xff\xff\xff\xff\xff\xff")} {
		if _, _, _, ok := sizes(b); ok {
			t.Errorf("%q has sizes", b)
		}
	}
}
