package checks

import (
	"strings"
	"testing"

	"assay/internal/grade/report"
)

func TestRunWishes(t *testing.T) {
	for line, rules := range map[string]string{
		"python3 -m pytest --junitxml=/tmp/r.xml tests":              "",
		"mkdir -p /tmp/r && exec pytest -k 'a || b | c' tests":       "",
		"test -d x || exit 3; exec pytest tests":                     "",
		"cargo test --no-fail-fast 2>&1":                             "",
		"set -o pipefail; pytest tests | tee log":                    "",
		"pytest tests || true":                                       "hidden-status",
		"pytest tests || :":                                          "hidden-status",
		"pytest tests 2>&1 | tee /tmp/log":                           "hidden-status",
		"pytest tests; exit 0":                                       "hidden-status",
		"pytest -x tests":                                            "stops-early",
		"pytest --maxfail=1 tests":                                   "stops-early",
		"npx mocha --bail":                                           "stops-early",
		"go test -json -count=1 -failfast ./...":                     "stops-early",
		"cargo test 2>&1":                                            "stops-early",
		"cargo nextest run":                                          "stops-early",
		"ctest --test-dir build --stop-on-failure | tee log || true": "hidden-status stops-early",
	} {
		c := Command{Name: "unit", Run: line, Canaries: []Canary{{}}}
		var got []string
		for _, w := range c.runWishes() {
			got = append(got, w.Rule)
		}
		if strings.Join(got, " ") != rules {
			t.Errorf("%s: %q, want %q", line, got, rules)
		}
		if c.Canaries = nil; len(c.runWishes()) != 0 {
			t.Errorf("%s: advice without canaries", line)
		}
	}
	if c := (Command{Args: []string{"pytest", "-x"}, Canaries: []Canary{{}}}); len(c.runWishes()) != 1 {
		t.Error("arguments are not looked at")
	}
}

func TestConfigWishes(t *testing.T) {
	for _, c := range []struct {
		format, line string
		protected    []string
		wish         bool
	}{
		{"pytest", "pytest tests", nil, true},
		{"pytest-log", "pytest tests", []string{"tests"}, true},
		{"pytest", "pytest tests", []string{"pytest.ini"}, false}, // comes before all others
		{"pytest", "pytest -c /tests/pytest.ini tests", nil, false},
		{"jest", "npx jest", []string{"jest.config.*", "package.json"}, false},
		{"mocha", "npx mocha --no-config", nil, false},
		{"cargo-test", "cargo test --no-fail-fast", nil, true},
		{"go-test", "go test -json ./...", nil, false},
		{"", "make check", nil, false},
	} {
		p := Plan{Protected: c.protected}
		if _, ok := p.configWish(Command{Name: "unit", Run: c.line, Report: report.Format(c.format)}); ok != c.wish {
			t.Errorf("%+v: %v", c, ok)
		}
	}
}
