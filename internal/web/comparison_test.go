package web

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"assay/internal/compare"
	"assay/internal/store"
	"assay/trial"
)

// twoSets is a job of agents at tasks of two data sets, k attempts each, of
// which some are lost. The same arguments always give the same job.
func twoSets(agents []string, tasks, k int) *store.View {
	rnd := rand.New(rand.NewPCG(3, uint64(tasks)))
	v := &store.View{Name: "grid", Dir: "/jobs/grid", ID: "1", State: store.Done}
	ending := func(c trial.Cause) trial.Ending {
		e, err := c.Ending()
		if err != nil {
			panic(err)
		}
		return e
	}
	for i := range tasks {
		set, name := "verified", fmt.Sprintf("django__django-%d", i)
		if i%3 == 0 {
			set, name = "mine", fixtureTask(i)
		}
		hard := rnd.NormFloat64()
		for a, agent := range agents {
			for rep := range k {
				e := ending(trial.CauseUnsolved)
				if rnd.NormFloat64() < 0.8*float64(len(agents)-a)-1-hard {
					e = ending(trial.CauseSolved)
				}
				if rnd.IntN(25) == 0 {
					e = ending(trial.CauseSandboxLost)
				}
				usd, in, out, calls := 0.02+rnd.Float64()/5, int64(20_000+rnd.IntN(9000)), int64(900+rnd.IntN(900)), 5+rnd.IntN(30)
				t := &store.Trial{Name: fmt.Sprint(name, agent, rep), Task: set + "/" + name, Digest: "sha256:" + name, Agent: agent, Model: "small", Status: store.TrialFinished,
					Outcome: e.Outcome, Cause: e.Cause, Fault: e.Fault, Evidence: trial.Canaried}
				t.Usage.Usage = trial.Usage{CostUSD: &usd, InputTokens: &in, OutputTokens: &out}
				t.Record = trial.Record{Calls: &calls, Modes: trial.Modes{Backend: "ns", UID: "single", Grade: "patch", Verifier: "sealed", Network: "none", VerifierNetwork: "none"},
					Phases: []trial.PhaseTime{{Phase: trial.PhaseAgent, Millis: 1000 + 9000*rnd.Float64()}}}
				if set == "mine" {
					t.Record.Checks = &trial.Checks{FailToPass: trial.Share{Passed: rnd.IntN(3), Total: 2}, Resolved: e.Outcome == trial.Pass, Strict: e.Outcome == trial.Pass && rnd.IntN(4) > 0}
				}
				v.Trials = append(v.Trials, t)
			}
		}
	}
	v.Planned = len(v.Trials)
	return v
}

