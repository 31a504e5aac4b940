package history

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/forge"
)

// outcomes are the reasons that the subjects of synthetic.sh begin with, and
// how often; what is not counted there is a candidate.
func outcomes(t *testing.T, dir string) map[Reason]int {
	want := map[Reason]int{}
	for l := range strings.Lines(gitOut(t, dir, "log", "--format=%s")) {
		head, _, _ := strings.Cut(strings.TrimSpace(l), ":")
		switch {
		case strings.HasPrefix(head, "candidate"), strings.HasPrefix(head, "Merge pull"), strings.HasPrefix(head, "Revert"):
			continue
		case strings.HasPrefix(head, "Release"):
			head = string(Chore)
		case head == "no tests or source":
			head = string(NoSource)
		case head == "part of a merge":
			head = string(NoTests) // by itself; its merge has both
		}
		want[Reason(head)]++
	}
	return want
}

func TestKnownAnswers(t *testing.T) {
	needs(t, "git", "python3", "sh")
	w := world(t, synthetic(t))
	if f := unittest(t, layOut(t, w)); len(f) > 0 {
		t.Fatalf("the healthy suite fails: %v", f)
	}
	g := &Generator{Decider: runner{t, w}}
	all := propose(t, g, w)
	want := outcomes(t, w.Git)
	if d := cmp.Diff(want, g.Funnel.Rejected); d != "" {
		t.Errorf("reasons (-want +got):\n%s", d)
	}
	expect := map[string][]string{
		"candidate mean":   {"test_mean_of_nothing"},
		"candidate clamp":  {"test_clamp"},
		"candidate title":  {"test_title_of_many_spaces"},
		"candidate merge":  {"test_lines"},
		"candidate revert": {"test_ratio"},
	}
	got := map[string][]string{}
	mark := regexp.MustCompile(`candidate \w+`)
	for _, c := range all {
		message := subjectOf(t, w, c)
		got[mark.FindString(message)] = c.Expect
		broken := unittest(t, layOut(t, w, c.Broken, c.Tests))
		if d := cmp.Diff(c.Expect, slices.Sorted(maps.Keys(broken))); d != "" {
			t.Errorf("%s: fail before gold (-expected +got):\n%s", c.Name, d)
		}
		if f := unittest(t, layOut(t, w, c.Broken, c.Gold, c.Tests)); len(f) > 0 {
			t.Errorf("%s: %v fail with gold", c.Name, f)
		}
		// What the agent sees of the tests does not show what is asked.
		for test := range broken {
			if b := seen(t, layOut(t, w, c.Broken), c.Hidden); strings.Contains(b, "def "+test+"(") && c.Operators[0] != "undo-revert" {
				t.Errorf("%s: the agent sees %s", c.Name, test)
			}
		}
		if strings.Contains(c.Name, c.Origin.Commit[:7]) {
			t.Errorf("%s names its commit", c.Name)
		}
	}
	if d := cmp.Diff(expect, got); d != "" {
		t.Errorf("candidates (-want +got):\n%s", d)
	}
	again := propose(t, &Generator{Blind: true}, w)
	for i := range all {
		all[i].Expect = nil
	}
	if d := cmp.Diff(all, again); d != "" {
		t.Errorf("equal worlds, other candidates:\n%s", d)
	}
}

