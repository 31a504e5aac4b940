package report

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// CargoTest is the text of `cargo test`: the stable toolchain has no other form.
const CargoTest Format = "cargo-test"

func cargoTest() Reader {
	return Reader{
		Format: CargoTest,
		Stream: true,
		Read:   readCargo,
		Agrees: func(r *Report, exit int) (string, bool) { return agrees(r, exit, map[int]bool{101: true}) },
		Means: "cargo 1.95: `cargo test --no-fail-fast 2>&1`; cargo says on its standard error which program's tests follow. " +
			"nextest is the safer one: it has a process for each test",
	}
}

// Lines of cargo and of libtest. A program's name ends with the hash of its
// build, which is not the same everywhere.
var (
	cargoRunning = regexp.MustCompile(`^ +Running (?:unittests )?(.+) \((.*?)([^/()]+?)-[0-9a-f]{16}(?:\.exe)?\)$`)
	cargoDoc     = regexp.MustCompile(`^ +Doc-tests (\S+)$`)
	cargoBegin   = regexp.MustCompile(`^running (\d+) tests?$`)
	cargoResult  = regexp.MustCompile(`^test result: (ok|FAILED)\. (\d+) passed; (\d+) failed; (\d+) ignored; (\d+) measured; (\d+) filtered out(?:; finished in [0-9.]+s)?$`)
	cargoWord    = regexp.MustCompile(`^(ok|FAILED|ignored(?:, .*)?)$`)
	cargoMode    = regexp.MustCompile(`^(.*) - (should panic|compile fail|compile)$`)
	cargoHeader  = regexp.MustCompile(`^---- (.+) stdout ----$`)
)

// cargoBlock is what one program says between "running N tests" and its result.
type cargoBlock struct {
	line     int
	want     int
	tests    []Test
	half     string // a test whose word has not come yet
	failing  bool   // behind the results, among the texts of what failed
	listed   map[string]bool
	listing  bool
	messages map[string]string
	told     string // whose text comes
}

type cargoReader struct {
	r      *Report
	index  map[string]int
	target string // of the block that comes: "src/lib.rs[alpha]" or "doc[alpha]"
	begun  bool   // the target has had a block
	at     int
	block  *cargoBlock
	blocks int
}

// readCargo reads the blocks of libtest, each below a line of cargo's. Inside of
// a block any other line may stand, since tests can print past the harness, but
// what looks like a result counts as one, and the numbers must come out.
func readCargo(sources []Source) (*Report, error) {
	c := &cargoReader{r: &Report{}, index: map[string]int{}}
	for _, s := range sources {
		c.at = 0
		for rest := s.Data; len(rest) > 0; {
			line, after, _ := bytes.Cut(rest, []byte("\n"))
			rest = after
			c.at++
			if err := c.line(strings.TrimRight(plainText(line), "\r")); err != nil {
				return nil, &Error{Format: CargoTest, Source: s.Name, Line: c.at, Detail: err.Error()}
			}
		}
		if err := c.left(); err != nil {
			return nil, &Error{Format: CargoTest, Source: s.Name, Line: c.at, Detail: err.Error()}
		}
	}
	if c.blocks == 0 && !c.r.flagged(FlagBuild) {
		return nil, &Error{Format: CargoTest, Source: sourceNames(sources), Detail: "no line \"running N tests\" (is it the output of cargo test 2>&1?)", None: true}
	}
	c.r.settle()
	c.r.namesakes("in another program", func(id string) string { _, test, _ := strings.Cut(id, "] "); return test })
	return c.r, nil
}

