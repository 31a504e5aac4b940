package job

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/trial"
)

// An agent that starts real runtimes as its tools works below the task's memory
// limit, and ends with that limit as its cause above it.
func TestAgentOfManyRuntimesUnderAMemoryLimit(t *testing.T) {
	w := newWorld(t)
	for _, tool := range []string{"node", "python3"} {
		if _, err := exec.LookPath("/usr/bin/" + tool); err != nil {
			t.Skipf("no %s on this machine", tool)
		}
	}
	const works = `node -e 'require("fs").writeFileSync("plan.json", JSON.stringify({say: "done"}))' &&
python3 -c 'import json; open("answer", "w").write(json.load(open("plan.json"))["say"])' || exit 9
`
	const hog = `setsid python3 -c 'a = [b"x" * (1 << 20) for i in range(1500)]' || exit 3`
	limited := files{"task.toml": taskTOML + "memory_mb = 256\n"}
	c := w.config("runtimes", []Arm{shell("fits", works), shell("bursts", "node -e 0; "+hog)}, w.task("x", limited))
	_, v := w.run(c)
	w.want(trialOf(t, v, "x", "fits"), trial.CauseSolved, "")
	w.want(trialOf(t, v, "x", "bursts"), trial.CauseMemoryLimit, "status 3")
	for _, tr := range v.Trials {
		if !slices.ContainsFunc(tr.Record.Use.LimitsHeld, func(l string) bool { return strings.HasPrefix(l, "memory:") }) {
			t.Errorf("%s: held %v", tr.Name, tr.Record.Use.LimitsHeld)
		}
	}
}
