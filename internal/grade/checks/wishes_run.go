package checks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/grade/report"
)

var (
	// A line of shell that ends with another status than its runner's.
	hidesStatus = regexp.MustCompile(`\|\|\s*(true|:)(\s|[;)]|$)|[^|]\|[^|&]|;\s*(true|:|exit 0)\s*$`)
	// Flags of runners that end a run with its first failure.
	stopsEarly = regexp.MustCompile(`(^|\s)(-x|--exitfirst|--maxfail(=|\s+)1|--bail(=(1|true))?|-failfast|--failfast|--fail-fast|-ff|--stop-on-failure|-Dsurefire\.skipAfterFailureCount=1)(\s|$)`)
	cargoTest  = regexp.MustCompile(`\bcargo\s+(nextest\s+run|test)\b`)
)

// configs are the files by which a runner's behaviour can be changed from
// within the working directory, the usual one first, and flags that name another.
var configs = map[report.Format]struct {
	files []string
	named *regexp.Regexp
}{
	"pytest":         {[]string{"pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "conftest.py"}, regexp.MustCompile(`(^|\s)(-c|--config-file)(=|\s)`)},
	"pytest-log":     {[]string{"pytest.ini", "tox.ini", "setup.cfg", "pyproject.toml", "conftest.py"}, regexp.MustCompile(`(^|\s)(-c|--config-file)(=|\s)`)},
	"jest":           {[]string{"jest.config.js", "jest.config.json", "package.json"}, regexp.MustCompile(`(^|\s)(-c|--config)(=|\s)`)},
	"vitest":         {[]string{"vitest.config.ts", "vitest.config.js", "vite.config.ts", "vite.config.js"}, regexp.MustCompile(`(^|\s)(-c|--config)(=|\s)`)},
	"mocha":          {[]string{".mocharc.json", ".mocharc.yml", ".mocharc.js", "package.json"}, regexp.MustCompile(`(^|\s)--(config|no-config)(=|\s|$)`)},
	report.CargoTest: {[]string{".cargo/config.toml"}, nil},
	report.Nextest:   {[]string{".config/nextest.toml", ".cargo/config.toml"}, regexp.MustCompile(`(^|\s)--config-file(=|\s)`)},
}

// configWish says which of its runner's files the work may change.
func (p *Plan) configWish(c Command) (Wish, bool) {
	k, ok := configs[c.Report]
	if !ok || k.named != nil && k.named.MatchString(strings.Join(append([]string{c.Run}, c.Args...), " ")) {
		return Wish{}, false
	}
	var open []string
	for _, f := range k.files {
		if !slices.ContainsFunc(p.Protected, func(at string) bool { return Matches(at, "/w", "/w/"+f) }) {
			open = append(open, f)
		}
	}
	if len(open) == 0 || len(open) < len(k.files) && slices.Contains(p.Protected, k.files[0]) {
		return Wish{}, false
	}
	return Wish{
		Rule: "runner-config", Message: fmt.Sprintf("the work may change what steers the runner of %q (%s), and a line there, such as an end at the first failure, makes even right work void", c.Name, strings.Join(open, ", ")),
		Remedy: "add these files to protected; one that is not there stays away",
	}, true
}

// runWishes are what a command's line leaves to be wished. With canaries both
// make honest work void: in that run some tests fail, as they must.
func (c Command) runWishes() (all []Wish) {
	if len(c.Canaries) == 0 {
		return nil
	}
	line := c.Run
	for _, a := range c.Args {
		line += " " + a
	}
	if c.Run != "" && hidesStatus.MatchString(unquoted(c.Run)) && !strings.Contains(c.Run, "pipefail") {
		all = append(all, Wish{
			Rule: "hidden-status", Message: fmt.Sprintf("%q may end with status 0 although tests failed, and then even right work is void", c.Name),
			Remedy: "let the runner be what ends the line: no pipe, no || true; write its output to a file",
		})
	}
	if stopsEarly.MatchString(line) || cargoTest.MatchString(line) && !strings.Contains(line, "--no-fail-fast") {
		all = append(all, Wish{
			Rule: "stops-early", Message: fmt.Sprintf("%q ends at the first failure: with canaries other tests are absent then, and even right work is void", c.Name),
			Remedy: "let all tests run (no -x, --bail, -failfast; cargo with --no-fail-fast)",
		})
	}
	return all
}

var quotes = regexp.MustCompile(`'[^']*'|"[^"]*"`)

// unquoted is a line of shell without what stands in quotes.
func unquoted(line string) string { return quotes.ReplaceAllString(line, "Q") }
