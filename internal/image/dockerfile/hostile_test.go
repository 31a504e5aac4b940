package dockerfile_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/image/dockerfile"

	"golang.org/x/sys/unix"
)

// A context that wants to hang, fill or break the machine ends in an image or
// in an error that names the path.
func TestContextsThatCost(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		caps image.Caps
		make func(t *testing.T, dir string)
		want string // in the error; empty: it is built
	}{
		"pipe by name": {"FROM scratch\nCOPY p /x\n", image.Caps{}, func(t *testing.T, d string) { try(t, unix.Mkfifo(filepath.Join(d, "p"), 0o600)) }, "p in the build context is a p"},
		"pipe in a tree": {"FROM scratch\nCOPY . /x\n", image.Caps{}, func(t *testing.T, d string) {
			try(t, os.Mkdir(filepath.Join(d, "deep"), 0o755))
			try(t, unix.Mkfifo(filepath.Join(d, "deep/p"), 0o600))
		}, "deep/p in the build context is a p"},
		"pipe as ignore list": {"FROM scratch\nCOPY . /x\n", image.Caps{}, func(t *testing.T, d string) {
			try(t, unix.Mkfifo(filepath.Join(d, ".dockerignore"), 0o600))
		}, ".dockerignore: not a regular file"},
		"pipe that is ignored": {"FROM scratch\nCOPY . /x\n", image.Caps{}, func(t *testing.T, d string) {
			try(t, unix.Mkfifo(filepath.Join(d, "p"), 0o600))
			write(t, d, ".dockerignore", "p\n")
		}, ""},
		"device": {"FROM scratch\nCOPY . /x\n", image.Caps{}, func(t *testing.T, d string) {
			if err := unix.Mknod(filepath.Join(d, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))); err != nil {
				t.Skipf("no device can be made: %v", err)
			}
		}, "null in the build context is a Dc"},
		"giant sparse file": {"FROM scratch\nCOPY . /x\n", image.Caps{Bytes: 1 << 20}, func(t *testing.T, d string) {
			write(t, d, "hole", "")
			try(t, os.Truncate(filepath.Join(d, "hole"), 8<<40))
		}, "hole"},
		"many giant sparse files": {"FROM scratch\nCOPY . /x\n", image.Caps{Bytes: 1 << 20}, func(t *testing.T, d string) {
			for i := range 100 {
				write(t, d, fmt.Sprint(i), "")
				try(t, os.Truncate(filepath.Join(d, fmt.Sprint(i)), 1<<20-1))
			}
		}, "cap"},
		"giant file in a bind": {"FROM base\nRUN --mount=target=/x true\n", image.Caps{Bytes: 1 << 20}, func(t *testing.T, d string) {
			write(t, d, "hole", "")
			try(t, os.Truncate(filepath.Join(d, "hole"), 8<<40))
		}, "hole"},
		"more files than a layer may hold": {"FROM scratch\nCOPY . /x\n", image.Caps{Entries: 1000}, func(t *testing.T, d string) {
			for i := range 1001 {
				write(t, d, fmt.Sprint(i), "")
			}
		}, "cap"},
		"names": {"FROM scratch\nCOPY . /x\n", image.Caps{}, func(t *testing.T, d string) {
			for _, n := range []string{"new\nline", "\xff\xfe", "\x1b[2J", "a\\b", "*", "?", "[", " ", "-rf", ".wh.x", ".wh..wh..opq", strings.Repeat("n", 255)} {
				write(t, d, n, "x")
			}
		}, ""},
		"whiteout as a name in the source": {"FROM scratch\nCOPY .wh.f /d/\n", image.Caps{}, func(t *testing.T, d string) { write(t, d, ".wh.f", "x") }, ""},
		"deep": {"FROM scratch\nCOPY . /x\n", image.Caps{Depth: 50}, func(t *testing.T, d string) {
			try(t, os.MkdirAll(filepath.Join(d, strings.Repeat("d/", 100)), 0o755))
		}, "levels deep"},
		"long Dockerfile":     {"FROM scratch\n" + strings.Repeat("# x\n", 300_000), image.Caps{}, nil, "Dockerfile"},
		"many stages":         {strings.Repeat("FROM scratch\nWORKDIR /x\n", 5000), image.Caps{}, nil, ""},
		"stages upon stages":  {"FROM scratch AS s0\n" + chain(1000), image.Caps{}, nil, ""},
		"variables that grow": {"FROM scratch\nENV A=0123456789\n" + grow(12), image.Caps{}, nil, "bytes in a word"},
		"a stage of itself":   {"FROM a AS a\n", image.Caps{}, nil, "Dockerfile:1"},
		"takes from itself":   {"FROM scratch AS a\nCOPY --from=a /x /y\n", image.Caps{}, nil, "must stand above"},
		"wildcards of a quiz": {"FROM scratch\nCOPY " + strings.Repeat("*", 60) + "b /x/\n", image.Caps{}, func(t *testing.T, d string) { write(t, d, strings.Repeat("a", 255), "") }, ""},
		"ignore list of a quiz": {"FROM scratch\nCOPY . /x/\n", image.Caps{}, func(t *testing.T, d string) {
			write(t, d, strings.Repeat("a", 255), "")
			write(t, d, ".dockerignore", strings.Repeat("**/", 30)+strings.Repeat("*a", 30)+"b\n")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "Dockerfile", c.text)
			if c.make != nil {
				c.make(t, dir)
			}
			s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true, Caps: c.caps})
			if err != nil {
				t.Fatal(err)
			}
			if c.caps == (image.Caps{}) || strings.Contains(c.text, "FROM base") {
				base(t, s)
			}
			// The deadline is the test's way to end, not a measure.
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = dockerfile.Build(ctx, dockerfile.Options{Store: s, Backend: &backend{t: t, store: s}, Dir: image.HostPath(dir)})
			switch {
			case errors.Is(err, context.DeadlineExceeded):
				t.Error("no end")
			case c.want == "" && err != nil:
				t.Error(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("%v, without %q", err, c.want)
			}
		})
	}
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func chain(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "FROM s%d AS s%d\nENV A%d=%d\n", i, i+1, i, i)
	}
	return b.String()
}

