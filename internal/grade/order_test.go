package grade

import (
	"testing"

	"assay/internal/grade/checks"
)

// A Python that takes no variables does not find the plugin of another order,
// and would run no test at all.
func TestOrderOfAnIsolatedPython(t *testing.T) {
	for line, want := range map[string]bool{
		"mkdir -p /tmp/r && exec /usr/bin/python3 -I -B -m pytest -c /tests/pytest.ini /tests": true,
		"python3.11 -BE -m pytest tests":          true,
		"python3 -B -m pytest -I tests":           false,
		"python3 -m pytest --import-mode=I tests": false,
		"pytest -I tests":                         false,
	} {
		r := Request{Order: 7}
		c := checks.Command{Run: line, Report: "pytest"}
		if got := isolated(c); got != want {
			t.Errorf("%q: %v", line, got)
		}
		if _, files, ok := r.order(c, nil); ok == want || (len(files) == 0) != want {
			t.Errorf("%q: another order: %v, %d files", line, ok, len(files))
		}
	}
}
