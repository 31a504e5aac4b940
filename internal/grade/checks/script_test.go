package checks

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/grade/report"
)

// project is a small suite of a real runner, and its plan.
type project struct {
	name  string
	tools []string
	files map[string]string // the workspace
	tests map[string]string // below tests/
	plan  string
	// work is what is done to the workspace, a shell's line, and whether the
	// plan's checks pass then.
	work map[string]bool
}

// projects are one for each way in which a script reads reports.
func projects() []project {
	python := map[string]string{"calc.py": "def add(a, b):\n    return a - b\n\ndef neg(a):\n    return -a\n"}
	fixPython := "sed -i 's/a - b/a + b/' calc.py"
	node := map[string]string{"calc.js": "exports.add = (a, b) => a - b;\nexports.neg = (a) => -a;\n"}
	fixNode := "sed -i 's/a - b/a + b/' calc.js"
	_, nodeSupport, _ := report.Support("node-test")
	_, unitSupport, _ := report.Support("unittest")
	return []project{
		{
			name: "pytest", tools: []string{"python3"}, files: python,
			tests: map[string]string{"repo/tests/test_calc.py": `import pytest, calc

@pytest.mark.parametrize("a,b", [(1, 2), (3, 4)], ids=["one two", "x <&>"])
def test_add(a, b):
    assert calc.add(a, b) == a + b

class TestNeg:
    def test_neg(self):
        assert calc.neg(1) == -1

@pytest.mark.skip
def test_off(): pass
`},
			plan: `version = 1
[place]
repo = "."
[[commands]]
name = "unit"
run = "python3 -m pytest -q -p no:cacheprovider -o junit_family=xunit1 --junitxml=report.xml tests"
report = "pytest"
files = ["report.xml"]
fail_to_pass = ["tests/test_calc.py::test_add[one two]", "tests/test_calc.py::test_add[x <&>]"]
pass_to_pass = ["tests/test_calc.py::TestNeg::test_neg"]
`,
			work: map[string]bool{
				"true": false, fixPython: true, fixPython + "; echo 'raise SystemExit' >>calc.py": false,
				fixPython + "; printf 'def neg(a):\\n    return a\\n' >>calc.py": false,
				fixPython + "; printf 'import os; os._exit(0)' >>calc.py":        false,
				fixPython + "; echo '(' >>calc.py":                               false,
				// A report that lies there before counts for nothing.
				"python3 -c \"print('<testsuites><testsuite tests=\\\"3\\\" failures=\\\"0\\\" errors=\\\"0\\\" skipped=\\\"0\\\"></testsuite></testsuites>')\" >report.xml; echo '(' >>calc.py": false,
			},
		},
		{
			name: "unittest", tools: []string{"python3"}, files: python,
			tests: map[string]string{"repo/assay_unittest.py": string(unitSupport), "repo/tests/__init__.py": "", "repo/tests/test_calc.py": `import unittest, calc

class Calc(unittest.TestCase):
    def test_add(self):
        """It adds."""
        self.assertEqual(calc.add(1, 2), 3)
    def test_neg(self):
        self.assertEqual(calc.neg(1), -1)
    @unittest.skip("no")
    def test_off(self):
        pass
`},
			plan: `version = 1
place = { repo = "." }
[[commands]]
name = "unit"
run = "python3 assay_unittest.py --assay-report=report.ndjson discover -s tests -t ."
report = "unittest"
files = ["*.ndjson"]
fail_to_pass = ["tests.test_calc.Calc.test_add"]
pass_to_pass = ["tests.test_calc.Calc.test_neg"]
`,
			work: map[string]bool{"true": false, fixPython: true, fixPython + "; rm tests/test_calc.py; sed -i 's/-a/a/' calc.py": false},
		},
		{
			name: "node-test", tools: []string{"node"}, files: node,
			tests: map[string]string{"repo/assay_node.mjs": string(nodeSupport), "repo/test/calc.test.js": `const test = require("node:test"), assert = require("node:assert"), calc = require("../calc.js");
test("adds", () => assert.strictEqual(calc.add(1, 2), 3));
test("group", async (t) => { await t.test("neg > ü", () => assert.strictEqual(calc.neg(1), -1)); });
`},
			plan: `version = 1
place = { repo = "." }
[[commands]]
name = "node"
run = "node --test --test-reporter=./assay_node.mjs --test-reporter-destination=out/report.ndjson test/"
report = "node-test"
files = ["**/report.ndjson"]
fail_to_pass = ["test/calc.test.js > adds"]
pass_to_pass = ['test/calc.test.js > group > neg \> ü']
[[commands]]
name = "smoke"
args = ["node", "-e", "require('./calc.js')"]
env = { NODE_ENV = "it's" }
`,
			work: map[string]bool{"mkdir out": false, fixNode + "; mkdir out": true, fixNode + "; mkdir out; echo 'throw 1' >>calc.js": false},
		},
		{
			name: "go", tools: []string{"go"},
			files: map[string]string{"go.mod": "module example.com/calc\n\ngo 1.21\n", "calc.go": "package calc\n\nfunc Add(a, b int) int { return a - b }\n"},
			tests: map[string]string{"repo/calc_test.go": `package calc

import "testing"

func TestAdd(t *testing.T) {
	for _, name := range []string{"a < b", "c&d"} {
		t.Run(name, func(t *testing.T) {
			if Add(1, 2) != 3 {
				t.Error("no")
			}
		})
	}
}

func TestOld(t *testing.T) {}

func TestSkip(t *testing.T) { t.Skip() }
`},
			plan: `version = 1
place = { repo = "." }
[[commands]]
name = "go"
run = "go test -json -count=1 ./..."
env = { GOFLAGS = "-mod=mod", GOPROXY = "off", GOWORK = "off" }
report = "go-test"
fail_to_pass = ["example.com/calc::TestAdd", "example.com/calc::TestAdd/a_<_b", "example.com/calc::TestAdd/c&d"]
pass_to_pass = ["example.com/calc::TestOld"]
`,
			work: map[string]bool{"true": false, "sed -i 's/a - b/a + b/' calc.go": true, "sed -i 's/a - b/a + c/' calc.go": false},
		},
		{
			name: "tap, cases and state", tools: []string{"perl"},
			files: map[string]string{"prog.sh": "read x\necho $((x))\n", "conf/app": "old\n"},
			tests: map[string]string{
				"repo/t.pl":  "print qq(ok 1 - first\\n), (-e 'done' ? '' : 'not '), qq(ok 2 - second # not a directive\\n1..2\\n); exit(-e 'done' ? 0 : 1);\n",
				"io.ndjson":  "{\"id\":\"two\",\"stdin\":\"2\\n\",\"want\":{\"stdout\":\"4\"}}\n{\"id\":\"it's\",\"stdin\":\"3\",\"files\":{\"a b\":\"x\"},\"compare\":\"numbers\",\"abs_tol\":0.5,\"want\":{\"stdout\":\" 5.9\\n\"}}\n",
				"old.ndjson": "{\"id\":\"fails\",\"args\":[\"x\"],\"want\":{\"exit\":2}}\n",
			},
			plan: `version = 1
place = { repo = "." }
[[commands]]
name = "tap"
run = "perl t.pl"
report = "tap"
fail_to_pass = ["second # not a directive"]
pass_to_pass = ["first"]
[[cases]]
name = "io"
file = "io.ndjson"
run = ["sh", "prog.sh"]
[[cases]]
name = "old"
file = "old.ndjson"
run = ["sh", "-c", "exit 2"]
pass_to_pass = ["fails"]
[[state]]
name = "mode"
path = "done"
type = "file"
mode = "0640"
equals = "it's\n"
[[state]]
name = "conf"
baseline = true
path = "conf/app"
matches = "^o[l]d\n$"
contains = "ld"
sha256 = "01d09d19c2139a46aebfb577780d123d7396e97201bc7ead210a2ebff8239dee"
[[state]]
name = "gone"
path = "prog.bak"
absent = true
[[state]]
name = "says"
run = "cat done; exit 3"
exit = 3
equals = "it's"
[[state]]
name = "alive"
path = "never"
absent = true
[[state]]
name = "quiet"
no_process = "no such process of any machine"
`,
			work: map[string]bool{
				"true": false,
				"printf \"it's\\n\" >done; chmod 640 done; echo 'read x; echo $((x * 2))' >prog.sh":                                     true,
				"printf \"it's\\n\" >done; chmod 640 done; echo 'read x; echo $((x * 2)).7' >prog.sh":                                   false,
				"printf \"it's\\n\" >done; chmod 644 done; echo 'read x; echo $((x * 2))' >prog.sh":                                     false,
				"printf \"it's\\n\" >done; chmod 640 done; echo 'read x; echo $((x * 2))' >prog.sh; touch prog.bak":                     false,
				"printf \"it's\\n\" >done; chmod 640 done; echo 'read x; echo $((x * 2)); exit 1' >prog.sh":                             false,
				"printf \"it's\\n\" >done; chmod 640 done; echo 'read x; echo $((x * 2))' >prog.sh; printf 'old' >conf/app":             false,
				"printf \"it's\" >done; chmod 640 done; echo 'read x; echo $((x * 2))' >prog.sh":                                        false,
				"printf \"it's\\n\" >done; chmod 640 done; echo 'read x; echo $((x * 2))' >prog.sh; rm t.pl; echo 'exit 1' >sitecustom": true,
			},
		},
	}
}

