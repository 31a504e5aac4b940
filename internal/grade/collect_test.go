package grade

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
)

// streams is a place whose trees are tar streams of the test's, hostile ones
// above all, and in which every program ends with status 1.
type streams map[string][]*tar.Header

func (s streams) Start(context.Context, sandbox.Command) (sandbox.Process, error) {
	return nil, sandbox.ErrNotStarted
}

func (s streams) Put(context.Context, image.Path, io.Reader) error { return errors.New("not here") }

func (s streams) Get(_ context.Context, src image.Path, w io.Writer, limit int64) error {
	all, ok := s[string(src)]
	if !ok {
		return &fs.PathError{Op: "get", Path: string(src), Err: fs.ErrNotExist}
	}
	tw := tar.NewWriter(w)
	for _, h := range all {
		if h == nil {
			return sandbox.ErrTooLarge
		}
		g := *h
		g.Size = int64(len(h.Uname)) // the content stands in a field of no meaning here
		g.Uname = ""
		if g.Typeflag != tar.TypeReg {
			g.Size = 0
		}
		if err := tw.WriteHeader(&g); err != nil {
			return err
		}
		if g.Size > 0 {
			if _, err := io.WriteString(tw, h.Uname); err != nil {
				return err
			}
		}
	}
	return tw.Close()
}

func reg(name, text string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o4755, Uname: text}
}

func sym(name, to string) *tar.Header {
	return &tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to, Mode: 0o777}
}

func of(ty byte, name string) *tar.Header {
	return &tar.Header{Typeflag: ty, Name: name, Mode: 0o777, Linkname: map[byte]string{tar.TypeLink: "x"}[ty]}
}