func grow(n int) string {
	return strings.Repeat("ENV A=$A$A$A$A$A$A$A$A$A$A\n", n)
}

// Many small files go in, once, and from the cache after that: 100,000 where
// the whole corpus is built.
func TestManyFiles(t *testing.T) {
	dirs := 2
	if os.Getenv("ASSAY_CORPUS") == "all" {
		dirs = 100
	}
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM scratch\nCOPY files /files\n")
	for d := range dirs {
		sub := filepath.Join(dir, "files", fmt.Sprint(d))
		try(t, os.MkdirAll(sub, 0o755))
		for f := range 1000 {
			write(t, sub, fmt.Sprint(f), "x")
		}
	}
	s := open(t)
	o := dockerfile.Options{Store: s, Dir: image.HostPath(dir), Record: &dockerfile.Record{}}
	im, err := dockerfile.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	v.Walk(".", func(e image.Entry) error { n++; return nil })
	if n != 1001*dirs+2 {
		t.Errorf("%d names", n)
	}
	if again, err := dockerfile.Build(t.Context(), o); err != nil || again.ID != im.ID || !o.Record.Steps[0].Cached {
		t.Errorf("again: %v, %+v", err, o.Record.Steps)
	}
}

// A base that stands in does so for what the target stands upon, and for
// nothing else.
func TestBase(t *testing.T) {
	s := open(t)
	base(t, s)
	other, err := s.Resolve("base")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "mark", "stands in")
	write(t, dir, "Dockerfile", "FROM base\nCOPY mark /mark\n")
	mine, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: s, Dir: image.HostPath(dir)})
	if err != nil {
		t.Fatal(err)
	}
	other.Name = "tools:1"
	try(t, s.Put(other))
	write(t, dir, "Dockerfile", `FROM tools:1 AS build
RUN put /out made
FROM python:3 AS common
WORKDIR /w
FROM common
COPY --from=build /out /out
COPY --from=tools:1 /srv/old /old
`)
	o := dockerfile.Options{Store: s, Backend: &backend{t: t, store: s}, Dir: image.HostPath(dir), Base: mine}
	im, err := dockerfile.Build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(t, s, im); !strings.Contains(got, `mark file 0644 0:0 "stands in"`) || !strings.Contains(got, `out file 0644 0:0 "made"`) {
		t.Error(got)
	}
	o.Target = "build"
	if im, err = dockerfile.Build(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got := describe(t, s, im); !strings.Contains(got, `"stands in"`) {
		t.Error(got)
	}
	o.Base = image.Image{}
	o.Target = ""
	var missing *image.MissingError
	if _, err := dockerfile.Build(t.Context(), o); !errors.As(err, &missing) || missing.Ref != "python:3" {
		t.Error(err)
	}
}
