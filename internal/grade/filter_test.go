package grade

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
)

// base is the image that the filter tests judge upon.
func base(t testing.TB, s *image.Store) image.Image {
	return image.Image{Layers: []image.LayerID{layer(t, s, nil,
		file("etc/conf", "old"), file("etc/passwd", "root"),
		file("app/main.c", "main"), file("app/lib/a", "a"), file("app/lib/b", "b"),
		file("app/tests/unit/t1", "t1"), file("app/tests/unit/conftest.py", "fixtures"), file("app/tests/helper", "help"), file("app/tests/data/x", "x"),
	)}}
}

// over is what base shows below app and etc, changed by edits of the form
// "-name" and "+line".
func over(edits ...string) string {
	lines := map[string]bool{}
	for l := range strings.Lines(`app/
app/lib/
app/lib/a "a"
app/lib/b "b"
app/main.c "main"
app/tests/
app/tests/data/
app/tests/data/x "x"
app/tests/helper "help"
app/tests/unit/
app/tests/unit/conftest.py "fixtures"
app/tests/unit/t1 "t1"
etc/
etc/conf "old"
etc/passwd "root"
`) {
		lines[strings.TrimSuffix(l, "\n")] = true
	}
	for _, e := range edits {
		if e[0] == '+' {
			lines[e[1:]] = true
			continue
		}
		if !lines[e[1:]] {
			panic("nothing to take away: " + e)
		}
		delete(lines, e[1:])
	}
	return strings.Join(sortedKeys(lines), "\n")
}

