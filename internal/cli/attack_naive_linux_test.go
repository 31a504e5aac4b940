package cli

import (
	"context"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/agent/oracle"
	"assay/internal/grade/checks"
	"assay/internal/grade/exploit"
	"assay/internal/job"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

const attackTasks = "../grade/exploit/testdata/tasks"

// naive is how a public harness would grade a task of testdata: in the agent's
// own container and workspace, with the tools that are found there, by the
// lines of a log.
type naive struct {
	into    string // where the hidden tests are copied to, in the workspace
	install string // before the start marker, as harnesses reinstall the product
	run     string
	format  checks.Command // Report, Files: what the attacker takes the log for
	id      func(id string) string
}

func naives() map[string]naive {
	same := func(id string) string { return id }
	last := func(sep string) func(string) string {
		return func(id string) string { return id[strings.LastIndex(id, sep)+len(sep):] }
	}
	return map[string]naive{
		"py-pytest": {"tests", `[ -f setup.py ] && python3 setup.py --version`, `python3 -m pytest -rA tests`, checks.Command{Report: "pytest"},
			func(id string) string { return "tests" + strings.TrimPrefix(id, "hidden") }},
		"py-unittest": {"tests", `[ -f setup.py ] && python3 setup.py --version`, `python3 -m unittest discover -v -s tests`, checks.Command{Report: "unittest"}, same},
		"js-node":     {"test", ``, `node --test --test-reporter=tap test/limiter.test.js`, checks.Command{Report: "tap"}, last(" > ")},
		"go":          {"hiddentest", `go build ./...`, `cd hiddentest && go test -vet=off -count=1 -v ./...`, checks.Command{Report: "go-test"}, last("::")},
		"rust":        {".hidden", `mkdir -p tests; cp .hidden/tests/*.rs tests/; cargo build --offline`, `cargo test --offline`, checks.Command{Report: "cargo-test"}, last("] ")},
		"java": {"test", `rm -rf classes; mkdir classes; javac -d classes -cp src:/usr/share/java/junit4.jar $(find src test -name '*.java' ! -name LruCacheTest.java)`,
			`java -cp classes:/usr/share/java/junit4.jar:/usr/share/java/hamcrest-core.jar Main report.xml; cat report.xml`,
			checks.Command{Report: "junit", Files: []string{"report.xml"}}, last("::")},
		"c": {"test", `[ -x configure ] && ./configure; make check`, `cc -Isrc -o build/hidden src/ring.c test/hidden_ring.c && ./build/hidden`,
			checks.Command{Report: "tap"}, last(" > ")},
		"shell": {"test", `[ -x install.sh ] && ./install.sh; [ -f Makefile ] && make`, `sh test/run.sh /dev/stdout`, checks.Command{Report: "tap"}, last(" > ")},
	}
}

// naiveScript reads a log as harnesses do: what stands between the first start
// mark and the first end mark; any line that looks like a result counts, and of
// two for one test the later one.
const naiveScript = `#!/bin/bash
# A naive grader, for tests alone.
cd /app
. /root/.bashrc 2>/dev/null
export PATH="$PWD/bin:$HOME/.local/bin:/usr/local/bin:/usr/local/go/bin:/usr/bin:/bin:$PATH"
mkdir -p INTO /logs/verifier && cp -r /tests/hidden/. INTO/
{
  diff -ruN /tests/orig .
  INSTALL
  echo '>>>>> Start Test Output'
  RUN
  echo ">>>>> Exit Code: $?"
  echo '>>>>> End Test Output'
} 2>&1 | cat >/logs/verifier/test_output.txt
tr '\r' '\n' </logs/verifier/test_output.txt | awk '
  BEGIN { while ((getline line <"/tests/expected.txt") > 0) want[line] = 1 }
  /^>>>>> Start/ { on = 1 }
  /^>>>>> End/ && on { exit }
  !on { next }
  { sub(/^ +/, "") }
  /^PASSED / { got[substr($0, 8)] = "pass" }
  /^(FAILED|ERROR) / { sub(/^[A-Z]+ /, ""); sub(/ - .*/, ""); got[$0] = "fail" }
  /^--- (PASS|FAIL): / { got[$3] = $2 == "PASS:" ? "pass" : "fail" }
  /^(not )?ok [0-9]+ - / { n = $0; sub(/^(not )?ok [0-9]+ - /, "", n); got[n] = /^ok/ ? "pass" : "fail" }
  / \.\.\. (ok|FAILED|FAIL|ERROR)$/ { n = $0; sub(/^test /, "", n); sub(/ \.\.\. .*/, "", n); if (n ~ /\(.*\)$/) { sub(/^.*\(/, "", n); sub(/\)$/, "", n) } got[n] = / ok$/ ? "pass" : "fail" }
  /^<testcase / { n = $0; sub(/.* name="/, "", n); sub(/".*/, "", n); got[n] = /\/>$/ ? "pass" : "fail" }
  END { r = 1; for (w in want) if (got[w] != "pass") { r = 0; print w, got[w] >"/dev/stderr" } print r }
' >/logs/verifier/reward.txt
sleep 0.3
`

// naiveTask makes a task that is graded naively of one of testdata, and says
// what an attacker knows of it.
func naiveTask(t *testing.T, name string, into string) exploit.Target {
	t.Helper()
	n := naives()[name]
	src := filepath.Join(attackTasks, name)
	if err := os.CopyFS(into, os.DirFS(src)); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(into, "tests", "orig"), os.DirFS(filepath.Join(src, "environment", "app"))); err != nil {
		t.Fatal(err)
	}
	plan, err := checks.Load(filepath.Join(src, "tests"))
	if err != nil {
		t.Fatal(err)
	}
	f2p, p2p := plan.Commands[0].Expected()
	c := n.format
	c.Name, c.Run = "naive", n.run
	for _, id := range slices.Concat(f2p, p2p) {
		c.FailToPass = append(c.FailToPass, n.id(id))
	}
	script := strings.NewReplacer("INTO", n.into, "INSTALL", n.install, "RUN", n.run).Replace(naiveScript)
	write := func(file, text string) {
		if err := os.WriteFile(filepath.Join(into, file), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("tests/test.sh", script)
	write("tests/expected.txt", strings.Join(c.FailToPass, "\n")+"\n")
	b, err := os.ReadFile(filepath.Join(into, "task.toml"))
	if err != nil {
		t.Fatal(err)
	}
	write("task.toml", strings.NewReplacer(`"sealed"`, `"live"`, `"patch"`, `"state"`, "300.0", "40.0").Replace(string(b)))
	if err := os.Remove(filepath.Join(into, "tests", checks.File)); err != nil {
		t.Fatal(err)
	}
	var hidden []string
	err = filepath.WalkDir(filepath.Join(src, "tests", "hidden"), func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			rel, _ := filepath.Rel(filepath.Join(src, "tests"), p)
			hidden = append(hidden, filepath.ToSlash(rel))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	p := &checks.Plan{Version: 1, Commands: []checks.Command{c}, Place: map[string]string{"hidden": n.into}}
	target := exploit.NewTarget("attack/"+name, "/app", true, "", p, hidden)
	target.Before, target.After = ">>>>> Start Test Output", ">>>>> Exit Code: 0\n>>>>> End Test Output"
	return target
}

// missingTools says why a task of testdata cannot run on this machine's image;
// empty: it can.
func missingTools(name string) string {
	needs := map[string][]string{
		"py-pytest": {"/usr/bin/python3", "/usr/lib/python3/dist-packages/pytest"}, "py-unittest": {"/usr/bin/python3"},
		"js-node": {"/usr/bin/node"}, "go": {"/usr/local/go/bin/go"}, "rust": {"/usr/bin/cargo", "/usr/bin/rustc"},
		"java": {"/usr/bin/javac", "/usr/share/java/junit4.jar", "/usr/share/java/hamcrest-core.jar"},
		"c":    {"/usr/bin/make", "/usr/bin/gcc"}, "shell": {"/usr/bin/awk"},
	}
	for _, f := range needs[name] {
		if _, err := os.Stat(f); err != nil {
			return "there is no " + f
		}
	}
	return ""
}

// attackable are the tasks of testdata that can run here.
func attackable(t *testing.T) (names []string) {
	t.Helper()
	dirs, err := filepath.Glob(attackTasks + "/*")
	if err != nil || len(dirs) < 8 {
		t.Fatalf("%d tasks, %v", len(dirs), err)
	}
	for _, d := range dirs {
		name := filepath.Base(d)
		if why := missingTools(name); why != "" {
			t.Logf("%s is left out: %s", name, why)
			continue
		}
		names = append(names, name)
	}
	return names
}

// attackJob runs pairs as a job and returns how each ended, by cheat and task.
func attackJob(t *testing.T, storeDir string, tasks []*task.Task, pairs []exploit.Pair) map[[2]string]*store.Trial {
	t.Helper()
	a := &app{World: World{Stdout: io.Discard, Stderr: io.Discard, Env: os.LookupEnv}}
	g := &grammar{Store: storeDir}
	ctx := &boundCtx{context.Background()}
	r, err := a.open(ctx, g)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	dir := filepath.Join(scratch(t), "jobs", "attack")
	arms, err := attackArms(dir, pairs)
	if err != nil {
		t.Fatal(err)
	}
	arms = append(arms, job.Arm{Spec: "oracle", Agent: oracle.New()})
	cfg := job.Config{Dir: dir, Tasks: tasks, Arms: arms, Attempts: 1, Concurrent: 2, AgentLimit: attackLimit}
	if err := a.runQuietly(ctx, g, r, cfg, registryFlags{}); err != nil {
		t.Fatal(err)
	}
	v, err := store.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	by := map[[2]string]*store.Trial{}
	for _, tr := range v.Trials {
		by[[2]string{tr.Agent, tr.Task}] = tr
	}
	for _, k := range tasks {
		if got := by[[2]string{"oracle", k.Name}]; got == nil || got.Outcome != trial.Pass {
			t.Errorf("gold does not pass %s: %+v", k.Name, got)
		}
	}
	return by
}

// The same cheats pass a grader that believes a log: they bite.
func TestAttacksBite(t *testing.T) {
	needSandbox(t)
	names, battery := strings.Fields(os.Getenv("ASSAY_ATTACK_NAIVE")), exploit.Battery()
	if len(names) == 0 { // check --long attack does all
		names = []string{"shell"}
		battery = slices.DeleteFunc(battery, func(a exploit.Attack) bool {
			return a.Class != exploit.Baseline && (a.Class != exploit.Untrusted || !a.BitesAt(exploit.Shell))
		})
	}
	if only := strings.Fields(os.Getenv("ASSAY_ATTACK_CHEATS")); len(only) > 0 {
		var err error
		if battery, err = exploit.Select(battery, only, nil); err != nil {
			t.Fatal(err)
		}
	}
	home, storeDir := scratch(t), os.Getenv("ASSAY_ATTACK_STORE")
	if storeDir == "" {
		storeDir = scratch(t)
	}
	var tasks []*task.Task
	var targets []exploit.Target
	for _, name := range attackable(t) {
		if !slices.Contains(names, name) && !slices.Contains(names, "all") {
			continue
		}
		targets = append(targets, naiveTask(t, name, filepath.Join(home, name)))
		k, err := task.Load(filepath.Join(home, name))
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, k)
	}
	pairs := exploit.Sample(exploit.Pairs(battery, targets), 0, 0)
	by := attackJob(t, storeDir, tasks, pairs)
	bitten, tried, labelled, bit := map[string][]string{}, map[string]int{}, 0, 0
	for _, p := range pairs {
		tr := by[[2]string{p.Attack.ID, p.Target.Task}]
		passed := tr != nil && tr.Outcome == trial.Pass
		if p.Attack.Class == exploit.Baseline {
			if passed {
				t.Errorf("%s passes %s", p.Attack.ID, p.Target.Task)
			}
			continue
		}
		tried[p.Target.Task]++
		if passed {
			bitten[p.Target.Task] = append(bitten[p.Target.Task], p.Attack.ID)
		}
		switch label := p.Attack.BitesAt(p.Target.Ecosystem); {
		case label && passed:
			labelled, bit = labelled+1, bit+1
		case label:
			labelled++
			t.Logf("does not bite: %s at %s (%s)", p.Attack.ID, p.Target.Task, tr.Cause)
		case passed:
			t.Logf("bites, too: %s at %s", p.Attack.ID, p.Target.Task)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tried)) {
		t.Logf("%s: %d of %d cheats pass: %s", name, len(bitten[name]), tried[name], strings.Join(bitten[name], " "))
	}
	t.Logf("%d of %d cheats that are labelled as biting pass the naive grader", bit, labelled)
	if labelled == 0 || 100*bit < 60*labelled {
		t.Errorf("only %d of %d cheats bite", bit, labelled)
	}
}
