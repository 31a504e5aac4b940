package dockerfile_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox/ns"
)

// sandboxed gives a store with the pseudo-image "host" and a real backend.
func sandboxed(t *testing.T) (*image.Store, *ns.Backend) {
	t.Helper()
	o := image.Options{Volatile: true}
	if os.Geteuid() == 0 {
		o.Owner = &image.Owner{UID: ns.DefaultRootUID, GID: ns.DefaultRootUID}
	}
	s, err := image.Open(image.HostPath(t.TempDir()), o)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: s, Scratch: image.HostPath(t.TempDir())})
	if err != nil {
		t.Skipf("no sandbox here: %v", err)
	}
	t.Cleanup(func() { b.Close() })
	if _, err := s.Host(t.Context(), image.HostOptions{}); err != nil {
		t.Fatal(err)
	}
	return s, b
}

// Every kind of mount does its work in a real sandbox and leaves nothing in
// the layer.
func TestMountsInSandbox(t *testing.T) {
	s, b := sandboxed(t)
	dir := t.TempDir()
	agent := filepath.Join(t.TempDir(), "agent")
	l, err := net.Listen("unix", agent)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			io.WriteString(c, "from the agent\n")
			c.Close()
		}
	}()
	write(t, dir, "data", "in the context\n")
	write(t, dir, "Dockerfile", `FROM host AS made
RUN mkdir /made && echo stage > /made/file
FROM host
RUN --mount=type=bind,target=/ctx cat /ctx/data > /a && ! touch /ctx/new
RUN --mount=type=bind,target=/ctx,rw touch /ctx/new && ls /ctx > /b
RUN --mount=type=bind,source=data,target=/one cat /one > /c
RUN --mount=type=bind,from=made,source=/made,target=/made cat /made/file > /d
RUN --mount=type=tmpfs,target=/t touch /t/x
RUN --mount=type=tmpfs,target=/t,size=1m df --output=fstype /t | grep -q tmpfs && ! head -c 2000000 /dev/zero > /t/x
RUN ! echo x >> /etc/hosts && grep -q 127.0.0.1 /etc/resolv.conf
RUN --mount=type=secret,id=k,target=/s,mode=0444 --mount=type=secret,id=k,env=KEY cat /s > /dev/null; test ${#KEY} = 9; echo "KEY $KEY"
RUN --mount=type=secret,id=absent test ! -e /run/secrets/absent
RUN --mount=type=cache,target=/cache,sharing=locked echo x >> /cache/n; wc -l < /cache/n > /lines
RUN --mount=type=cache,target=/cache,sharing=locked,ro wc -l < /cache/n > /lines2; ! touch /cache/y
RUN --network=none true
RUN <<EOF
#!/usr/bin/env -S sh -e
echo "$0" > /script
EOF
RUN --mount=type=ssh test -S "$SSH_AUTH_SOCK" && perl -MIO::Socket::UNIX -e 'print readline(IO::Socket::UNIX->new(Peer=>$ENV{SSH_AUTH_SOCK}))' > /ssh
`)
	var out bytes.Buffer
	o := dockerfile.Options{Store: s, Backend: b, Dir: image.HostPath(dir), Progress: &out,
		Secrets: map[string][]byte{"k": []byte("hush-hush")}, SSH: map[string]image.HostPath{"default": image.HostPath(agent)}}
	im, err := dockerfile.Build(t.Context(), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]string{"a": "in the context\n", "b": "Dockerfile\ndata\nnew\n", "c": "in the context\n",
		"d": "stage\n", "lines": "1\n", "lines2": "1\n", "script": "/run/assay-script/EOF\n", "ssh": "from the agent\n"} {
		if got, err := v.ReadFile(p, 1000); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v, want %q", p, got, err, want)
		}
	}
	for _, p := range []string{"ctx", "one", "made", "t", "s", "cache", "run/secrets", "run/buildkit", "run/assay-script"} {
		if _, err := v.Lstat(p); err == nil {
			t.Errorf("%s is left in the image", p)
		}
	}
	if strings.Contains(out.String(), "hush-hush") || !strings.Contains(out.String(), "KEY ****") {
		t.Errorf("the secret is shown, or nothing is:\n%s", out.String())
	}
	// A rebuild runs nothing; another secret is no reason to, another file is.
	o.Record, o.Secrets = &dockerfile.Record{}, map[string][]byte{"k": []byte("another")}
	if _, err := dockerfile.Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, step := range o.Record.Steps {
		if step.Key != "" && !step.Cached {
			t.Errorf("done again: %s", step.Code)
		}
	}
	write(t, dir, "data", "changed\n")
	if _, err := dockerfile.Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	for _, step := range o.Record.Steps {
		if strings.Contains(step.Code, "/ctx/data") && step.Cached {
			t.Error("a bound file has changed, but the step is from the cache")
		}
	}
}

