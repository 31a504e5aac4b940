package checks

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// whole is a plan with everything in it.
const whole = `version = 1
protected = ["setup.cfg", "/etc/hosts"]
forbidden = ["vendor/**", "/opt/tool"]

[place]
repo = "."

[[commands]]
name = "unit"
run = "python -m pytest -q --junitxml=/tmp/r.xml"
report = "pytest"
files = ["/tmp/r.xml"]
timeout_sec = 60
fail_to_pass = ["tests/test_a.py::test_new"]
pass_to_pass_file = "lists/p2p.txt"

[[commands.canaries]]
file = "repo/tests/test_a.py"
old = "assert add(1, 2) == 3"
new = "assert add(1, 2) == 4"
breaks = ["tests/test_a.py::test_new"]

[[commands.canaries]]
file = "repo/tests/test_a.py"
old = "assert sub(3, 2) == 1"
new = "assert sub(3, 2) == 7"
breaks = ["tests/test_a.py::test_old[a b: ü]"]

[[commands]]
name = "smoke"
args = ["/bin/sh", "-c", "true"]
separate = true

[[cases]]
name = "io"
file = "io.ndjson"
run = ["./prog"]
compare = "text"
pass_to_pass = ["two"]

[[state]]
name = "mode"
path = "out.txt"
type = "file"
mode = "0644"
matches = "^x+$"

[[state]]
name = "answers"
baseline = true
run = "cat /etc/hostname"
exit = 0

[[milestones]]
name = "first"
checks = ["unit:tests/test_a.py::test_old[a b: ü]"]

[[milestones]]
name = "second"
weight = 2.5
checks = ["unit:tests/test_a.py::test_new", "io:one", "state:mode"]

[[spec]]
id = "S1"
text = "Adds."
checks = ["unit:tests/test_a.py::test_new"]

[[edge_cases]]
name = "empty input"
checks = ["io:two"]

[needs]
memory_mb = 128
`

func wholeTests() fstest.MapFS {
	return fstest.MapFS{
		"repo/tests/test_a.py": {Data: []byte("def test_new():\n    assert add(1, 2) == 3\ndef test_old():\n    assert sub(3, 2) == 1\n")},
		"lists/p2p.txt":        {Data: []byte("# what worked before\ntests/test_a.py::test_old[a b: ü]\r\n\ntests/test_a.py::test_more\n")},
		"io.ndjson":            {Data: []byte("{\"id\":\"one\",\"stdin\":\"1\",\"stdout\":\"1\"}\n\n{\"id\":\"two\"}\n")},
	}
}

