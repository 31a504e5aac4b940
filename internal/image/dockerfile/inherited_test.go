package dockerfile_test

import (
	"bytes"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/egress"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox"
)

// wayOut is a gate that lets builds reach a server of the test.
func wayOut(t *testing.T, rules ...string) *egress.Gate {
	t.Helper()
	parsed, err := egress.ParseRules(rules, true)
	if err != nil {
		t.Fatal(err)
	}
	g := egress.New(egress.Config{Rules: parsed})
	t.Cleanup(func() { g.Close() })
	return g
}

// ADD of a URL goes by the build's way out, trusts the machine's authorities,
// and says what was refused.
func TestAddURL(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "https://elsewhere.example/x", http.StatusFound)
		case "/missing":
			http.NotFound(w, r)
		case "/torn":
			w.Header().Set("Content-Length", "1000000")
			io.WriteString(w, "not all of it")
		default:
			w.Header().Set("Last-Modified", "Sat, 01 Jan 2000 00:00:00 GMT")
			io.WriteString(w, "content of "+r.URL.Path)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // the client that does not trust it
	server.StartTLS()
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t)
	base(t, s)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	build := func(text string, change func(*dockerfile.Options)) (image.Image, error) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM base\n"+text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		o := dockerfile.Options{Store: s, Dir: image.HostPath(dir), Network: sandbox.NetAllowlist, Egress: wayOut(t, "127.0.0.1:"+port), Authorities: roots}
		if change != nil {
			change(&o)
		}
		return dockerfile.Build(t.Context(), o)
	}
	im, err := build("ADD "+server.URL+"/dir/file.txt /to/", nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := v.ReadFile("to/file.txt", 100); err != nil || string(b) != "content of /dir/file.txt" {
		t.Errorf("%q, %v", b, err)
	}
	if e, err := v.Lstat("to/file.txt"); err != nil || e.Mode != 0o600 {
		t.Errorf("%+v, %v", e, err)
	}
	for _, c := range []struct {
		add, want string
		change    func(*dockerfile.Options)
	}{
		{"https://other.example/x /x", "no rule allows other.example at port 443", nil},
		{"http://other.example/x /x", "no rule allows other.example at port 80", nil},
		{server.URL + "/moved /x", "no rule allows elsewhere.example at port 443", nil},
		{server.URL + "/missing /x", "the server answers 404", nil},
		{server.URL + "/torn /x", "unexpected EOF", nil},
		{server.URL + "/x /x", "certificate", func(o *dockerfile.Options) { o.Authorities = nil }},
		{server.URL + "/x /x", "without a network is not supported", func(o *dockerfile.Options) { o.Network = sandbox.NetNone }},
		{"--checksum=sha256:" + strings.Repeat("0", 64) + " " + server.URL + "/x /x", "not sha256:000", nil},
	} {
		if _, err := build("ADD "+c.add, c.change); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ":2: ") {
			t.Errorf("ADD %s: %v, without %q", c.add, err, c.want)
		}
	}
}

