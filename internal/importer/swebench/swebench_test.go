package swebench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"assay/internal/exchange"
	"assay/internal/grade/checks"
	"assay/internal/importer"
	"assay/task"
)

// Diffs as a row has them.
const (
	fix = `diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
`
	tests = `diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -1 +1,5 @@
 from calc import add
+
+
+def test_add():
+    assert add(2, 3) == 5
diff --git a/tests/test_new.py b/tests/test_new.py
new file mode 100755
--- /dev/null
+++ b/tests/test_new.py
@@ -0,0 +1 @@
+from calc import add
diff --git a/tests/test_old.py b/tests/test_old.py
deleted file mode 100644
--- a/tests/test_old.py
+++ /dev/null
@@ -1 +0,0 @@
-old
`
)

// evalScript has the shape of SWE-bench's own.
const evalText = `#!/bin/bash
set -uxo pipefail
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
cd /testbed
git status
git show
git -c core.fileMode=false diff 0123
python -m pip install -e .
git checkout 0123 tests/test_calc.py
git apply -v - <<'EOF_114329324912'
diff --git a/x b/x
git status
EOF_114329324912
: '>>>>> Start Test Output'
pytest -rA tests/test_calc.py
: '>>>>> End Test Output'
git checkout 0123 tests/test_calc.py
`

func row(t testing.TB, change map[string]any) *exchange.Row {
	t.Helper()
	m := map[string]any{
		"instance_id": "demo__calc-1", "repo": "demo/calc", "base_commit": strings.Repeat("0", 40), "patch": fix, "test_patch": tests,
		"problem_statement": "add() subtracts.", "hints_text": "a hint", "version": "1", "FAIL_TO_PASS": `["tests/test_calc.py::test_add"]`, "PASS_TO_PASS": []string{},
	}
	for k, v := range change {
		if m[k] = v; v == nil {
			delete(m, k)
		}
	}
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	r, err := exchange.ParseRow(b, 1)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// files are those of a task directory, by path.
func files(d importer.Dir) map[string]string {
	all := map[string]string{}
	for _, f := range d.Files {
		all[f.Path] = string(f.Data)
	}
	return all
}

// load writes a directory and reads it as a task with its plan.
func load(t *testing.T, d importer.Dir) (*task.Task, *checks.Plan) {
	t.Helper()
	out := t.TempDir()
	if _, err := importer.WriteAll(t.Context(), out, []importer.Dir{d}, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	tk, err := task.Load(filepath.Join(out, d.Name))
	if err != nil {
		t.Fatal(err)
	}
	p, err := checks.Load(filepath.Join(out, d.Name, "tests"))
	if err != nil {
		t.Fatal(err)
	}
	return tk, p
}

// A row with its own script runs on the published image, by that script.
func TestPublishedImage(t *testing.T) {
	d, err := Importer{}.dir(t.Context(), source{row: row(t, map[string]any{"eval_script": evalText, "log_parser": "parse_log_pytest", "eval_type": "pass_and_fail"})})
	if err != nil {
		t.Fatal(err)
	}
	tk, p := load(t, d)
	if got := tk.Config.Environment.DockerImage; got != "swebench/sweb.eval.x86_64.demo_1776_calc-1:latest" {
		t.Errorf("image %s", got)
	}
	all := files(d)
	want := `#!/bin/bash
# The row's own commands, without those that print the work into the output.
set -uo pipefail
exec 2>&1
cd /testbed
source /opt/miniconda3/bin/activate
conda activate testbed
cd /testbed
git config --global --add safe.directory /testbed
cd /testbed
python -m pip install -e .
git checkout 0123 tests/test_calc.py
git apply -v - <<'EOF_114329324912'
diff --git a/x b/x
git status
EOF_114329324912
export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-} -o junit_family=xunit1 --junitxml=/tmp/assay-pytest.xml"
pytest -rA tests/test_calc.py
status=$?
exit $status
`
	if diff := cmp.Diff(want, all["tests/run.sh"]); diff != "" {
		t.Error(diff)
	}
	if c := p.Commands[0]; c.Report != "pytest" || len(p.Expected()) != 1 || p.Expected()[0].ID != "tests:tests/test_calc.py::test_add" {
		t.Errorf("%+v", p.Commands[0])
	}
	if all["instruction.md"] != "add() subtracts.\n" {
		t.Errorf("instruction %q", all["instruction.md"])
	}
}

// Nothing that tells the solution lies where the agent or the graded code is.
func TestNothingLeaks(t *testing.T) {
	r := row(t, map[string]any{"eval_script": evalText, "log_parser": "parse_log_pytest"})
	d, err := Importer{}.dir(t.Context(), source{row: r})
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range files(d) {
		if !strings.HasPrefix(name, "solution/") && strings.Contains(text, "return a + b") {
			t.Errorf("%s holds the solution", name)
		}
		if !strings.HasPrefix(name, "solution/") && strings.Contains(text, "a hint") {
			t.Errorf("%s holds the hints", name)
		}
		if !strings.HasPrefix(name, "solution/") && !strings.HasPrefix(name, "tests/") && strings.Contains(text, "test_add") {
			t.Errorf("%s names a hidden test", name)
		}
	}
	var notes []string
	leaky := row(t, map[string]any{"problem_statement": "Write `return alpha_of(beta) + gamma_of(delta)`.", "eval_script": evalText,
		"patch": strings.Replace(fix, "return a + b", "return alpha_of(beta) + gamma_of(delta)", 1)})
	if _, err := (Importer{Note: func(_, text string) { notes = append(notes, text) }}).dir(t.Context(), source{row: leaky}); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "holds a line of the solution") }) {
		t.Errorf("nothing was said of the leak: %q", notes)
	}
}