func mustDecode(t testing.TB, text string, tests fs.FS) *Plan {
	t.Helper()
	p, err := Decode([]byte(text), tests)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDecode(t *testing.T) {
	p := mustDecode(t, whole, wholeTests())
	var ids []string
	for _, c := range p.Expected() {
		word := "f2p "
		if c.PassToPass {
			word = "p2p "
		}
		ids = append(ids, word+c.ID)
	}
	want := []string{
		"f2p unit:tests/test_a.py::test_new", "p2p unit:tests/test_a.py::test_old[a b: ü]", "p2p unit:tests/test_a.py::test_more",
		"f2p smoke:smoke", "f2p io:one", "p2p io:two", "f2p state:mode", "p2p state:answers",
	}
	if strings.Join(ids, "\n") != strings.Join(want, "\n") {
		t.Errorf("expected:\n%s", strings.Join(ids, "\n"))
	}
	if p.Commands[0].Timeout().Seconds() != 60 || p.Cases[0].IDs()[1] != "two" {
		t.Errorf("%+v", p)
	}

	// The digest is over the file and its lists, not over the other tests.
	same, list, other := wholeTests(), wholeTests(), wholeTests()
	same["README"] = &fstest.MapFile{Data: []byte("x")}
	list["lists/p2p.txt"].Data = append(list["lists/p2p.txt"].Data, "# more\n"...)
	other["io.ndjson"].Data = append(other["io.ndjson"].Data, "{\"id\":\"three\"}"...)
	if d := mustDecode(t, whole, same).Digest(); d != p.Digest() || len(d) != len("sha256:")+64 {
		t.Errorf("digests %s and %s", d, p.Digest())
	}
	for _, fsys := range []fs.FS{list, other} {
		if mustDecode(t, whole, fsys).Digest() == p.Digest() {
			t.Error("another list has the same digest")
		}
	}
	if mustDecode(t, whole+"\n", wholeTests()).Digest() == p.Digest() {
		t.Error("another file has the same digest")
	}

	// What is written is read again as the same plan.
	b, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	again := mustDecode(t, string(b), wholeTests())
	b2, _ := again.Encode()
	if string(b) != string(b2) || len(again.Expected()) != len(p.Expected()) {
		t.Errorf("written twice:\n%s\n%s", b, b2)
	}
}

// Every fault has its place and says what to do.
func TestFaults(t *testing.T) {
	edit := func(old, new string) string {
		if strings.Count(whole, old) != 1 {
			t.Fatalf("%q stands %d times in the plan", old, strings.Count(whole, old))
		}
		return strings.Replace(whole, old, new, 1)
	}
	for _, c := range []struct {
		name, text, want string
	}{
		{"syntax", "version = \n", "checks.toml:1:"},
		{"type", "version = \"1\"\n", "checks.toml:1:11: "},
		{"unknown key", edit("separate = true", "separated = true"), "checks.toml:32:1: a check plan has no key \"commands.separated\"; docs/"},
		{"version", edit("version = 1", "version = 2"), "checks.toml:1:1: version 2"},
		{"no version", edit("version = 1", ""), "checks.toml: version 0"},
		{"empty", "version = 1\n", "checks.toml: nothing is expected"},
		{"protected out", edit("\"setup.cfg\"", "\"../x\""), "checks.toml:2:14: \"../x\" has .. in it"},
		{"forbidden glob", edit("vendor/**", "a**b"), "checks.toml:3:14: \"a**b\": ** stands alone"},
		{"forbidden bracket", edit("vendor/**", "a[b"), "[ without ]"},
		{"place out", edit("repo = \".\"", "\"../x\" = \".\""), "checks.toml:6:1: \"../x\" is no directory below tests/"},
		{"place absent", edit("repo = \".\"", "repos = \".\""), "there is no directory tests/repos"},
		{"place over proc", edit("repo = \".\"", "repo = \"/proc/x\""), "cannot be placed at /proc/x"},
		{"place over root", edit("repo = \".\"", "repo = \"/\""), "cannot be placed at /"},
		{"place escapes", edit("repo = \".\"", "repo = \"a/../../b\""), "has .. in it"},
		{"name", edit("name = \"unit\"", "name = \"unit:1\""), "checks.toml:9:1: a command needs a name of letters"},
		{"name taken", edit("name = \"smoke\"", "name = \"state\""), "is taken"},
		{"name twice", edit("name = \"io\"", "name = \"unit\""), "two commands or cases called \"unit\""},
		{"nothing to run", edit("args = [\"/bin/sh\", \"-c\", \"true\"]", ""), "command \"smoke\" does nothing"},
		{"both", edit("separate = true", "run = \"true\""), "both run and args"},
		{"dir", edit("separate = true", "dir = \"../x\""), "has .. in it"},
		{"user", edit("separate = true", "user = \"a b\""), "no user"},
		{"limit", edit("timeout_sec = 60", "timeout_sec = -1"), "checks.toml:13:1: -1 seconds"},
		{"endless", edit("timeout_sec = 60", "timeout_sec = inf"), "+Inf seconds"},
		{"files without report", edit("separate = true", "files = [\"x\"]"), "has files and no report"},
		{"id of no report", edit("separate = true", "pass_to_pass = [\"other\"]"), "its one check is called \"smoke\""},
		{"expects nothing", edit("fail_to_pass = [\"tests/test_a.py::test_new\"]\npass_to_pass_file = \"lists/p2p.txt\"", ""), "expects nothing"},
		{"in both lists", edit("pass_to_pass_file", "pass_to_pass = [\"tests/test_a.py::test_new\"]\npass_to_pass_file"), "checks.toml:15:17: the id \"tests/test_a.py::test_new\" stands in fail_to_pass and in pass_to_pass"},
		{"twice in a list", edit("pass_to_pass_file", "pass_to_pass = [\"tests/test_a.py::test_more\"]\npass_to_pass_file"), "stands in pass_to_pass twice"},
		{"list absent", edit("lists/p2p.txt", "lists/q.txt"), "checks.toml:15:1: there is no file tests/lists/q.txt"},
		{"list out", edit("lists/p2p.txt", "../q.txt"), "is no file below tests/"},
		{"canary absent", edit("old = \"assert add(1, 2) == 3\"", "old = \"assert mul\""), "checks.toml:19:1: tests/repo/tests/test_a.py: the text \"assert mul\" does not stand there"},
		{"canary twice", edit("old = \"assert add(1, 2) == 3\"", "old = \"assert\""), "more than once"},
		{"canary overlaps itself", edit("old = \"assert add(1, 2) == 3\"", "old = \"  \""), "more than once"},
		{"canaries overlap", edit("old = \"assert sub(3, 2) == 1\"", "old = \"(1, 2) == 3\""), "change the same text"},
		{"canary of nothing", edit("new = \"assert add(1, 2) == 4\"", "new = \"assert add(1, 2) == 3\""), "changes nothing"},
		{"canary breaks unknown", edit("breaks = [\"tests/test_a.py::test_new\"]", "breaks = [\"x\"]"), "checks.toml:21:11: the id \"x\" is in neither list"},
		{"canary breaks nothing", edit("breaks = [\"tests/test_a.py::test_new\"]", ""), "say which ids fail"},
		{"canary without file", edit("file = \"repo/tests/test_a.py\"\nold = \"assert add", "file = \"\"\nold = \"assert add"), "is no file below tests/"},
		{"canary below tests, absolute", edit("file = \"repo/tests/test_a.py\"\nold = \"assert add", "file = \"/tests/repo/tests/test_a.py\"\nold = \"assert add"), "is no file of the image"},
		{"canary of an unclean path", edit("file = \"repo/tests/test_a.py\"\nold = \"assert add", "file = \"/app//a.py\"\nold = \"assert add"), "is no file of the image"},
		{"canary out of the image", edit("file = \"repo/tests/test_a.py\"\nold = \"assert add", "file = \"/app/../a.py\"\nold = \"assert add"), "has .. in it"},
		{"cases without program", edit("run = [\"./prog\"]", ""), "need run"},
		{"call without source", edit("run = [\"./prog\"]", "call = \"python\""), "belong together"},
		{"call", edit("run = [\"./prog\"]", "call = \"perl\"\nsource = \"x.pl\""), "no language is called \"perl\""},
		{"compare", edit("\"text\"", "\"fuzzy\""), "no comparison is called \"fuzzy\""},
		{"case unknown", edit("pass_to_pass = [\"two\"]", "pass_to_pass = [\"nine\"]"), "is called \"nine\""},
		{"two subjects", edit("mode = \"0644\"", "run = \"true\""), "is about one thing"},
		{"mode", edit("\"0644\"", "\"rw\""), "no mode"},
		{"regexp", edit("^x+$", "(x"), "no regular expression"},
		{"type", edit("\"file\"\nmode", "\"pipe\"\nmode"), "no type"},
		{"assertion twice", edit("name = \"answers\"", "name = \"mode\""), "two assertions"},
		{"exit of a path", edit("mode = \"0644\"", "exit = 1"), "exit is about a command"},
		{"mode of a command", edit("exit = 0", "mode = \"0644\""), "are about a path"},
		{"absent and more", edit("mode = \"0644\"", "absent = true"), "no other property"},
		{"milestone unknown", edit("\"io:one\"", "\"io:ten\""), "checks.toml:61:45: no check is called \"io:ten\""},
		{"milestone twice", edit("name = \"second\"", "name = \"first\""), "two called \"first\""},
		{"milestone of nothing", edit("checks = [\"unit:tests/test_a.py::test_new\", \"io:one\", \"state:mode\"]", ""), "names no checks"},
		{"weight", edit("2.5", "-1"), "a weight"},
		{"needs", edit("memory_mb = 128", "memory_mb = -3"), "no amount"},
		{"deep", "a = " + strings.Repeat("[", 5000), "nested deeper"},
		{"too large", "#" + strings.Repeat(" ", maxPlan), "larger than"},
	} {
		p, err := Decode([]byte(c.text), wholeTests())
		var bad *Error
		if p != nil || !errors.As(err, &bad) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nwant %s", c.name, err, c.want)
		}
	}
	for _, c := range []struct{ file, text, want string }{
		{"lists/p2p.txt", "\n \n# none\n", "holds no id"},
		{"lists/p2p.txt", "a\n" + strings.Repeat("b", 5000), "line 2: an id of 5000 bytes"},
		{"lists/p2p.txt", "a\nb\na\n", "stands in pass_to_pass twice"},
		{"io.ndjson", "", "holds no case"},
		{"io.ndjson", "[1]", "line 1: no JSON object"},
		{"io.ndjson", "{\"id\":\"two\"}\n{\"id\":\"two\"}", "line 2: the id \"two\" stands in line 1"},
		{"io.ndjson", "{}", "needs an \"id\""},
	} {
		tests := wholeTests()
		tests[c.file].Data = []byte(c.text)
		if _, err := Decode([]byte(whole), tests); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %q: %v\nwant %s", c.file, c.text, err, c.want)
		}
	}
	// All faults of a file are told, up to a bound.
	_, err := Decode([]byte("version = 1\nprotected = ["+strings.Repeat("\"..\",", 100)+"]\n"), nil)
	if n := strings.Count(err.Error(), "has .. in it"); n != maxFaults || !strings.Contains(err.Error(), "and 50 more") {
		t.Errorf("%d faults told: %v", n, err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no plan: %v", err)
	}
	if err := os.CopyFS(dir, wholeTests()); err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(whole)
	p, err := Load(dir)
	if err != nil || p.Digest() != mustDecode(t, whole, wholeTests()).Digest() {
		t.Fatalf("%v %v", p, err)
	}
	write("version = 3\n")
	if _, err := Load(dir); err == nil || !strings.HasPrefix(err.Error(), filepath.Join(dir, File)+":1:1: version 3") {
		t.Errorf("%v", err)
	}
	// A list is no way out of the directory.
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("root:x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(whole)
	list := filepath.Join(dir, "lists", "p2p.txt")
	if err := errors.Join(os.Remove(list), os.Symlink(secret, list)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "lists/p2p.txt") {
		t.Errorf("a link out of tests/: %v", err)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"vendor/**", "/app/vendor/a/b", true},
		{"vendor", "/app/vendor/a/b", true},
		{"vendor", "/app/vendors", false},
		{"*.py", "/app/a.py", true},
		{"*.py", "/app/x/a.py", false},
		{"**/*.py", "/app/x/y/a.py", true},
		{"**/*.py", "/app/a.py", true},
		{"a.b", "/app/axb", false},
		{"[!a-c].go", "/app/d.go", true},
		{"[!a-c].go", "/app/b.go", false},
		{"/etc/*", "/etc/hosts", true},
		{"/etc/*", "/app/etc/hosts", false},
		{"etc", "/etc", false},
		{".", "/app/x", false},
		{"**", "/app/x/y", true},
		{"a**", "/app/abc", false},
	} {
		if got := Matches(c.pattern, "/app", c.name); got != c.want {
			t.Errorf("%s matches %s: %t", c.pattern, c.name, got)
		}
	}
}

