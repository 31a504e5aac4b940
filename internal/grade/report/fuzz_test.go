package report

import (
	"slices"
	"testing"
)

// fuzzRunner feeds a reader variations of what its real runners wrote.
func fuzzRunner(f *testing.F, formats ...Format) {
	for _, run := range aRuns(f) {
		if slices.Contains(formats, run.format) {
			f.Add(run.data, run.exit)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, exit int) {
		for _, format := range formats {
			for _, name := range []string{"logs/report", "stdout"} {
				r, err := Read(format, []Source{{Name: name, Data: data, Root: "/tmp/assay-reports/project"}}, exit)
				if err == nil {
					checkReport(t, r)
				}
			}
		}
	})
}

func FuzzPytest(f *testing.F) { fuzzRunner(f, "pytest") }

// FuzzTestLog is for all that assay's own recorders write.
func FuzzTestLog(f *testing.F) {
	fuzzRunner(f, "pytest-log", "unittest", "django", "node-test", "mocha-log")
}

func FuzzJest(f *testing.F) { fuzzRunner(f, "jest", "vitest") }

func FuzzMocha(f *testing.F) { fuzzRunner(f, "mocha") }

func FuzzTAP(f *testing.F) { fuzzRunner(f, "tap") }
