package report_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// sweGroup is what testdata/swebench/grade.py takes.
type sweGroup struct {
	Parser     string   `json:"parser"`
	EvalType   string   `json:"eval_type,omitempty"`
	Gold       string   `json:"gold,omitempty"`
	Base       string   `json:"base,omitempty"`
	FailToPass []string `json:"fail_to_pass"`
	PassToPass []string `json:"pass_to_pass"`
	Logs       []string `json:"logs"`
}

type sweAnswer struct {
	FailToPass []string `json:"fail_to_pass"`
	PassToPass []string `json:"pass_to_pass"`
	Cases      []struct {
		Status   map[string]string `json:"status"`
		Graded   bool              `json:"graded"`
		Resolved bool              `json:"resolved"`
		Error    string            `json:"error"`
	} `json:"cases"`
}

// swePython is a Python that has swebench 5.0.2 (scripts/swebench makes one).
func swePython(t *testing.T) string {
	t.Helper()
	python := os.Getenv("ASSAY_SWEBENCH")
	if python == "" {
		t.Skip("ASSAY_SWEBENCH names no Python with swebench 5.0.2; run it by: ./check --long swebench")
	}
	return python
}

// askSWEBench has SWE-bench's own function grade.
func askSWEBench(t *testing.T, python string, groups []sweGroup) []sweAnswer {
	t.Helper()
	in, err := json.Marshal(groups)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(python, "testdata/swebench/grade.py")
	cmd.Stdin = bytes.NewReader(in)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("swebench: %v\n%s", err, stderr.String())
	}
	var answers []sweAnswer
	if err := json.Unmarshal(out, &answers); err != nil || len(answers) != len(groups) {
		t.Fatalf("swebench: %v, %d answers\n%s", err, len(answers), stderr.String())
	}
	return answers
}

const (
	sweStart = "+ : '>>>>> Start Test Output'\n"
	sweEnd   = "+ : '>>>>> End Test Output'\n"
)

// sweLog is a log as SWE-bench's script leaves it.
func sweLog(before, output, exit string) string {
	if !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return before + sweStart + output + sweEnd + ">>>>> Test Exit Code: " + exit + "\n"
}

// ours grades what a command printed by the closed lists, with the status that
// the host has of it.
func ours(f report.Format, stream string, ran checks.Ran, failToPass, passToPass []string) checks.Verdict {
	ran.Name = "tests"
	ran.Report, ran.ReportErr = nil, ""
	r, err := report.Read(f, []report.Source{{Name: "stdout", Data: []byte(stream)}}, ran.Exit)
	if err != nil {
		ran.ReportErr = err.Error()
	} else {
		ran.Report = r
	}
	plan := &checks.Plan{Version: 1, Commands: []checks.Command{{Name: "tests", Run: "true", Report: f,
		FailToPass: failToPass, PassToPass: passToPass}}}
	return checks.Judge(plan, checks.Observation{Attempted: true, Changed: []string{"/app/a.py"}, Commands: []checks.Ran{ran}})
}

// resolves is the verdict's one bit: a void one resolves nothing.
func resolves(v checks.Verdict) bool { return v.Resolved && v.Void == "" }

func TestParityNames(t *testing.T) {
	for _, c := range []struct{ parser, instance, want string }{
		{"parse_log_astropy", "astropy__astropy-1", "swebench:pytest_v2"},
		{"parse_log_jekyll", "jekyll__jekyll-8761", "swebench:cucumber"},
		{"parse_log_immutable_js", "immutable-js__immutable-js-2006", "swebench:jest"},
		{"parse_log_immutable_js", "immutable-js__immutable-js-1", ""},
		{"parse_log_gotest", "a__b-1", "swebench:gotest"},
		{"parse_log_eslint", "a__b-1", ""}, // lists failures alone: silence would pass
		{"nonsense", "", ""},
	} {
		if got, ok := report.ParityOf(c.parser, c.instance); string(got) != c.want || ok != (c.want != "") {
			t.Errorf("%s of %s: %q, %v", c.parser, c.instance, got, ok)
		}
	}
	if i := slices.IndexFunc(report.Readers(), func(r report.Reader) bool {
		return r.Parity != strings.HasPrefix(string(r.Format), "swebench:")
	}); i >= 0 {
		t.Errorf("%s: a reader of logs and its name disagree", report.Readers()[i].Format)
	}
}
