package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// tapStream reads the Test Anything Protocol, 13 and 14.
func tapStream() Reader {
	return Reader{
		Format: "tap",
		Stream: true,
		Read:   readEach("tap", readTAP),
		Agrees: agreesTAP,
		Means:  "TAP 13, 14 of tape 5, node-tap 21, Perl's Test::More: what it prints on its standard output",
	}
}

// agreesTAP: 0 if nothing failed, else not 0; many runners count the failures.
func agreesTAP(r *Report, exit int) (string, bool) {
	bad := r.count(Failed, Errored, Unknown)
	if exit == 0 && bad == 0 && r.broke == "" || exit > 0 && exit < 256 && (bad > 0 || r.broke != "") {
		return "", true
	}
	return fmt.Sprintf("it ended with status %d, and %d of %d tests failed", exit, bad, len(r.Tests)), false
}

const maxTAPDepth = 32

var (
	tapPlan      = regexp.MustCompile(`^1\.\.(\d{1,9})(?:\s*#\s*(.*))?$`)
	tapPoint     = regexp.MustCompile(`^(not )?ok(?:\s+(\d{1,9}))?(?:\s+-\s+|\s+|\s*$)(.*)$`)
	tapDirective = regexp.MustCompile(`(?i)^(.*?)(?:^|\s)#\s*(skip\S*|todo\b)\s*(.*)$`)
	tapTime      = regexp.MustCompile(`\s+# time=[0-9.]+m?s$`)
	tapSum       = regexp.MustCompile(`^# (tests|pass|fail)\s+(\d{1,9})$`)
)

// tapTest is a test point with what is below it.
type tapTest struct {
	number   int
	title    string
	group    string
	status   Status
	kind     Kind
	message  string
	children []tapTest
}

// tapLevel is one indentation of a stream: the stream itself, or a subtest.
type tapLevel struct {
	tests   []tapTest
	plan    int // -1: none yet
	skipped bool
	name    string // of the subtest, as a comment before it says
}

// tapReader is a stream as far as it was read.
type tapReader struct {
	p        *part
	source   string
	n        int
	levels   []*tapLevel
	buffered []bool // by level: a subtest in braces is open below its last point
	yaml     string // the indentation of the open diagnostic block
	inYAML   bool
	version  bool
	groups   bool // comments name groups, as tape's do
	group    string
	first    bool // the next line is the first after the version
	bail     string
	sums     map[string]int
}

func readTAP(p *part, s Source) error {
	r := &tapReader{p: p, source: s.Name, sums: map[string]int{}}
	r.level(0)
	for rest := s.Data; len(rest) > 0; {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		r.n++
		if err := r.line(strings.TrimRight(string(text), "\r ")); err != nil {
			return &Error{Format: p.Format, Source: s.Name, Line: r.n, Detail: err.Error()}
		}
	}
	return r.finish()
}

func (r *tapReader) level(d int) *tapLevel {
	for len(r.levels) <= d {
		r.levels = append(r.levels, &tapLevel{plan: -1})
		r.buffered = append(r.buffered, false)
	}
	return r.levels[d]
}

func (r *tapReader) counts(format string, args ...any) {
	r.p.flag(FlagCounts, "", fmt.Sprintf("%s:%d: ", r.source, r.n)+fmt.Sprintf(format, args...))
}

func (r *tapReader) line(text string) error {
	bare := strings.TrimLeft(text, " ")
	indent := len(text) - len(bare)
	if r.inYAML {
		r.inYAML = !(bare == "..." && indent <= len(r.yaml))
		r.diagnostic(bare)
		return nil
	}
	d := indent / 4
	if bare == "" || d >= maxTAPDepth {
		return nil
	}
	first := r.first
	r.first = false
	switch {
	case strings.HasPrefix(bare, "TAP version "):
		if d == 0 && (r.version || len(r.levels[0].tests) > 0) {
			r.p.flag(FlagStray, "", fmt.Sprintf("%s:%d: a second stream begins", r.source, r.n))
		}
		r.version, r.first = r.version || d == 0, d == 0
	case bare == "---" && indent%4 == 2:
		r.inYAML, r.yaml = true, strings.Repeat(" ", indent)
	case strings.HasPrefix(bare, "Bail out!"):
		r.bail = "it bailed out:" + strings.TrimPrefix(bare, "Bail out!")
	case bare == "}" && d < len(r.buffered) && r.buffered[d]:
		r.buffered[d] = false
		r.adopt(d)
	case strings.HasPrefix(bare, "#"):
		r.comment(bare, d, first)
	case indent%4 == 0:
		if m := tapPlan.FindStringSubmatch(bare); m != nil {
			return r.plan(d, m)
		}
		if m := tapPoint.FindStringSubmatch(bare); m != nil && (d == 0 || m[2] != "") {
			return r.point(d, m)
		}
	}
	return nil
}