// ADD unpacks, COPY keeps hard links, owners and modes, and unused stages cost
// nothing. No sandbox is needed.
func TestTransfers(t *testing.T) {
	s := open(t)
	base(t, s)
	dir := t.TempDir()
	for _, d := range []string{"src/deep", "src/other"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir, "src/deep/a.txt", "a")
	write(t, dir, "src/deep/b.md", "b")
	write(t, dir, "src/other/c.txt", "c")
	if err := os.Link(filepath.Join(dir, "src/deep/a.txt"), filepath.Join(dir, "src/deep/same")); err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	for _, h := range []tar.Header{{Name: "top/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 5, Gid: 6},
		{Name: "top/f", Typeflag: tar.TypeReg, Mode: 0o4755, Uid: 7, Gid: 8, Size: 1},
		{Name: "top/.wh.f", Typeflag: tar.TypeReg, Mode: 0o644}, {Name: "top/h", Typeflag: tar.TypeLink, Linkname: "top/f"}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			w.Write([]byte("f"))
		}
	}
	w.Close()
	z.Close()
	write(t, dir, "a.tgz", packed.String())
	write(t, dir, "Dockerfile", `FROM base AS one
COPY --chown=ann:staff src/deep /d
FROM base AS unused
RUN exit 1
FROM scratch
COPY --from=one /d/ /kept/
COPY --from=0 --chown=1:2 --chmod=u=rwX,go= /d/ /given/
COPY --parents src/*/*.txt /p/
COPY --parents src/./deep/b.md /q/
COPY --exclude=*.md src/deep /x/
ADD a.tgz /unpacked/
ADD --unpack=false a.tgz /packed/
COPY a.tgz /plain
`)
	im, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: s, Dir: image.HostPath(dir)})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	v.Walk(".", func(e image.Entry) error {
		if e.Path != "." {
			e.ModTime = e.ModTime.UTC()
			got.WriteString(strings.Join([]string{e.Path, string(e.Type), octal(e.Mode), owner(e), e.Hardlink}, " ") + "\n")
		}
		return nil
	})
	want := `given dir 0755 1:2 
given/a.txt file 0600 1:2 
given/b.md file 0600 1:2 
given/same file 0600 1:2 given/a.txt
kept dir 0755 0:0 
kept/a.txt file 0644 1000:50 
kept/b.md file 0644 1000:50 
kept/same file 0644 1000:50 kept/a.txt
p dir 0755 0:0 
p/src dir 0755 0:0 
p/src/deep dir 0755 0:0 
p/src/deep/a.txt file 0644 0:0 
p/src/other dir 0755 0:0 
p/src/other/c.txt file 0644 0:0 
packed dir 0755 0:0 
packed/a.tgz file 0644 0:0 
plain file 0644 0:0 
q dir 0755 0:0 
q/deep dir 0755 0:0 
q/deep/b.md file 0644 0:0 
unpacked dir 0755 0:0 
unpacked/top dir 0700 5:6 
unpacked/top/.wh.f file 0644 0:0 
unpacked/top/f file 4755 7:8 
unpacked/top/h file 4755 7:8 unpacked/top/f
x dir 0755 0:0 
x/a.txt file 0644 0:0 
x/same file 0644 0:0 x/a.txt
`
	if got.String() != want {
		t.Errorf("got:\n%s\nwant:\n%s", got.String(), want)
	}
}

func octal(m uint32) string { return fmt.Sprintf("%04o", m) }

func owner(e image.Entry) string { return fmt.Sprintf("%d:%d", e.UID, e.GID) }
