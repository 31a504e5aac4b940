package report

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// parityPrefix begins the formats that read a log as SWE-bench's parser of the
// same name does: "swebench:pytest" is its parse_log_pytest.
const parityPrefix = "swebench:"

// parityParser reads a whole log. set records what the log says of an id; end
// is what the log's own last words say of the run, where its runner has any.
type parityParser struct {
	name  string
	parse func(log string, set func(id, word string))
	end   func(log string) parityEnd
}

// parityEnd is a runner's own sum. Logs of several runs have several.
type parityEnd struct {
	required bool // the runner always writes one: without it the log is cut off
	found    bool
	passed   int // at most so many ids may have passed; -1: not told
	bad      int // failures and errors, of the last run where they are told apart; -1: not told
}

// parityParsers are those of SWE-bench 5.0.2 for the sets Verified and
// Multilingual, and those of Multimodal that list what passed.
func parityParsers() []parityParser {
	return []parityParser{
		{"pytest", parsePytest, endPytest},
		{"pytest_options", parsePytestOptions, endPytest},
		{"pytest_v2", parsePytestV2, endPytest},
		{"matplotlib", parseMatplotlib, endPytest},
		{"seaborn", parseSeaborn, endPytest},
		{"sympy", parseSympy, endSympy},
		{"django", parseDjango, endUnittest},
		{"gotest", parseGoText, endGoText},
		{"cargo", parseCargoText, endCargoText},
		{"jest", parseJestText, endJestText},
		{"jest_json", parseJestJSON, nil},
		{"vitest", parseVitestText, nil},
		{"karma", parseKarma, nil},
		{"tap", parseTAPText, endTAPText},
		{"carbon", parseSuites(suiteCarbon), nil},
		{"react_pdf", parseSuites(suiteCarbon), nil},
		{"grommet", parseGrommet, nil},
		{"maven", parseMaven, nil},
		{"ant", byLine(`^\s*\[junit\]\s+\[(PASS|FAIL|ERR)\]\s+(.*)$`, 2, 1, map[string]string{"PASS": "PASSED", "FAIL": "FAILED", "ERR": "FAILED"}), nil},
		{"gradle_custom", parseGradle, nil},
		{"phpunit", parsePHPUnit, nil},
		{"minitest", byLine(`^(.+)\. .*=.*(\.|F|E).*$`, 1, 2, map[string]string{".": "PASSED", "F": "FAILED", "E": "FAILED"}), nil},
		{"cucumber", byLine(`^(.*) \.+(\.|F)`, 1, 2, map[string]string{".": "PASSED", "F": "FAILED"}), nil},
		{"ruby_unit", byLine(`^\s*(?:test: )?(.+):\s+(\.|E\b|F\b|O\b)`, 1, 2, map[string]string{".": "PASSED", "E": "FAILED", "F": "FAILED", "O": "SKIPPED"}), nil},
		{"rspec_transformed_json", byLine(`^(.+) - (passed|failed)`, 1, 2, map[string]string{"passed": "PASSED", "failed": "FAILED"}), nil},
		{"redis", parseRedis, nil},
		{"jq", byLine(`^\s*(PASS|FAIL):\s(.+)$`, 2, 1, map[string]string{"PASS": "PASSED", "FAIL": "FAILED"}), nil},
		{"doctest", nil, nil}, // XML; see readParity
		{"micropython_test", byLine(`^(pass|FAIL|skip)\s+(.+)$`, 2, 1, map[string]string{"pass": "PASSED", "FAIL": "FAILED", "skip": "SKIPPED"}), nil},
		{"googletest", byLine(`^.*\[\s*(OK|FAILED)\s*\]\s(.*)\s\(.*\)$`, 2, 1, map[string]string{"OK": "PASSED", "FAILED": "FAILED"}), nil},
	}
}

// ParityOf is the format for a SWE-bench row's log_parser; two of its parsers
// choose another by the number in the instance's id. ok is false for parsers
// that list nothing but failures, by which nothing can be said to have passed.
func ParityOf(logParser, instanceID string) (f Format, ok bool) {
	name := strings.TrimPrefix(logParser, "parse_log_")
	number := instanceID[strings.LastIndexByte(instanceID, '-')+1:]
	switch name {
	case "astroid", "flask", "marshmallow", "pvlib", "pyvista", "sqlfluff", "xarray":
		name = "pytest"
	case "pydicom", "requests", "pylint":
		name = "pytest_options"
	case "astropy", "scikit", "sphinx":
		name = "pytest_v2"
	case "immutable_js":
		name = map[string]string{"2006": "jest", "2005": "jest_json"}[number]
	case "jekyll":
		name = map[string]string{"9141": "minitest", "8047": "minitest", "8167": "minitest", "8761": "cucumber", "8771": "cucumber"}[number]
	}
	for _, p := range parityParsers() {
		if p.name == name {
			return Format(parityPrefix + name), true
		}
	}
	return "", false
}