// What runs the tests, and what reads their report, by the row.
func TestCommands(t *testing.T) {
	two := strings.Replace(evalText, "pytest -rA tests/test_calc.py\n", "pytest a\npytest b\n", 1)
	for _, c := range []struct {
		name   string
		im     Importer
		change map[string]any
		report string // or the error
		run    string
	}{
		{"pytest", Importer{}, nil, "pytest", "pytest -rA tests/test_calc.py tests/test_new.py\n"},
		{"django", Importer{}, map[string]any{"repo": "django/django", "FAIL_TO_PASS": []string{"test_add (test_calc.T)"}}, "swebench:django",
			"./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1 test_calc test_new\n"},
		{"sphinx", Importer{}, map[string]any{"repo": "sphinx-doc/sphinx"}, "swebench:pytest_v2", "tox --current-env -epy39 -v -- tests/test_calc.py tests/test_new.py\n"},
		{"truncated ids", Importer{}, map[string]any{"log_parser": "parse_log_astropy", "FAIL_TO_PASS": []string{"t.py::a[x"}}, "swebench:pytest_v2", ""},
		{"two runs", Importer{}, map[string]any{"eval_script": two, "log_parser": "parse_log_pytest"}, "swebench:pytest", "echo '>>>>> Start Test Output'\npytest a\npytest b\nstatus=$?\necho"},
		{"own command", Importer{TestCommand: "npx jest --ci", Setup: ":"}, map[string]any{"log_parser": "parse_log_jest", "FAIL_TO_PASS": []string{"adds"}}, "swebench:jest", "npx jest --ci tests/test_calc.py"},
		{"no command", Importer{}, map[string]any{"FAIL_TO_PASS": []string{"adds"}}, "the test command of its repository is not known", ""},
		{"failures only", Importer{}, map[string]any{"eval_script": two, "eval_type": "fail_only", "log_parser": "parse_log_openlayers"}, "cannot be read", ""},
		{"no marks", Importer{}, map[string]any{"eval_script": "pytest"}, "no start and end mark", ""},
		{"open here-document", Importer{}, map[string]any{"eval_script": "cat <<'X'\n"}, "has no end", ""},
		{"no diff", Importer{}, map[string]any{"patch": "nonsense"}, "patch: not a diff", ""},
		{"a path outside", Importer{}, map[string]any{"test_patch": strings.ReplaceAll(tests, "tests/test_new.py", "../x")}, "no path below the repository", ""},
		{"a line end in an id", Importer{}, map[string]any{"FAIL_TO_PASS": []string{"t.py::a\nb"}}, "holds a line end", ""},
	} {
		d, err := c.im.dir(t.Context(), source{row: row(t, c.change)})
		if err != nil {
			if !strings.Contains(err.Error(), c.report) {
				t.Errorf("%s: %v", c.name, err)
			}
			continue
		}
		_, p := load(t, d)
		if got := string(p.Commands[0].Report); got != c.report {
			t.Errorf("%s: report %s, want %s", c.name, got, c.report)
		}
		if run := files(d)["tests/run.sh"]; !strings.Contains(run, c.run) {
			t.Errorf("%s:\n%s\nhas no %q", c.name, run, c.run)
		}
	}
}