func writeTree(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		at := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.WriteFile(at, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// runScript makes test.sh of the plan in tests and runs it as Harbor does, in
// the workspace; the reward, and what it printed.
func runScript(t *testing.T, p *Plan, tests, work string) (reward, said string) {
	t.Helper()
	b, err := p.Script()
	if err != nil {
		t.Fatal(err)
	}
	at, logs := filepath.Join(tests, ScriptName), filepath.Join(t.TempDir(), "logs")
	if err := os.WriteFile(at, b, 0o755); err != nil {
		t.Fatal(err)
	}
	// What the work may have left where everybody writes counts for nothing.
	forged := filepath.Join(logs, "reward.json")
	if err := errors.Join(os.Mkdir(logs, 0o755), os.Chmod(logs, 0o777), os.WriteFile(forged, []byte(`{"reward": 1}`), 0o644), os.MkdirAll(filepath.Join(logs, "reward.txt", "x"), 0o755)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(at)
	cmd.Dir, cmd.Env = work, append(os.Environ(), "ASSAY_VERIFIER_LOGS="+logs)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(logs, "reward.txt"))
	if err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(forged); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a reward of the work's is left: %v", err)
	}
	if info, err := os.Stat(logs); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("others write into the logs: %v, %v", info.Mode(), err)
	}
	return strings.TrimSpace(string(got)), string(out)
}

