package dockerfile_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

func updating() *bool {
	f := flag.Lookup("update")
	if f == nil {
		return new(bool)
	}
	b := f.Value.(flag.Getter).Get().(bool)
	return &b
}

func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := storeRole(); ok {
		os.Exit(code)
	}
	flag.Bool("update", false, "write the goldens anew")
	flag.Parse()
	os.Exit(m.Run())
}

// base is the image that every Dockerfile of the corpus may name.
func base(t testing.TB, s *image.Store) {
	t.Helper()
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range []struct {
		image.Entry
		text string
	}{
		{image.Entry{Path: "usr/bin", Type: image.TypeDir, Mode: 0o755}, ""},
		{image.Entry{Path: "bin", Type: image.TypeSymlink, Link: "usr/bin"}, ""},
		{image.Entry{Path: "etc/passwd", Type: image.TypeFile, Mode: 0o644}, "root:x:0:0::/root:/bin/sh\nann:x:1000:1001::/home/ann:/bin/sh\n"},
		{image.Entry{Path: "etc/group", Type: image.TypeFile, Mode: 0o644}, "root:x:0:\nstaff:x:50:\n"},
		{image.Entry{Path: "tmp", Type: image.TypeDir, Mode: 0o1777}, ""},
		{image.Entry{Path: "srv/old", Type: image.TypeFile, Mode: 0o600}, "old"},
		{image.Entry{Path: "www", Type: image.TypeSymlink, Link: "/srv"}, ""},
	} {
		if err := w.Add(e.Entry, strings.NewReader(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Put(image.New("base", []image.LayerID{id}, nil, image.Config{
		Env: []string{"PATH=/bin", "LEVEL=base"}, Cmd: []string{"/bin/sh"}, Labels: map[string]string{"from": "base"},
	})); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB) *image.Store {
	t.Helper()
	s, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unpack writes a txtar archive as a build context. "links" lists symbolic
// links ("NAME -> TARGET"), "modes" modes ("NAME 0755"); neither these nor
// "want" and "args" are files.
func unpack(t testing.TB, a *txtar.Archive) (dir, want string, args map[string]string) {
	t.Helper()
	dir = t.TempDir()
	put := func(p string) string {
		p = filepath.Join(dir, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		return p
	}
	args = map[string]string{}
	for _, f := range a.Files {
		for l := range strings.Lines(string(f.Data)) {
			w := append(strings.Fields(l), "", "", "")
			switch f.Name {
			case "args":
				args[w[0]] = w[1]
			case "links":
				if err := os.Symlink(w[2], put(w[0])); err != nil {
					t.Fatal(err)
				}
			}
		}
		switch f.Name {
		case "want":
			want = string(f.Data)
		case "args", "links", "modes":
		default:
			if err := os.WriteFile(put(f.Name), f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, f := range a.Files {
		if f.Name != "modes" {
			continue
		}
		for l := range strings.Lines(string(f.Data)) {
			var name string
			var mode uint32
			if _, err := fmt.Sscanf(l, "%s %o", &name, &mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(filepath.Join(dir, name), os.FileMode(mode)); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir, want, args
}

// describe prints an image: its configuration and what its tree holds beyond
// the base's.
func describe(t testing.TB, s *image.Store, im image.Image) string {
	t.Helper()
	var b strings.Builder
	c := im.Config
	for _, kv := range c.Env {
		fmt.Fprintf(&b, "env %s\n", kv)
	}
	fmt.Fprintf(&b, "workdir %q user %q entrypoint %q cmd %q labels %v\n", c.Workdir, c.User, c.Entrypoint, c.Cmd, c.Labels)
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	below, err := s.Resolve("base")
	if err != nil {
		t.Fatal(err)
	}
	old, err := s.View(below.Layers)
	if err != nil {
		t.Fatal(err)
	}
	var gone []string
	old.Walk(".", func(e image.Entry) error {
		if _, err := v.Lstat(e.Path); err != nil {
			gone = append(gone, e.Path)
		}
		return nil
	})
	v.Walk(".", func(e image.Entry) error {
		was, err := old.Lstat(e.Path)
		if err == nil && cmp.Equal(was, e) {
			return nil
		}
		fmt.Fprintf(&b, "%s %s %04o %d:%d", e.Path, e.Type, e.Mode, e.UID, e.GID)
		if e.Link != "" {
			fmt.Fprintf(&b, " -> %s", e.Link)
		}
		if e.Type == image.TypeFile {
			text, err := v.ReadFile(e.Path, 1<<20)
			if err != nil {
				t.Error(err)
			}
			fmt.Fprintf(&b, " %q", text)
		}
		b.WriteString("\n")
		return nil
	})
	if len(gone) > 0 && len(gone) < 5 {
		fmt.Fprintln(&b, "gone", gone)
	}
	return b.String()
}

func TestBuild(t *testing.T) {
	files, err := filepath.Glob("testdata/build/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir, want, args := unpack(t, a)
			s := open(t)
			base(t, s)
			b := &backend{t: t, store: s}
			o := dockerfile.Options{Store: s, Backend: b, Dir: image.HostPath(dir), Name: "out", BuildArgs: args}
			im, err := dockerfile.Build(t.Context(), o)
			got := ""
			if err != nil {
				got = "error " + strings.ReplaceAll(err.Error(), dir+"/", "") + "\n"
			} else {
				got = describe(t, s, im)
			}
			if *updating() {
				a.Files = slices.DeleteFunc(a.Files, func(f txtar.File) bool { return f.Name == "want" })
				a.Files = append(a.Files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if b.open.Load() != 0 {
				t.Errorf("%d sandboxes are still open", b.open.Load())
			}
			if err != nil {
				return
			}
			// A second time nothing runs, and the image is the same.
			runs := b.runs.Load()
			again, err := dockerfile.Build(t.Context(), o)
			if err != nil || again.ID != im.ID || b.runs.Load() != runs {
				t.Errorf("again: %v, %s and %s, %d runs more", err, im.ID, again.ID, b.runs.Load()-runs)
			}
			o.NoCache = true
			if again, err = dockerfile.Build(t.Context(), o); err != nil || again.ID != im.ID || b.runs.Load() != 2*runs {
				t.Errorf("without cache: %v, %s and %s, %d runs", err, im.ID, again.ID, b.runs.Load())
			}
		})
	}
}

func TestRefused(t *testing.T) {
	files, err := filepath.Glob("testdata/refused/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for i := range a.Files {
			f := &a.Files[i]
			t.Run(f.Name, func(t *testing.T) {
				text, want, _ := strings.Cut(string(f.Data), "#### ")
				dir := t.TempDir()
				if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
				s := open(t)
				base(t, s)
				b := &backend{t: t, store: s}
				_, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: s, Backend: b, Dir: image.HostPath(dir)})
				if err == nil {
					t.Fatal("it was built")
				}
				got := strings.ReplaceAll(err.Error(), dir+"/", "")
				if *updating() {
					f.Data = []byte(text + "#### " + got + "\n")
				} else if got != strings.TrimSpace(want) {
					t.Errorf("got  %s\nwant %s", got, want)
				}
				if b.runs.Load() != 0 {
					t.Error("something was run before the refusal")
				}
			})
		}
		if *updating() {
			if err := os.WriteFile(file, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func write(t testing.TB, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestFailingRun(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM base\n\nRUN <<EOF\necho one\necho two\nexit 3\nEOF\nRUN put /x y\n")
	s := open(t)
	base(t, s)
	var out bytes.Buffer
	b := &backend{t: t, store: s}
	_, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: s, Backend: b, Dir: image.HostPath(dir), Progress: &out})
	var at *dockerfile.Error
	var run *dockerfile.RunError
	if !errors.As(err, &at) || !errors.As(err, &run) || at.Line != 3 || at.Instruction != "RUN" || run.Code != 3 || string(run.Output) != "one\ntwo\n" {
		t.Errorf("%+v, %+v, %v", at, run, err)
	}
	if !strings.Contains(out.String(), "one\ntwo\n") || b.runs.Load() != 1 || b.open.Load() != 0 {
		t.Errorf("runs %d, open %d, progress %q", b.runs.Load(), b.open.Load(), out.String())
	}
}

func TestRunTimeoutAndCancel(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM base\nRUN sleep\n")
	s := open(t)
	base(t, s)
	o := dockerfile.Options{Store: s, Backend: &backend{t: t, store: s}, Dir: image.HostPath(dir), Timeout: 10 * time.Millisecond}
	if _, err := dockerfile.Build(t.Context(), o); err == nil || !strings.Contains(err.Error(), "no end after 10ms") {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	o.Timeout = 0
	if _, err := dockerfile.Build(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
}

func TestMissingBase(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "Dockerfile", "FROM python:3.12\n")
	var missing *image.MissingError
	_, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: open(t), Dir: image.HostPath(dir)})
	if !errors.As(err, &missing) || missing.Ref != "python:3.12" || !strings.Contains(err.Error(), "Dockerfile:1") {
		t.Error(err)
	}
}

// What a step depends on makes another key; what it does not depend on, none.
func TestCacheKeys(t *testing.T) {
	s := open(t)
	base(t, s)
	b := &backend{t: t, store: s}
	dir := t.TempDir()
	build := func(o dockerfile.Options, text string) int {
		t.Helper()
		write(t, dir, "Dockerfile", text)
		was := b.runs.Load()
		o.Store, o.Backend, o.Dir = s, b, image.HostPath(dir)
		if _, err := dockerfile.Build(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		return int(b.runs.Load() - was)
	}
	write(t, dir, "f", "one")
	write(t, dir, "other", "one")
	const text = "FROM base\nARG V=1\nCOPY f /f\nRUN put /x y\n"
	for i, c := range []struct {
		what string
		runs int
		do   func() int
	}{
		{"first", 1, func() int { return build(dockerfile.Options{}, text) }},
		{"same", 0, func() int { return build(dockerfile.Options{}, text) }},
		{"label", 0, func() int { return build(dockerfile.Options{}, strings.Replace(text, "COPY", "LABEL a=b\nCOPY", 1)) }},
		{"comment", 0, func() int { return build(dockerfile.Options{}, "# hello\n"+text) }},
		{"file not copied", 0, func() int { write(t, dir, "other", "two"); return build(dockerfile.Options{}, text) }},
		{"file touched", 0, func() int {
			os.Chtimes(filepath.Join(dir, "f"), time.Unix(1, 0), time.Unix(1, 0))
			return build(dockerfile.Options{}, text)
		}},
		{"argument", 1, func() int { return build(dockerfile.Options{BuildArgs: map[string]string{"V": "2"}}, text) }},
		{"uid mode", 1, func() int { return build(dockerfile.Options{UID: sandbox.UIDSub}, text) }},
		{"environment", 1, func() int { return build(dockerfile.Options{}, strings.Replace(text, "RUN", "ENV A=b\nRUN", 1)) }},
		{"user", 1, func() int { return build(dockerfile.Options{}, strings.Replace(text, "RUN", "USER ann\nRUN", 1)) }},
		{"file", 1, func() int { write(t, dir, "f", "two"); return build(dockerfile.Options{}, text) }},
		{"mode", 1, func() int { os.Chmod(filepath.Join(dir, "f"), 0o755); return build(dockerfile.Options{}, text) }},
		{"command", 1, func() int { return build(dockerfile.Options{}, strings.Replace(text, "put /x y", "put /x z", 1)) }},
	} {
		if got := c.do(); got != c.runs {
			t.Errorf("%d, %s: %d runs, want %d", i, c.what, got, c.runs)
		}
	}
}

// No file of this machine can come into an image by a link in the context.
func TestContextIsHostile(t *testing.T) {
	outside := t.TempDir()
	write(t, outside, "secret", "TOP-SECRET")
	for name, c := range map[string]struct {
		text  string
		make  func(dir string) error
		built bool
	}{
		"link to a file":      {"FROM scratch\nCOPY l /x\n", func(d string) error { return os.Symlink(filepath.Join(outside, "secret"), filepath.Join(d, "l")) }, false},
		"link to a directory": {"FROM scratch\nCOPY l/secret /x\n", func(d string) error { return os.Symlink(outside, filepath.Join(d, "l")) }, false},
		"link up": {"FROM scratch\nCOPY l/secret /x\n", func(d string) error {
			return os.Symlink("../"+filepath.Base(outside), filepath.Join(d, "l"))
		}, false},
		"links in a tree": {"FROM scratch\nCOPY . /x\n", func(d string) error { return os.Symlink(outside, filepath.Join(d, "l")) }, true},
		"wildcard":        {"FROM scratch\nCOPY l/* /x/\n", func(d string) error { return os.Symlink(outside, filepath.Join(d, "l")) }, true},
		"up":              {"FROM scratch\nCOPY ../../../.." + outside + "/secret /x\n", func(string) error { return nil }, false},
		"dockerfile": {"", func(d string) error {
			return os.Symlink(filepath.Join(outside, "secret"), filepath.Join(d, "Dockerfile"))
		}, false},
		"dockerignore": {"FROM scratch\nCOPY . /x\n", func(d string) error {
			return os.Symlink(filepath.Join(outside, "secret"), filepath.Join(d, ".dockerignore"))
		}, false},
		"loop": {"FROM scratch\nCOPY l /x\n", func(d string) error { return os.Symlink("l", filepath.Join(d, "l")) }, false},
		"pipe": {"FROM scratch\nCOPY . /x\n", func(d string) error { return syscall.Mkfifo(filepath.Join(d, "p"), 0o600) }, false},
		"newline": {"FROM scratch\nCOPY . /x\n", func(d string) error {
			return os.WriteFile(filepath.Join(d, "a\nb"), nil, 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if c.text != "" {
				write(t, dir, "Dockerfile", c.text)
			}
			if err := c.make(dir); err != nil {
				t.Fatal(err)
			}
			s := open(t)
			im, err := dockerfile.Build(t.Context(), dockerfile.Options{Store: s, Dir: image.HostPath(dir)})
			if (err == nil) != c.built {
				t.Errorf("built %v, %v", err == nil, err)
			}
			v, err := s.View(im.Layers)
			if err != nil {
				t.Fatal(err)
			}
			v.Walk(".", func(e image.Entry) error {
				if e.Type == image.TypeFile {
					if b, _ := v.ReadFile(e.Path, 1<<20); strings.Contains(string(b), "TOP-SECRET") {
						t.Errorf("%s holds the secret", e.Path)
					}
				}
				return nil
			})
		})
	}
}

func FuzzBuild(f *testing.F) {
	f.Add("FROM base\nCOPY f /f\nRUN put /x y\nWORKDIR /a/../b\nUSER ann:staff\nENV A=$LEVEL B=c\n")
	f.Add("# escape=`\nARG A=scratch\nFROM ${A}\nCOPY <<X <<\"Y\" /d/\n$A\nX\n$A\nY\n")
	f.Add("FROM base\nRUN <<EOF cat\nx\nEOF\nCMD [\"a\", \"b\"]\n")
	f.Add("FROM base AS x\nONBUILD RUN x\n")
	f.Add("FROM base\nRUN []\nRUN [\"\"]\n")
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		a, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range a.Files {
			if strings.HasPrefix(part.Name, "Dockerfile") {
				f.Add(strings.ReplaceAll(string(part.Data), "assay-corpus", "base"))
			}
		}
	}
	if runtime.GOOS != "linux" {
		f.Skip("one file system is enough")
	}
	s := open(f)
	base(f, s)
	dir := f.TempDir()
	write(f, dir, "f", "file")
	f.Fuzz(func(t *testing.T, text string) {
		write(t, dir, "Dockerfile", text)
		b := &backend{t: t, store: s}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := dockerfile.Build(ctx, dockerfile.Options{Store: s, Backend: b, Dir: image.HostPath(dir), Timeout: 10 * time.Millisecond})
		if errors.Is(err, context.DeadlineExceeded) {
			t.Error("too slow")
		}
		var at *dockerfile.Error
		if err != nil && !errors.As(err, &at) {
			t.Errorf("no place in the file: %v", err)
		}
		if b.open.Load() != 0 {
			t.Error("a sandbox is still open")
		}
	})
}
