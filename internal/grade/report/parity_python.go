package report

import (
	"regexp"
	"strconv"
	"strings"
)

var pytestWords = []string{"FAILED", "PASSED", "SKIPPED", "ERROR", "XFAIL"}

func beginsWithStatus(l string) bool {
	for _, w := range pytestWords {
		if strings.HasPrefix(l, w) {
			return true
		}
	}
	return false
}

func endsWithStatus(l string) bool {
	for _, w := range pytestWords {
		if strings.HasSuffix(l, w) {
			return true
		}
	}
	return false
}

var skipSummary = regexp.MustCompile(`^\[\d+\]$`)

// pytestLine is the id and the word of a line of pytest's short summary.
func pytestLine(l string) (id, word string, ok bool) {
	if !beginsWithStatus(l) {
		return "", "", false
	}
	if strings.HasPrefix(l, "FAILED") {
		l = strings.ReplaceAll(l, " - ", " ")
	}
	f := pySplit(l)
	if len(f) <= 1 || f[0] == "SKIPPED" && skipSummary.MatchString(f[1]) {
		return "", "", false
	}
	return f[1], f[0], true
}

func parsePytest(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		if id, word, ok := pytestLine(l); ok {
			set(id, word)
		}
	}
}

func parseMatplotlib(log string, set func(id, word string)) {
	parsePytest(strings.ReplaceAll(strings.ReplaceAll(log, "MouseButton.LEFT", "1"), "MouseButton.RIGHT", "3"), set)
}

var pytestOption = regexp.MustCompile(`(.*?)\[(.*)\]`)

// parsePytestOptions shortens a parameter that is an absolute path.
func parsePytestOptions(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		id, word, ok := pytestLine(l)
		if !ok {
			continue
		}
		if m := pytestOption.FindStringSubmatch(id); m != nil {
			option := m[2]
			if strings.HasPrefix(option, "/") && !strings.HasPrefix(option, "//") && !strings.Contains(option, "*") {
				option = option[strings.LastIndexByte(option, '/'):]
			}
			id = m[1] + "[" + option + "]"
		}
		set(id, word)
	}
}

var colourCode = regexp.MustCompile(`\[(\d+)m`)

func parsePytestV2(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		l = strings.Map(func(r rune) rune {
			if r >= 1 && r < 32 {
				return -1
			}
			return r
		}, colourCode.ReplaceAllString(l, ""))
		switch {
		case beginsWithStatus(l):
			if strings.HasPrefix(l, "FAILED") {
				l, _, _ = strings.Cut(l, " - ")
			}
			if f := pySplit(l); len(f) >= 2 && !(f[0] == "SKIPPED" && skipSummary.MatchString(f[1])) {
				set(strings.Join(f[1:], " "), f[0])
				// An error while a test is torn down: SWE-bench files it under "ID -
				// MESSAGE" and lets the test's pass stand.
				if before, _, ok := strings.Cut(l, " - "); ok && f[0] == "ERROR" {
					set(strings.Join(pySplit(before)[1:], " "), f[0])
				}
			}
		case endsWithStatus(l):
			if f := pySplit(l); len(f) >= 2 {
				set(strings.Join(f[:len(f)-1], " "), f[len(f)-1])
			}
		}
	}
}

func parseSeaborn(log string, set func(id, word string)) {
	for l := range strings.SplitSeq(log, "\n") {
		f := pySplit(l)
		switch {
		case len(f) < 2:
		case strings.HasPrefix(l, "FAILED"):
			set(f[1], "FAILED")
		case strings.Contains(l, " PASSED "):
			if f[1] == "PASSED" {
				set(f[0], "PASSED")
			}
		case strings.HasPrefix(l, "PASSED"):
			set(f[1], "PASSED")
		}
	}
}

// pytestSum is pytest's last line: colours are gone, -q has no "=", and before
// pytest 5.2 it says "seconds".
var (
	pytestSum  = regexp.MustCompile(`(?m)^(?:=+ )?((?:\d+ [a-z ]+(?:, )?)+|no tests ran) in [0-9.]+ ?s`)
	pytestItem = regexp.MustCompile(`(\d+) (passed|failed|errors?|xpassed)`)
)

func endPytest(log string) parityEnd {
	end := parityEnd{required: true}
	for _, m := range pytestSum.FindAllStringSubmatch(ansi.ReplaceAllString(log, ""), -1) {
		end.found, end.bad = true, 0 // a test of pytest itself prints such lines too; the last is the run's
		for _, item := range pytestItem.FindAllStringSubmatch(m[1], -1) {
			n, _ := strconv.Atoi(item[1])
			switch item[2] {
			case "passed":
				end.passed += n
			case "failed", "error", "errors":
				end.bad += n
			}
		}
	}
	return end
}

