package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/mirrors"
)

// A machine whose apt uses a company's mirror, behind TLS, a login and a
// proxy: apt in an image that knows the public archive alone installs from the
// mirror, and sees nothing of all that.
func aptMirror(t *testing.T, store string) {
	c := &company{served: map[string]int{}, files: aptRepository(t)}
	c.serve(t)
	root := scratch(t)
	for name, text := range map[string]string{
		"etc/apt/sources.list":      "deb https://" + companyName + "/apt/corp-debian bookworm main\n",
		"etc/apt/auth.conf":         "machine " + companyName + "/apt/ login dev password hunter2apt\n",
		"etc/apt/apt.conf.d/90corp": "Acquire::https::CaInfo \"/etc/corp.pem\";\nAcquire::http::Proxy \"" + c.proxy(t) + "\";\n",
		"etc/corp.pem":              string(c.ca),
	} {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	dir := scratch(t)
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(`FROM debian:bookworm
RUN echo 'deb [trusted=yes] http://deb.debian.org/debian bookworm main' > /etc/apt/sources.list && apt-get update && apt-get install -y corp-probe && cat /opt/corp-probe
`), 0o644); err != nil {
		t.Fatal(err)
	}
	a := &app{World: World{Stdout: io.Discard, Stderr: io.Discard, Env: os.LookupEnv}}
	r, err := a.open(&boundCtx{context.Background()}, &grammar{Store: store})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, inherit := range []bool{true, false} {
		b := &builder{r: r, inherit: inherit, say: t.Logf, host: mirrors.Host{Root: root, Env: func(string) (string, bool) { return "", false }}}
		var out bytes.Buffer
		rec := &dockerfile.Record{}
		_, err := b.build(t.Context(), dockerfile.Options{Dir: image.HostPath(dir), Progress: &out, Record: rec, NoCache: true})
		if !inherit { // the login is for those who inherit
			if err == nil || !strings.Contains(out.String(), "401") {
				t.Errorf("without its login: %v\n%s", err, &out)
			}
			continue
		}
		if err != nil || !strings.Contains(out.String(), "from the company\n") {
			t.Fatalf("%v\n%s", err, &out)
		}
		if len(rec.Reached) != 1 || rec.Reached[0].Host != companyName || rec.Reached[0].Connections < 3 {
			t.Errorf("reached %+v", rec.Reached)
		}
		if s := fmt.Sprint(rec); strings.Contains(s, "hunter2") || strings.Contains(out.String(), "hunter2") {
			t.Errorf("a credential in the record or the progress: %s", s)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.served["apt"] < 3 || c.served["proxy"] == 0 {
		t.Errorf("served %v", c.served)
	}
}

// aptRepository is an archive with one package, complete but for a signature.
func aptRepository(t *testing.T) map[string][]byte {
	t.Helper()
	arch := runtime.GOARCH
	control := "Package: corp-probe\nVersion: 1.0\nArchitecture: all\nMaintainer: dev <dev@corp.example>\nDescription: a probe\n"
	deb := ar(map[string][]byte{"debian-binary": []byte("2.0\n"), "control.tar.gz": debTar(t, "./control", control),
		"data.tar.gz": debTar(t, "./opt/corp-probe", "from the company\n")}, "debian-binary", "control.tar.gz", "data.tar.gz")
	index := fmt.Sprintf("%sFilename: pool/corp-probe_1.0_all.deb\nSize: %d\nSHA256: %x\n\n", control, len(deb), sha256.Sum256(deb))
	name := "main/binary-" + arch + "/Packages"
	release := fmt.Sprintf("Suite: bookworm\nCodename: bookworm\nArchitectures: %s\nComponents: main\nDate: Sat, 01 Jun 2024 00:00:00 UTC\nSHA256:\n %x %d %s\n",
		arch, sha256.Sum256([]byte(index)), len(index), name)
	const at = "/apt/corp-debian/"
	return map[string][]byte{at + "dists/bookworm/Release": []byte(release), at + "dists/bookworm/" + name: []byte(index),
		at + "pool/corp-probe_1.0_all.deb": deb}
}

// ar is the archive format of deb(5).
func ar(files map[string][]byte, order ...string) []byte {
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, name := range order {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o100644, len(files[name]))
		b.Write(files[name])
		if len(files[name])%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

func debTar(t *testing.T, name, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for i, c := range name {
		if c == '/' && i > 1 {
			if err := w.WriteHeader(&tar.Header{Name: name[:i+1], Typeflag: tar.TypeDir, Mode: 0o755}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(w, text)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
