package cli

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/examples"
	"assay/internal/model/replay"
	"assay/internal/store"
	"assay/trajectory"
	"assay/trial"
)

// played is one conversation of a scripted model.
type played struct {
	Name  string            `json:"name"`
	When  map[string]string `json:"when"`
	Turns []map[string]any  `json:"turns"`
}

func turn(calls ...map[string]any) map[string]any { return map[string]any{"calls": calls} }

func bashCall(command string) map[string]any { return map[string]any{"bash": command} }

func writeCall(path, text string) map[string]any {
	return map[string]any{"write": map[string]string{"path": path, "content": text}}
}

func submitCall(check string) map[string]any {
	return map[string]any{"tool": "submit", "args": map[string]string{"check": check}}
}

// writePlayed writes a scripted model's file: JSON is YAML.
func writePlayed(t *testing.T, scripts []played) string {
	t.Helper()
	b, err := json.Marshal(map[string]any{"scripts": scripts})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(scratch(t), "model.yaml")
	if err := os.WriteFile(file, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// runs runs the program in this process and returns the job's trials.
func runs(t *testing.T, dir string, args ...string) []*store.Trial {
	t.Helper()
	var out, errs bytes.Buffer
	code := Main(append([]string{"assay"}, args...), World{Stdout: &out, Stderr: &errs, Env: os.LookupEnv})
	if code != exitDone {
		t.Fatalf("%v: exit %d\n%s%s", args, code, &out, &errs)
	}
	v, err := store.Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	return v.Trials
}

// TestReactSolvesTheDemo: first wrongly, as its own check says, then right.
func TestReactSolvesTheDemo(t *testing.T) {
	needSandbox(t)
	home := scratch(t)
	if err := unpack(examples.Demo(), home); err != nil {
		t.Fatal(err)
	}
	try := func(name, task, wrong, check string, solution string) played {
		put := "rm -rf /tmp/s; mkdir /tmp/s; cd /tmp/s\n"
		err := fs.WalkDir(examples.Demo(), path.Join("demo", solution), func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(examples.Demo(), p)
			put += fmt.Sprintf("cat >%s <<'END-OF-FILE'\n%sEND-OF-FILE\n", path.Base(p), text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return played{name, map[string]string{"task": task}, []map[string]any{
			turn(map[string]any{"tool": "plan", "args": map[string]string{"plan": "- [ ] " + name}}, map[string]any{"tool": "list", "args": map[string]any{"path": "/app"}}),
			turn(bashCall(wrong)), turn(submitCall(check)), turn(bashCall(put + "cd /app; sh /tmp/s/solve.sh")), turn(submitCall(check)),
		}}
	}
	model := writePlayed(t, []played{
		try("layers", "gateway's deadline", `echo "02-region.conf region" >answer.txt`, "sh health.sh && test -s answer.txt", "config-regression/solution"),
		try("total", "totals of `/app/total.sh`", "echo 'echo 0' >total.sh", `[ "$(sh total.sh sample.csv)" = 1277.18 ]`, "csv-total/solution"),
		try("rotation", "Write `/app/rotate.sh`", "echo 'exit 1' >rotate.sh", "rm -rf /tmp/x; cp -R example /tmp/x && sh rotate.sh /tmp/x 3", "log-rotate/solution"),
		try("relay", "The relay on this machine", "cat /etc/relay/relay.conf", "sh /app/relay-check", "relay-config/solution"),
		try("warehouses", "opened more warehouses", "sh stock.sh movements.txt", `printf '2026-01-01 a IN 1 @b\n' >/tmp/m && [ "$(sh stock.sh -w /tmp/m)" = 'b a 1' ]`, "stock-report/steps/warehouses/solution"),
		try("stock", "The store writes every movement", "echo 'cat \"$1\"' >stock.sh", `sh stock.sh movements.txt >/tmp/o && ! grep -q IN /tmp/o && test -s /tmp/o`, "stock-report/steps/report/solution"),
	})
	jobs, store := filepath.Join(home, "jobs"), scratch(t)
	trials := runs(t, filepath.Join(jobs, "demo"), "--store", store, "run", "-q", "--no-report", "-p", filepath.Join(home, "demo"), "-a", "react", "-m", "scripted:"+model,
		"-o", jobs, "--job-name", "demo", "-n", "2")
	if len(trials) != 5 {
		t.Fatalf("%d trials", len(trials))
	}
	for i, tr := range trials {
		repaired(t, tr)
		again := runs(t, filepath.Join(jobs, fmt.Sprint("again", i)), "--store", store, "run", "-q", "--no-report", "-p", filepath.Join(home, "demo", path.Base(tr.Task)),
			"-a", "react", "-m", "replay:"+tr.Dir, "-o", jobs, "--job-name", fmt.Sprint("again", i))
		same(t, tr, again[0])
	}
}

// same compares the trajectories of a trial and of its replay, byte for byte
// once what differs from run to run is made equal.
func same(t *testing.T, first, again *store.Trial) {
	t.Helper()
	if len(first.Steps) != len(again.Steps) || again.Outcome != first.Outcome {
		t.Errorf("%s: %s, replayed %s (%s)", first.Task, first.Outcome, again.Outcome, again.Record.Detail)
		return
	}
	document := func(tr *store.Trial, i int) string {
		b, err := os.ReadFile(filepath.Join(tr.Dir, tr.Steps[i].Trajectory))
		if err == nil {
			b, err = replay.Document(b)
		}
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	for i := range first.Steps {
		if d := cmp.Diff(document(first, i), document(again, i)); d != "" {
			t.Errorf("%s: the replay differs (-first +again):\n%s", first.Task, d)
		}
	}
}

// repaired checks a trial that was first wrong and then right, and what is
// told of it.
func repaired(t *testing.T, tr *store.Trial) {
	t.Helper()
	if tr.Outcome != trial.Pass {
		log, _ := filepath.Glob(filepath.Join(tr.Dir, "agent", "react.txt")) // none: nothing is shown
		text := ""
		if len(log) > 0 {
			b, _ := os.ReadFile(log[0])
			text = string(b)
		}
		t.Errorf("%s: %s (%s) %s\n%s", tr.Task, tr.Outcome, tr.Cause, tr.Record.Detail, text)
		return
	}
	for _, s := range tr.Steps {
		name := filepath.Join(tr.Dir, s.Trajectory)
		b, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
			return
		}
		for _, f := range trajectory.Validate(b) {
			t.Errorf("%s: %s", name, f)
		}
		if !bytes.Contains(b, []byte("The check failed, so the work is not handed in")) {
			t.Errorf("%s: the wrong first try is missing", name)
		}
	}
	if r := string(tr.Result.AgentResult.Metadata["repairs"]); r != "1" && len(tr.Steps) == 1 {
		t.Errorf("%s: %s repairs", tr.Task, r)
	}
}

// problem is a HumanEval task that can be checked by its own examples.
type problem struct {
	Entry    string `json:"entry_point"`
	Prompt   string `json:"prompt"`
	Solution string `json:"canonical_solution"`
	check    string
}

// TestReactSolvesHumanEval: the small set of this repository, and 25 problems
// of the whole one where that is at hand.
func TestReactSolvesHumanEval(t *testing.T) {
	needSandbox(t)
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	t.Run("small", func(t *testing.T) {
		checks := map[string]string{
			"count_larger": "python3 -m doctest solution.py",
			"unshift":      `python3 -c 'from solution import *; assert unshift(shift("xyz")) == "xyz"'`,
			"summary":      `python3 -c 'from solution import summary as s; assert s([1, 3])["range"] == (1, 3)'`,
		}
		set := "../importer/humaneval/testdata/problems.jsonl"
		var chosen []problem
		for _, p := range problems(t, set) {
			if p.check = checks[p.Entry]; p.check != "" {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) != 3 {
			t.Fatalf("%d problems", len(chosen))
		}
		solve(t, set, chosen)
	})
	t.Run("whole", func(t *testing.T) {
		set := os.Getenv("ASSAY_HUMANEVAL")
		if set == "" {
			t.Skip("ASSAY_HUMANEVAL does not name HumanEval.jsonl.gz: the whole data set is not part of this repository")
		}
		var chosen []problem
		for _, p := range problems(t, set) {
			if p.check = "python3 -m doctest solution.py"; len(chosen) < 25 && tells(t, p) {
				chosen = append(chosen, p)
			}
		}
		if len(chosen) < 25 {
			t.Fatalf("only %d problems have examples that tell right from wrong", len(chosen))
		}
		solve(t, set, chosen)
	})
}

func problems(t *testing.T, file string) []problem {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(file, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	var all []problem
	for dec := json.NewDecoder(r); ; {
		var p problem
		if err := dec.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}

const wrongBody = "    return None\n"

// tells reports whether the examples in a problem's documentation pass with
// the gold solution and fail with the wrong one.
func tells(t *testing.T, p problem) bool {
	t.Helper()
	if !strings.Contains(p.Prompt, ">>>") {
		return false
	}
	pass := func(body string) bool {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "solution.py"), []byte(p.Prompt+body), 0o644); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), 20*time.Second)
		defer stop()
		cmd := exec.CommandContext(ctx, "python3", "-m", "doctest", "solution.py")
		cmd.Dir = dir
		return cmd.Run() == nil
	}
	return pass(p.Solution) && !pass(wrongBody)
}

// solve has react solve problems, each wrongly first.
func solve(t *testing.T, set string, chosen []problem) {
	t.Helper()
	home := scratch(t)
	all, tasks, jobs := filepath.Join(home, "all"), filepath.Join(home, "tasks"), filepath.Join(home, "jobs")
	var out bytes.Buffer
	if code := Main([]string{"assay", "import", "humaneval", set, "-o", all}, World{Stdout: &out, Stderr: &out, Env: os.LookupEnv}); code != exitDone {
		t.Fatal(&out)
	}
	if err := os.Mkdir(tasks, 0o755); err != nil {
		t.Fatal(err)
	}
	dirs, err := filepath.Glob(filepath.Join(all, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var scripts []played
	for _, p := range chosen {
		scripts = append(scripts, played{p.Entry, map[string]string{"task": "Python function `" + p.Entry + "`"}, []map[string]any{
			turn(map[string]any{"read": "/app/solution.py"}),
			turn(writeCall("/app/solution.py", p.Prompt+wrongBody)), turn(submitCall(p.check)),
			turn(writeCall("/app/solution.py", p.Prompt+p.Solution)), turn(submitCall(p.check)),
		}})
		for _, d := range dirs {
			if b, err := os.ReadFile(filepath.Join(d, "instruction.md")); err == nil && bytes.Contains(b, []byte("function `"+p.Entry+"`")) {
				if err := os.Rename(d, filepath.Join(tasks, filepath.Base(d))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	trials := runs(t, filepath.Join(jobs, "solve"), "--store", scratch(t), "run", "-q", "--no-report", "-p", tasks, "-a", "react", "-m", "scripted:"+writePlayed(t, scripts),
		"-o", jobs, "--job-name", "solve", "-n", "2")
	if len(trials) != len(chosen) {
		t.Fatalf("%d trials of %d problems", len(trials), len(chosen))
	}
	for _, tr := range trials {
		repaired(t, tr)
	}
}
