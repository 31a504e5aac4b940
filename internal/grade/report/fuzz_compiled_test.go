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

// FuzzParity feeds all readers of text with the same log.
func FuzzParity(f *testing.F) {
	var formats []Format
	for _, r := range Readers() {
		if r.Parity {
			formats = append(formats, r.Format)
		}
	}
	for _, seed := range []string{
		"PASSED a.py::b[1]\nFAILED a.py::c - no\n= 1 passed, 1 failed in 0.01s =\n",
		"b (a.T) ... ok\nc (a.T) ... FAIL\nFAIL: c (a.T)\nRan 2 tests in 0.1s\n\nFAILED (failures=1)\n",
		"--- PASS: TestA (0.00s)\nok  \ta\t0.1s\n", "test a ... ok\ntest result: ok. 1 passed; 0 failed;\n",
		"+ mvn -Dtest=A\n[INFO] BUILD SUCCESS\n", "A > b PASSED\n", "<doctest><TestCase name=\"a\"><SubCase name=\"b\"/></TestCase></doctest>",
		"  ✓ a (2 ms)\nTests: 1 passed\n", "Starting browser\n  a\n    ✔ b\nSUMMARY:\n", "ok 1 a\n", "a (b)\n ✔ c\n", "[ok]: a (1 ms)\n",
	} {
		f.Add([]byte(seed), 0)
	}
	f.Fuzz(func(t *testing.T, data []byte, exit int) {
		for _, format := range formats {
			if r, err := Read(format, []Source{{Name: "stdout", Data: data}}, exit); err == nil {
				checkReport(t, r)
			}
		}
	})
}
