package report

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

var updateGolden = flag.Bool("update", false, "write the .want files of testdata anew")

// realRun is one run of a real runner: a line of a runs.tsv.
type realRun struct {
	format  Format
	dir     string // testdata/FORMAT/VERSION
	name    string
	exit    int
	sources []Source
}

// realRuns reads testdata/FORMAT/*/runs.tsv. A case is a file NAME.* or a
// directory NAME of files.
func realRuns(t testing.TB, f Format) (runs []realRun) {
	t.Helper()
	lists, err := filepath.Glob(filepath.Join("testdata", strings.TrimSuffix(string(f), "-test")+"*", "*", "runs.tsv"))
	if f == GoTest {
		lists, err = filepath.Glob("testdata/go-test/*/runs.tsv")
	}
	if err != nil || len(lists) == 0 {
		t.Fatalf("no runs of %s: %v", f, err)
	}
	for _, list := range lists {
		file, err := os.Open(list)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		for sc := bufio.NewScanner(file); sc.Scan(); {
			cols := strings.Split(sc.Text(), "\t")
			if strings.HasPrefix(sc.Text(), "#") || len(cols) < 3 {
				continue
			}
			exit, err := strconv.Atoi(cols[1])
			if err != nil {
				t.Fatalf("%s: %v", list, err)
			}
			run := realRun{format: f, dir: filepath.Dir(list), name: cols[0], exit: exit}
			paths, _ := filepath.Glob(filepath.Join(run.dir, cols[0], "*"))
			if len(paths) == 0 {
				all, _ := filepath.Glob(filepath.Join(run.dir, cols[0]+".*"))
				for _, p := range all {
					if filepath.Ext(p) != ".want" {
						paths = append(paths, p)
					}
				}
			}
			for _, p := range paths {
				data, err := os.ReadFile(p)
				if err != nil {
					t.Fatal(err)
				}
				run.sources = append(run.sources, Source{Name: filepath.Base(p), Data: data})
			}
			if len(run.sources) == 0 {
				t.Fatalf("%s: no report of the case %s", list, cols[0])
			}
			runs = append(runs, run)
		}
	}
	return runs
}

// told writes a report as the .want files have it.
func told(r *Report, err error) string {
	var b strings.Builder
	if err != nil {
		return "error\t" + err.Error() + "\n"
	}
	for _, f := range r.Flags {
		fmt.Fprintf(&b, "flag\t%s\t%s\t%s\n", f.Kind, f.ID, f.Detail)
	}
	for _, t := range r.Tests {
		fmt.Fprintf(&b, "%s\t%s\t%s\n", t.Status, t.Kind, t.ID)
	}
	return b.String()
}

// TestRealReports reads what the real runners wrote on a real machine; the
// scripts testdata/FORMAT/make make the reports anew, -update the wants.
func TestRealReports(t *testing.T) {
	for _, f := range []Format{GoTest, CargoTest, Nextest, Junit, CTest} {
		for _, run := range realRuns(t, f) {
			t.Run(filepath.Join(run.dir, run.name), func(t *testing.T) {
				r, err := Read(f, run.sources, run.exit)
				got := told(r, err)
				file := filepath.Join(run.dir, run.name+".want")
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
}
