package report

import (
	"strings"
	"testing"
)

// fuzzReader feeds a reader what it must survive: no panic, no endless loop,
// ids that are unique, whole and short, and statuses that there are.
func fuzzReader(f *testing.F, formats ...Format) {
	for _, format := range formats {
		for _, run := range realRuns(f, format) {
			f.Add(run.sources[0].Data, run.exit)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, exit int) {
		for _, format := range formats {
			r, err := Read(format, []Source{{Name: "report", Data: data}}, exit)
			if err != nil {
				continue
			}
			checkReport(t, r)
		}
	})
}

func checkReport(t *testing.T, r *Report) {
	t.Helper()
	seen := map[string]bool{}
	for _, test := range r.Tests {
		switch {
		case test.ID == "" || len(test.ID) > MaxID || strings.ContainsAny(test.ID, "\n\r\x00"):
			t.Fatalf("id %q", test.ID)
		case seen[test.ID]:
			t.Fatalf("id %q twice", test.ID)
		case len(test.Message) > MaxMessage:
			t.Fatalf("a message of %d bytes", len(test.Message))
		case test.Took < 0:
			t.Fatalf("took %v", test.Took)
		}
		if _, ok := worse[test.Status]; !ok {
			t.Fatalf("status %q", test.Status)
		}
		seen[test.ID] = true
	}
	if len(r.Flags) > MaxFlags+20 {
		t.Fatalf("%d flags", len(r.Flags))
	}
}

func FuzzGoTest(f *testing.F) { fuzzReader(f, GoTest) }

func FuzzCargo(f *testing.F) { fuzzReader(f, CargoTest) }

func FuzzJUnit(f *testing.F) { fuzzReader(f, Junit, Nextest, CTest) }