var (
	sympyFailure = regexp.MustCompile(`(_*) (.*)\.py:(.*) (_*)`)
	sympySum     = regexp.MustCompile(`tests finished: (.*) in [0-9.]+ seconds`)
	sympyItem    = regexp.MustCompile(`(\d+) (passed|failed|exceptions)`)
)

func parseSympy(log string, set func(id, word string)) {
	for _, m := range sympyFailure.FindAllStringSubmatch(log, -1) {
		set(m[2]+".py:"+m[3], "FAILED")
	}
	for l := range strings.SplitSeq(log, "\n") {
		if l = pyStrip(l); !strings.HasPrefix(l, "test_") {
			continue
		}
		for _, w := range [][2]string{{" E", "ERROR"}, {" F", "FAILED"}, {" ok", "PASSED"}} {
			if strings.HasSuffix(l, w[0]) {
				set(pySplit(l)[0], w[1])
			}
		}
	}
}

func endSympy(log string) parityEnd {
	end := parityEnd{required: true}
	for _, m := range sympySum.FindAllStringSubmatch(log, -1) {
		end.found, end.bad = true, 0
		for _, item := range sympyItem.FindAllStringSubmatch(m[1], -1) {
			n, _ := strconv.Atoi(item[1])
			if item[2] == "passed" {
				end.passed += n
			} else {
				end.bad += n
			}
		}
	}
	return end
}

var djangoPrinted = []*regexp.Regexp{
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sTesting against Django installed in ((?s:.*?)) silenced\)\.\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sInternal Server Error: /(.*)/\nok$`),
	regexp.MustCompile(`(?m)^(.*?)\s\.\.\.\sSystem check identified no issues \(0 silenced\)\nok$`),
}

func parseDjango(log string, set func(id, word string)) {
	announced, any := "", false
	for l := range strings.SplitSeq(log, "\n") {
		l = pyStrip(l)
		if strings.Contains(l, "--version is equivalent to version") {
			set("--version is equivalent to version", "PASSED")
		}
		if before, _, ok := strings.Cut(l, " ... "); ok {
			announced, any = before, true
		}
		for _, suffix := range []string{" ... ok", " ... OK", " ...  OK"} {
			if !strings.HasSuffix(l, suffix) {
				continue
			}
			if strings.HasPrefix(l, "Applying sites.0002_alter_domain_unique...test_no_migrations") {
				_, l, _ = strings.Cut(l, "...")
				l = pyStrip(l)
			}
			set(strings.TrimSuffix(l, suffix), "PASSED")
			break
		}
		djangoOther(l, set)
		if strings.HasPrefix(l, "ok") && any {
			set(announced, "PASSED")
		}
	}
	for _, re := range djangoPrinted {
		for _, m := range re.FindAllStringSubmatch(log, -1) {
			set(m[1], "PASSED")
		}
	}
}

// djangoOther reads the results that are no pass, as lines and as headings.
func djangoOther(l string, set func(id, word string)) {
	if before, _, ok := strings.Cut(l, " ... skipped"); ok {
		set(before, "SKIPPED")
	}
	for _, w := range [][3]string{{" ... FAIL", "FAIL:", "FAILED"}, {" ... ERROR", "ERROR:", "ERROR"}} {
		if strings.HasSuffix(l, w[0]) {
			before, _, _ := strings.Cut(l, w[0])
			set(before, w[2])
		}
		if strings.HasPrefix(l, w[1]) {
			if f := pySplit(l); len(f) > 1 {
				set(f[1], w[2])
			}
		}
	}
}

var (
	unittestRan = regexp.MustCompile(`(?m)^Ran (\d+) tests? in [0-9.]+s$`)
	unittestSum = regexp.MustCompile(`(?m)^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$`)
	unittestBad = regexp.MustCompile(`(?:^|, )(failures|errors|unexpected successes)=(\d+)`)
)

func endUnittest(log string) parityEnd {
	end := parityEnd{required: true, passed: -1}
	if unittestRan.FindString(log) == "" {
		return end
	}
	for _, m := range unittestSum.FindAllStringSubmatch(log, -1) {
		end.found, end.bad = true, 0
		for _, item := range unittestBad.FindAllStringSubmatch(m[1], -1) {
			n, _ := strconv.Atoi(item[2])
			end.bad += n
		}
	}
	return end
}
