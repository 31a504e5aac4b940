package humaneval

import (
	"compress/gzip"
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"assay/internal/importer"
	"assay/task"
)

var update = flag.Bool("update", false, "write the golden files anew")

// The part of a task directory that comes from the problem, file by file. The
// judge's own files are left out: they are there to be read as they are.
func TestTaskDirectory(t *testing.T) {
	dir := imported(t, handMade)[1]
	var got strings.Builder
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(dir, p)
		info, err := e.Info()
		if err != nil {
			return err
		}
		got.WriteString("-- " + filepath.ToSlash(rel) + " " + info.Mode().Perm().String() + " --\n")
		if _, err := os.Stat(filepath.Join("files", rel)); err != nil || !strings.HasSuffix(rel, ".py") {
			got.Write(readFile(t, p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/task.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readFile(t, golden)), got.String()); diff != "" {
		t.Errorf("task directory (-want +got), -update writes it anew:\n%s", diff)
	}
}

func TestNamesAndMetadata(t *testing.T) {
	var names []string
	for _, dir := range imported(t, handMade) {
		names = append(names, filepath.Base(dir))
		var conf struct {
			SchemaVersion string `toml:"schema_version"`
			Task          struct{ Name string }
			Metadata      struct {
				EntryPoint string `toml:"entry_point"`
				Assay      struct {
					Grade         string
					FallbackImage string `toml:"fallback_image"`
				}
			}
			Environment struct {
				Workdir     string
				NetworkMode string `toml:"network_mode"`
			}
		}
		if err := toml.Unmarshal(readFile(t, filepath.Join(dir, "task.toml")), &conf); err != nil {
			t.Fatal(err)
		}
		if conf.SchemaVersion != "1.4" || conf.Task.Name != "humaneval/"+filepath.Base(dir) || conf.Metadata.EntryPoint != entry(t, dir) ||
			conf.Metadata.Assay.Grade != "patch" || conf.Metadata.Assay.FallbackImage != "host" ||
			conf.Environment.Workdir != "/app" || conf.Environment.NetworkMode != "no-network" {
			t.Errorf("%s: %+v", dir, conf)
		}
	}
	if want := []string{"humaneval-000", "humaneval-001", "humaneval-007"}; !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
}

func TestImportedTasksLint(t *testing.T) {
	for _, f := range task.Lint(filepath.Dir(imported(t, handMade)[0])) {
		if f.Severity != task.Note {
			t.Error(f)
		}
	}
}

func TestImportReadsGzipAndIsRepeatable(t *testing.T) {
	plain := readFile(t, handMade)
	packed := filepath.Join(t.TempDir(), "problems.jsonl.gz")
	f, err := os.Create(packed)
	if err != nil {
		t.Fatal(err)
	}
	z := gzip.NewWriter(f)
	if _, err := z.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(z.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	for i, src := range []string{handMade, packed} {
		sum, err := Importer{}.Import(context.Background(), src, out, importer.Options{})
		want := importer.Summary{Tasks: 3, Written: 3, Dir: out}
		if i == 1 {
			want = importer.Summary{Tasks: 3, Unchanged: 3, Dir: out}
		}
		if err != nil || sum != want {
			t.Errorf("%s: %+v, %v, want %+v", src, sum, err, want)
		}
	}
}

func TestImportNamesFileAndLine(t *testing.T) {
	good := strings.Split(strings.TrimSpace(string(readFile(t, handMade))), "\n")
	edit := func(old, new string) string { return strings.Replace(good[1], old, new, 1) }
	tests := []struct{ name, line, want string }{
		{"not JSON", "{", ":2: not a HumanEval problem"},
		{"a list", "[]", ":2: not a HumanEval problem"},
		{"two values", good[1] + " {}", ":2: more than one JSON value"},
		{"unknown field", edit(`"prompt"`, `"plus_input": [], "prompt"`), `:2: not a HumanEval problem: json: unknown field "plus_input"`},
		{"twice", good[0], `:2: task_id "HumanEval/0" occurs twice`},
		{"foreign id", edit("HumanEval/1", "MBPP/1"), `:2: task_id "MBPP/1" is not HumanEval/NUMBER`},
		{"path in id", edit("HumanEval/1", "HumanEval/../1"), "is not HumanEval/NUMBER"},
		{"second spelling of an id", edit("HumanEval/1", "HumanEval/01"), "is not HumanEval/NUMBER"},
		{"shell in the entry point", edit(`"unshift"`, `"x; rm -rf $HOME"`), "is not a Python name"},
		{"newline in the entry point", edit(`"unshift"`, `"unshift\nx"`), "is not a Python name"},
		{"entry point not defined", edit(`"unshift"`, `"unshif"`), `prompt has no "def unshif("`},
		{"no test", edit("def check(", "def chuck("), `test has no "def check("`},
		{"empty solution", `{"task_id": "HumanEval/1", "prompt": "def f():", "entry_point": "f", "canonical_solution": " ", "test": "def check("}`, "canonical_solution is missing or empty"},
		{"NUL", edit("def shift", `\u0000def shift`), "prompt is not text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			src, out := filepath.Join(dir, "p.jsonl"), filepath.Join(dir, "out")
			if err := os.WriteFile(src, []byte(good[0]+"\n"+tt.line+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := Importer{}.Import(context.Background(), src, out, importer.Options{})
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), src+":2: ") {
				t.Errorf("error %v, want %q at %s:2", err, tt.want, src)
			}
			if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("something was written: %v", err)
			}
		})
	}
	empty := filepath.Join(t.TempDir(), "empty.jsonl")
	if err := os.WriteFile(empty, []byte("\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := (Importer{}).Import(context.Background(), empty, t.TempDir(), importer.Options{}); err == nil || !strings.Contains(err.Error(), "holds no problem") {
		t.Errorf("an empty file: %v", err)
	}
}

// test.sh, with Harbor's paths replaced: what it leaves in each way that the
// judge can end.
func TestScript(t *testing.T) {
	python(t)
	dir := imported(t, handMade)[0]
	for _, tt := range []struct {
		name, judge, reward string
		exit                int
	}{
		{"pass", "", "1", 0},
		{"judge killed after a forged reward", "import os; open(os.environ['LOGS'] + '/reward.txt', 'w').write('1'); os.kill(os.getpid(), 9)", "0", 137},
		{"judge killed after a forged json", "import os; os.mkdir(os.environ['LOGS'] + '/reward.json'); os.kill(os.getpid(), 9)", "0", 137},
		{"judge broken", "raise SystemExit(2)", "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := sit(t, dir, readFile(t, filepath.Join(dir, "solution", "solution.py")))
			judge := filepath.Join(s.tests, "judge.py") + " --tests " + s.tests + " --app " + s.app + " --logs " + s.logs
			if tt.judge != "" {
				judge = filepath.Join(s.app, "other.py")
				if err := os.WriteFile(judge, []byte(tt.judge), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text := strings.NewReplacer("/tests/judge.py", judge, "/logs/verifier", s.logs).Replace(string(readFile(t, filepath.Join(s.tests, "test.sh"))))
			text = strings.Replace(text, "python3 -I", "LOGS="+s.logs+" python3 -I", 1)
			cmd := exec.Command("sh", "-c", text)
			cmd.Dir = s.app
			out, _ := cmd.CombinedOutput()
			v := verdict{exit: cmd.ProcessState.ExitCode(), printed: string(out)}
			v.read(t, s.logs)
			if v.reward != tt.reward || v.exit != tt.exit || slices.Contains(v.names, "reward.json") {
				t.Errorf("%v, want reward %q and exit %d", v, tt.reward, tt.exit)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	for _, line := range []string{"{}", "[]", `{"task_id": "HumanEval/0"}`, `{"task_id": "HumanEval/0", "prompt": "def f():\n", "entry_point": "f", "canonical_solution": "  return 1", "test": "def check(candidate):\n pass"}`} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		p, err := parse(line)
		if err != nil {
			return
		}
		d, err := p.dir()
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range d.Files {
			if file.Path == "task.toml" {
				var v map[string]any
				if err := toml.Unmarshal(file.Data, &v); err != nil {
					t.Errorf("task.toml: %v\n%s", err, file.Data)
				}
			}
			if strings.HasSuffix(file.Path, ".sh") && strings.ContainsAny(p.Entry, " \t\n;&|$`'\"\\") {
				t.Errorf("%q went into a shell script", p.Entry)
			}
		}
	})
}
