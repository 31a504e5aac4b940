package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
)

// GoTest is the format of `go test -json`.
const GoTest Format = "go-test"

func goTest() Reader {
	return Reader{
		Format: GoTest,
		Stream: true,
		Read:   readGoTest,
		Agrees: func(r *Report, exit int) (string, bool) {
			return agrees(r, exit, map[int]bool{1: true, 2: true})
		},
		Means: "Go 1.19 and 1.26: `go test -json -count=1 ./...` (its standard output alone)",
	}
}

// agrees is the rule of most runners: 0 where nothing failed, one of bad where
// something did (nil: any other status).
func agrees(r *Report, exit int, bad map[int]bool) (string, bool) {
	failed := r.count(Failed, Errored, Unknown) - r.forgiven
	switch {
	case exit == 0 && failed > 0:
		return fmt.Sprintf("status 0, and %d tests failed", failed), false
	case exit != 0 && failed <= 0:
		return fmt.Sprintf("status %d, and no test failed", exit), false
	case exit != 0 && bad != nil && !bad[exit]:
		return fmt.Sprintf("status %d is none of this runner's", exit), false
	}
	return "", true
}

// goEvent is a line of the stream: cmd/internal/test2json's, and since Go 1.24
// the compiler's, which have an ImportPath and no Package.
type goEvent struct {
	Action, Package, Test, Output string
	ImportPath, FailedBuild       string
	Elapsed                       float64 // seconds
}

// goPackage is one run of a package's tests.
type goPackage struct {
	name   string
	marked bool              // it began with "start" (Go 1.20): prints cannot be taken for events
	open   map[string]bool   // tests that run
	said   map[string]string // by test: the word of its last "--- PASS: " line
	ended  bool
	failed int
	output map[string]*strings.Builder // of what has not passed yet; "" is the package's own
}

type goReader struct {
	r      *Report
	index  map[string]int
	byName map[string]*goPackage
	order  []*goPackage
	builds map[string]*strings.Builder // what a compiler said, by ImportPath
	kept   int                         // bytes in all builders
}

// readGoTest follows every test from its "run" to its end. The events are made
// from what a test binary prints, so a test that prints like the testing
// package can make some; it cannot take back its own.
func readGoTest(sources []Source) (*Report, error) {
	g := &goReader{r: &Report{}, index: map[string]int{}, byName: map[string]*goPackage{}, builds: map[string]*strings.Builder{}}
	for _, s := range sources {
		if err := g.source(s); err != nil {
			return nil, err
		}
	}
	if len(g.byName) == 0 {
		return nil, &Error{Format: GoTest, Source: sourceNames(sources), Detail: "no event of any package (is it the output of go test -json?)", None: true}
	}
	for _, p := range g.order {
		if !p.ended {
			g.flag(FlagCut, p.name, "the package has no end: its process left in the midst of a test")
			for name := range p.open {
				if err := g.add(p, name, Errored, KindException, 0); err != nil {
					return nil, &Error{Format: GoTest, Detail: err.Error()}
				}
			}
		}
	}
	g.r.settle()
	g.r.namesakes("in another package", func(id string) string { _, test, _ := strings.Cut(id, "::"); return test })
	return g.r, nil
}

func sourceNames(sources []Source) string {
	if len(sources) == 0 {
		return "(none)"
	}
	return sources[0].Name
}

func (g *goReader) source(s Source) error {
	n := 0
	for rest := s.Data; len(rest) > 0; {
		n++
		line, after, whole := bytes.Cut(rest, []byte("\n"))
		rest = after
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if line[0] != '{' {
			if !g.plain(string(line)) {
				g.flag(FlagStray, "", fmt.Sprintf("line %d is no event: %s", n, clip(string(line), 80)))
			}
			continue
		}
		var e goEvent
		if err := json.Unmarshal(line, &e); err != nil {
			if !whole {
				g.flag(FlagCut, "", fmt.Sprintf("line %d breaks off", n))
				continue
			}
			return &Error{Format: GoTest, Source: s.Name, Line: n, Detail: err.Error()}
		}
		if err := g.event(e); err != nil {
			return &Error{Format: GoTest, Source: s.Name, Line: n, Detail: err.Error()}
		}
	}
	return nil
}