func (c *cargoReader) line(line string) error {
	if m := cargoRunning.FindStringSubmatch(line); m != nil {
		return c.program(m[1] + "[" + m[3] + "]")
	}
	if m := cargoDoc.FindStringSubmatch(line); m != nil {
		return c.program("doc[" + m[1] + "]")
	}
	if m := cargoBegin.FindStringSubmatch(line); m != nil && (c.block == nil || !c.block.failing) {
		return c.begin(m[1])
	}
	if strings.HasPrefix(line, "error: could not compile ") && c.block == nil {
		return c.broken(line)
	}
	if c.block == nil {
		return nil // cargo's own
	}
	if strings.HasPrefix(line, "  process didn't exit successfully: `") && !c.block.failing {
		return c.crashed(line)
	}
	if c.block.failing {
		return c.failure(line)
	}
	return c.result(line)
}

// program is cargo's word that another one's tests begin. One that then says
// nothing has a harness of its own, or left at once: its tests are missing.
func (c *cargoReader) program(target string) error {
	err := c.left()
	c.target, c.begun = target, false
	return err
}

func (c *cargoReader) begin(count string) error {
	if err := c.left(); err != nil {
		return err
	}
	n, err := strconv.Atoi(count)
	if err != nil || n > MaxTests {
		return fmt.Errorf("%s tests (at most %d)", clip(count, 20), MaxTests)
	}
	if c.target == "" {
		c.r.flag(FlagStray, "", fmt.Sprintf("line %d: tests of no program (cargo's standard error is wanted: 2>&1)", c.at))
	}
	if c.begun && !strings.HasPrefix(c.target, "doc[") { // doc-tests have a block for each of two kinds
		c.r.flag(FlagStray, c.target, "began twice")
	}
	c.begun = true
	c.blocks++
	c.block = &cargoBlock{line: c.at, want: n, listed: map[string]bool{}, messages: map[string]string{}}
	return nil
}

// result reads a line among the results: "test NAME ... WORD", or only its
// beginning where one thread runs the tests and they print.
func (c *cargoReader) result(line string) error {
	b := c.block
	if m := cargoResult.FindStringSubmatch(line); m != nil && b.half == "" {
		return c.end(m)
	}
	if line == "failures:" && b.half == "" {
		b.failing = true
		return nil
	}
	rest, ok := strings.CutPrefix(line, "test ")
	name, word, cut := strings.Cut(rest, " ... ")
	if ok && cut {
		if i := strings.LastIndex(rest, " ... "); cargoWord.MatchString(rest[i+5:]) && !cargoWord.MatchString(word) {
			word = rest[i+5:] // a print stands between them
		}
		if b.half != "" && cargoWord.MatchString(word) {
			return c.add(name, word) // another thread's
		}
		if !cargoWord.MatchString(word) {
			b.half = name
			return nil
		}
		return c.add(name, word)
	}
	if b.half != "" {
		for _, w := range []string{"ok", "FAILED"} {
			if strings.HasSuffix(line, w) {
				name := b.half
				b.half = ""
				return c.add(name, w)
			}
		}
	}
	return nil
}

func (c *cargoReader) add(name, word string) error {
	if len(c.block.tests) > c.block.want {
		return nil // the numbers do not come out, which end says
	}
	if m := cargoMode.FindStringSubmatch(name); m != nil {
		name = m[1]
	}
	t := Test{ID: c.target + " " + name, Status: Skipped}
	switch word {
	case "ok":
		t.Status = Passed
	case "FAILED":
		t.Status, t.Kind = Failed, KindAssertion
	}
	c.block.tests = append(c.block.tests, t)
	return nil
}

// failure reads what stands behind "failures:": what the tests that failed
// printed, then their names, then the result.
func (c *cargoReader) failure(line string) error {
	b := c.block
	if m := cargoHeader.FindStringSubmatch(line); m != nil {
		b.told, b.listing = m[1], false
		return nil
	}
	if line == "failures:" {
		b.told, b.listing, b.listed = "", true, map[string]bool{}
		return nil
	}
	if m := cargoResult.FindStringSubmatch(line); m != nil && b.listing {
		return c.end(m)
	}
	if b.listing && line != "" {
		if strings.HasPrefix(line, "    ") {
			b.listed[strings.TrimSpace(line)] = true
		} else {
			b.listing = false
		}
	}
	if b.told != "" && len(b.messages[b.told]) < MaxMessage {
		b.messages[b.told] += line + "\n"
	}
	return nil
}