// seen are all test files that the agent sees.
func seen(t *testing.T, dir string, hidden []string) string {
	for _, h := range hidden {
		if err := os.Remove(filepath.Join(dir, h)); err != nil {
			t.Fatal(err)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "tests", "*.py"))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

func TestStatements(t *testing.T) {
	needs(t, "git", "sh")
	w := world(t, synthetic(t))
	issues, err := ReadIssues(strings.NewReader(`[{"number": 12, "title": "mean() crashes for []", "body": "I called ` + "`mean([])`" + ` and got\n\n` + "```" + `\nFile \"pkg/calc.py\", line 5, in mean\nZeroDivisionError: division by zero\n` + "```" + `\n\nI expected 0.\n\n` + "```" + `diff\n+    if not values:\n` + "```" + `\nThanks to @wren", "labels": [{"name": "bug"}]}]`))
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]forge.Candidate{}
	for _, c := range propose(t, &Generator{Blind: true, Issues: issues}, w) {
		byName[regexp.MustCompile(`candidate \w+`).FindString(subjectOf(t, w, c))] = c
	}
	mean := byName["candidate mean"]
	if mean.Statement.Title != "mean() crashes for []" || mean.Origin.Issue != "12" || mean.Notes["statement"] != "issue 12" {
		t.Errorf("the issue does not word the statement: %+v %v", mean.Statement, mean.Notes)
	}
	for _, leak := range []string{"line 5", "if not values", "@wren", "+ "} {
		if strings.Contains(mean.Statement.Body, leak) {
			t.Errorf("the statement has %q:\n%s", leak, mean.Statement.Body)
		}
	}
	if !strings.Contains(mean.Statement.Body, "ZeroDivisionError: division by zero") || !strings.Contains(mean.Statement.Body, "I expected 0.") {
		t.Errorf("the statement lost its facts:\n%s", mean.Statement.Body)
	}
	if clamp := byName["candidate clamp"]; clamp.Notes["statement"] != "changelog" ||
		clamp.Statement.Body != "`clamp` gave the lower bound for values above the upper one." {
		t.Errorf("the changelog does not word the statement: %q %v", clamp.Statement.Body, clamp.Notes)
	}
	if m := byName["candidate merge"]; m.Statement.Body != "Carriage returns were left at the ends of lines." || m.Operators[0] != "undo-merge" {
		t.Errorf("the merge's message does not word the statement: %q", m.Statement.Body)
	}
	if r := byName["candidate revert"]; r.Statement.Title != "" || r.Notes["statement"] != "failures" || r.Operators[0] != "undo-revert" {
		t.Errorf("a revert's message says what was wanted, not what is wrong: %+v", r.Statement)
	}
	plain := propose(t, &Generator{Blind: true}, w)
	for _, c := range plain {
		text := c.Statement.Title + "\n" + c.Statement.Body
		for _, leak := range []string{"0123456789abcdef", "https://", "if not values", "calc.py:5", "Co-authored", "Wren", "#12", "#14", "guard"} {
			if strings.Contains(text, leak) {
				t.Errorf("%s: the statement has %q:\n%s", c.Name, leak, text)
			}
		}
	}
}

func TestSinceAndRenames(t *testing.T) {
	needs(t, "git", "sh")
	w := world(t, synthetic(t))
	g := &Generator{Blind: true, Since: time.Date(2020, 1, 10, 0, 0, 0, 0, time.UTC)}
	for _, c := range propose(t, g, w) {
		if c.Origin.Date < "2020-01-10" {
			t.Errorf("%s is of %s", c.Name, c.Origin.Date)
		}
		if strings.Contains(subjectOf(t, w, c), "candidate title") && c.Broken[0].Path != "/app/pkg/words.py" {
			t.Errorf("the rename was not followed: %s", c.Broken[0].Path)
		}
	}
	if g.Funnel.Rejected[Old] != 4 { // what touches source and tests up to clamp
		t.Errorf("%d are too old, want 4", g.Funnel.Rejected[Old])
	}
}

