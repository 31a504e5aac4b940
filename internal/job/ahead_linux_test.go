package job

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"assay/internal/sandbox"
	"assay/trial"
)

// The verifier's sandbox is made while the agent's is frozen. It is used where
// the work is a handful of files, and closed unused where only a layer will do,
// or made again where it could not be had.
func TestVerifiersSandboxIsMadeAhead(t *testing.T) {
	const patch = "[environment]\nworkdir = \"/app\"\n[metadata.assay]\ngrade = \"patch\"\n"
	const dockerfile = "FROM host\nCOPY old.txt /app/old.txt\n"
	for _, c := range []struct {
		name, agent string
		fails       bool
		boxes       int
	}{
		{"used", "echo done >answer; echo x >/etc-outside 2>/dev/null; mkdir -p /tmp/x", false, 2},
		{"not enough", "echo done >answer; rm old.txt; mkdir -p /tmp/x", false, 3},
		{"not to be had", "echo done >answer; mkdir -p /tmp/x", true, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			x := w.task("x", files{"task.toml": patch, "environment/Dockerfile": dockerfile, "environment/old.txt": "old"})
			w.spy.fail = func(what string) error {
				if c.fails && what == "box2 create" {
					return errors.New("clone: resource temporarily unavailable")
				}
				return nil
			}
			tr := w.one(shell("worker", c.agent), x)
			w.want(tr, trial.CauseSolved, "")
			if len(tr.Replaced) != 0 {
				t.Errorf("an attempt was lost: %+v", tr.Replaced)
			}
			lines := w.spy.lines()
			boxes := 0
			for _, l := range lines {
				if strings.HasSuffix(l, " create") {
					boxes++
				}
			}
			if boxes != c.boxes || !c.fails && !closedAll(lines) {
				t.Errorf("%d sandboxes, want %d, all closed: %q", boxes, c.boxes, lines)
			}
			dead := slices.IndexFunc(lines, func(l string) bool { return l == "box1 end" })
			for i, l := range lines {
				if strings.Contains(l, " put ") && !strings.HasPrefix(l, "box1") && i < dead {
					t.Errorf("%q before the agent's end", l)
				}
			}
		})
	}
}

var _ sandbox.Ender = (*spied)(nil)