// plain understands the one line that Go before 1.24 writes beside its events.
func (g *goReader) plain(line string) bool {
	word, rest, _ := strings.Cut(line, "\t")
	name, why, _ := strings.Cut(rest, " [")
	if word != "FAIL" || name == "" || strings.ContainsAny(name, " \t") || (why != "build failed]" && why != "setup failed]") {
		return false
	}
	p := g.pkg(name)
	p.ended = true
	g.broken(p, KindBuild, why[:len(why)-1])
	return true
}

func (g *goReader) pkg(name string) *goPackage {
	p := g.byName[name]
	if p == nil {
		p = &goPackage{name: name, open: map[string]bool{}, said: map[string]string{}, output: map[string]*strings.Builder{}}
		g.byName[name] = p
		g.order = append(g.order, p)
	}
	return p
}

func (g *goReader) event(e goEvent) error {
	if e.Package == "" {
		if e.Action == "build-output" {
			g.say(g.builds, e.ImportPath, e.Output)
		}
		return nil
	}
	if g.byName[e.Package] == nil && len(g.byName) == MaxTests {
		return fmt.Errorf("more than %d packages", MaxTests)
	}
	p := g.pkg(e.Package)
	if p.ended && (e.Action == "start" || e.Action == "run") { // the stream of another command
		*p = goPackage{name: p.name, open: map[string]bool{}, said: map[string]string{}, output: map[string]*strings.Builder{}}
	}
	if p.ended {
		g.flag(FlagStray, p.name, "an event after the package's end: "+clip(e.Action+" "+e.Test, 80))
		return nil
	}
	switch e.Action {
	case "start":
		p.marked = true
	case "run":
		if p.open[e.Test] {
			g.flag(p.strange(), goID(p.name, e.Test), "began twice")
		}
		p.open[e.Test] = true
	case "output":
		return g.printed(p, e)
	case "pass", "fail", "skip":
		if e.Test == "" {
			return g.end(p, e)
		}
		return g.result(p, e)
	}
	return nil // pause, cont, bench, attr, and what later versions add: no results
}

// printed keeps what belongs to a failure.
func (g *goReader) printed(p *goPackage, e goEvent) error {
	line := strings.TrimLeft(e.Output, " ")
	if e.Test == "" && strings.HasPrefix(line, "ok  \t"+p.name+"\t(cached)") {
		g.flag(FlagCached, p.name, "the result is one of an earlier run (go test -count=1 runs them)")
	}
	// Before Go 1.20 a print without a line end hides the result behind it, and a
	// print of "--- PASS" before it stands for it.
	if !p.marked && e.Test != "" && !strings.HasPrefix(line, "--- FAIL: ") && strings.Contains(line, "--- FAIL: "+e.Test+" (") {
		g.flag(FlagPrinted, goID(p.name, e.Test), "its result stands behind what it printed")
		delete(p.open, e.Test)
		return g.add(p, e.Test, Failed, KindAssertion, 0)
	}
	if word, rest, ok := strings.Cut(strings.TrimPrefix(line, "--- "), ": "); ok && strings.HasPrefix(rest, e.Test+" (") {
		p.said[e.Test] = strings.ToLower(word)
	}
	if !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
		g.say(p.output, e.Test, e.Output)
	}
	return nil
}

// result is the end of a test.
func (g *goReader) result(p *goPackage, e goEvent) error {
	status := map[string]Status{"pass": Passed, "fail": Failed, "skip": Skipped}[e.Action]
	if !p.open[e.Test] {
		id := goID(p.name, e.Test)
		switch {
		case p.marked:
			g.flag(FlagStray, id, "ends ("+e.Action+") without having begun")
		case status != Failed:
			g.flag(FlagPrinted, id, "ends ("+e.Action+") without having begun")
			return nil
		}
	}
	if status != Failed && p.said[e.Test] != e.Action {
		// A process that leaves with 0 in the midst of a test: its package's end
		// goes by that test's name.
		g.flag(FlagStray, goID(p.name, e.Test), "ends ("+e.Action+") without the line that says so")
		status = Errored
	}
	delete(p.open, e.Test)
	delete(p.said, e.Test)
	kind := KindNone
	switch status {
	case Errored:
		kind = KindException
	case Failed:
		kind = goKind(p.text(e.Test))
	}
	return g.add(p, e.Test, status, kind, e.Elapsed)
}