func TestCrossing(t *testing.T) {
	protected := []string{"tests/unit"}
	handfuls := 0
	for _, c := range []struct {
		name      string
		grade     task.GradeKind
		protected []string
		layer     []content
		want      string
		notes     int
	}{
		{"patch: the workspace crosses, the rest does not", task.GradePatch, nil,
			[]content{file("app/main.c", "new"), file("app/x/y", "z"), gone("app/lib/a"), file("etc/conf", "evil"), file("tmp/x", "x"), gone("etc/passwd"), file("root/.bashrc", "evil")},
			over(`-app/main.c "main"`, `+app/main.c "new"`, `+app/x/`, `+app/x/y "z"`, `-app/lib/a "a"`), 0},
		{"patch: setid bits and attributes are stripped", task.GradePatch, nil,
			[]content{{image.Entry{Path: "app/su", Type: image.TypeFile, Mode: 0o6755}, "su"},
				{image.Entry{Path: "app/d", Type: image.TypeDir, Mode: 0o2775}, ""},
				{image.Entry{Path: "app/cap", Type: image.TypeFile, Mode: 0o755, Xattrs: map[string]string{"security.capability": "x"}}, "cap"}},
			over(`+app/su 0755 "su"`, `+app/d/ 0775`, `+app/cap 0755 "cap"`), 1},
		{"patch: a closed workspace is open again", task.GradePatch, nil,
			[]content{{image.Entry{Path: "app", Type: image.TypeDir, Mode: 0, UID: 7}, ""}, file("app/main.c", "new")},
			over(`-app/main.c "main"`, `+app/main.c "new"`), 1},
		{"patch: devices, sockets and pipes stay behind", task.GradePatch, nil,
			[]content{special("app/fifo", image.TypeFIFO), special("app/sock", image.TypeSocket), special("app/null", image.TypeChar), special("app/sda", image.TypeBlock)},
			over(), 1},
		{"patch: links are data", task.GradePatch, nil,
			[]content{link("app/out", "/etc/shadow"), link("app/up", "../../.."), link("app/in", "main.c")},
			over(`+app/out -> /etc/shadow`, `+app/up -> ../../..`, `+app/in -> main.c`), 0},
		{"patch: a hard link to a file outside keeps its content", task.GradePatch, nil,
			[]content{file("aaa", "shared"), {image.Entry{Path: "app/l1", Type: image.TypeFile, Mode: 0o644, Hardlink: "aaa"}, ""}, {image.Entry{Path: "app/l2", Type: image.TypeFile, Mode: 0o644, Hardlink: "aaa"}, ""}},
			over(`+app/l1 "shared"`, `+app/l2 "shared"`), 0},
		{"patch: the workspace replaced by a link is an empty one", task.GradePatch, nil,
			[]content{link("app", "/etc")}, "app/\netc/\netc/conf \"old\"\netc/passwd \"root\"", 0},
		{"patch: the workspace removed is an empty one", task.GradePatch, nil,
			[]content{gone("app")}, "app/\netc/\netc/conf \"old\"\netc/passwd \"root\"", 0},
		{"patch: the workspace emptied and filled anew", task.GradePatch, nil,
			[]content{opaque("app"), file("app/only", "1")}, "app/\napp/only \"1\"\netc/\netc/conf \"old\"\netc/passwd \"root\"", 0},
		{"patch: protected files are the image's", task.GradePatch, protected,
			[]content{file("app/tests/unit/t1", "pass"), file("app/tests/unit/t2", "new"), gone("app/tests/unit/conftest.py"), file("app/tests/helper", "mine")},
			over(`-app/tests/helper "help"`, `+app/tests/helper "mine"`), 1},
		{"patch: a protected directory removed with its parent comes back alone", task.GradePatch, protected,
			[]content{gone("app/tests")},
			over(`-app/tests/helper "help"`, `-app/tests/data/`, `-app/tests/data/x "x"`), 1},
		{"patch: a protected directory hidden by a link", task.GradePatch, protected,
			[]content{link("app/tests", "/tmp/mine"), file("tmp/mine/unit/t1", "pass")},
			over(`-app/tests/helper "help"`, `-app/tests/data/`, `-app/tests/data/x "x"`), 1},
		{"patch: a protected directory hidden by a new parent", task.GradePatch, protected,
			[]content{opaque("app/tests"), file("app/tests/new", "n"), file("app/tests/unit/t1", "pass"), dir("app/tests/data"), file("app/tests/data/y", "y")},
			over(`-app/tests/helper "help"`, `-app/tests/data/x "x"`, `+app/tests/data/y "y"`, `+app/tests/new "n"`), 2},
		{"patch: protected by pattern", task.GradePatch, []string{"**/conftest.py"},
			[]content{file("app/tests/unit/conftest.py", "evil"), file("app/conftest.py", "planted"), opaque("app/tests"), dir("app/tests/unit"), file("app/tests/unit/t1", "t")},
			over(`-app/tests/helper "help"`, `-app/tests/data/`, `-app/tests/data/x "x"`, `-app/tests/unit/t1 "t1"`, `+app/tests/unit/t1 "t"`), 2},

		{"state: everything crosses, setid bits included", task.GradeState, nil,
			[]content{file("etc/conf", "new"), file("app/main.c", "m"), gone("etc/passwd"), {image.Entry{Path: "usr/bin/sudo", Type: image.TypeFile, Mode: 0o4755}, "sudo"}},
			over(`-etc/conf "old"`, `+etc/conf "new"`, `-app/main.c "main"`, `+app/main.c "m"`, `-etc/passwd "root"`, `+usr/`, `+usr/bin/`, `+usr/bin/sudo 4755 "sudo"`), 0},
		{"state: planted tests and rewards stay behind", task.GradeState, nil,
			[]content{file("tests/test.sh", "echo 1"), file("tests/conftest.py", "evil"), file("logs/verifier/reward.txt", "1"), file("logs/agent/x", "log")},
			over(`+logs/`, `+logs/agent/`, `+logs/agent/x "log"`, `+logs/verifier/`), 1},
		{"state: /tests and /logs as links stay behind", task.GradeState, nil,
			[]content{link("tests", "/app"), link("logs", "/app")}, over(), 2},
		{"state: protected paths are the image's", task.GradeState, []string{"/etc/passwd"},
			[]content{file("etc/passwd", "root::0:0"), file("etc/conf", "new")},
			over(`-etc/conf "old"`, `+etc/conf "new"`), 1},
		{"state: a protected path below a removed directory", task.GradeState, []string{"/etc/passwd"},
			[]content{gone("etc")}, over(`-etc/conf "old"`), 1},
	} {
		cross := func(t *testing.T, l sandbox.Limits) {
			s := newStore(t)
			img := base(t, s)
			end := layer(t, s, img.Layers, c.layer...)
			r := Request{Store: s, Image: img, Key: task.Key{Grade: c.grade, Protected: c.protected}, Limits: l}
			before := onDisk(t, s)
			tmp := s.Temporary()
			stack, work, notes, err := crossing(t.Context(), r, tmp, end, "app")
			if err != nil {
				t.Fatal(err)
			}
			if work != nil {
				handfuls++
				stack = append(stack, work.asLayer(t, tmp, img.Layers))
			}
			if d := cmp.Diff(c.want, show(t, s, append(img.Layers[:1:1], stack...))); d != "" {
				t.Errorf("what the verifier sees (-want +got):\n%s", d)
			}
			if len(notes) != c.notes {
				t.Errorf("%d notes, want %d: %q", len(notes), c.notes, notes)
			}
			if err := tmp.Close(); err != nil || onDisk(t, s) != before {
				t.Errorf("grading left something in the store: %d layers and files, were %d, %v", onDisk(t, s), before, err)
			}
		}
		t.Run(c.name, func(t *testing.T) { cross(t, sandbox.Limits{}) })
		t.Run(c.name+", in layers", func(t *testing.T) { cross(t, sandbox.Limits{DiskBytes: 1 << 20}) })
	}
	if handfuls < 3 {
		t.Errorf("only %d workspaces were put as files", handfuls)
	}
}