func TestClonesWithoutMuchPast(t *testing.T) {
	needs(t, "git", "sh")
	full := synthetic(t)
	t.Run("empty", func(t *testing.T) {
		dir := t.TempDir()
		gitOut(t, dir, "init", "-q")
		w := world(t, full)
		w.Git = dir
		if got := propose(t, &Generator{Blind: true}, w); len(got) != 0 {
			t.Errorf("%d candidates of nothing", len(got))
		}
	})
	t.Run("none", func(t *testing.T) {
		w := world(t, full)
		w.Git = ""
		if got := propose(t, &Generator{Blind: true}, w); len(got) != 0 {
			t.Errorf("%d candidates of nothing", len(got))
		}
		w.Git = t.TempDir()
		if err := (&Generator{}).Propose(t.Context(), w, func(forge.Candidate) error { return nil }); err == nil {
			t.Error("a directory that is no repository is taken for one")
		}
	})
	t.Run("shallow", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "clone")
		gitOut(t, t.TempDir(), "-c", "protocol.file.allow=always", "clone", "-q", "--depth", "3", "file://"+full, dir)
		w := world(t, full)
		w.Git = dir
		g := &Generator{Blind: true}
		propose(t, g, w)
		if g.Funnel.Commits != 3 || g.Funnel.Rejected[NoParent] != 1 {
			t.Errorf("a shallow clone of three: %+v", g.Funnel)
		}
	})
	t.Run("bare", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "bare")
		gitOut(t, t.TempDir(), "clone", "-q", "--bare", full, dir)
		w := world(t, full)
		w.Git = dir
		if got := propose(t, &Generator{Blind: true}, w); len(got) != 5 {
			t.Errorf("%d candidates of a bare clone, want 5", len(got))
		}
	})
}

// What cannot be taken back any more begins with the whole tree before it.
func TestTreesBeforeACommit(t *testing.T) {
	needs(t, "git", "python3", "sh")
	w := world(t, synthetic(t))
	w.Env.Source.Commit = strings.TrimSpace(gitOut(t, w.Git, "rev-parse", "HEAD"))
	want := map[string]string{"its inverse does not apply": "test_halve", "its tests are gone": "test_text"}
	g := &Generator{Blind: true}
	for _, c := range propose(t, g, w) {
		head, _, _ := strings.Cut(subjectOf(t, w, c), ":")
		test, ok := want[head]
		if !ok {
			continue
		}
		delete(want, head)
		if c.Operators[0] != "whole-commit" || c.Notes["base"] != "the code before the commit" {
			t.Errorf("%s: %v %v", c.Name, c.Operators, c.Notes)
		}
		if f := unittest(t, layOut(t, w, c.Broken, c.Tests)); len(f) != 1 || f[test] == "" {
			t.Errorf("%s: %v fail before gold, want %s", c.Name, f, test)
		}
		if f := unittest(t, layOut(t, w, c.Broken, c.Gold, c.Tests)); len(f) > 0 {
			t.Errorf("%s: %v fail with gold", c.Name, f)
		}
	}
	if len(want) > 0 {
		t.Errorf("no candidates: %v; %v", want, g.Funnel.Rejected)
	}
}

// A change of which others stand right beside is taken back all the same.
func TestNeighboursDoNotHideFiles(t *testing.T) {
	needs(t, "git", "sh")
	w := world(t, synthetic(t))
	for _, c := range propose(t, &Generator{Blind: true}, w) {
		if len(c.Hidden) > 0 {
			t.Errorf("%s hides %v", c.Name, c.Hidden)
		}
	}
}

// The user's clone is as it was, and nothing of it ran.
func TestCloneIsLeftAlone(t *testing.T) {
	needs(t, "git", "sh")
	dir := synthetic(t)
	ran := filepath.Join(t.TempDir(), "ran")
	for _, k := range []string{"core.fsmonitor", "diff.external", "gpg.program", "core.pager", "diff.x.textconv", "core.sshCommand", "merge.x.driver"} {
		gitOut(t, dir, "config", k, "touch "+ran)
	}
	gitOut(t, dir, "config", "log.showSignature", "true")
	if err := os.WriteFile(filepath.Join(dir, ".git", "info", "attributes"), []byte("* diff=x merge=x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	before := listing(t, dir)
	propose(t, &Generator{Blind: true}, world(t, dir))
	if d := cmp.Diff(before, listing(t, dir)); d != "" {
		t.Errorf("the clone changed:\n%s", d)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("something of the clone's configuration ran")
	}
}

func listing(t *testing.T, dir string) map[string]string {
	all := map[string]string{}
	err := filepath.Walk(dir, func(p string, fi os.FileInfo, err error) error {
		if err == nil {
			all[p] = fi.Mode().String() + " " + fi.ModTime().String()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
