package external

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/sandbox"
)

// maker is a store of a test's own, with what Make needs.
func maker(t *testing.T) MakeOptions {
	t.Helper()
	store, b := ground(t)
	return MakeOptions{Store: store, Backend: b, Now: func() time.Time { return time.Unix(1e9, 0) }, Build: func(ctx context.Context, dir string) (image.Image, error) {
		return dockerfile.Build(ctx, dockerfile.Options{Store: store, Backend: b, Dir: image.HostPath(dir), NoCache: true,
			Resolve: func(ctx context.Context, name string) (image.Image, error) {
				if name == image.HostName {
					return store.Host(ctx, image.HostOptions{})
				}
				return store.Resolve(name)
			}})
	}}
}

// nothing is an image without any program or library.
func nothing(t *testing.T, s *image.Store) image.Image {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	if err := errors.Join(w.WriteHeader(&tar.Header{Name: "etc", Typeflag: tar.TypeDir, Mode: 0o755}), w.Close()); err != nil {
		t.Fatal(err)
	}
	id, err := s.FromTar(t.Context(), &b, image.TarOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return image.New("t/nothing:1", []image.LayerID{id}, nil, image.Config{})
}

const snake = `#!/usr/bin/env python3
import bz2, ctypes, hashlib, json, lzma, os, sqlite3, ssl, subprocess, sys, zlib
import beside
outside = [l.split()[5] for l in open("/proc/self/maps") if len(l.split()) > 5 and l.split()[5].startswith("/")]
again = subprocess.run([sys.executable, "-I", "-c", "import os, json; print(json.dumps(dict(os.environ)))"], capture_output=True, text=True, check=True).stdout
print(json.dumps({"exe": os.readlink("/proc/self/exe"), "executable": sys.executable, "path": sys.path, "args": sys.argv[1:],
  "outside": [o for o in outside if not o.startswith("/opt/assay/")], "env": dict(os.environ), "child": json.loads(again),
  "ssl": ssl.OPENSSL_VERSION, "flags": [sys.flags.isolated, sys.flags.no_user_site], "word": beside.word, "cached": beside.__cached__}))
`

// A Python of the layer's own runs where there is no C library, no shell and no
// other file, and the environment of that place means nothing to it and is
// passed on as it was.
func TestPythonWhereThereIsNothing(t *testing.T) {
	o := maker(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "snake.toml")
	for name, text := range map[string]string{file: `
name = "snake"
version = "1.0"
[install]
runtime = "python"
copy = ["snake.py", "lib"]
steps = ["mv lib/beside.py lib/python3.*/site-packages/; bin/python3 -m compileall -q --invalidation-mode unchecked-hash lib/python3.*/site-packages"]
programs = { snake = "snake.py" }
prune = ["py/lib/python3.*/lib2to3"]
[run]
command = ["snake"]
`, dir + "/snake.py": snake, dir + "/lib/beside.py": "word = 'found'\n"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r, err := ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var missing *NotInstalledError
	if _, err := Find(o.Store, r); !errors.As(err, &missing) || !strings.Contains(err.Error(), "assay agent install "+file) {
		t.Errorf("before: %v", err)
	}
	i, err := Make(t.Context(), r, o)
	if err != nil {
		if strings.Contains(err.Error(), "python3 is not in this image") {
			t.Skip("this machine has no Python")
		}
		t.Fatal(err)
	}
	if again, err := Find(o.Store, r); err != nil || again.Record.Layer != i.Record.Layer || i.Record.Place != "/opt/assay/snake" {
		t.Errorf("%+v %v", again.Record, err)
	}
	if i.Record.Libc == "" || i.Record.RuntimeVersion == "" || i.Record.Bytes < 10<<20 || len(i.Record.Missing) > 0 {
		t.Errorf("%+v", i.Record)
	}
	sb := create(t, o.Backend, sandbox.Spec{Image: nothing(t, o.Store), Mounts: []sandbox.Mount{i.Mount()}})
	env := []string{"LD_LIBRARY_PATH=/nowhere", "PYTHONPATH=/nowhere", "PYTHONHOME=/nowhere", "PATH=/bin", "LANG=C", "WORD=yes"}
	res, err := sandbox.Exec(t.Context(), sb, sandbox.Command{Args: []string{"/opt/assay/snake/bin/snake", "a b"}, Env: env},
		sandbox.ExecOptions{Timeout: time.Minute})
	if err != nil || res.Exit.Code != 0 {
		t.Fatalf("%v, exit %d: %s", err, res.Exit.Code, res.Stderr)
	}
	var got struct {
		Exe, Executable, SSL, Word, Cached string
		Path, Args, Outside                []string
		Env, Child                         map[string]string
		Flags                              []int
	}
	if err := json.Unmarshal(res.Stdout, &got); err != nil {
		t.Fatalf("%v: %s", err, res.Stdout)
	}
	if !strings.HasPrefix(got.Exe, "/opt/assay/snake/py/bin/python3.") || got.Executable != "/opt/assay/snake/bin/python3" {
		t.Errorf("%s is %s", got.Executable, got.Exe)
	}
	if len(got.Outside) > 0 || got.Word != "found" || len(got.Args) != 1 || got.Args[0] != "a b" || got.Flags[0] != 1 {
		t.Errorf("%+v", got)
	}
	for _, p := range got.Path {
		if !strings.HasPrefix(p, "/opt/assay/snake/") {
			t.Errorf("sys.path has %s", p)
		}
	}
	for _, e := range env {
		k, v, _ := strings.Cut(e, "=")
		if got.Env[k] != v || got.Child[k] != v {
			t.Errorf("%s is %q, and %q for a child", k, got.Env[k], got.Child[k])
		}
	}
	for k, v := range got.Child {
		if strings.Contains(v, "/opt/assay") || k == "LC_CTYPE" {
			t.Errorf("a child has %s=%s", k, v)
		}
	}
}

// Who installs upon an image that lacks what it takes is told so.
func TestMakeRefuses(t *testing.T) {
	o := maker(t)
	for _, c := range []struct{ text, want string }{
		{strings.Replace(small, `"none"`, "\"python\"\nruntime_version = \"2.7\"", 1), "the recipe wants 2.7; install upon another: --image python:2.7"},
		{strings.Replace(small, `"none"`, "\"none\"\nsteps = [\"exit 3\"]", 1), "exit"},
		{strings.Replace(small, `"none"`, "\"none\"\nprograms = { x = \"a/*\" }\nsteps = [\"mkdir a; touch a/b a/c\"]", 1), `2 files are a/*`},
		{strings.Replace(small, `"none"`, "\"none\"\ncopy = [\"x\"]", 1), "was not read from a file"},
	} {
		if _, err := Make(t.Context(), recipe(t, c.text), o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	left, err := List(o.Store)
	if err != nil || len(left) > 0 {
		t.Errorf("%v %v", left, err)
	}
}
