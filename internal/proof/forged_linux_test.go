package proof

import (
	"strings"
	"testing"
)

// A solution below a whiteout can be read by no agent. Of a task of the forge,
// whose healthy image has all solutions there, that is no leak; of others it is.
func TestForgedTasksShareTheirImage(t *testing.T) {
	w := newWorld(t)
	const built = "[environment]\nworkdir = \"/app\"\n[metadata.assay]\ngrade = \"patch\"\n"
	covered := leaky + "RUN rm -r /var/cache/old\n"
	proofs, err := w.prove(t.Context(), "prove",
		w.task("covered", files{"task.toml": built, "environment/Dockerfile": covered, "solution/solve.sh": longSolve}),
		w.task("forged", files{"task.toml": built + "[metadata.assay.forge]\ngenerator = \"mutate\"\n", "environment/Dockerfile": covered, "solution/solve.sh": longSolve}),
		w.task("open", files{"task.toml": built + "[metadata.assay.forge]\ngenerator = \"mutate\"\n", "environment/Dockerfile": leaky, "solution/solve.sh": longSolve}))
	if err != nil || len(proofs) != 3 {
		t.Fatalf("%d proofs, %v", len(proofs), err)
	}
	for i, want := range []bool{false, true, false} {
		if p := proofs[i]; p.Proved != want || !want && !strings.Contains(p.said(), "the solution can be read: ") {
			t.Errorf("%s: proved %v, want %v: %q", p.Task, p.Proved, want, p.Reasons)
		}
	}
}