// parityReaders are not listed beside the others: they are for logs that were
// made for SWE-bench, and never worth trust.
func parityReaders() (readers []Reader) {
	for _, p := range parityParsers() {
		f := Format(parityPrefix + p.name)
		readers = append(readers, Reader{
			Format: f,
			Stream: true,
			Parity: true,
			Read:   func(sources []Source) (*Report, error) { return readParity(f, p, sources) },
			Agrees: parityAgrees,
			Means:  "SWE-bench 5.0.2, parse_log_" + p.name + ": its statuses, ours where two contradict; always self-reported",
		})
	}
	return readers
}

// readParity gives each id the worst of what the log says of it, where
// SWE-bench gives it the last.
func readParity(f Format, p parityParser, sources []Source) (*Report, error) {
	var b strings.Builder
	for _, s := range sources {
		b.Write(s.Data)
	}
	log := universal(b.String())
	r := &Report{}
	index := map[string]int{}
	var failed error
	set := func(id, word string) {
		t := Test{ID: id, Status: parityStatus(word)}
		if i, again := index[line(id)]; again && r.Tests[i].Status == t.Status || failed != nil || id == "" {
			return
		}
		failed = r.Add(index, t)
	}
	if p.name == "doctest" {
		failed = parseDoctest(log, set)
	} else {
		p.parse(log, set)
	}
	if failed != nil {
		return nil, &Error{Format: f, Source: sourceNames(sources), Detail: failed.Error()}
	}
	if p.end == nil {
		return r, nil
	}
	end := p.end(log)
	if end.required && !end.found {
		r.flag(FlagCut, "", "the runner's last line is not in the log")
	}
	passed := 0
	for _, t := range r.Tests {
		if t.Status == Passed && !percent.MatchString(t.ID) {
			passed++
		}
	}
	if end.found && end.passed >= 0 && passed > end.passed {
		r.flag(FlagCounts, "", fmt.Sprintf("the runner counts %d that passed, the log shows %d", end.passed, passed))
	}
	if end.found && end.bad >= 0 {
		r.Counts.Failed = &end.bad
	}
	return r, nil
}

// percent is what a wrapped line of pytest's progress leaves.
var percent = regexp.MustCompile(`^\[ *\d+%\]$`)

// parityAgrees wants a reason for a status that is not 0, by the runner's own
// count where it has one: lines of a log that begin like results are not always
// results. Status 0 agrees with all: a script of several commands, as rows of
// SWE-bench have, ends with that of its last.
func parityAgrees(r *Report, exit int) (string, bool) {
	bad := r.count(Failed, Errored, Unknown)
	if r.Counts.Failed != nil {
		bad = *r.Counts.Failed
	}
	if exit != 0 && bad == 0 {
		return fmt.Sprintf("status %d, and the log has no failure", exit), false
	}
	return "", true
}

func parityStatus(word string) Status {
	switch word {
	case "PASSED":
		return Passed
	case "FAILED":
		return Failed
	case "ERROR":
		return Errored
	case "SKIPPED":
		return Skipped
	case "XFAIL":
		return XFailed
	}
	return Unknown
}

// universal reads a log as Python opens a text file.
func universal(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, '\r') < 0 {
		return s
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\r", "\n")
}

// Python's idea of white space has four characters more than Go's.
func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }

func pyStrip(s string) string { return strings.TrimFunc(s, pySpace) }

func pySplit(s string) []string { return strings.FieldsFunc(s, pySpace) }

// byLine makes the parsers that match a pattern with each stripped line.
func byLine(pattern string, id, word int, words map[string]string) func(string, func(id, word string)) {
	return func(log string, set func(id, word string)) {
		re := regexp.MustCompile(pattern)
		for l := range strings.SplitSeq(log, "\n") {
			if m := re.FindStringSubmatch(pyStrip(l)); m != nil {
				if w, ok := words[m[word]]; ok {
					set(m[id], w)
				}
			}
		}
	}
}