// observed runs a plan's commands here and judges what they leave. Cases and
// assertions are other rooms': those it believes.
func observed(t *testing.T, p *Plan, tests, work string) Verdict {
	t.Helper()
	o := Observation{Attempted: true}
	for from, to := range p.Place {
		if out, err := exec.Command("cp", "-R", filepath.Join(tests, from)+"/.", filepath.Join(work, to)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, c := range p.Commands {
		for _, f := range c.Files {
			old, _ := filepath.Glob(filepath.Join(work, strings.ReplaceAll(f, "**", "*")))
			for _, name := range old {
				os.Remove(name)
			}
		}
		args := c.Args
		if len(args) == 0 {
			args = []string{"/bin/sh", "-c", c.Run}
		}
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = work, os.Environ()
		for k, v := range c.Env {
			cmd.Env = append(cmd.Env, k+"="+v)
		}
		var stdout bytes.Buffer
		cmd.Stdout = &stdout
		r := Ran{Name: c.Name}
		if err := cmd.Run(); err != nil {
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatal(err)
			}
			r.Exit = exit.ExitCode()
		}
		var sources []report.Source
		if c.Report != "" && len(c.Files) == 0 {
			sources = append(sources, report.Source{Name: "stdout", Data: stdout.Bytes(), Root: work})
		}
		for _, f := range c.Files {
			found, _ := filepath.Glob(filepath.Join(work, strings.ReplaceAll(f, "**", "*")))
			for _, name := range found {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				sources = append(sources, report.Source{Name: name, Data: b, Root: work})
			}
		}
		if len(sources) > 0 {
			rep, err := report.Read(c.Report, sources, r.Exit)
			if err != nil {
				r.ReportErr = err.Error()
			}
			r.Report = rep
		}
		o.Commands = append(o.Commands, r)
	}
	for _, c := range p.Cases {
		got := CasesRan{Name: c.Name}
		for _, id := range c.IDs() {
			got.Tests = append(got.Tests, report.Test{ID: id, Status: report.Passed})
		}
		o.Cases = append(o.Cases, got)
	}
	for _, s := range p.State {
		o.State = append(o.State, StateSeen{Name: s.Name, Held: true})
	}
	return Judge(p, o)
}

// The script gives honest runs of real runners the reward that judging gives.
func TestScriptRewards(t *testing.T) {
	for _, pr := range projects() {
		t.Run(pr.name, func(t *testing.T) {
			needs(t, append(pr.tools, "awk")...)
			for work, passes := range pr.work {
				dir := t.TempDir()
				tests := filepath.Join(dir, "tests")
				writeTree(t, tests, pr.tests)
				writeTree(t, tests, map[string]string{File: pr.plan})
				p, err := Load(tests)
				if err != nil {
					t.Fatal(err)
				}
				var at [2]string
				for i, name := range []string{"it's a (work)+", "b"} {
					at[i] = filepath.Join(dir, name)
					writeTree(t, at[i], pr.files)
					cmd := exec.Command("sh", "-c", work)
					cmd.Dir = at[i]
					if out, err := cmd.CombinedOutput(); err != nil {
						t.Fatalf("%v: %s", err, out)
					}
				}
				reward, said := runScript(t, p, tests, at[0])
				v := observed(t, p, tests, at[1])
				if (reward == "1") != passes {
					t.Errorf("after %q the script's reward is %s\n%s", work, reward, said)
				}
				if len(p.Cases) == 0 && v.Resolved != passes {
					t.Errorf("after %q it is judged %s: %+v", work, v.Cause, v)
				}
			}
		})
	}
}

// Without what it expects a script gives nothing, and it is recognised.
func TestScriptText(t *testing.T) {
	p := mustDecode(t, whole, wholeTests())
	b, err := p.Script()
	if err == nil {
		t.Error("cases without a wanted output are no fault") // "two" wants nothing
	}
	if !IsScript(b) || IsScript([]byte("#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n")) {
		t.Error("a script is not recognised")
	}
	again, _ := p.Script()
	if !bytes.Equal(b, again) {
		t.Error("two scripts of one plan differ")
	}
	cmd := exec.Command("sh", "-n")
	cmd.Stdin = bytes.NewReader(b)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	p = &Plan{Commands: []Command{{Name: "x", Run: "true", Report: "swebench:pytest"}}}
	if _, err := p.Script(); err == nil || !strings.Contains(err.Error(), "swebench:pytest") {
		t.Errorf("%v", err)
	}
}
