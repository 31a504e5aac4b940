package proof

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/task"
)

const flakyPlan = `version = 1
[[commands]]
name = "unit"
run = "PYTHONPATH=/app python3 -B /tests/assay_unittest.py --assay-report=/logs/verifier/unit.log discover -s /tests"
report = "unittest"
files = ["/logs/verifier/unit.log"]
fail_to_pass = ["test_app.App.test_twice"]
pass_to_pass = ["test_app.App.test_before", "test_app.App.test_z_last"]
`

// Of its three tests one passes only after another one.
const flakyTests = `import unittest, app
seen = []
class App(unittest.TestCase):
    def test_twice(self): self.assertEqual(app.twice(21), 42)
    def test_z_last(self): self.assertTrue(seen)
    def test_first(self): pass
    def test_before(self): self.assertTrue(True)
    @classmethod
    def setUpClass(cls): seen.clear()
    def tearDown(self): seen.append(1)
`

// Checks that gold passes in one order of the tests and not in another are
// named; in quarantine they no longer stand in the way.
func TestProveFindsUnstableChecks(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("no python3")
	}
	w := newWorld(t)
	_, runner, _ := report.Support("unittest")
	all := files{
		"task.toml": "[environment]\nworkdir = \"/app\"\n[metadata.assay]\ngrade = \"patch\"\n", "environment/Dockerfile": "FROM host\nWORKDIR /app\nCOPY app.py /app/\n",
		"environment/app.py": "def twice(x):\n    return x\n", "solution/solve.sh": "#!/bin/sh\nsed -i 's/return x/return 2 * x/' /app/app.py\n",
		"tests/checks.toml": flakyPlan, "tests/test_app.py": flakyTests, "tests/assay_unittest.py": string(runner),
	}
	x := w.task("flaky", all)
	w.gold = 6
	proofs, err := w.prove(t.Context(), "first", x)
	if err != nil {
		t.Fatal(err)
	}
	if p := proofs[0]; p.Proved || !slices.Equal(p.Unstable, []string{"unit:test_app.App.test_z_last"}) || !strings.Contains(p.said(), checks.QuarantineFile) {
		t.Fatalf("unstable %q; %q", p.Unstable, p.said())
	}
	if n, err := Quarantine(x, proofs[0].Unstable); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if x, err = task.Load(x.Dir); err != nil {
		t.Fatal(err)
	}
	proofs, err = w.prove(t.Context(), "second", x)
	if err != nil {
		t.Fatal(err)
	}
	if p := proofs[0]; !p.Proved || len(p.Unstable) > 0 || !p.Local {
		t.Errorf("local %t; unstable %q; %q", p.Local, p.Unstable, p.said())
	}
}
