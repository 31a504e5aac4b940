package label

import (
	"strings"
	"testing"
)

// set is n tasks, of which some are as given and the others plain.
func set(n int, special ...Row) []Row {
	rows := special
	for len(rows) < n {
		rows = append(rows, Row{Bytes: 4000, Labels: Labels{Language: "go", Generator: "mutate", Scope: Scope{Known: true, Lines: 2, Files: 1}, Specification: Specification{Level: "L1"}, Process: Process{Tier: Short}}})
	}
	return rows
}

func TestSummarize(t *testing.T) {
	one := set(20)
	a := Summarize(one, 2)
	for _, want := range []string{"2 directories are no valid", "0 % of the statements are ambiguous (wanted", "0 % of the solutions touch several", "no long tail", "0 tasks of more than an hour", "100 % of the tasks have one generator, mutate", "one language, go"} {
		if !strings.Contains(strings.Join(a.Warnings, "\n"), want) {
			t.Errorf("no warning %q in:\n%s", want, strings.Join(a.Warnings, "\n"))
		}
	}
	var mixed []Row
	for i := range 20 {
		r := set(1)[0]
		r.Labels.Generator = []string{"mutate", "invert", "history"}[i%3]
		r.Labels.Language = []string{"go", "python", "rust"}[i%3]
		if i%4 == 0 {
			r.Labels.Specification = Specification{Level: "L3", Ambiguous: true}
			r.Labels.Scope.Files, r.Labels.Scope.Lines, r.Labels.Process.Tier = 4, 200, Long
		}
		mixed = append(mixed, r)
	}
	a = Summarize(mixed, 0)
	if len(a.Warnings) > 0 {
		t.Errorf("a good set has warnings: %v", a.Warnings)
	}
	if a.Ambiguous != 0.25 || a.MultiFile != 0.25 || a.Lines.Median != 2 || a.Lines.P90 != 200 || a.Bytes.Sum != 80_000 {
		t.Errorf("%+v", a)
	}
	if a := Summarize(nil, 0); a.Tasks != 0 || len(a.Warnings) != 1 {
		t.Errorf("nothing: %+v", a)
	}
	heavy := set(20)
	for i := range heavy {
		heavy[i].Bytes = 90_000
	}
	if a := Summarize(heavy, 0); !strings.Contains(strings.Join(a.Warnings, "\n"), "the median task has 90 kB") {
		t.Errorf("no warning of the weight: %v", a.Warnings)
	}
}