func comparison(t *testing.T, opt compare.Options, views ...*store.View) *compare.Report {
	t.Helper()
	r, err := compare.Compare(views, opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestComparisonGoldens(t *testing.T) {
	r := comparison(t, compare.Options{}, twoSets([]string{"codex", "react"}, 24, 2))
	for name, write := range map[string]func(*bytes.Buffer) error{
		"comparison.txt": func(b *bytes.Buffer) error { return Comparison(b, r) },
		"comparison.md":  func(b *bytes.Buffer) error { return ComparisonMarkdown(b, r) },
		"comparison.csv": func(b *bytes.Buffer) error { return ComparisonCSV(b, r) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.String())
	}
}

// A rate never stands without its interval and what it stands on.
func TestEveryRateHasItsInterval(t *testing.T) {
	r := comparison(t, compare.Options{}, twoSets([]string{"a", "b", "c"}, 30, 3))
	var b bytes.Buffer
	if err := ComparisonCSV(&b, r); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, h := range rows[0] {
		at[h] = i
	}
	rates := 0
	for _, row := range rows[1:] {
		m := row[at["metric"]]
		switch {
		case m == "resolved", m == "strict", m == "partial", m == "difference", strings.HasPrefix(m, "pass"), strings.HasPrefix(m, "resolved_pooled"):
			rates++
			v, _ := strconv.ParseFloat(row[at["value"]], 64)
			lo, err1 := strconv.ParseFloat(row[at["lo"]], 64)
			hi, err2 := strconv.ParseFloat(row[at["hi"]], 64)
			if err1 != nil || err2 != nil || !(lo <= v && v <= hi) || row[at["planned"]] == "0" || row[at["planned"]] == "" {
				t.Errorf("%q", row)
			}
		}
	}
	if rates < 100 {
		t.Errorf("%d rates", rates)
	}
	for _, s := range sheets(r) {
		for _, row := range s.Rows {
			if len(row) != len(s.Head) {
				t.Errorf("%s: %d cells under %d heads: %q", s.Title, len(row), len(s.Head), row)
			}
		}
	}
}

func comparisonHTML(t *testing.T, r *compare.Report) (string, markup) {
	t.Helper()
	var b bytes.Buffer
	if err := ComparisonPage(&b, r); err != nil {
		t.Fatal(err)
	}
	if dir := os.Getenv("ASSAY_KEEP_PAGES"); dir != "" { // to look at
		os.WriteFile(filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-")+".html"), b.Bytes(), 0o644)
	}
	return b.String(), checkPage(t, b.String())
}

func TestComparisonPage(t *testing.T) {
	page, m := comparisonHTML(t, comparison(t, compare.Options{}, twoSets([]string{"codex", "react", "nop"}, 60, 3)))
	text := m.text.String()
	for _, want := range []string{"more of every 100 tasks than", "Paired differences", "Holm", "Data set mine, 20 tasks", "pass@3", "time per solved", "sandbox_lost", "django__django-1", "KR-20"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	for _, class := range []string{`class="plot"`, `class="curve"`, `class="band"`, `class="forest"`, `class="cell"`} {
		if !strings.Contains(page, class) {
			t.Errorf("no picture %s", class)
		}
	}
	if m.tags["script"] != 1 || m.tags["img"]+m.tags["link"]+m.tags["iframe"] > 0 {
		t.Errorf("the page asks for something: %v", m.tags)
	}
	if !strings.Contains(strings.Join(m.metas, " "), "default-src 'none'") {
		t.Errorf("policy %q", m.metas)
	}
}

func TestComparisonOfLittle(t *testing.T) {
	for name, v := range map[string]*store.View{
		"nothing": {Name: "x"}, "one arm": twoSets([]string{"a"}, 3, 1), "one task": twoSets([]string{"a", "b"}, 1, 1),
		"planned": {Name: "x", Trials: []*store.Trial{{Name: "1", Task: "t", Agent: "a", Status: store.TrialPlanned}, {Name: "2", Task: "t", Agent: "b", Status: store.TrialPlanned}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := comparison(t, compare.Options{}, v)
			_, m := comparisonHTML(t, r)
			var b bytes.Buffer
			if err := Comparison(&b, r); err != nil || b.Len() == 0 || !strings.Contains(m.text.String(), r.Sentences[0]) {
				t.Errorf("%v %q", err, b.String())
			}
			for _, bad := range []string{"NaN", "Inf", "%!"} {
				if strings.Contains(b.String(), bad) || strings.Contains(m.text.String(), bad) {
					t.Errorf("%s in %s", bad, b.String())
				}
			}
		})
	}
}

func TestHostileNamesInAComparison(t *testing.T) {
	v := twoSets([]string{"=cmd|' /C calc'!A0" + evil, "@b | `x` <img src=x>"}, 9, 2)
	for _, tr := range v.Trials {
		tr.Task = evil + tr.Task
		tr.Model = "m|" + evil
		tr.Evidence = trial.Evidence(evil)
		tr.Record.Modes.Backend = evil
	}
	v.Name = evil
	r := comparison(t, compare.Options{}, v)
	page, m := comparisonHTML(t, r)
	if m.tags["script"] != 1 || m.tags["img"] != 0 {
		t.Errorf("elements came from a name: %v", m.tags)
	}
	var text, md, table bytes.Buffer
	if Comparison(&text, r) != nil || ComparisonMarkdown(&md, r) != nil || ComparisonCSV(&table, r) != nil {
		t.Fatal("not written")
	}
	for what, s := range map[string]string{"page": page, "terminal": text.String(), "markdown": md.String(), "csv": table.String()} {
		for _, bad := range []string{"\x1b", "\u202e", "\x00", "\xff"} {
			if strings.Contains(s, bad) {
				t.Errorf("the %s holds %q", what, bad)
			}
		}
	}
	if strings.Contains(md.String(), "<img") || strings.Contains(md.String(), "<script") {
		t.Error("markup reached the Markdown")
	}
	rows, err := csv.NewReader(&table).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		for _, c := range row {
			if c != "" && strings.ContainsRune("=+@", rune(c[0])) {
				t.Fatalf("a spreadsheet takes %q for a formula", c)
			}
		}
	}
	for l := range strings.Lines(md.String()) {
		if strings.HasPrefix(l, "| ") && strings.Contains(l, "cmd") && strings.Contains(strings.ReplaceAll(l, `\|`, ""), "m|") {
			t.Errorf("a name ends a cell: %q", l)
		}
	}
}
