package grade

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/task"
	"assay/trial"
)

// What is placed is newer than what the work built, however old the task is: a
// build that goes by times would else take the tests that the agent had.
func TestPlacedFilesAreNew(t *testing.T) {
	plan := strings.Replace(suitePlan, "[[commands]]", "[place]\nwant = \"want\"\n\n[[commands]]", 1)
	build := "for f in main kept; do [ built/$f -nt want/$f ] || cp want/$f built/$f; done\n"
	for _, kind := range []task.GradeKind{task.GradePatch, task.GradeState} {
		t.Run(string(kind), func(t *testing.T) {
			everywhere(t, func(t *testing.T, w *world) {
				w.planImage()
				end := w.agent(`echo new >main.txt; mkdir want built; echo old >want/main; echo kept >want/kept; cp want/* built`)
				r := w.request(end, "exit 9", file("checks.toml", plan), file("want/main", "new\n"), file("want/kept", "kept\n"),
					file("suite.sh", build+strings.ReplaceAll(suite, "$R/tests/want", "built")))
				old := time.Now().Add(-time.Hour)
				for _, name := range []string{"main", "kept"} {
					if err := os.Chtimes(filepath.Join(r.Key.Tests[0], "want", name), old, old); err != nil {
						t.Fatal(err)
					}
				}
				r.Trial, r.Attempted, r.Key.Grade = "trial-1", true, kind
				w.judged(r, trial.CauseSolved, trial.Canaried)
			})
		})
	}
}

// Byte code of the author's own runs stays at home: it holds the expectations
// without canaries, and tells the runs apart.
func TestByteCodeOfTestsStaysAtHome(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		w.planImage()
		r := w.planned(w.agent(`echo new >main.txt`), suitePlan, file("want/__pycache__/main.pyc", "new\n"))
		look := `[ ! -e "$R/tests/want/__pycache__" ] || exit 7` + "\n"
		if err := os.WriteFile(filepath.Join(r.Key.Tests[0], "suite.sh"), []byte(look+suite), 0o644); err != nil {
			t.Fatal(err)
		}
		w.judged(r, trial.CauseSolved, trial.Canaried)
	})
}
