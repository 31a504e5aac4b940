package checks

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	// A line of shell that ends with another status than its runner's.
	hidesStatus = regexp.MustCompile(`\|\|\s*(true|:)(\s|[;)]|$)|[^|]\|[^|&]|;\s*(true|:|exit 0)\s*$`)
	// Flags of runners that end a run with its first failure.
	stopsEarly = regexp.MustCompile(`(^|\s)(-x|--exitfirst|--maxfail(=|\s+)1|--bail(=(1|true))?|-failfast|--failfast|--fail-fast|-ff|--stop-on-failure|-Dsurefire\.skipAfterFailureCount=1)(\s|$)`)
	cargoTest  = regexp.MustCompile(`\bcargo\s+(nextest\s+run|test)\b`)
)

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
