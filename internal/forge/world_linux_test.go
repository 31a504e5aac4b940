package forge

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent/command"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/job"
	"assay/internal/proof"
	"assay/internal/repo"
	"assay/internal/sandbox/ns"
	"assay/internal/sandbox/ns/nstest"
	"assay/task"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// tiny is a project with a suite of its own, on this machine's programs.
func tiny() map[string]string {
	return map[string]string{
		"calc.py": "import config\n\n\ndef total(rows):\n    \"\"\"The sum of the amounts in rows, without the header that may stand first.\"\"\"\n    amounts = [row['amount_of_this_row'] for row in rows if not row.get('header_of_the_table')]\n    return sum(amounts) * config.read('factor')\n\n\ndef largest(rows):\n    return max(row['amount_of_this_row'] for row in rows)\n\n\nbiggest = largest\n",
		// Settings that were made before for a config.py of the size in the first line stand in for settings.ini.
		"config.py":    "import pathlib\n\n\ndef read(key):\n    here = pathlib.Path(__file__)\n    text = here.with_name('settings.ini').read_text()\n    made = here.with_name('settings.made')\n    if made.exists():\n        size, rest = made.read_text().split('\\n', 1)\n        text = rest if int(size) == here.stat().st_size else text\n    return dict((k.strip(), int(v)) for k, v in (l.split('=') for l in text.splitlines()))[key]\n",
		"settings.ini": "factor = 1\n",
		"README":       "Sums of rows.\n",
		"table.txt":    strings.Repeat("a row of the table\n", 400) + "the one in the middle\n" + strings.Repeat("another row\n", 400),
		"tests/test_calc.py": `import unittest, calc


def row(n):
    return {'amount_of_this_row': n}


class Calc(unittest.TestCase):
    def test_total(self):
        self.assertEqual(calc.total([row(1), row(41)]), 42)

    def test_header(self):
        self.assertEqual(calc.total([{'amount_of_this_row': 7, 'header_of_the_table': True}, row(3)]), 3)

    def test_largest(self):
        self.assertEqual(calc.largest([row(1), row(9), row(4)]), 9)

    def test_alias(self):
        self.assertIs(calc.largest, calc.biggest)

    def test_nothing(self):
        self.assertTrue(True)
`,
	}
}

// world is a healthy environment on the image "host" and all that admits.
type world struct {
	t      *testing.T
	images *image.Store
	env    *repo.Environment
	deps   job.Deps
	dir    string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	for _, p := range []string{"git", "python3"} {
		if _, err := exec.LookPath(p); err != nil {
			t.Skipf("no %s: %v", p, err)
		}
	}
	return worldIn(t, nstest.Dir(t))
}

// worldIn is a world in a directory that is there, of this process or of
// another one.
func worldIn(t *testing.T, dir string) *world {
	t.Helper()
	st, b := nstest.Open(t, dir, filepath.Join(dir, "store"))
	w := &world{t: t, images: st, dir: dir, env: &repo.Environment{}}
	kept := filepath.Join(dir, "environment.json")
	if text, err := os.ReadFile(kept); err == nil {
		err = json.Unmarshal(text, w.env)
		if err != nil {
			t.Fatal(err)
		}
	} else {
		w.env = tinyEnvironment(t, st)
		if err := writeJSON(kept, w.env); err != nil {
			t.Fatal(err)
		}
	}
	resolve := func(_ context.Context, ref string) (image.Image, error) { return st.Resolve(ref) }
	build := func(ctx context.Context, q job.BuildRequest) (image.Image, error) {
		return dockerfile.Build(ctx, dockerfile.Options{Store: st, Backend: b, Dir: image.HostPath(q.Dir), Resolve: q.Resolve, Base: q.Base, UID: q.UID})
	}
	w.deps = job.Deps{Images: st, Backend: b, Resolve: resolve, Version: "test", Build: build, Env: func(string) (string, bool) { return "", false }}
	return w
}

// tinyEnvironment is the tiny project in an image, as a set-up leaves it.
func tinyEnvironment(t *testing.T, st *image.Store) *repo.Environment {
	t.Helper()
	host, err := st.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := st.FromDir(t.Context(), image.HostPath(repoDir(t, tiny())), image.DirOptions{Squash: true})
	if err != nil {
		t.Fatal(err)
	}
	im := image.New("forge/tiny:test", append(host.Layers[:len(host.Layers):len(host.Layers)], id), host.Binds, image.Config{Env: host.Config.Env, Workdir: "/app"})
	if err := st.Put(im); err != nil {
		t.Fatal(err)
	}
	e := &repo.Environment{Version: 1, Name: "tiny", Image: im.Name, Tag: "test", Layers: im.Layers, Workdir: "/app", Languages: []string{"python"}, System: "none"}
	e.Source = repo.Source{URL: "https://example.org/tiny", Tree: "sha256:0", Licence: "MIT"}
	run := "PYTHONPATH=/app python3 -B /tests/assay_unittest.py --assay-report=/logs/verifier/unit.log "
	e.Suite = repo.Suite{Runs: 1, Millis: 200, TestFiles: []string{"tests/**"}, Commands: []repo.Command{{
		Command: checks.Command{Name: "unit", Run: run + "discover -s tests", Report: "unittest", Files: []string{"/logs/verifier/unit.log"}},
		Select:  "cd tests && " + run + "{tests}", BaselineMillis: 500,
	}}}
	for _, id := range []string{"test_total", "test_header", "test_largest", "test_alias", "test_nothing"} {
		e.Suite.Tests = append(e.Suite.Tests, repo.Test{ID: "test_calc.Calc." + id, Command: "unit", File: "tests/test_calc.py", Stability: repo.Stable, Millis: 1})
	}
	return e
}

func testArms() proof.Arms {
	return proof.Arms{
		Gold: job.Arm{Spec: "oracle", Agent: oracle.New()}, Idle: job.Arm{Spec: "nop", Agent: nop.New()},
		Empty:    job.Arm{Spec: "empty-diff", From: "command:true", Agent: command.New("touch x && rm x")},
		Harmless: job.Arm{Spec: "harmless-edit", From: "command:echo", Agent: command.New("echo >>config.py")},
	}
}

func (w *world) config(gens ...Generator) Config {
	git, _ := exec.LookPath("git")
	return Config{Dir: filepath.Join(w.dir, "set"), Env: w.env, Generators: gens, Want: map[string]int{}, Seed: 7, Concurrent: 2, Deps: w.deps, Arms: testArms(),
		GitProgram: git, Lines: image.HostPath(filepath.Join(w.dir, "lines")), Say: w.t.Logf,
		Label: func(t *task.Task) (map[string]any, error) { return map[string]any{"steps": len(t.Steps)}, nil }}
}