// end holds a block's results against its first and its last line.
func (c *cargoReader) end(m []string) error {
	b := c.block
	c.block = nil
	var n [6]int
	for i := range n[1:] {
		v, err := strconv.Atoi(m[i+2])
		if err != nil {
			return fmt.Errorf("%q tests", clip(m[i+2], 20))
		}
		n[i+1] = v
	}
	passed, failed, ignored := 0, 0, 0
	for i := range b.tests {
		t := &b.tests[i]
		_, name, _ := strings.Cut(t.ID, "] ")
		switch t.Status {
		case Passed:
			passed++
		case Failed:
			failed++
			if t.Message = strings.TrimSpace(b.messages[name]); strings.Contains(t.Message, "panicked at") && !strings.Contains(t.Message, "assertion ") {
				t.Kind = KindException
			}
			if !b.listed[name] {
				c.r.flag(FlagCounts, t.ID, "failed, and is not among those that failed")
			}
		default:
			ignored++
		}
		if err := c.r.Add(c.index, *t); err != nil {
			return err
		}
	}
	if len(b.tests) != b.want || passed != n[1] || failed != n[2] || ignored != n[3] || (m[1] == "FAILED") != (failed > 0) || len(b.listed) > failed {
		c.r.flag(FlagCounts, c.target, fmt.Sprintf("%d tests are announced, %d passed, %d failed, %d ignored; listed are %d, %d, %d, %d",
			b.want, n[1], n[2], n[3], len(b.tests), passed, failed, ignored))
	}
	return nil
}

// left is a block without a result: its process ended in the midst of it.
func (c *cargoReader) left() error {
	b := c.block
	if b == nil {
		return nil
	}
	c.block = nil
	c.r.flag(FlagCut, c.target, fmt.Sprintf("of %d tests %d have results, and the program has none", b.want, len(b.tests)))
	if b.half != "" {
		b.tests = append(b.tests, Test{ID: c.target + " " + b.half, Status: Errored, Kind: KindException})
	}
	for _, t := range b.tests {
		if err := c.r.Add(c.index, t); err != nil {
			return err
		}
	}
	return nil
}

// crashed is cargo's word that a program was killed or ended otherwise than the
// harness does: what it ran then has failed, and nobody says which test it was.
func (c *cargoReader) crashed(line string) error {
	b := c.block
	c.block = nil
	_, why, _ := strings.Cut(strings.TrimPrefix(line, "  process didn't exit successfully: `"), "` ")
	b.tests = append(b.tests, Test{ID: c.target, Status: Errored, Kind: KindException, Message: why})
	for _, t := range b.tests {
		if err := c.r.Add(c.index, t); err != nil {
			return err
		}
	}
	return nil
}

// broken is a program that was not built.
func (c *cargoReader) broken(line string) error {
	_, rest, _ := strings.Cut(line, "`")
	name, _, _ := strings.Cut(rest, "`")
	if _, again := c.index["build["+clip(name, 200)+"]"]; again {
		return nil
	}
	c.r.flag(FlagBuild, clip(name, 200), "could not compile")
	return c.r.Add(c.index, Test{ID: "build[" + clip(name, 200) + "]", Status: Errored, Kind: KindBuild, Message: line})
}

// plainText is a line without terminals' colours.
func plainText(line []byte) string {
	s := strings.ToValidUTF8(string(line), "\uFFFD")
	if !strings.Contains(s, "\x1b") {
		return s
	}
	return ansi.ReplaceAllString(s, "")
}

var ansi = regexp.MustCompile(`\x1b(?:\[[0-9;:?]*[A-Za-z]|\([A-Z0-9])`)
