package repo

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/moby/patternmatcher"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// A file that holds tests is protected whatever it is called; a source that
// holds tests too is not.
func TestWithTests(t *testing.T) {
	command := func(name string, f report.Format) Command {
		return Command{Command: checks.Command{Name: name, Report: f}}
	}
	s := &Suite{Commands: []Command{command("py", "pytest-log"), command("rs", "cargo-test"), command("js", "mocha-log")}, Tests: []Test{
		{ID: "test.py::TestSlug::test_accents[é.a]", Command: "py", File: "test.py"},
		{ID: "test.py::test_more", Command: "py", File: "test.py"},
		{ID: "tests/test_a.py::test_a", Command: "py", File: "tests/test_a.py"},
		{ID: "slug/special.py::slug.special.f", Command: "py", File: "slug/special.py"},
		{ID: "README.rst::README.rst", Command: "py", File: "README.rst"},
		{ID: "src/lib.rs[slug] date::leap", Command: "rs", File: "src/lib.rs"},
		{ID: "checks/[a]*.js > joins", Command: "js", File: "checks/[a]*.js"},
		{ID: "unknown", Command: "js"},
	}}
	patterns := []string{"tests", "**/test_*.py"}
	got, err := s.WithTests(patterns)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"tests", "**/test_*.py", `checks/\[a]\*.js`, "test.py"}, got); diff != "" {
		t.Fatal(diff)
	}
	m, err := patternmatcher.New(got)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]bool{"checks/[a]*.js": true, "checks/ab.js": false, "checks/a.js": false, "test.py": true, "slug/special.py": false, "tests/data/x": true} {
		if ok, err := m.MatchesOrParentMatches(file); ok != want || err != nil {
			t.Errorf("%s: matches %v, %v; want %v", file, ok, err, want)
		}
	}
	if again, err := s.WithTests(got); err != nil || !cmp.Equal(again, got) {
		t.Errorf("a second time: %v, %v", again, err)
	}
	if _, err := s.WithTests([]string{"[a"}); err == nil {
		t.Error("a pattern that is none goes through")
	}
}
