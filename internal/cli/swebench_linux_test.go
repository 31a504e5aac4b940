package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runHere runs assay in this process.
func runHere(t *testing.T, env map[string]string, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	look := func(name string) (string, bool) {
		if v, ok := env[name]; ok {
			return v, true
		}
		return os.LookupEnv(name)
	}
	if code := Main(append([]string{"assay"}, args...), World{Stdout: &out, Stderr: &errs, Env: look}); code != 0 {
		t.Fatalf("assay %s: exit %d\n%s%s", strings.Join(args, " "), code, &out, &errs)
	}
	return out.String()
}

// summaryFile is a run summary as this comparison reads it.
type summaryFile map[string]any

func readSummary(t *testing.T, name string) summaryFile {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	var s summaryFile
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s summaryFile) ids(key string) []string {
	var all []string
	for _, id := range s[key].([]any) {
		all = append(all, id.(string))
	}
	return all
}

// wronglyResolved are predictions that SWE-bench's own function calls resolved
// though no test of theirs passed: lines of a report, printed when the product
// is imported, and an end with status 0 before any test runs. Where the report
// is the runner's own file (pytest), or its text has an end that is missing
// (unittest), assay does not; of go test's and node's text both believe them.
var wronglyResolved = []string{"pytest: forged", "unittest: forged"}

// A file of 50 predictions has here the resolved set that SWE-bench's own code
// gives it, but for what that code gets wrong; and the exported summary and
// reports are that code's, key for key.
func TestSWEBenchRun(t *testing.T) {
	python := os.Getenv("ASSAY_SWEBENCH")
	if python == "" {
		t.Skip("ASSAY_SWEBENCH names no Python with swebench 5.0.2; run it by: ./check --long swebench")
	}
	needSandbox(t)
	dir := scratch(t)
	if out, err := exec.Command(python, "testdata/swebench/rows.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("rows.py: %v\n%s", err, out)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	env := map[string]string{"ASSAY_STORE": at("store"), "HOME": dir}
	runHere(t, env, "import", "swebench", at("rows.jsonl"), "-o", at("tasks"), "--repos", at("clones"), "--base", "host")
	rows, err := os.ReadFile(at("rows.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if got := runHere(t, env, "export", "swebench-rows", at("tasks")); got != string(rows) {
		t.Error("the rows did not come back byte for byte")
	}
	runHere(t, env, "grade", "--predictions", at("preds.jsonl"), "-p", at("tasks"), "-n", "2", "-o", at("jobs"), "--job-name", "ours", "-q", "--no-report")
	preds, err := os.ReadFile(at("preds.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	// A job is in the order of its tasks' names.
	if got := runHere(t, env, "export", "predictions", at("jobs/ours")); sortedLines(got) != sortedLines(string(preds)) {
		t.Error("the predictions did not come back line for line")
	}
	runHere(t, env, "export", "swebench-summary", at("jobs/ours"), "--run-id", "parity", "-p", at("tasks"), "-o", at("ours.json"))
	runHere(t, env, "export", "swebench-reports", at("jobs/ours"), "--run-id", "parity", "-o", at("ours"))

	if out, err := exec.Command(python, "testdata/swebench/theirs.py", dir).CombinedOutput(); err != nil {
		t.Fatalf("theirs.py: %v\n%s", err, out)
	}
	compareSummaries(t, dir)
	compareReports(t, dir)
}

func sortedLines(s string) string {
	all := strings.SplitAfter(s, "\n")
	slices.Sort(all)
	return strings.Join(all, "")
}

// compareSummaries holds the two summaries of dir against each other.
func compareSummaries(t *testing.T, dir string) {
	t.Helper()
	ours, theirs := readSummary(t, filepath.Join(dir, "ours.json")), readSummary(t, filepath.Join(dir, "theirs", "demo__model-1.parity.json"))
	expect := readSummary(t, filepath.Join(dir, "expect.json"))
	if len(theirs.ids("submitted_ids")) != 50 {
		t.Fatalf("%d predictions, want 50", len(theirs.ids("submitted_ids")))
	}
	var wrong []string
	for _, id := range theirs.ids("resolved_ids") {
		if slices.Contains(ours.ids("resolved_ids"), id) {
			continue
		}
		if what := expect[id].(string); !slices.Contains(wronglyResolved, what) {
			t.Errorf("%s (%s) is resolved by SWE-bench and not here", id, what)
		}
		wrong = append(wrong, id)
	}
	for _, id := range ours.ids("resolved_ids") {
		if !slices.Contains(theirs.ids("resolved_ids"), id) {
			t.Errorf("%s (%s) is resolved here and not by SWE-bench", id, expect[id])
		}
	}
	t.Logf("resolved: %d here, %d by SWE-bench; %d wrongly there: %v", len(ours.ids("resolved_ids")), len(theirs.ids("resolved_ids")), len(wrong), wrong)
	for key := range theirs {
		if _, ok := ours[key]; !ok {
			t.Errorf("the summary here has no %s", key)
		}
		switch key {
		case "resolved_ids", "resolved_instances", "unresolved_ids", "unresolved_instances":
		case "infra_failure_ids", "infra_failure_instances", "ambiguous_failure_ids", "ambiguous_failure_instances", "failure_reasons":
			// For people: guesses of theirs from words in logs.
		default:
			if a, b := fmt.Sprint(ours[key]), fmt.Sprint(theirs[key]); a != b {
				t.Errorf("%s: %s here, %s by SWE-bench", key, a, b)
			}
		}
	}
	for key := range ours {
		if _, ok := theirs[key]; !ok {
			t.Errorf("the summary here has a key %s that SWE-bench's has not", key)
		}
	}
}

// compareReports holds every report.json of dir against SWE-bench's: where both
// resolve, byte for byte, but for the order of ids.
func compareReports(t *testing.T, dir string) {
	t.Helper()
	const below = "logs/run_evaluation/parity/demo__model-1"
	theirs, err := filepath.Glob(filepath.Join(dir, "theirs", below, "*", "report.json"))
	if err != nil || len(theirs) == 0 {
		t.Fatalf("%d reports of SWE-bench: %v", len(theirs), err)
	}
	same := 0
	for _, name := range theirs {
		id := filepath.Base(filepath.Dir(name))
		a, b := readSummary(t, filepath.Join(dir, "ours", below, id, "report.json")), readSummary(t, name)
		ours, their := a[id].(map[string]any), b[id].(map[string]any)
		if ours["resolved"] != true || their["resolved"] != true {
			continue
		}
		same++
		if x, y := flat(ours), flat(their); x != y {
			t.Errorf("%s: report\n%s\nof SWE-bench\n%s", id, x, y)
		}
	}
	if same < 15 {
		t.Errorf("only %d reports could be compared", same)
	}
	t.Logf("%d reports of resolved instances have the same content", same)
}

// flat is a report with its lists in one order.
func flat(r map[string]any) string {
	if status, ok := r["tests_status"].(map[string]any); ok {
		for _, list := range status {
			for _, ids := range list.(map[string]any) {
				slices.SortFunc(ids.([]any), func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
			}
		}
	}
	return fmt.Sprint(r)
}
