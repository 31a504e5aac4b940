package history

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/agent/command"
	"assay/internal/agent/nop"
	"assay/internal/agent/oracle"
	"assay/internal/forge"
	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/image/dockerfile"
	"assay/internal/job"
	"assay/internal/proof"
	"assay/internal/repo"
	"assay/internal/sandbox/ns/nstest"
	"assay/task"
	"assay/trial"
)

// rooms are a store and a backend, as the command has them.
func rooms(t *testing.T, dir, store string) (*image.Store, job.Deps) {
	t.Helper()
	st, b := nstest.Open(t, dir, store)
	build := func(ctx context.Context, q job.BuildRequest) (image.Image, error) {
		return dockerfile.Build(ctx, dockerfile.Options{Store: st, Backend: b, Dir: image.HostPath(q.Dir), Resolve: q.Resolve, Base: q.Base, UID: q.UID})
	}
	return st, job.Deps{Images: st, Backend: b, Version: "test", Build: build,
		Resolve: func(_ context.Context, ref string) (image.Image, error) { return st.Resolve(ref) },
		Env:     func(string) (string, bool) { return "", false }}
}

var (
	classLine = regexp.MustCompile(`^class (\w+)`)
	testLine  = regexp.MustCompile(`^\s+def (test\w*)\(`)
)