func TestPlant(t *testing.T) {
	text := []byte("a = 1\nb = 2\nc = 3\n")
	k := []Canary{{Old: "c = 3", New: "c = 33"}, {Old: "a = 1", New: ""}, {Old: "c = 3", New: "c = 33"}}
	if got, err := Plant(text, k); err != nil || string(got) != "\nb = 2\nc = 33\n" {
		t.Errorf("%q %v", got, err)
	}
	if _, err := Plant(text, append(k, Canary{Old: "3\n", New: "x"})); err == nil {
		t.Error("two canaries in one place")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(whole, "a\nb\n", "{\"id\":\"one\"}\n")
	f.Add("version = 1\n[[state]]\nname = \"x\"\npath = \"a\"\n", "", "")
	f.Fuzz(func(t *testing.T, text, list, cases string) {
		tests := wholeTests()
		tests["lists/p2p.txt"].Data, tests["io.ndjson"].Data = []byte(list), []byte(cases)
		p, err := Decode([]byte(text), tests)
		if err != nil {
			_ = err.Error()
			return
		}
		b, err := p.Encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(b, tests)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, b)
		}
		if a, b := p.Expected(), again.Expected(); len(a) != len(b) {
			t.Fatalf("%d checks, then %d", len(a), len(b))
		}
		if v := Judge(p, Observation{Attempted: true}); v.Resolved {
			t.Fatal("nothing was seen, and it is resolved")
		}
	})
}