// repository makes a clone of demo/calc with the tests' old files, and a
// history; it returns the folder of clones and the commit.
func repository(t *testing.T) (clones, commit string) {
	t.Helper()
	clones = t.TempDir()
	dir := filepath.Join(clones, "demo", "calc")
	if err := os.MkdirAll(filepath.Join(dir, "tests"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"calc.py": "def add(a, b):\n    return a - b\n", "tests/test_calc.py": "from calc import add\n", "tests/test_old.py": "old\n", ".gitattributes": "calc.py export-ignore\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("calc.py", filepath.Join(dir, "link.py")); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qm", "one"}} {
		cmd := exec.Command("git", append([]string{"-C", dir}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	out, err := exec.Command("git", "-C", dir, "-c", "safe.directory=*", "rev-parse", "HEAD").Output()
	if err != nil {
		t.Fatal(err)
	}
	return clones, strings.TrimSpace(string(out))
}

// With a clone, tests are placed whole, and the image has the tree alone.
func TestFromClone(t *testing.T) {
	clones, commit := repository(t)
	im := Importer{Repos: clones, Base: "host"}
	d, err := im.dir(t.Context(), source{row: row(t, map[string]any{"base_commit": commit, "eval_script": evalText})})
	if err != nil {
		t.Fatal(err)
	}
	all := files(d)
	if got := all["tests/repo/tests/test_calc.py"]; got != "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n" {
		t.Errorf("placed test %q", got)
	}
	if _, there := all["tests/repo/tests/test_old.py"]; there || all["tests/repo/tests/test_new.py"] == "" {
		t.Errorf("placed: %v", slices.Sorted(func(yield func(string) bool) {
			for name := range all {
				if !yield(name) {
					return
				}
			}
		}))
	}
	if strings.Contains(all["tests/run.sh"], "git apply") || strings.Contains(all["tests/run.sh"], "git checkout") {
		t.Errorf("the script patches placed tests:\n%s", all["tests/run.sh"])
	}
	for _, want := range []string{"calc.py", "link.py", ".gitattributes", "tests/test_old.py"} {
		if !strings.Contains(all["environment/tree.tar"], want) {
			t.Errorf("the tree has no %s", want)
		}
	}
	again, err := im.dir(t.Context(), source{row: row(t, map[string]any{"base_commit": commit, "eval_script": evalText})})
	if err != nil || cmp.Diff(d, again) != "" {
		t.Errorf("another directory of the same row: %v", err)
	}
	tk, p := load(t, d)
	if tk.Config.Metadata.Assay.FallbackImage != "host" || p.Place["repo"] != "/testbed" {
		t.Errorf("%+v %v", tk.Config.Metadata.Assay, p.Place)
	}
}

// SWE-smith's patch is the bug: it is in the image, and taken back by the gold.
func TestSmith(t *testing.T) {
	clones, commit := repository(t)
	bug := strings.NewReplacer("-    return a - b", "-    return a - b", "+    return a + b", "+    return a * b").Replace(fix)
	change := map[string]any{"patch": bug, "test_patch": nil, "base_commit": commit, "image_name": "swesmith/x:1", "FAIL_TO_PASS": []string{"tests/test_calc.py::test_add"}}
	d, err := Importer{Smith: true}.dir(t.Context(), source{row: row(t, change)})
	if err != nil {
		t.Fatal(err)
	}
	all := files(d)
	if !strings.HasPrefix(all["environment/Dockerfile"], "FROM swesmith/x:1\n") || !strings.Contains(all["environment/Dockerfile"], "rm -rf /tmp/bug.patch .git") {
		t.Errorf("Dockerfile:\n%s", all["environment/Dockerfile"])
	}
	if !strings.Contains(all["solution/solve.sh"], "git apply --reverse /solution/gold.patch") {
		t.Errorf("solve.sh:\n%s", all["solution/solve.sh"])
	}
	if _, p := load(t, d); !slices.Equal(p.Protected, []string{"tests/test_calc.py"}) {
		t.Errorf("protected %v", p.Protected)
	}
	if d, err = (Importer{Smith: true, Repos: clones}).dir(t.Context(), source{row: row(t, change)}); err != nil {
		t.Fatal(err)
	}
	if tree := files(d)["environment/tree.tar"]; !strings.Contains(tree, "return a * b") || strings.Contains(tree, "return a - b") {
		t.Error("the bug is not in the tree")
	}
}

// Rows come back byte for byte, whatever the form of their file.
func TestRowsRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "n")
		var records []string
		for i := range n {
			r := row(t, map[string]any{"instance_id": fmt.Sprintf("demo__calc-%d", rapid.IntRange(0, 9).Draw(rt, "id")*10+i), "problem_statement": rapid.StringMatching(`[ -~é😀\n]{0,20}`).Draw(rt, "text"),
				"extra": rapid.SampledFrom([]any{1, "x", []int{1}, map[string]any{"k": nil}, true}).Draw(rt, "extra")})
			b := r.Raw
			if rapid.Bool().Draw(rt, "indent") {
				var buf bytes.Buffer
				if err := json.Indent(&buf, b, "", " "); err != nil {
					rt.Fatal(err)
				}
				b = buf.Bytes()
			}
			records = append(records, string(b))
		}
		var text string
		switch rapid.SampledFrom([]string{"lines", "list", "map"}).Draw(rt, "form") {
		case "lines":
			text = strings.Join(records, "\n") + rapid.SampledFrom([]string{"", "\n"}).Draw(rt, "end")
		case "list":
			text = "[" + strings.Join(records, rapid.SampledFrom([]string{",", ", ", ",\n  "}).Draw(rt, "sep")) + "]\n"
		case "map":
			for i := range records {
				records[i] = fmt.Sprintf("%q: %s", fmt.Sprint(i), records[i])
			}
			text = "{" + strings.Join(records, ",\n") + "}"
		}
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		src, out := filepath.Join(dir, "rows.json"), filepath.Join(dir, "out")
		if err := os.WriteFile(src, []byte(text), 0o644); err != nil {
			rt.Fatal(err)
		}
		if _, err := (Importer{}).Import(t.Context(), src, out, importer.Options{}); err != nil {
			rt.Fatal(err)
		}
		got, err := Rows(out)
		if err != nil || string(got) != text {
			rt.Fatalf("%q came back as %q, %v", text, got, err)
		}
	})
}

