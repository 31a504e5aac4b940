package job

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/store"
	"assay/trial"
)

// A trial's diff is what the agent changed: not the files that the task brings,
// nor the solution, the brief and the logs of a task whose workdir is the root.
func TestDiffIsTheAgentsWorkAlone(t *testing.T) {
	w := newWorld(t)
	loose := w.task("loose", files{"environment/notes.txt": "read me\n", "environment/edit.txt": "one\n"})
	root := w.task("root", files{
		"task.toml":         "[environment]\ndocker_image = \"host\"\nworkdir = \"/\"\n",
		"solution/solve.sh": "#!/bin/sh\nmkdir -p /app; echo done >/app/answer; rm -f /edit.txt\n",
	})
	arm := shell("worker", "echo x >/logs/agent/x; echo two >edit.txt; mkdir -p /app; echo done >/app/answer")
	_, v := w.run(w.config("diffs", []Arm{gold(), idle(), arm}, loose, root))
	answer := func(name string) string {
		return "diff --git a/" + name + " b/" + name + "\nnew file mode 100644\n--- /dev/null\n+++ b/" + name + "\n@@ -0,0 +1 @@\n+done\n"
	}
	edit := "diff --git a/edit.txt b/edit.txt\n--- a/edit.txt\n+++ b/edit.txt\n@@ -1 +1 @@\n-one\n+two\n"
	for key, want := range map[[2]string]string{
		{"loose", "oracle"}: answer("answer"), {"loose", "nop"}: "", {"loose", "worker"}: answer("answer") + edit,
		{"root", "oracle"}: answer("app/answer"), {"root", "nop"}: "",
		{"root", "worker"}: answer("app/answer") + strings.NewReplacer("--- a/edit.txt", "new file mode 100644\n--- /dev/null", "@@ -1 +1 @@\n-one", "@@ -0,0 +1 @@").Replace(edit),
	} {
		tr := trialOf(t, v, key[0], key[1])
		if key[1] != "nop" {
			w.want(tr, trial.CauseSolved, "")
		}
		if d := cmp.Diff(want, w.text(tr, store.DiffFile)); d != "" {
			t.Errorf("%v (-want +got):\n%s", key, d)
		}
	}
}
