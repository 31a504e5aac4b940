package label

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// files of a task, besides the plainest task.toml and instruction.
type files map[string]string

func taskDir(t testing.TB, fs files) string {
	t.Helper()
	dir := t.TempDir()
	all := files{"task.toml": "schema_version = \"1.4\"\n", "instruction.md": "Do it.\n", "environment/Dockerfile": "FROM debian:12\n", "tests/test.sh": "#!/bin/sh\n"}
	for k, v := range fs {
		all[k] = v
	}
	for name, text := range all {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// packed is a gzipped tar of files.
func packed(t testing.TB, fs files) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, text := range fs {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

const patchText = `diff --git a/pkg/a.py b/pkg/a.py
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,3 +1,4 @@
 x
-y
+z
+w
 v
diff --git a/tests/test_a.py b/tests/test_a.py
--- a/tests/test_a.py
+++ b/tests/test_a.py
@@ -1 +1,2 @@
 x
+t
`

func TestScope(t *testing.T) {
	python := Scope{Known: true, Lines: 4, Added: 3, Removed: 1, Files: 2, Modules: 2, Layers: []string{"source", "tests"}}
	for name, c := range map[string]struct {
		files    files
		want     Scope
		language string
	}{
		"a patch":               {files{"solution/solve.sh": "#!/bin/sh\ngit apply gold.patch\n", "solution/gold.patch": patchText}, python, "python"},
		"a patch in the script": {files{"solution/solve.sh": "#!/bin/bash\nset -e\ncd /testbed\ngit apply - <<'EOF_1'\n" + patchText + "EOF_1\n"}, python, "python"},
		"an archive over a layer": {files{
			"environment/layer.tar.gz": packed(t, files{"app/src/lib.go": "a\nb\nc\n", "app/.git/objects/ab/cd": "x", "app/go.mod": "m\n"}),
			"solution/payload.tar.gz":  packed(t, files{"app/src/lib.go": "a\nB\nc\nd\n", "app/.git/objects/ef/01": "y", "app/go.mod": "m\n"}),
			"solution/solve.sh":        "#!/bin/sh\nset -e\nhere=$(dirname \"$0\")\nrm -rf -- '/etc/profile.d/bad.sh'\ntar -x -z -f \"$here/payload.tar.gz\" -C /\n",
		}, Scope{Known: true, Lines: 4, Added: 2, Removed: 2, Files: 2, Modules: 2, Layers: []string{"source", "system"}}, "go"},
		"texts that a script writes": {files{"solution/solve.sh": "#!/bin/bash\ncat > /app/run.js <<EOF\none\ntwo\nEOF\nsed -i 's/a/b/' /app/package.json\npip install x\n"},
			Scope{Known: true, Lines: 4, Added: 3, Removed: 1, Files: 2, Modules: 1, Layers: []string{"dependencies", "source"}}, "javascript"},
		"commands alone": {files{"solution/solve.sh": "#!/bin/bash\nset -e\n# first\nsystemctl start x\nuseradd y\n"},
			Scope{Lines: 2, Layers: []string{}}, ""},
		"a reference file": {files{"solution/solve.sh": "#!/bin/bash\ncp solution.rs /app/\n", "solution/main.rs": "fn main() {\n}\n"},
			Scope{Known: true, Lines: 2, Added: 2, Files: 1, Modules: 1, Layers: []string{"source"}}, "rust"},
		"nothing": {files{}, Scope{Layers: []string{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Of(taskDir(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, l.Scope); d != "" {
				t.Error(d)
			}
			if l.Language != c.language {
				t.Errorf("language %q, want %q", l.Language, c.language)
			}
		})
	}
}

func TestSpecification(t *testing.T) {
	for _, c := range []struct {
		text  string
		facts []string
		level Level
	}{
		{"`mean([])` in pkg/calc.py fails with a ZeroDivisionError. It should be 0. When I call it:\n\n```\n>>> mean([])\n```", []string{Symptom, ErrorText, Expected, Reproduction, Location, APIName}, "L0"},
		{"The total is wrong. It should be a sum, and must not change for negative numbers. For example 1 and 2 give 4.", []string{Symptom, Expected, Constraint, Reproduction}, "L1"},
		{"Sorting is broken.", []string{Symptom}, "L3"},
		{"Look at src/app.py.", []string{Location}, "L3"},
		{"Please have a look around, it feels strange today.", []string{}, "L4"},
		{"Some of what worked before no longer does. 2 tests fail, 9 others still pass.\n\nFind the cause and mend it.\n\nThe project is in `/app`. The project's own tests judge the result.", []string{Symptom}, "L3"},
		{"The project is in /app.", []string{}, "L4"},
	} {
		s := specify(c.text, "/app")
		if d := cmp.Diff(c.facts, s.Facts); d != "" || s.Level != c.level || s.Ambiguous != (c.level >= "L3") {
			t.Errorf("%q: %s %v\n%s", c.text, s.Level, s.Ambiguous, d)
		}
	}
}

func TestEnvironment(t *testing.T) {
	record := func(more string) string {
		return "schema_version = \"1.4\"\n[metadata.assay.forge]\n" + more
	}
	for name, c := range map[string]struct {
		files files
		want  Environment
	}{
		"three faults, two in a chain": {files{"task.toml": record("generator = \"invert\"\noperators = [\"a\", \"b\", \"c\"]\n[metadata.assay.forge.notes]\ndepth = \"2\"\n")},
			Environment{Faults: 3, Depth: 2, Kinds: []string{"a", "b", "c"}, From: "record"}},
		"one fault": {files{"task.toml": record("generator = \"invert\"\noperators = [\"a\"]\n")},
			Environment{Faults: 1, Depth: 1, Kinds: []string{"a"}, From: "record"}},
		"mutations are in the code": {files{"task.toml": record("generator = \"mutate\"\noperators = [\"swap\"]\n")},
			Environment{Kinds: []string{}, From: "record"}},
		"a record of nonsense": {files{"task.toml": record("generator = 3\noperators = \"x\"\n[metadata.assay.forge.notes]\ndepth = \"99999999999999999999\"\n")},
			Environment{Kinds: []string{}, From: "record"}},
		"a Dockerfile that breaks": {files{"environment/Dockerfile": "FROM debian:12\nRUN apt-get install -y git && rm -rf /var/lib/apt/lists/*\nRUN rm -f /usr/lib/libz.so.1 && \\\n    chmod -x /usr/bin/make; sed -i s/a/b/ /etc/hosts\n"},
			Environment{Faults: 3, Depth: 1, Kinds: []string{"removes files", "takes permissions", "edits files"}, From: "dockerfile"}},
		"a Dockerfile": {files{}, Environment{Kinds: []string{}, From: "none"}},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := Of(taskDir(t, c.files))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, l.Environment); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestProcess(t *testing.T) {
	spec := func(l Level) Specification { return Specification{Level: l} }
	for name, c := range map[string]struct {
		l    Labels
		want Process
	}{
		"one line":       {Labels{Scope: Scope{Lines: 2, Files: 1, Modules: 1}, Specification: spec("L0")}, Process{Steps: 7, Files: 2, Minutes: 6.6, Tier: Short}},
		"a usual bug":    {Labels{Scope: Scope{Lines: 14, Files: 1, Modules: 1}, Specification: spec("L1")}, Process{Steps: 10, Files: 2, Minutes: 20.2, Tier: Medium}},
		"a large change": {Labels{Scope: Scope{Lines: 120, Files: 5, Modules: 3}, Specification: spec("L0")}, Process{Steps: 31, Files: 8, Minutes: 129, Tier: Long}},
		"a deep chain": {Labels{Scope: Scope{Lines: 10, Files: 3, Modules: 3}, Specification: spec("L3"), Environment: Environment{Faults: 3, Depth: 3, From: "record"}},
			Process{Steps: 38, Files: 9, Minutes: 63.8, Tier: Long}},
	} {
		if d := cmp.Diff(c.want, estimate(c.l)); d != "" {
			t.Errorf("%s:\n%s", name, d)
		}
	}
}

func TestTasksOfStepsAndBrokenOnes(t *testing.T) {
	if _, err := Of(t.TempDir()); err == nil {
		t.Error("an empty directory has labels")
	}
	dir := taskDir(t, files{"solution/broken.tar.gz": "\x1f\x8b\x08nonsense", "solution/solve.sh": "#!/bin/sh\ncat > a.py <<EOF\nnever ended\n", "solution/x.patch": "@@ nonsense\n"})
	l, err := Of(dir)
	if err != nil {
		t.Fatal(err)
	}
	if l.Scope.Files != 1 || l.Scope.Lines != 2 {
		t.Errorf("%+v", l.Scope)
	}
	again, err := Of(dir)
	if d := cmp.Diff(l, again); d != "" || err != nil {
		t.Errorf("equal directories, other labels: %v %s", err, d)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "solution", "out.py")); err != nil {
		t.Fatal(err)
	}
	if l, err := Of(dir); err == nil && l.Scope.Files != 1 {
		t.Errorf("a link out of the task was read: %+v", l.Scope)
	}
}

func FuzzScript(f *testing.F) {
	f.Add("cat > a <<EOF\nx\nEOF\nrm -rf b; sed -i s/a/b/ c.txt\n")
	f.Add("git apply - <<'E'\n" + patchText + "E\n")
	f.Fuzz(func(t *testing.T, s string) {
		g := &gold{files: map[string]*touch{}}
		g.take("solve.sh", []byte(s), nil)
		g.take("x.patch", []byte(s), nil)
		g.take("x.tar.gz", []byte(s), nil)
		if sc, _ := g.scope(); sc.Lines < 0 {
			t.Errorf("%+v", sc)
		}
		specify(s, "/app")
		instructions(s)
	})
}