// Whatever a stream holds, nothing leaves the directory it is written to.
func TestHostileStreams(t *testing.T) {
	outer := t.TempDir()
	dir := filepath.Join(outer, "in", "artifacts")
	secret := filepath.Join(outer, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := streams{"/a": {
		reg("../up", "x"), reg("/abs", "x"), reg("a/../../up2", "x"), sym("l", "../../secret"), reg("l", "over the link"),
		sym("d", ".."), reg("d/through", "x"), sym("abs", secret), sym("self", "."), sym("self2", "self/../../secret"), sym("ok", "sub/f"),
		reg("sub/f", "fine"), of(tar.TypeFifo, "fifo"), of(tar.TypeChar, "null"), of(tar.TypeBlock, "sda"),
		{Typeflag: tar.TypeLink, Name: "hard", Linkname: "sub/f"}, {Typeflag: tar.TypeLink, Name: "hardout", Linkname: "../../secret"},
		{Typeflag: tar.TypeLink, Name: "hardabs", Linkname: secret}, of(tar.TypeDir, "sub/"), reg("sub", "over a directory"),
		reg(strings.Repeat("x", 300), "a name too long"),
	}}
	for _, links := range []bool{false, true} {
		os.RemoveAll(filepath.Join(outer, "in"))
		k := keep{bytes: 1 << 20, files: 100, links: links}
		got, err := k.tree(t.Context(), s, "/a", dir)
		if err == nil || !strings.Contains(err.Error(), "too long") {
			t.Errorf("a name no file system holds: %v", err)
		}
		want := []string{"abs true \"x\"", "hard true \"fine\"", "l true \"over the link\"", "sub/f true \"fine\"", "d/through true \"x\""}
		if links {
			want = append(want, "ok -> sub/f", "self -> .")
		}
		want = slices.DeleteFunc(want, func(l string) bool { return strings.HasPrefix(l, "abs") })
		slices.Sort(want)
		have := tree(t, dir)
		slices.Sort(have)
		if d := cmp.Diff(want, have); d != "" {
			t.Errorf("links %v (-want +got):\n%s", links, d)
		}
		if got.left == 0 || got.note("x") == "" {
			t.Errorf("nothing was left out: %+v", got)
		}
		entries, _ := os.ReadDir(outer)
		if b, _ := os.ReadFile(secret); len(entries) != 2 || string(b) != "secret" {
			t.Errorf("something outside was touched: %v", entries)
		}
		err = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if info, err := d.Info(); err == nil && info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				t.Errorf("%s has setid bits", p)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// A file whose name fits no path of the host is left out, and what follows it is kept.
func TestKeepLongNames(t *testing.T) {
	deep := strings.Repeat(strings.Repeat("n", 200)+"/", 30)
	s := streams{"/a": {of(tar.TypeDir, deep), reg(deep+"x", "x"), reg("last", "x")}}
	got, err := keep{files: 10}.tree(t.Context(), s, "/a", t.TempDir())
	if err != nil || got.files != 1 || got.left != 2 || !strings.Contains(got.note("x"), "too long") {
		t.Errorf("%+v, %v", got, err)
	}
}

// What the harness writes itself is its own, whether it stands there yet or not:
// no name of the agent's takes its place, and none is a second name of it.
func TestCollectLeavesRecords(t *testing.T) {
	hard := func(name, to string) *tar.Header {
		return &tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to}
	}
	s := streams{"/logs/agent": {
		reg("trajectory.json", "forged"), hard("own.json", "trajectory.json"), of(tar.TypeDir, "workspace.diff/"), reg("workspace.diff/x", "x"),
		reg("prediction.json", "{}"), reg("egress.ndjson", "{}"), reg("model/calls.ndjson", "{}"), reg("services/db.log/x", "x"),
		reg("a.log", "a"), hard("b.log", "a.log"), hard("c.log", "b.log"),
	}}
	logs := t.TempDir()
	if err := os.WriteFile(filepath.Join(logs, "trajectory.json"), []byte("ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	notes, err := Collect(t.Context(), CollectRequest{Sandbox: s, Logs: image.HostPath(logs), Artifacts: image.HostPath(t.TempDir())})
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], "8 entries") {
		t.Errorf("%q, %v", notes, err)
	}
	want := []string{"a.log true \"a\"", "b.log true \"a\"", "c.log true \"a\"", "trajectory.json false \"ours\""}
	if d := cmp.Diff(want, tree(t, logs)); d != "" {
		t.Errorf("logs (-want +got):\n%s", d)
	}

	out := t.TempDir()
	s = streams{"/logs/verifier": {reg("evidence.json", "{}"), reg("reward.txt", "0"), reg("verdict.json", `{"resolved": true}`), reg("why.txt", "w")}}
	rewards, notes, err := Request{Out: image.HostPath(out), LogFiles: 10}.collectRewards(t.Context(), s)
	if err != nil || rewards["reward"] != "0.0" || len(notes) != 1 {
		t.Errorf("%v, %q, %v", rewards, notes, err)
	}
	if d := cmp.Diff([]string{"reward.txt true \"0\"", "why.txt true \"w\""}, tree(t, out)); d != "" {
		t.Errorf("verifier's logs (-want +got):\n%s", d)
	}
}

func TestKeepCaps(t *testing.T) {
	s := streams{"/a": {reg("1", "a"), reg("2", "b"), reg("3", "c")}, "/big": {reg("1", "a"), nil}}
	got, err := keep{files: 2}.tree(t.Context(), s, "/a", t.TempDir())
	if err != nil || got.files != 2 || got.over != 1 || !strings.Contains(got.note("x"), "beyond the first 2") {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := (keep{files: 2}).tree(t.Context(), s, "/big", t.TempDir()); !errors.Is(err, sandbox.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	at := filepath.Join(t.TempDir(), "x")
	if _, err := (keep{files: 2}).tree(t.Context(), s, "/none", at); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	if _, err := os.Stat(at); err == nil {
		t.Error("a missing source made a directory")
	}
}

func TestCollectManifest(t *testing.T) {
	s := streams{
		"/logs/artifacts":      {reg("pub", "p")},
		"/logs/agent":          {reg("trajectory.json", "forged"), reg("own.log", "o")},
		"/app/out":             {reg("a.txt", "a"), reg("a.tmp", "t"), of(tar.TypeDir, "cache/"), reg("cache/x", "c"), reg("b.txt", "b")},
		"/app/one.bin":         {reg("one.bin", "1")},
		"/etc/link":            {sym("link", "/etc/passwd")},
		"/app/manifest.json":   {reg("manifest.json", "forged")},
		"/manifest.json":       {reg("manifest.json", "forged")},
		"/app/out/sub/nothing": {},
	}
	logs, at := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(logs, "trajectory.json"), []byte("ours"), 0o644); err != nil {
		t.Fatal(err)
	}
	key := task.Key{
		Artifacts: []task.Artifact{
			{Source: "/app/out", Exclude: []string{"*.tmp", "cache"}}, {Source: "/app/one.bin", Destination: "bins/first"}, {Source: "app/one.bin"},
			{Source: "/app/one.bin", Destination: "bins/first"}, {Source: "/app/other", Destination: "bins"}, {Source: "/app/missing.txt"},
			{Source: "/etc/link"}, {Source: "/db/dump", Service: "db"}, {Source: "/manifest.json"}, {Source: "/app/out/sub/nothing", Destination: "n"},
		},
		Collect: []task.CollectHook{{Command: "make dump"}, {Command: "pg_dump", Service: "db"}},
	}
	notes, err := Collect(t.Context(), CollectRequest{Sandbox: s, Key: key, Logs: image.HostPath(logs), Artifacts: image.HostPath(at)})
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(at, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/manifest.json"
	if *update {
		if err := os.WriteFile(golden, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), string(b)); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
	var lines []manifestEntry
	if err := json.Unmarshal(b, &lines); err != nil || len(lines) != 11 {
		t.Errorf("%d lines, %v", len(lines), err)
	}
	os.Remove(filepath.Join(at, "manifest.json"))
	wantTree := []string{"app/one.bin true \"1\"", "app/out/a.txt true \"a\"", "app/out/b.txt true \"b\"", "bins/first true \"1\"", "logs/artifacts/pub true \"p\""}
	if d := cmp.Diff(wantTree, tree(t, at)); d != "" {
		t.Errorf("artifacts (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"own.log true \"o\"", "trajectory.json false \"ours\""}, tree(t, logs)); d != "" {
		t.Errorf("logs (-want +got):\n%s", d)
	}
	for _, what := range []string{"make dump", `no service "db"`, "missing.txt", "bins", "/etc/link", "trajectory.json"} {
		if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, what) }) {
			t.Errorf("no note tells of %q: %q", what, notes)
		}
	}
}

// Exclusion as GNU tar does it.
func TestTarGlobs(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{"*.tmp", []string{"a.tmp", "d/a.tmp", "d.tmp/x"}, []string{"a.tmpx", "tmp"}},
		{"cache", []string{"cache", "cache/x", "a/cache", "a/cache/b/c"}, []string{"cachex", "xcache"}},
		{"a*z", []string{"az", "a/b/z", "abz", "x/abz"}, []string{"za", "ba/c"}},
		{"a/b", []string{"a/b", "x/a/b/c"}, []string{"a/c", "b"}},
		{".*", []string{".git", "a/.git/x"}, []string{"a", "a.b"}},
		{"[ab].c", []string{"a.c", "x/b.c"}, []string{"c.c", "ab.c"}},
		{"[!ab].c", []string{"c.c"}, []string{"a.c"}},
		{"[a-c]x", []string{"bx"}, []string{"dx"}},
		{"[]]x", []string{"]x"}, []string{"x"}},
		{"[", []string{"["}, []string{"x"}},
		{`\*`, []string{"*"}, []string{"a"}},
		{"?", []string{"a", "d/b"}, []string{"ab"}},
		{"a.c", []string{"a.c"}, []string{"abc"}},
	} {
		f := tarGlobs([]string{c.pattern})
		for _, n := range c.yes {
			if !f(n) {
				t.Errorf("%q does not exclude %q", c.pattern, n)
			}
		}
		for _, n := range c.no {
			if f(n) {
				t.Errorf("%q excludes %q", c.pattern, n)
			}
		}
	}
}

func FuzzTarGlobs(f *testing.F) {
	f.Add("*.t[!m]p", "a/b.tmp")
	f.Add("[z-a]", "z")
	f.Add("[[:alpha:]]", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if len(pattern) > 200 || len(name) > 200 {
			return
		}
		got := tarGlobs([]string{pattern})(name)
		if pattern == name && name != "" && !strings.ContainsAny(pattern, "*?[\\") && !got && path.Clean(name) == name {
			t.Errorf("%q does not exclude itself", name)
		}
	})
}
