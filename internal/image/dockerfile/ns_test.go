package dockerfile_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox/ns"
)

// A real build: RUN in a real sandbox, on this machine's own tools.
func TestBuildInSandbox(t *testing.T) {
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
	defer b.Close()
	if _, err := s.Host(t.Context(), image.HostOptions{}); err != nil {
		t.Fatal(err)
	}
	context := t.TempDir()
	write(t, context, "data", "from the context\n")
	write(t, context, "Dockerfile", `FROM host
ARG WHO=nobody
ENV GREETING=hello
WORKDIR /app
COPY data .
RUN echo "$GREETING $WHO" > said && cat data >> said && pwd >> said
RUN <<EOF
set -e
mkdir -p deep/er
ln -s ../said deep/link
chmod 0640 said
rm data
EOF
RUN ["/bin/sh", "-c", "test -z \"$(ls /root)\" && echo streamed"]
RUN true
`)
	var out bytes.Buffer
	opt := dockerfile.Options{Store: s, Backend: b, Dir: image.HostPath(context), Progress: &out, BuildArgs: map[string]string{"WHO": "world"}}
	im, err := dockerfile.Build(t.Context(), opt)
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := v.ReadFile("app/said", 1000); err != nil || string(got) != "hello world\nfrom the context\n/app\n" {
		t.Errorf("%q, %v", got, err)
	}
	if e, err := v.Lstat("app/said"); err != nil || e.Mode != 0o640 || e.UID != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if e, err := v.Lstat("app/deep/link"); err != nil || e.Link != "../said" {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := v.Lstat("app/data"); err == nil {
		t.Error("a removed file is still there")
	}
	if !strings.Contains(out.String(), "streamed\n") {
		t.Errorf("progress: %s", out.String())
	}
	if len(im.Binds) == 0 {
		t.Error("the binds of the base are gone")
	}
	out.Reset()
	again, err := dockerfile.Build(t.Context(), opt)
	if err != nil || again.ID != im.ID || strings.Count(out.String(), "  cached") != 6 {
		t.Errorf("again: %v, %s and %s\n%s", err, im.ID, again.ID, out.String())
	}

	write(t, context, "Dockerfile", "FROM host\nRUN echo before; echo oops >&2; exit 7\n")
	if _, err := dockerfile.Build(t.Context(), opt); err == nil || !strings.Contains(err.Error(), ":2: RUN: exit status 7") || !strings.Contains(err.Error(), "oops") {
		t.Errorf("a failing command: %v", err)
	}
}
