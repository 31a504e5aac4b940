package checks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A script calls functions and makes queries as assay does, by the judge in
// Python; internal/grade/program holds both judges against each other.
func TestScriptCallsFunctions(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip(err)
	}
	tests := map[string]string{
		"py.ndjson":  `{"id":"pair","func":"pair","args":[1],"want":{"$tuple":[1,1]}}` + "\n" + `{"id":"reference","func":"pair","args":["it's"]}` + "\n",
		"ref.py":     "def pair(x): return x, x\n",
		"sql.ndjson": `{"id":"rows","schema":"CREATE TABLE t(a); INSERT INTO t VALUES (2),(1)","ordered":true,"want":{"rows":[[1],[2]]}}` + "\n",
		"checks.toml": `version = 1
[[cases]]
name = "py"
file = "py.ndjson"
call = "python"
source = "sol.py"
dir = "src"
reference = "ref.py"
pass_to_pass = ["pair"]
[[cases]]
name = "sql"
file = "sql.ndjson"
call = "sql"
source = "q.sql"
`,
	}
	for name, work := range map[string]map[string]string{
		"gold":             {"src/sol.py": "def pair(x):\n    return (x,) * 2\n", "q.sql": "SELECT a FROM t ORDER BY a"},
		"wrong kind":       {"src/sol.py": "def pair(x):\n    return [x] * 2\n", "q.sql": "SELECT a FROM t ORDER BY a"},
		"wrong order":      {"src/sol.py": "def pair(x):\n    return (x,) * 2\n", "q.sql": "SELECT a FROM t ORDER BY -a"},
		"always equal":     {"src/sol.py": "class A:\n    def __eq__(self, o): return True\ndef pair(x):\n    return A()\n", "q.sql": "SELECT a FROM t ORDER BY a"},
		"exits":            {"src/sol.py": "import os\nos._exit(0)\n", "q.sql": "SELECT a FROM t ORDER BY a"},
		"nothing is there": {"src/x": "", "q.sql": "SELECT a FROM t ORDER BY a"},
	} {
		t.Run(name, func(t *testing.T) {
			dir, at := t.TempDir(), t.TempDir()
			writeTree(t, dir, tests)
			writeTree(t, at, work)
			p, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			if reward, said := runScript(t, p, dir, at); (reward == "1") != (name == "gold") {
				t.Errorf("reward %q: %s", reward, said)
			}
			if left, err := os.ReadDir(filepath.Join(at, "src")); err != nil || len(left) > 1 || strings.Contains(left[0].Name(), "cache") {
				t.Errorf("the workspace has %v now: %v", left, err)
			}
		})
	}
}
