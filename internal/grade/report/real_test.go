package report

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// aRun is a line of testdata/MANIFEST.tsv: what a real runner wrote.
type aRun struct {
	file   string
	format Format
	exit   int
	root   string
	data   []byte
}

// aRuns reads the manifest.
func aRuns(t testing.TB) (runs []aRun) {
	t.Helper()
	list, err := os.ReadFile("testdata/MANIFEST.tsv")
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range strings.Split(strings.TrimSpace(string(list)), "\n") {
		col := strings.Split(text, "\t")
		if i == 0 {
			continue
		}
		if len(col) != 5 {
			t.Fatalf("MANIFEST.tsv:%d: %d columns", i+1, len(col))
		}
		exit, err := strconv.Atoi(col[2])
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join("testdata", col[0]))
		if err != nil {
			t.Fatal(err)
		}
		runs = append(runs, aRun{col[0], Format(col[1]), exit, col[3], data})
	}
	if len(runs) < 60 {
		t.Fatalf("%d runs in MANIFEST.tsv", len(runs))
	}
	return runs
}

// name is what a plan would call the source: TAP is a stream.
func (a aRun) name() string {
	if a.format == "tap" {
		return "stdout"
	}
	return "logs/report"
}

func (a aRun) read(data []byte, exit int) (*Report, error) {
	return Read(a.format, []Source{{Name: a.name(), Data: data, Root: a.root}}, exit)
}

// TestRunnersReports reads what real runners wrote; testdata/make-reports.sh
// makes the reports anew, -update the .want files.
func TestRunnersReports(t *testing.T) {
	for _, run := range aRuns(t) {
		t.Run(run.file, func(t *testing.T) {
			got := told(run.read(run.data, run.exit))
			file := filepath.Join("testdata", run.file+".want")
			if *updateGolden {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// voided are the honest runs that cannot be trusted all the same, and why.
func voided() map[string]FlagKind {
	return map[string]FlagKind{
		"tap/tape-5.9.0/prints.tap":       FlagCounts, // the product prints a line of TAP into the stream
		"vitest/3.2.4/unhandled.json":     FlagExit,   // Vitest reports a success and ends with 1
		"vitest/4.0.10/unhandled.json":    FlagExit,
		"tap/Test-More-1.302190/dies.tap": FlagCounts, // it died with tests left
	}
}

// TestHonestRunsAreTrusted: no honest run of a runner is void.
func TestHonestRunsAreTrusted(t *testing.T) {
	for _, run := range aRuns(t) {
		r, err := run.read(run.data, run.exit)
		if err != nil {
			t.Errorf("%s: %v", run.file, err)
			continue
		}
		want := voided()[run.file]
		if got := r.Void(); (got != "") != (want != "") || !strings.HasPrefix(got, string(want)) {
			t.Errorf("%s: void %q, want %q", run.file, got, want)
		}
	}
}

// TestVersionsAgree: the same project has the same ids with the same status
// whatever the runner's version, but for what the versions really differ in.
func TestVersionsAgree(t *testing.T) {
	differ := []string{
		// Jest 29 does not say that a test was written so that it has to fail.
		"kinds.test.js > fails as expected", "kinds.test.js > passes though not expected",
		// Node 24 waits for a subtest that nobody awaits.
		"kinds.test.mjs > nobody waits for a subtest", "kinds.test.mjs > nobody waits for a subtest > late",
	}
	first := map[string]map[string]Status{}
	from := map[string]string{}
	for _, run := range aRuns(t) {
		base := filepath.Base(run.file)
		if !strings.HasPrefix(base, "kinds") && !strings.HasPrefix(base, "broken") || run.format == "tap" {
			continue
		}
		r, err := run.read(run.data, run.exit)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]Status{}
		for _, test := range r.Tests {
			if !slices.Contains(differ, test.ID) {
				got[test.ID] = test.Status
			}
		}
		key := string(run.format) + " " + strings.Replace(base, "-xunit1", "", 1)
		if first[key] == nil {
			first[key], from[key] = got, run.file
			continue
		}
		for id, s := range first[key] {
			if got[id] != s {
				t.Errorf("%s: %q is %q, and in %s %q", run.file, id, got[id], from[key], s)
			}
			delete(got, id)
		}
		for id, s := range got {
			t.Errorf("%s: %q is %q, and not in %s", run.file, id, s, from[key])
		}
	}
	if len(first) < 9 {
		t.Errorf("only %d kinds of runs were compared", len(first))
	}
}

// TestPytestsTwoReportsAgree: what the plugin records is what the XML says,
// where the XML can say it.
func TestPytestsTwoReportsAgree(t *testing.T) {
	runs := map[string]aRun{}
	for _, run := range aRuns(t) {
		runs[run.file] = run
	}
	for _, v := range []string{"7.4.4", "8.3.5", "9.0.1"} {
		x, l := runs["pytest/"+v+"/kinds-xunit1.xml"], runs["pytest-log/"+v+"/kinds.ndjson"]
		xr, err := x.read(x.data, x.exit)
		if err != nil {
			t.Fatal(err)
		}
		lr, err := l.read(l.data, l.exit)
		if err != nil {
			t.Fatal(err)
		}
		byID := map[string]Test{}
		for _, test := range lr.Tests {
			byID[test.ID] = test
		}
		same := 0
		for _, test := range xr.Tests {
			other, ok := byID[test.ID]
			if !ok {
				// The file that the XML names is the one with the code; a class
				// inherited from elsewhere is known by its module alone.
				if !strings.HasPrefix(test.ID, "pkg.test_kinds.") {
					t.Errorf("%s: %q is only in the XML", v, test.ID)
				}
				continue
			}
			same++
			if test.Status != other.Status && !(test.Status == Passed && other.Status == XPassed) || test.Kind != other.Kind {
				t.Errorf("%s: %q is %s %s in the XML and %s %s in the log", v, test.ID, test.Status, test.Kind, other.Status, other.Kind)
			}
		}
		if same < 40 {
			t.Errorf("%s: only %d ids are the same", v, same)
		}
	}
}

func find(r *Report, id string) Status {
	for _, t := range r.Tests {
		if t.ID == id {
			return t.Status
		}
	}
	return Missing
}

func flags(r *Report) string {
	var b strings.Builder
	for _, f := range r.Flags {
		fmt.Fprintf(&b, "%s %s: %s\n", f.Kind, f.ID, f.Detail)
	}
	return b.String()
}