// healthy is the clone's HEAD as one commit in an image, with its suite, as a
// set-up leaves it.
func healthy(t *testing.T, st *image.Store, clone string) *repo.Environment {
	t.Helper()
	root := t.TempDir()
	app := filepath.Join(root, "app")
	gitOut(t, root, "clone", "-q", "--no-hardlinks", clone, app)
	if err := os.RemoveAll(filepath.Join(app, ".git")); err != nil {
		t.Fatal(err)
	}
	gitOut(t, app, "init", "-q", "-b", "main")
	gitOut(t, app, "add", "-A")
	gitOut(t, app, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "A project")
	host, err := st.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id, err := st.FromDir(t.Context(), image.HostPath(root), image.DirOptions{Squash: true})
	if err != nil {
		t.Fatal(err)
	}
	im := image.New("forge/synthetic:test", append(slices.Clone(host.Layers), id), host.Binds, image.Config{Env: host.Config.Env, Workdir: "/app"})
	if err := st.Put(im); err != nil {
		t.Fatal(err)
	}
	e := &repo.Environment{Version: 1, Name: "synthetic", Image: im.Name, Tag: "test", Layers: im.Layers, Workdir: "/app", Languages: []string{"python"}, System: "none"}
	e.Source = repo.Source{URL: "https://example.org/synthetic", Commit: strings.TrimSpace(gitOut(t, clone, "rev-parse", "HEAD")), Tree: "sha256:0", Licence: "MIT"}
	line := "PYTHONPATH=/app python3 -B /tests/assay_unittest.py --assay-report=/logs/verifier/unit.log "
	e.Suite = repo.Suite{Runs: 1, Millis: 200, TestFiles: []string{"tests/**"}, Commands: []repo.Command{{
		Command: checks.Command{Name: "unit", Run: line + "discover -t . -s tests", Report: "unittest", Files: []string{"/logs/verifier/unit.log"}},
		Select:  line + "{tests}", BaselineMillis: 500,
	}}}
	files, err := filepath.Glob(filepath.Join(app, "tests", "test_*.py"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		class := ""
		for l := range strings.Lines(string(b)) {
			if m := classLine.FindStringSubmatch(l); m != nil {
				class = m[1]
			}
			if m := testLine.FindStringSubmatch(l); m != nil {
				id := "tests." + strings.TrimSuffix(filepath.Base(f), ".py") + "." + class + "." + m[1]
				e.Suite.Tests = append(e.Suite.Tests, repo.Test{ID: id, Command: "unit", File: "tests/" + filepath.Base(f), Stability: repo.Stable, Millis: 1})
			}
		}
	}
	return e
}

// The past of known answers becomes proved tasks, each with the tests that it
// must have and with nothing of its solution in any object; all the rest has
// its reason in the funnel.
func TestAdmitted(t *testing.T) {
	needs(t, "git", "python3", "sh")
	dir, clone := nstest.Dir(t), synthetic(t)
	st, deps := rooms(t, dir, filepath.Join(dir, "store"))
	env := healthy(t, st, clone)
	issues, err := ReadIssues(strings.NewReader(`[{"id": 76, "iid": 12, "project_id": 4, "title": "mean() crashes for []", "state": "closed", "labels": ["bug"],
		"description": "I called mean([]) and got a ZeroDivisionError. I expected 0.\n\nCould be fixed by:\n\n` + "```" + `\n    if not values:\n        return 0\n` + "```" + `"}]`))
	if err != nil {
		t.Fatal(err)
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	cfg := forge.Config{Dir: filepath.Join(dir, "set"), Env: env, Git: clone, Generators: []forge.Generator{&Generator{Issues: issues}}, Want: map[string]int{}, Seed: 3, Canaries: 4,
		Concurrent: 2, Deps: deps, GitProgram: git, Lines: image.HostPath(filepath.Join(dir, "lines")), Say: t.Logf, Arms: proof.Arms{
			Gold: job.Arm{Spec: "oracle", Agent: oracle.New()}, Idle: job.Arm{Spec: "nop", Agent: nop.New()},
			Empty: job.Arm{Spec: "empty-diff", From: "command:true", Agent: command.New("touch x && rm x")}}}
	rep, err := forge.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"candidate mean":              {"test_calc.Calc.test_mean_of_nothing"},
		"candidate clamp":             {"test_calc.Calc.test_clamp"},
		"candidate title":             {"test_text.Text.test_title_of_many_spaces"},
		"candidate merge":             {"test_text.Text.test_lines"},
		"candidate revert":            {"test_calc.Calc.test_ratio"},
		"its inverse does not apply:": {"test_calc.Calc.test_halve"},
		"its tests are gone:":         {"test_double.Double.test_text"},
	}
	got := map[string][]string{}
	var canaried []string
	mark := regexp.MustCompile(`(?m)candidate \w+|^its [\w ]+:`)
	for _, r := range rep.Tasks {
		x, err := task.Load(filepath.Join(cfg.Dir, r.Task))
		if err != nil {
			t.Fatal(err)
		}
		facts, _ := x.Config.Metadata.Assay.Rest["forge"].(map[string]any)
		commit, _ := facts["origin_commit"].(string)
		name := mark.FindString(gitOut(t, clone, "log", "-1", "--format=%B", commit))
		plan, err := checks.Load(filepath.Join(x.Dir, "tests"))
		if err != nil {
			t.Fatal(err)
		}
		if trial.Evidence(r.Evidence) == trial.Canaried {
			canaried = append(canaried, name)
		}
		for _, c := range plan.Commands {
			if older := name == "its inverse does not apply:"; older && len(c.Canaries) > 0 {
				t.Errorf("%s has canaries of a suite that is not its own", r.Task)
			}
			for _, id := range c.FailToPass {
				got[name] = append(got[name], strings.TrimPrefix(id, "tests."))
			}
		}
		words, err := os.ReadFile(filepath.Join(x.Dir, "instruction.md"))
		if err != nil {
			t.Fatal(err)
		}
		for _, leak := range []string{"if not values", "return 0", commit[:7], "Wren", "splitlines"} {
			if strings.Contains(string(words), leak) {
				t.Errorf("%s: its words have %q:\n%s", r.Task, leak, words)
			}
		}
		if name == "candidate mean" && (!strings.Contains(string(words), "I expected 0.") || facts["issue"] != "12") {
			t.Errorf("the issue does not word the task: %v\n%s", facts, words)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("admitted, and what fails before gold (-want +got):\n%s", d)
	}
	for _, name := range []string{"candidate mean", "candidate merge", "candidate title", "candidate revert"} {
		if !slices.Contains(canaried, name) {
			t.Errorf("%s has no canary of the tests that it brings", name)
		}
	}
	h := rep.Generators["history"]
	lost := map[string]int{}
	for r, n := range outcomes(t, clone) {
		lost[string(r)] = n
	}
	maps.DeleteFunc(lost, func(r string, _ int) bool { return want[r+":"] != nil }) // these have the code of before them
	if h.Sifting == nil || h.Sifting.Total != strings.Count(gitOut(t, clone, "log", "--format=%H"), "\n") || h.Sifting.Proposed != h.Proposed {
		t.Fatalf("the funnel: %+v, sifted %+v", h, h.Sifting)
	}
	if d := cmp.Diff(lost, h.Sifting.Dropped); d != "" {
		t.Errorf("what was no candidate (-want +got):\n%s", d)
	}
	v, err := st.View(env.Layers)
	if err != nil {
		t.Fatal(err)
	}
	if tasks, objects := holdsNothing(t, cfg.Dir, st, buildOf(deps), v); tasks < len(want)-1 || objects < 10 {
		t.Errorf("looked into %d tasks and %d objects", tasks, objects)
	}

	// Again, with nothing to do: what was sifted out stays told.
	cfg.Want = map[string]int{"history": len(want)}
	again, err := forge.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(h.Sifting, again.Generators["history"].Sifting); d != "" {
		t.Errorf("sifted, and again:\n%s", d)
	}
}

// Sets of real repositories, by hand: ASSAY_FORGE_SETS=DIR:DIR of tasks whose
// healthy images are in the store ASSAY_STORE.
func TestRealSetsHoldNothing(t *testing.T) {
	list := os.Getenv("ASSAY_FORGE_SETS")
	if list == "" {
		t.Skip("ASSAY_FORGE_SETS names no sets")
	}
	st, deps := rooms(t, nstest.Dir(t), os.Getenv("ASSAY_STORE"))
	for set := range strings.SplitSeq(list, ":") {
		t.Run(filepath.Base(set), func(t *testing.T) {
			b, err := os.ReadFile(filepath.Join(set, forge.Home, "forge.json"))
			var rep forge.Report
			if err == nil {
				err = json.Unmarshal(b, &rep)
			}
			if err != nil {
				t.Fatal(err)
			}
			im, err := st.Resolve(rep.Environment)
			if err != nil {
				t.Fatal(err)
			}
			v, err := st.View(im.Layers)
			if err != nil {
				t.Fatal(err)
			}
			tasks, objects := holdsNothing(t, set, st, buildOf(deps), v)
			t.Logf("%d tasks of %d, %d objects of git: nothing of their gold", tasks, len(rep.Tasks), objects)
		})
	}
}