// A row whose task was changed by hand is not given out.
func TestChangedTaskKeepsItsRow(t *testing.T) {
	dir := t.TempDir()
	src, out := filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "out")
	if err := os.WriteFile(src, row(t, nil).Raw, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (Importer{}).Import(t.Context(), src, out, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "demo__calc-1", "solution", "gold.patch"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Rows(out); err == nil || !strings.Contains(err.Error(), "gold.patch: it is not what the row") {
		t.Errorf("%v", err)
	}
}

// A task repository of SWE-bench 5 gives the rows that its publisher makes.
func TestTaskRepository(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	at := "tasks/demo__calc-1/"
	crlf := strings.NewReplacer(":\n", ":\r\n", " b\n", " b\r\n").Replace(fix) // of the file, not of the diff's own lines
	put("sweb.yaml", "datasets: [demo/set]\n")
	put(at+"task.yaml", "base_commit: '"+strings.Repeat("0", 40)+"'\ndatasets: [demo/set]\neval_type: pass_and_fail\nimage: swebench/x:latest\ninstance_id: demo__calc-1\nlog_parser: parse_log_pytest\nrepo: demo/calc\nsplit: test\nversion: '1.0'\n")
	put(at+"tests.json", `{"FAIL_TO_PASS": ["tests/test_calc.py::test_add"], "PASS_TO_PASS": []}`)
	put(at+"gold.patch", crlf)
	put(at+"test.patch", tests)
	put(at+"eval.sh", evalText)
	put(at+"problem_statement.md", "Fix it.\n")
	put(at+"test_assets/img/a.png", "\x89PNG")
	put(at+"Dockerfile", "FROM x\n")
	out := t.TempDir()
	if _, err := (Importer{}).Import(t.Context(), dir, out, importer.Options{}); err != nil {
		t.Fatal(err)
	}
	task := filepath.Join(out, "demo__calc-1")
	for name, want := range map[string]string{"solution/gold.patch": crlf, "tests/assets/img/a.png": "\x89PNG", "instruction.md": "Fix it.\n"} {
		if b, err := os.ReadFile(filepath.Join(task, name)); err != nil || string(b) != want {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(task, "tests/run.sh")); err != nil || !strings.Contains(string(b), "cp -R /tests/assets/. /testbed/") {
		t.Errorf("run.sh: %s, %v", b, err)
	}
	rows, err := Rows(out)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(rows, &got); err != nil {
		t.Fatal(err)
	}
	if got["split"] != nil || got["datasets"] != nil || got["version"] != "1.0" || got["hints_text"] != "" || got["eval_script"] != evalText {
		t.Errorf("%s", rows)
	}
	// Without a published image, its own Dockerfile, and none of the answers.
	put(at+"task.yaml", "base_commit: x\nimage: ''\ninstance_id: demo__calc-1\nlog_parser: parse_log_pytest\nrepo: demo/calc\nversion: '1.0'\n")
	put(at+"extra/setup.sh", "x")
	sources, _, err := taskRepo(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range sources[0].docker {
		names = append(names, f.Path)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"environment/Dockerfile", "environment/extra/setup.sh"}) {
		t.Errorf("build context %v", names)
	}
	if err := os.Remove(filepath.Join(dir, at+"gold.patch")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, at+"gold.patch")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := taskRepo(dir); err == nil || !strings.Contains(err.Error(), "not a plain file") {
		t.Errorf("a link as gold.patch: %v", err)
	}
}

func FuzzScript(f *testing.F) {
	f.Add(evalText, true)
	f.Add("cat <<X\n", false)
	f.Fuzz(func(t *testing.T, text string, placed bool) {
		e, err := takeApart(text, placed)
		if err == nil && len(e.tests) == 0 {
			t.Error("a script without a test command")
		}
	})
}

func FuzzPatch(f *testing.F) {
	f.Add(fix)
	f.Add(tests)
	f.Fuzz(func(t *testing.T, text string) {
		tr := &tree{names: []string{"calc.py"}, files: map[string]blob{"calc.py": {"100644", []byte("def add(a, b):\n    return a - b\n")}}}
		if err := tr.lay(text); err != nil {
			return
		}
		for _, name := range tr.names {
			if strings.HasPrefix(name, "/") || strings.Contains(name, "..") && !filepath.IsLocal(name) {
				t.Errorf("%q is laid", name)
			}
		}
	})
}
