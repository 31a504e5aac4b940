package report

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSupportRuns: the files for runners do their work with the runners of this
// machine, and what they write is what the manifest's machine had.
func TestSupportRuns(t *testing.T) {
	for _, c := range []struct {
		program string
		format  Format
		project string
		args    func(support, out string) []string
		exit    int
		failed  string
		passed  string
	}{
		{"python3", "unittest", "unittest", func(support, out string) []string {
			return []string{support, "--assay-report=" + out, "discover", "-s", "tests", "-t", "."}
		}, 1, "tests.test_kinds.Kinds.test_fails", "tests.test_kinds.Kinds.test_docstring"},
		{"python3", "unittest", "unittest", func(support, out string) []string {
			return []string{support, "--assay-report=" + out, "broken.test_fine"}
		}, 0, "", "broken.test_fine.Fine.test_fine"},
		{"python3", "unittest", "unittest", func(support, out string) []string {
			return []string{support, "--assay-report=" + out, "broken.test_syntax"}
		}, 1, "", ""},
		{"node", "node-test", "node-test", func(support, out string) []string {
			return []string{"--test", "--test-reporter=" + support, "--test-reporter-destination=" + out, "names.test.mjs", "sub/names.test.mjs"}
		}, 1, "names.test.mjs > twice", "sub/names.test.mjs > twice"},
	} {
		t.Run(string(c.format)+" "+firstOf(c.passed, "nothing loads"), func(t *testing.T) {
			path, err := exec.LookPath(c.program)
			if err != nil {
				t.Skipf("no %s on this machine", c.program)
			}
			dir := t.TempDir()
			name, data, _ := Support(c.format)
			support, out := filepath.Join(dir, name), filepath.Join(dir, "report")
			if err := os.WriteFile(support, data, 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), path, c.args(support, out)...)
			cmd.Dir = filepath.Join("testdata", "projects", c.project)
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "PYTHONDONTWRITEBYTECODE=1"}
			said, err := cmd.CombinedOutput()
			var ended *exec.ExitError
			if err != nil && !errors.As(err, &ended) {
				t.Fatal(err)
			}
			report, err := os.ReadFile(out)
			if err != nil {
				t.Fatalf("%v\n%s", err, said)
			}
			r, err := Read(c.format, []Source{{Name: "report", Data: report}}, cmd.ProcessState.ExitCode())
			if err != nil {
				t.Fatal(err)
			}
			if r.Void() != "" || cmd.ProcessState.ExitCode() != c.exit || c.passed != "" && find(r, c.passed) != Passed || c.passed == "" && !r.flagged(FlagBuild) || c.failed != "" && find(r, c.failed) != Failed {
				t.Errorf("status %d, void %q, %s %s, %s %s\n%s", cmd.ProcessState.ExitCode(), r.Void(), c.passed, find(r, c.passed), c.failed, find(r, c.failed), said)
			}
		})
	}
}