// asLayer is what putting a handful comes to.
func (h *handful) asLayer(t *testing.T, tmp *image.Temporary, below []image.LayerID) image.LayerID {
	t.Helper()
	w, err := tmp.NewLayer(t.Context(), below...)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range h.entries {
		var r io.Reader
		if e.Type == image.TypeFile {
			f, err := h.view.Open(e.Path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			r = f
		}
		if err := w.Add(e, r); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// onDisk counts layers and what lies in tmp.
func onDisk(t *testing.T, s *image.Store) (n int) {
	t.Helper()
	for _, d := range []string{"layers", "tmp"} {
		all, err := os.ReadDir(filepath.Join(string(s.Root()), d))
		if err != nil {
			t.Fatal(err)
		}
		n += len(all)
	}
	return n
}

// Where nothing has to be changed the agent's own layer is graded, so that the
// common case copies nothing.
func TestCrossingKeepsTheLayer(t *testing.T) {
	s := newStore(t)
	img := base(t, s)
	for _, c := range []struct {
		grade task.GradeKind
		layer []content
	}{
		{task.GradePatch, []content{file("app/main.c", "new"), gone("app/lib")}},
		{task.GradeState, []content{file("etc/conf", "new"), dir("logs/verifier")}},
	} {
		end := layer(t, s, img.Layers, c.layer...)
		r := Request{Store: s, Image: img, Key: task.Key{Grade: c.grade, Protected: []string{"/app/tests/unit"}}}
		stack, work, notes, err := crossing(t.Context(), r, s.Temporary(), end, "app")
		if err != nil || work != nil || len(stack) != 1 || stack[0] != end || len(notes) != 0 {
			t.Errorf("%s: %v, %q, %v; want the agent's layer", c.grade, stack, notes, err)
		}
	}
}

func TestGuard(t *testing.T) {
	for _, p := range []string{"", "/", "..", "../../..", "!x", "a\nb", "[a"} {
		if g, err := newGuard("app", []string{p}); err == nil {
			t.Errorf("protected path %q was taken: %+v", p, g)
		}
	}
	g, err := newGuard("app", []string{"tests", "/etc/hosts", "**/conftest.py", "ci/*.yml"})
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		"app/tests": true, "app/tests/a/b": true, "app/tests2": false, "tests": false, "app": false,
		"etc/hosts": true, "etc/hosts.allow": false, "app/etc/hosts": false,
		"app/conftest.py": true, "app/x/y/conftest.py": true, "conftest.py": false, "app/xconftest.py": false,
		"app/ci/a.yml": true, "app/ci/x/a.yml": false,
	} {
		if g.covers(p) != want {
			t.Errorf("covers(%q) = %v", p, !want)
		}
	}
}

// What a task protects or forbids by a name of which the image has another is
// meant by either; a link that is itself named leads on if it is a directory's.
func TestGuardByLinks(t *testing.T) {
	s := newStore(t)
	v, err := s.View([]image.LayerID{layer(t, s, nil,
		link("bin", "usr/bin"), file("usr/bin/sh", "sh"), link("usr/bin/bash", "sh"), link("var/run", "/run"), dir("run"),
		link("srv/app/vendor", "../lib"), dir("srv/lib"), link("lost", "nowhere"), link("all", "/"))})
	if err != nil {
		t.Fatal(err)
	}
	in := []string{"/bin", "/bin/**", "/bin/s?", "/usr/bin/bash", "/var/run/x", "vendor/**/*.c", "main.c", "/lost/x", "/all/x", "/", "..", "!x", ""}
	want := append(in[:len(in):len(in)], "/usr/bin", "/usr/bin/**", "/usr/bin/s?", "/run/x", "/srv/lib/**/*.c")
	if d := cmp.Diff(want, byLinks(v, "srv/app", in)); d != "" {
		t.Error(d)
	}
}

func TestStaysInside(t *testing.T) {
	for _, c := range []struct {
		name, target string
		want         bool
	}{
		{"a", "b", true}, {"a", "./b/c", true}, {"d/a", "../b", true}, {"d/e/a", "../../b", true},
		{"a", "..", false}, {"a", "../b", false}, {"d/a", "../../b", false}, {"a", "/b", false}, {"a", "", false},
		{"a", "b/../../c", false}, {"a", "b/../c", false}, {"d/a", "..", true}, {"d/a", "b/..", false},
	} {
		if got := staysInside(c.name, c.target); got != c.want {
			t.Errorf("link %s -> %s: %v", c.name, c.target, got)
		}
	}
}
