package checks

import (
	"errors"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"assay/internal/grade/report"
)

var recorded = flag.String("recorded", "../report/testdata", "where reports of real runners lie")

var everyVersion = flag.Bool("every-version", false, "compare what all versions of the runners wrote")

// runnerOf is the directory of a runner's versions; TAP has one of each runner.
func runnerOf(name string) string {
	dir := filepath.Dir(name)
	if strings.HasPrefix(dir, "tap/") {
		return dir
	}
	return filepath.Dir(dir)
}

// needs are the programs that a format's reader in a script takes.
func needs(t *testing.T, names ...string) {
	t.Helper()
	for _, n := range names {
		if _, err := exec.LookPath(n); err != nil {
			t.Skipf("no %s on this machine", n)
		}
	}
}

// scriptReads runs a script's reader of one format on files: what each id's
// results are, and how many results speak of a failure.
func scriptReads(t *testing.T, f report.Format, root string, files ...string) (map[string][]string, int) {
	t.Helper()
	rd, ok := scriptReaders()[f]
	if !ok {
		t.Fatalf("no reader of %s in scripts", f)
	}
	tmp := t.TempDir()
	if err := os.WriteFile(filepath.Join(tmp, rd.file), []byte(rd.text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", append([]string{"-euc", `tmp=$1; root=$2; shift 2
name() { :; }
` + rd.line, "sh", tmp, root}, files...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Errorf("%s: %v\n%s", f, err, stderr.String())
	}
	got, bad := map[string][]string{}, 0
	for l := range strings.Lines(string(out)) {
		word, id, ok := strings.Cut(strings.TrimSuffix(l, "\n"), "\t")
		if !ok {
			t.Errorf("%s: the line %q", f, l)
		}
		got[id] = append(got[id], word)
		if word == "failed" || word == "error" || word == "unknown" {
			bad++
		}
	}
	return got, bad
}

// sameTests holds what a script reads against what report reads: the same ids
// pass, and a script knows of a failure if there is one.
func sameTests(t *testing.T, f report.Format, root string, exit int, files ...string) *report.Report {
	t.Helper()
	var sources []report.Source
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		s := report.Source{Name: strings.TrimPrefix(name, "/"), Data: b, Root: root}
		if rd, err := report.ReaderOf(f); err == nil && rd.Stream {
			s.Name = "stdout"
		}
		sources = append(sources, s)
	}
	want, err := report.Read(f, sources, exit)
	if err != nil {
		t.Logf("%s %v: %v", f, files, err)
		return nil
	}
	got, bad := scriptReads(t, f, root, files...)
	failed := 0
	for _, test := range want.Tests {
		words := got[test.ID]
		passed := len(words) > 0 && !slices.ContainsFunc(words, func(w string) bool { return w != "passed" })
		if passed != (test.Status == report.Passed) && want.Void() == "" {
			t.Errorf("%s %v: %q is %s, and the script reads %v", f, files, test.ID, test.Status, words)
		}
		if test.Status == report.Failed || test.Status == report.Errored {
			failed++
		}
		delete(got, test.ID)
	}
	delete(got, "the run") // what failed in it is no test
	delete(got, "the run bailed out")
	if want.Void() == "" && len(got) > 0 {
		t.Errorf("%s %v: the script reads more: %q", f, files, slices.Sorted(maps.Keys(got)))
	}
	if want.Void() == "" && (exit == 0) != (bad == 0) && len(want.Tests) > 0 {
		t.Errorf("%s %v: status %d, and the script reads %d failures (there are %d)", f, files, exit, bad, failed)
	}
	return want
}

// Every recorded output of the real runners is read alike by both.
func TestScriptReadsRecorded(t *testing.T) {
	formats := map[string]report.Format{"ctest": "ctest", "go-test": "go-test", "junit": "junit", "nextest": "nextest", "cargo": "cargo-test"}
	lists, err := filepath.Glob(filepath.Join(*recorded, "*/*/runs.tsv"))
	if err != nil || len(lists) == 0 {
		t.Fatalf("no recorded runs: %v", err)
	}
	needs(t, "awk")
	runs, tests := 0, 0
	for _, list := range lists {
		dir, err := filepath.Abs(filepath.Dir(list))
		if err != nil {
			t.Fatal(err)
		}
		f, ok := formats[filepath.Base(filepath.Dir(dir))]
		if _, err := report.ReaderOf(f); !ok || err != nil {
			t.Logf("%s is not compared", list)
			continue
		}
		text, err := os.ReadFile(list)
		if err != nil {
			t.Fatal(err)
		}
		for l := range strings.Lines(string(text)) {
			cols := strings.Split(l, "\t")
			if strings.HasPrefix(l, "#") || len(cols) < 3 {
				continue
			}
			exit, err := strconv.Atoi(cols[1])
			if err != nil {
				t.Fatal(err)
			}
			files, _ := filepath.Glob(filepath.Join(dir, cols[0], "*"))
			if len(files) == 0 {
				files, _ = filepath.Glob(filepath.Join(dir, cols[0]+".*"))
				files = slices.DeleteFunc(files, func(name string) bool { return strings.HasSuffix(name, ".want") })
			}
			if r := sameTests(t, f, "/nowhere", exit, files...); r != nil {
				runs++
				tests += len(r.Tests)
			}
		}
	}
	if runs < 20 || tests < 200 {
		t.Errorf("%d runs with %d tests were compared", runs, tests)
	}
	t.Logf("%d runs with %d tests", runs, tests)
}

// Those of runners of Python and Node, and TAP, are listed in one file.
func TestScriptReadsManifest(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(*recorded, "MANIFEST.tsv"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Skip("no recorded runs")
	}
	if err != nil {
		t.Fatal(err)
	}
	needs(t, "awk", "python3", "node")
	newest := map[string]string{} // version by format and runner: starting Python a hundred times takes a minute
	var lines [][]string
	for l := range strings.Lines(string(text)) {
		if cols := strings.Split(strings.TrimSuffix(l, "\n"), "\t"); len(cols) >= 5 && cols[0] != "file" {
			newest[runnerOf(cols[0])] = filepath.Dir(cols[0])
			lines = append(lines, cols)
		}
	}
	runs, tests := map[report.Format]int{}, 0
	for _, cols := range lines {
		if !*everyVersion && newest[runnerOf(cols[0])] != filepath.Dir(cols[0]) {
			continue
		}
		exit, err := strconv.Atoi(cols[2])
		if err != nil {
			t.Fatalf("%q", cols)
		}
		f := report.Format(cols[1])
		if _, ok := scriptReaders()[f]; !ok {
			t.Errorf("no script reads %s", f)
			continue
		}
		name, err := filepath.Abs(filepath.Join(*recorded, cols[0]))
		if err != nil {
			t.Fatal(err)
		}
		if r := sameTests(t, f, cols[3], exit, name); r != nil {
			runs[f]++
			tests += len(r.Tests)
		}
	}
	if len(runs) < 9 || tests < 300 {
		t.Errorf("%v runs with %d tests were compared", runs, tests)
	}
	t.Logf("%v runs with %d tests", runs, tests)
}