// What a backend makes to mount on stays out of the layer, what the command
// wrote there does not.
func TestMountPointsStayOutOfLayers(t *testing.T) {
	for _, c := range []struct{ run, want string }{
		{"put /deep/er/key", ""},
		{"put /deep/er/key\nput /other x", "other"},
		{"put /deep/er/key\nput /deep/file x", "deep deep/file"},
		{"put /deep/er/key filled", "deep deep/er deep/er/key"},
		{"put /srv/new/file", ""},                            // below the link /www
		{"put /srv/new/file\nput /srv/old y", "srv srv/old"}, // next to it
		{"put /elsewhere", "elsewhere"},
	} {
		s := open(t)
		base(t, s)
		dir := t.TempDir()
		text := "FROM base\nRUN --mount=type=secret,id=k,target=/deep/er/key --mount=type=tmpfs,target=/www/new/file <<EOF\n" + c.run + "\nEOF\n"
		if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		im, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: s, Backend: &backend{t: t, store: s}, Dir: image.HostPath(dir),
			Secrets: map[string][]byte{"k": []byte("value")}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, id := range im.Layers[1:] {
			m, err := s.Manifest(id)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range m.Entries {
				if e.Path != "." {
					got = append(got, e.Path)
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q: the layer holds %q, not %q", c.run, got, c.want)
		}
	}
}

// The machine's settings reach each RUN of a real sandbox, by a port of this
// machine too; what the image has of its own stays in sight, and nothing is
// left behind.
func TestInheritedInSandbox(t *testing.T) {
	s, b := sandboxed(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "served %s\n", r.URL.Path) })}
	go server.Serve(l)
	defer server.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	g := wayOut(t, "127.0.0.1:"+port, "named.example:"+port+"@private")
	p, err := s.Private()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for _, name := range []string{"one", "two"} {
		if err := p.Write(name, 0o644, []byte("setting "+name+"\n")); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	fmt.Sscan(port, &n)
	dir := t.TempDir()
	write(t, dir, "mine", "mine\n")
	write(t, dir, "Dockerfile", `FROM host
SHELL ["/bin/bash", "-c"]
COPY mine /own/two
ENV LEVEL=image
RUN cat /dev/assay/one /deep/er/two /own/two; echo "$LEVEL $ONLY"
RUN exec 3<>/dev/tcp/127.0.0.1/`+port+`; printf 'GET /direct HTTP/1.0\r\n\r\n' >&3; cat <&3
RUN exec 3<>/dev/tcp/127.0.0.1/3128; printf 'GET http://named.example:`+port+`/ HTTP/1.0\r\n\r\n' >&3; cat <&3
RUN --mount=type=secret,id=k,target=/var/run/deep/key test -s /var/run/deep/key; echo x > /var/x
RUN --network=none ! (exec 3<>/dev/tcp/127.0.0.1/`+port+`) 2>/dev/null
`)
	mount := func(name, target string) sandbox.Mount {
		return sandbox.Mount{Host: p.Path(name), Target: image.Path(target), ReadOnly: true}
	}
	var out bytes.Buffer
	rec := &dockerfile.Record{}
	o := dockerfile.Options{Store: s, Backend: b, Dir: image.HostPath(dir), Progress: &out, Network: sandbox.NetAllowlist, Egress: g, Record: rec,
		Secrets: map[string][]byte{"k": []byte("value")},
		RunEnv:  []string{"LEVEL=machine", "ONLY=machine"}, RunMounts: []sandbox.Mount{mount("one", "/dev/assay/one"), mount("two", "/deep/er/two"), mount("two", "/own/two")},
		RunRelays: []sandbox.Relay{{Port: n, Handle: toServer(g, n)}}, Inherited: []dockerfile.Inherited{{Kind: "file", Name: "/dev/assay/one", For: "pip"}}}
	im, err := dockerfile.Build(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"setting one\nsetting two\nmine\nimage machine\n", "served /direct\n", "look up named.example"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"deep", "dev/assay", "run/deep"} {
		if _, err := v.Lstat(left); err == nil {
			t.Errorf("%s is in the image", left)
		}
	}
	if len(rec.Inherited) != 1 || rec.Network != "allowlist" {
		t.Errorf("%+v", rec)
	}
	// None of it is in a key.
	o.RunEnv, o.RunMounts, o.RunRelays = nil, nil, nil
	again, err := dockerfile.Build(t.Context(), o)
	if err != nil || again.ID != im.ID {
		t.Errorf("again: %v, %s and %s", err, again.ID, im.ID)
	}
	for _, step := range rec.Steps {
		if step.Key != "" && !step.Cached {
			t.Errorf("not from the cache: %+v", step)
		}
	}
}

// toServer leads a port of the sandbox to this machine's.
func toServer(g *egress.Gate, port int) func(context.Context, net.Conn) {
	return func(ctx context.Context, c net.Conn) {
		t, err := egress.ParseTarget("127.0.0.1", uint16(port))
		if err != nil {
			c.Close()
			return
		}
		out, err := g.Connect(ctx, egress.ViaTCP, t)
		if err != nil {
			c.Close()
			return
		}
		out.Join(ctx, c)
	}
}