func (r *tapReader) comment(bare string, d int, first bool) {
	if name, ok := strings.CutPrefix(bare, "# Subtest: "); ok {
		// TAP 14 has it at the parent's indentation, older ones at the subtest's.
		r.level(d + 1).name = name
		r.level(d).name = firstOf(r.level(d).name, name)
		return
	}
	if first && d == 0 {
		r.groups = true
	}
	if !r.groups || d > 0 {
		return
	}
	if m := tapSum.FindStringSubmatch(bare); m != nil {
		r.sums[m[1]], _ = strconv.Atoi(m[2])
		return
	}
	r.group = strings.TrimSpace(strings.TrimPrefix(bare, "#"))
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (r *tapReader) plan(d int, m []string) error {
	r.brace(d)
	l := r.level(d)
	if l.plan >= 0 {
		r.counts("a second plan")
		return nil
	}
	l.plan, _ = strconv.Atoi(m[1])
	l.skipped = l.plan == 0
	return nil
}

func (r *tapReader) point(d int, m []string) error {
	r.brace(d)
	l := r.level(d)
	t := tapTest{number: len(l.tests) + 1, status: Passed, group: r.group}
	if m[2] != "" {
		if n, _ := strconv.Atoi(m[2]); n != t.number {
			r.counts("number %d where %d is next", n, t.number)
		}
	}
	if m[1] != "" {
		t.status, t.kind = Failed, KindAssertion
	}
	title := strings.TrimSpace(m[3])
	opens := strings.HasSuffix(title, " {") || title == "{"
	title = strings.TrimSpace(strings.TrimSuffix(title, "{"))
	if !opens {
		title = strings.TrimSpace(m[3])
	}
	title = tapTime.ReplaceAllString(title, "")
	if dir := tapDirective.FindStringSubmatch(title); dir != nil {
		title, t.message = strings.TrimSpace(dir[1]), dir[3]
		switch todo := strings.EqualFold(dir[2], "todo"); {
		case !todo:
			t.status, t.kind = Skipped, KindNone
		case t.status == Passed:
			t.status = XPassed
		default:
			t.status, t.kind = XFailed, KindNone
		}
	}
	t.title = strings.NewReplacer(`\#`, "#", `\\`, `\`).Replace(title)
	if len(l.tests) >= MaxTests {
		return fmt.Errorf("more than %d tests", MaxTests)
	}
	l.tests = append(l.tests, t)
	if r.buffered[d] = opens; !opens {
		r.adopt(d)
	}
	return nil
}

// brace gives a title its last brace back if no subtest in braces came.
func (r *tapReader) brace(d int) {
	if d >= len(r.buffered) || !r.buffered[d] {
		return
	}
	r.buffered[d] = false
	l := r.levels[d]
	if t := &l.tests[len(l.tests)-1]; len(r.levels) == d+1 {
		t.title += " {"
	}
}

// adopt puts the open subtest below the last point of level d.
func (r *tapReader) adopt(d int) {
	if len(r.levels) <= d+1 || len(r.levels[d].tests) == 0 {
		return
	}
	for deep := len(r.levels) - 1; deep > d+1; deep-- { // a deeper one without its point
		if len(r.levels[deep].tests) > 0 {
			r.counts("a subtest has no result of its own")
		}
	}
	parent, sub := &r.levels[d].tests[len(r.levels[d].tests)-1], r.levels[d+1]
	r.levels, r.buffered = r.levels[:d+1], r.buffered[:d+1]
	if len(sub.tests) == 0 && sub.plan < 0 {
		return
	}
	r.whole(sub, parent.title)
	parent.children = sub.tests
	for _, c := range sub.tests {
		if c.status == Failed && parent.status == Passed {
			r.counts("%.200q passed, and %.200q below it failed", parent.title, c.title)
			return
		}
	}
}

// whole holds a level's plan against its points.
func (r *tapReader) whole(l *tapLevel, name string) {
	switch {
	case r.bail != "":
	case l.plan < 0:
		r.counts("no plan of %.200q", name)
	case l.plan != len(l.tests):
		r.counts("%d tests were planned of %.200q, and %d are listed", l.plan, name, len(l.tests))
	}
}

// diagnostic takes what the YAML block below a failed point says of its kind.
func (r *tapReader) diagnostic(bare string) {
	for d := len(r.levels) - 1; d >= 0; d-- {
		l := r.levels[d]
		if len(l.tests) == 0 {
			continue
		}
		t := &l.tests[len(l.tests)-1]
		if t.status != Failed {
			return
		}
		switch {
		case bare == "operator: error", strings.HasPrefix(bare, "type: TypeError"), strings.HasPrefix(bare, "name: TypeError"):
			t.kind = KindException
		case strings.HasPrefix(bare, "expired: "), strings.HasPrefix(bare, "failureType: 'testTimeout"):
			t.kind = KindTimeout
		}
		if len(t.message) < MaxMessage {
			t.message += bare + "\n"
		}
		return
	}
}

func (r *tapReader) finish() error {
	top := r.levels[0]
	if !r.version && top.plan < 0 && len(top.tests) == 0 {
		return &Error{Format: r.p.Format, Source: r.source, Detail: "no line of TAP in it", None: true}
	}
	if r.inYAML {
		r.p.flag(FlagCut, "", r.source+": a diagnostic has no end")
	}
	if len(r.levels) > 1 && len(r.levels[1].tests) > 0 {
		r.p.flag(FlagCut, "", r.source+": the last subtest has no result of its own")
	}
	if top.plan < 0 && r.bail == "" {
		r.p.flag(FlagCut, "", r.source+": there is no plan")
	} else {
		r.whole(top, "the whole")
	}
	if r.bail != "" {
		r.p.broke = r.bail
	}
	if r.groups {
		r.checkSums(top)
	}
	sum(&r.p.Counts.Total, max(top.plan, 0))
	var prefix []string
	if r.source != "stdout" {
		prefix = []string{r.source}
		if top.skipped && len(top.tests) == 0 {
			return r.p.add(Test{ID: r.source, Status: Skipped})
		}
	}
	return r.put(prefix, top.tests)
}

// checkSums holds tape's last lines against the list.
func (r *tapReader) checkSums(top *tapLevel) {
	fails := 0
	for _, t := range top.tests {
		if t.status == Failed {
			fails++
		}
	}
	if n, ok := r.sums["tests"]; ok && n != len(top.tests) {
		r.counts("it counts %d tests, and %d are listed", n, len(top.tests))
	}
	if n, ok := r.sums["fail"]; ok && n != fails {
		r.counts("it counts %d failures, and %d are listed", n, fails)
	}
	_, tests := r.sums["tests"]
	_, failed := r.sums["fail"]
	if end := tests && (failed || fails == 0 && r.group == "ok"); !end && r.bail == "" {
		r.p.flag(FlagCut, "", r.source+": its last lines, with the numbers, are not there")
	}
}

// put adds the tests of one level. Names may repeat in TAP: the second of a
// name is "name (2)".
func (r *tapReader) put(prefix []string, tests []tapTest) error {
	again := map[string]int{}
	for _, t := range tests {
		title := t.title
		if title == "" {
			title = "#" + strconv.Itoa(t.number)
		}
		at := append([]string{}, prefix...)
		if t.group != "" && len(prefix) <= 1 && r.groups {
			at = append(at, t.group)
		}
		key := join("", append(at, title)...)
		if again[key]++; again[key] > 1 {
			title += " (" + strconv.Itoa(again[key]) + ")"
		}
		at = append(at, title)
		if err := r.put(at, t.children); err != nil {
			return err
		}
		if err := r.p.add(Test{ID: join("", at...), Status: t.status, Kind: t.kind, Message: t.message}); err != nil {
			return &Error{Format: r.p.Format, Source: r.source, Detail: err.Error()}
		}
	}
	return nil
}