// end is the end of a package.
func (g *goReader) end(p *goPackage, e goEvent) error {
	p.ended = true
	for name := range p.open {
		if strings.HasPrefix(name, "Benchmark") { // these have no results
			continue
		}
		if e.Action != "fail" {
			g.flag(FlagStray, goID(p.name, name), "has no end, in a package that ends with "+e.Action)
		}
		kind := goKind(p.text(name))
		if kind == KindAssertion {
			kind = KindException
		}
		if err := g.add(p, name, Errored, kind, 0); err != nil {
			return err
		}
	}
	switch {
	case e.Action == "fail" && e.FailedBuild != "":
		if b := g.builds[e.FailedBuild]; b != nil {
			g.say(p.output, "", b.String())
		}
		return g.broken(p, KindBuild, "build failed")
	case e.Action == "fail" && p.failed == 0:
		kind := KindException
		if text := p.text(""); strings.Contains(text, " [build failed]") || strings.Contains(text, " [setup failed]") {
			kind = KindBuild
		}
		return g.broken(p, kind, "failed outside of its tests")
	case e.Action != "fail" && p.failed > 0:
		g.flag(FlagCounts, p.name, fmt.Sprintf("ends with %s, and %d of its tests failed", e.Action, p.failed))
	}
	return nil
}

// broken puts a package itself among the results: something outside of its
// tests failed, and somebody must see why the exit status is not 0.
func (g *goReader) broken(p *goPackage, kind Kind, why string) error {
	if kind == KindBuild {
		g.flag(FlagBuild, p.name, why)
	}
	return g.r.Add(g.index, Test{ID: p.name, Status: Errored, Kind: kind, Message: p.text("")})
}

func (g *goReader) add(p *goPackage, test string, status Status, kind Kind, elapsed float64) error {
	t := Test{ID: goID(p.name, test), Status: status, Kind: kind, Took: secondsOf(elapsed)}
	if status != Passed {
		t.Message = p.text(test)
	}
	if status == Failed || status == Errored {
		p.failed++
	}
	if b := p.output[test]; b != nil {
		g.kept -= b.Len()
		delete(p.output, test)
	}
	return g.r.Add(g.index, t)
}

// say keeps the beginning of an output, and no more in all than a report may have.
func (g *goReader) say(all map[string]*strings.Builder, key, text string) {
	b := all[key]
	if b == nil {
		b = &strings.Builder{}
		all[key] = b
	}
	if room := MaxMessage - b.Len(); len(text) > room {
		text = text[:room]
	}
	if g.kept+len(text) > MaxBytes {
		return
	}
	g.kept += len(text)
	b.WriteString(text)
}

func (g *goReader) flag(kind FlagKind, id, detail string) { g.r.flag(kind, clip(id, MaxID), detail) }

// strange is what a contradiction is called: since Go 1.20 nobody makes one by
// accident.
func (p *goPackage) strange() FlagKind {
	if p.marked {
		return FlagStray
	}
	return FlagPrinted
}

func (p *goPackage) text(test string) string {
	if b := p.output[test]; b != nil {
		return strings.ToValidUTF8(b.String(), "\uFFFD")
	}
	return ""
}

// goID joins a package and a test: an import path has no colon.
func goID(pkg, test string) string { return pkg + "::" + test }

func goKind(output string) Kind {
	switch {
	case strings.Contains(output, "panic: test timed out after "):
		return KindTimeout
	case strings.HasPrefix(output, "panic: ") || strings.Contains(output, "\npanic: ") || strings.Contains(output, "fatal error: "):
		return KindException
	}
	return KindAssertion
}

// seconds makes a duration of what a runner wrote; 0 of what is none.
func secondsOf(s float64) time.Duration {
	if math.IsNaN(s) || s < 0 || s > 1e9 {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}
