package registry_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"assay/internal/image/registry"
)

// guard lets in who brings these credentials, as Basic or for a token.
func guard(b *bed, token bool) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, pass, _ := r.BasicAuth()
			known := user == "me" && pass == "secret"
			switch {
			case token && r.URL.Path == "/token" && known:
				fmt.Fprintf(w, `{"token":"t-%s"}`, r.URL.Query().Get("scope"))
			case token && strings.HasPrefix(r.Header.Get("Authorization"), "Bearer t-repository:"), !token && known:
				next.ServeHTTP(w, r)
			case token && r.URL.Path != "/token":
				w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm="http://%s/token",service="s"`, b.host))
				w.WriteHeader(http.StatusUnauthorized)
			default:
				w.Header().Set("WWW-Authenticate", `Basic realm="r"`)
				w.WriteHeader(http.StatusUnauthorized)
			}
		})
	}
}

func TestAuth(t *testing.T) {
	plain := base64.StdEncoding.EncodeToString([]byte("me:secret"))
	helper := func(body string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, "docker-credential-test"), []byte("#!/bin/sh\n"+body), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		config, inline string // HOST stands for the registry
		setup          func(t *testing.T, dir string)
		want           string // of the error; empty: it works
	}{
		"auth":             {config: `{"auths":{"HOST":{"auth":"` + plain + `"}}}`},
		"url as key":       {config: `{"auths":{"http://HOST/v2/":{"username":"me","password":"secret"}}}`},
		"inline":           {inline: `{"auths":{"HOST":{"auth":"` + plain + `"}}}`},
		"inline wins":      {inline: `{"auths":{"HOST":{"auth":"` + plain + `"}}}`, config: `{"auths":{"HOST":{"auth":"eDp5"}}}`},
		"helper":           {config: `{"credHelpers":{"HOST":"test"}}`, setup: helper(`read h; [ "$h" = "$HOST" ] && echo '{"Username":"me","Secret":"secret"}'`)},
		"store":            {config: `{"credsStore":"test"}`, setup: helper(`echo '{"Username":"me","Secret":"secret"}'`)},
		"store is empty":   {config: `{"credsStore":"test","auths":{"HOST":{"auth":"` + plain + `"}}}`, setup: helper(`echo credentials not found in native keychain; exit 1`)},
		"helper hangs":     {config: `{"credsStore":"test"}`, setup: helper(`sleep 1000`), want: "did not answer"},
		"helper breaks":    {config: `{"credsStore":"test"}`, setup: helper(`echo secret-thing; exit 3`), want: "exit status 3"},
		"helper is a path": {config: `{"credsStore":"../evil"}`, want: "no plain name"},
		"no helper":        {config: `{"credsStore":"test"}`, want: "docker-credential-test"},
		"nobody":           {config: `{}`, want: "401"},
		"wrong password":   {config: `{"auths":{"HOST":{"auth":"eDp5"}}}`, want: "401"},
		"not base64":       {config: `{"auths":{"HOST":{"auth":"%%%"}}}`, want: "not base64"},
		"not json":         {config: `{`, want: "config.json"},
		"another host":     {config: `{"auths":{"other.example":{"auth":"` + plain + `"}}}`, want: "401"},
	} {
		for _, token := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " token ", token), func(t *testing.T) {
				t.Parallel()
				b := newBed(t)
				b.publish("app:1", runtime.GOARCH, []blob{layer(t, "gzip", map[string][]byte{"usr/x": []byte("x")})})
				b.misbehave(guard(b, token))
				dir := t.TempDir()
				fill := func(s string) string { return strings.ReplaceAll(s, "HOST", b.host) }
				k := &registry.Keychain{Inline: fill(c.inline), File: filepath.Join(dir, "config.json"), HelperTimeout: 10 * time.Second,
					Env: []string{"PATH=" + dir + ":/usr/bin:/bin", "HOST=" + b.host}}
				if c.want == "did not answer" {
					k.HelperTimeout = 50 * time.Millisecond
				}
				if c.config != "" {
					if err := os.WriteFile(k.File, []byte(fill(c.config)), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if c.setup != nil {
					c.setup(t, dir)
				}
				b.conf.Auth = k
				p, err := b.pull("app:1")
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Fatalf("want %q, got %v", c.want, err)
				}
				if err != nil && strings.Contains(err.Error(), "secret") {
					t.Errorf("the error tells a secret: %v", err)
				}
				if err == nil {
					if _, err := b.client().Push(t.Context(), p.Image, b.ref("copy:1")); err != nil {
						t.Errorf("push: %v", err)
					}
				}
			})
		}
	}
}
