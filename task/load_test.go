package task

import (
	"errors"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestStepFallBacks(t *testing.T) {
	task, err := Load("testdata/corpus/fields-steps")
	if err != nil {
		t.Fatal(err)
	}
	first, second := task.Brief(0), task.Brief(1)
	if first.Timeout != 7*time.Second || second.Timeout != 100*time.Second || first.User != "42" || second.User != "base" {
		t.Errorf("agent: %v %v %q %q", first.Timeout, second.Timeout, first.User, second.User)
	}
	if first.Network.Mode != NetworkNone || second.Network.Mode != NetworkUnset {
		t.Errorf("network: %v %v", first.Network, second.Network)
	}
	k1, k2 := task.Key(0), task.Key(1)
	if k1.Timeout != 600*time.Second || k2.Timeout != 12*time.Second {
		t.Errorf("a step's verifier limit is 600 s, never the task's 30 s: %v %v", k1.Timeout, k2.Timeout)
	}
	if d := cmp.Diff(map[string]string{"A": "task", "B": "step"}, k1.VerifierEnv); d != "" {
		t.Error(d)
	}
	if k1.User != "checker" || k2.User != "other" || k1.Mode != VerifierUnset || k2.Mode != VerifierSeparate || k2.Environment == nil {
		t.Errorf("%+v %+v", k1, k2)
	}
	if k2.Network.Mode != NetworkAllowlist || len(k2.Tests) != 1 || k2.Solution != task.Dir+"/steps/größe/solution" || k1.Solution != "" {
		t.Errorf("%+v", k2)
	}
	if task.Config.Verifier.Env["B"] != "task" {
		t.Error("Key wrote into the task's own table")
	}
}

// The brief holds nothing of the key: not its paths and not its words.
func TestBriefHoldsNothingOfTheKey(t *testing.T) {
	for _, dir := range corpus(t) {
		task, err := Load(dir)
		if err != nil {
			continue
		}
		for i := range task.Steps {
			b := task.Brief(i)
			b.Task, b.Instruction = "", ""
			text := strings.Join([]string{b.Step, b.Workdir, b.User, b.SkillsDir}, "|")
			for k, v := range b.Env {
				text += k + v
			}
			if strings.Contains(text, task.Dir) || strings.Contains(text, "solve.sh") {
				t.Errorf("%s: %s", dir, text)
			}
		}
	}
}

func TestSeconds(t *testing.T) {
	for f, want := range map[float64]time.Duration{
		1.5: 1500 * time.Millisecond, 0: 1, -5: 1, 1e-12: 1, 1e300: 0, math.Inf(1): 0, math.Inf(-1): 1,
	} {
		if got := seconds(f); got != want {
			t.Errorf("seconds(%v) = %v, want %v", f, got, want)
		}
	}
	if seconds(math.NaN()) != 1 {
		t.Error("NaN must end at once")
	}
	inf := math.Inf(1)
	c := Config{Verifier: VerifierConfig{TimeoutSec: &inf}}
	if k := (&Task{Config: c, Steps: []Step{{}}}).Key(0); k.Timeout != forever {
		t.Errorf("an infinite verifier limit is %v, want %v: 0 would mean the default", k.Timeout, forever)
	}
}

func TestLoadSet(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b", "a"} {
		if err := New(filepath.Join(dir, name), Scaffold{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".hidden", "empty", "nested/inner"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	os.MkdirAll(filepath.Join(dir, "broken"), 0o755)
	os.WriteFile(filepath.Join(dir, "broken/task.toml"), []byte("x = \n"), 0o644)
	os.WriteFile(filepath.Join(dir, "README.md"), nil, 0o644)
	os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "c"))
	tasks, skipped, err := LoadSet(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names, left []string
	for _, task := range tasks {
		names = append(names, task.Name)
	}
	for _, s := range skipped {
		left = append(left, filepath.Base(s.Dir)+": "+s.Reason.Error())
	}
	if d := cmp.Diff([]string{"local/a", "local/b", "local/a"}, names); d != "" {
		t.Error(d)
	}
	if len(left) != 3 || !strings.HasPrefix(left[0], "broken: ") || !strings.Contains(left[0], "task.toml:1:") || !errors.Is(skipped[1].Reason, ErrNoTask) {
		t.Errorf("skipped: %q", left)
	}
	if one, _, err := LoadSet(filepath.Join(dir, "b")); err != nil || len(one) != 1 {
		t.Errorf("one task: %v %v", one, err)
	}
	if _, _, err := LoadSet(filepath.Join(dir, "broken")); err == nil || !strings.Contains(err.Error(), "task.toml:1:") {
		t.Errorf("a broken task by itself is an error, not an empty set: %v", err)
	}
	if _, s, err := LoadSet(filepath.Join(dir, "nested")); err == nil || len(s) != 1 {
		t.Errorf("a set without a task: %v %v", s, err)
	}
	if _, _, err := LoadSet(filepath.Join(dir, "gone")); err == nil {
		t.Error("a missing directory passes")
	}
}

func TestVerifierPlace(t *testing.T) {
	image := "[verifier.environment]\ndocker_image = \"v:1\"\n"
	for name, c := range map[string]struct {
		files           map[string]string
		image, dir      string
		bundled, noTest bool
	}{
		"environment again": {files: map[string]string{"task.toml": "[verifier]\nenvironment_mode = \"separate\"\n"}, dir: "environment"},
		"tests Dockerfile":  {files: map[string]string{"task.toml": "[verifier]\nenvironment_mode = \"separate\"\n", "tests/Dockerfile": "FROM x\n"}, dir: "tests", bundled: true, noTest: true},
		"image wins":        {files: map[string]string{"task.toml": image, "tests/Dockerfile": "FROM x\n"}, image: "v:1", bundled: true, noTest: true},
		"environment image": {files: map[string]string{"task.toml": "[environment]\ndocker_image = \"e:1\"\n[verifier.environment]\ncpus = 1\n"}, image: "e:1", dir: "environment"},
	} {
		if c.noTest {
			c.files["!tests/test.sh"] = ""
		}
		task, err := Load(files(t, minimal(c.files)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		k := task.Key(0)
		want := ""
		if c.dir != "" {
			want = task.Dir + "/" + c.dir
		}
		if k.Image != c.image || k.ImageDir != want || k.Bundled != c.bundled || k.Mode != VerifierSeparate {
			t.Errorf("%s: %+v", name, k)
		}
	}
}

func TestInputsLeaveOutWhatIsIgnored(t *testing.T) {
	task, err := Load("testdata/corpus/test-helpers-and-ignore")
	if err != nil {
		t.Fatal(err)
	}
	got, err := task.Inputs(task.Key(0).Tests[0])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"lib", "lib/check.sh", "lib/keep.txt", "test.sh"}, got); d != "" {
		t.Error(d)
	}
	if _, err := task.Inputs(filepath.Dir(task.Dir)); err == nil {
		t.Error("inputs outside of the task pass")
	}
}

func TestNewWorks(t *testing.T) {
	for _, s := range []Scaffold{{}, {Name: "org/x", Steps: []string{"one", "two"}, Grade: GradeState}} {
		dir := filepath.Join(t.TempDir(), "my task..x")
		if err := New(dir, s); err != nil {
			t.Fatal(err)
		}
		task, err := Load(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(task.Steps) != max(1, len(s.Steps)) || task.Grade() != GradeKind(cmpOr(string(s.Grade), string(GradePatch))) {
			t.Errorf("%+v", task)
		}
		for _, f := range Lint(dir) {
			if f.Severity != Note {
				t.Errorf("a new task has a finding: %v", f)
			}
		}
		if err := New(dir, s); err == nil {
			t.Error("New replaced a task")
		}
		runScaffold(t, task)
	}
}

// runScaffold runs the scripts by hand: doing nothing fails, gold passes.
func runScaffold(t *testing.T, task *Task) {
	t.Helper()
	k := task.Key(0)
	script, err := os.ReadFile(filepath.Join(k.Tests[0], k.Script))
	if err != nil {
		t.Fatal(err)
	}
	work, logs := t.TempDir(), t.TempDir()
	text := strings.ReplaceAll(string(script), "/logs/verifier", logs)
	run := func(script string) string {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = work
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		b, _ := os.ReadFile(logs + "/reward.txt")
		return strings.TrimSpace(string(b))
	}
	if got := run(text); got != "0" {
		t.Errorf("doing nothing has reward %q", got)
	}
	solve, err := os.ReadFile(filepath.Join(k.Solution, "solve.sh"))
	if err != nil {
		t.Fatal(err)
	}
	run(string(solve))
	if got := run(text); got != "1" {
		t.Errorf("gold has reward %q", got)
	}
}

func TestWriteReplacesWholeTasksOnly(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "x")
	base := []File{{Path: "instruction.md", Data: []byte("a")}, {Path: "environment/Dockerfile", Data: []byte("FROM x\n")}, {Path: "tests/test.sh", Data: []byte("#!/bin/sh\n"), Exec: true}}
	if err := Write(dir, Config{}, append(base, File{Path: "old", Data: nil})); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, Config{Source: "again"}, base); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir + "/old"); err == nil {
		t.Error("the former task's files are still there")
	}
	task, err := Load(dir)
	if err != nil || task.Config.Source != "again" {
		t.Errorf("%+v %v", task, err)
	}
	for name, bad := range map[string][]File{
		"no test":  base[:2],
		"escape":   append(slices.Clone(base), File{Path: "../evil"}),
		"absolute": append(slices.Clone(base), File{Path: "/evil"}),
	} {
		if err := Write(dir, Config{}, bad); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if task, err = Load(dir); err != nil || task.Config.Source != "again" {
		t.Errorf("a refused write changed the task: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(dir))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v %v", left, err)
	}
	other := t.TempDir()
	os.WriteFile(other+"/thesis.txt", nil, 0o644)
	if err := Write(other, Config{}, base); err == nil {
		t.Error("a directory that is no task was replaced")
	}
	inf := math.Inf(1)
	if err := WriteConfig(dir, Config{Agent: AgentConfig{TimeoutSec: &inf}}); err != nil {
		t.Fatal(err)
	}
	if task, err = Load(dir); err != nil || task.Config.Agent.TimeoutSec == nil || !math.IsInf(*task.Config.Agent.TimeoutSec, 1) {
		t.Errorf("%+v %v", task, err)
	}
}

func TestTerminalBench1(t *testing.T) {
	older, err := Load("testdata/corpus/tb1-older")
	if err != nil {
		t.Fatal(err)
	}
	k := older.Key(0)
	if got := string(k.SolutionFiles["solve.sh"]); got != "#!/bin/bash\necho 42 >answer.txt\nsync\n" {
		t.Errorf("solution.yaml: %q", got)
	}
	if older.ImageDir() != older.Dir+"/client" || k.Timeout != time.Minute || older.Brief(0).Timeout != 6*time.Minute {
		t.Errorf("%s %v %v", older.ImageDir(), k.Timeout, older.Brief(0).Timeout)
	}
	typed := files(t, map[string]string{"task.yaml": "instruction: x\n", "run-tests.sh": "", "solution.yaml": "- command: ':wq'\n  append_enter: false\n"})
	task, err := Load(typed)
	if err != nil {
		t.Fatal(err)
	}
	if task.Key(0).SolutionFiles != nil {
		t.Error("what is typed key by key was taken for a script")
	}
	for name, all := range map[string]map[string]string{
		"task.yaml:2:3":  {"task.yaml": "instruction: x\n  bad: [\n", "run-tests.sh": ""},
		"anchors":        {"task.yaml": "instruction: &a x\ntags: [*a]\n", "run-tests.sh": ""},
		"missing":        {"task.yaml": "difficulty: easy\n", "run-tests.sh": ""},
		"run-tests.sh":   {"task.yaml": "instruction: x\n"},
		"task.yaml:2:1:": {"task.yaml": "instruction: x\nmax_agent_timeout_sec: soon\n", "run-tests.sh": ""},
		"mapping":        {"task.yaml": "- a\n", "run-tests.sh": ""},
		"empty":          {"task.yaml": "", "run-tests.sh": ""},
	} {
		if _, err := Load(files(t, all)); err == nil || !strings.Contains(err.Error(), strings.TrimSuffix(name, "2:3")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
