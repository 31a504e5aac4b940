package checks

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"assay/internal/grade/report"
)

// ScriptName is the script's name below a task's tests/.
const ScriptName = "test.sh"

// scriptMark is in the first lines of every script that was made of a plan.
const scriptMark = "# Made from " + File + " by 'assay task checks script': change that, and make this anew."

// The parts of a script. Readers print "STATUS<TAB>ID" for each test.
var (
	//go:embed script/head.sh
	scriptHead string
	//go:embed script/tail.sh
	scriptTail string
	//go:embed script/read.py
	scriptPython string
	//go:embed script/read.js
	scriptNode string
	//go:embed script/gotest.awk
	scriptGoTest string
	//go:embed script/junit.awk
	scriptJUnit string
	//go:embed script/cargo.awk
	scriptCargo string
	//go:embed script/tap.awk
	scriptTAP string
)

// scriptReader is how a script reads one format.
type scriptReader struct {
	file, text string // written beside the results before it is used
	line       string // prints the tests of "$@", the report's files
}

// scriptReaders has every format that a script can read: with what its runner
// needs anyway, or with awk.
func scriptReaders() map[report.Format]scriptReader {
	py := func(f string) scriptReader {
		return scriptReader{"read.py", scriptPython, `"$(command -v python3 || echo python)" "$tmp/read.py" ` + f + ` "$@"`}
	}
	js := func(f string) scriptReader {
		return scriptReader{"read.js", scriptNode, `node "$tmp/read.js" ` + f + ` "$root" "$@"`}
	}
	each := func(file, text, options string) scriptReader {
		return scriptReader{file, text, `for f in "$@"; do LC_ALL=C awk ` + options + `-f "$tmp/` + file + `" "$f"; done`}
	}
	return map[report.Format]scriptReader{
		"pytest": py("pytest"), "pytest-log": py("pytest-log"), "unittest": py("unittest"), "django": py("django"),
		"jest": js("jest"), "vitest": js("vitest"), "mocha": js("mocha"), "mocha-log": js("mocha-log"), "node-test": js("node-test"),
		"go-test": each("gotest.awk", scriptGoTest, ""), "cargo-test": each("cargo.awk", scriptCargo, ""),
		"junit": each("junit.awk", scriptJUnit, "-v format=junit "), "nextest": each("junit.awk", scriptJUnit, "-v format=nextest "), "ctest": each("junit.awk", scriptJUnit, "-v format=ctest "),
		"tap": each("tap.awk", scriptTAP, `-v "source=$(name "$f")" `),
	}
}

// Script makes the test.sh that Harbor runs: a POSIX shell script which grades
// by the plan and gives an honest run the reward that grading by the plan gives
// it. It has no canaries, which take a second fresh copy of the work, and it
// cannot see what the work changed (forbidden) or put back what only the image
// has (protected). The error says what of the plan no script can do.
func (p *Plan) Script() ([]byte, error) {
	s := scripter{readers: scriptReaders(), written: map[string]bool{}}
	s.put("#!/bin/sh\n%s\n", scriptMark)
	s.put(`#
# For Harbor, which gives the work to this script in the agent's own container.
# assay grades by %s itself, in fresh copies of the work, and never runs it.
# What is missing here: canaries (they take a second fresh copy), forbidden and
# protected paths, the comparison of the tests with what was placed.
`, File)
	s.b.WriteString(scriptHead)
	for _, from := range slices.Sorted(maps.Keys(p.Place)) {
		s.put("place %s %s || doubt='the tests could not be placed'\n", quote(from), quote(p.Place[from]))
	}
	for _, c := range p.Commands {
		s.command(c)
	}
	for _, c := range p.Cases {
		s.cases(c)
	}
	s.states(p.State)
	s.expected(p)
	s.b.WriteString(scriptTail)
	return s.b.Bytes(), errors.Join(s.faults...)
}

// IsScript reports whether a script was made of a plan, of this or another one.
func IsScript(b []byte) bool {
	head, _, _ := bytes.Cut(b, []byte("\nset -u\n"))
	return bytes.Contains(head, []byte(scriptMark))
}

type scripter struct {
	b       bytes.Buffer
	readers map[report.Format]scriptReader
	written map[string]bool
	faults  []error
}

func (s *scripter) put(format string, args ...any) { fmt.Fprintf(&s.b, format, args...) }

// quote makes one word of a shell of any text without a zero byte.
func quote(w string) string { return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'" }

// here writes a text into a file of the script's own directory.
func (s *scripter) here(file, text string) {
	if s.written[file] {
		return
	}
	s.written[file] = true
	s.put("cat >\"$tmp/%s\" <<'%s'\n%s", file, endOf(text), withLineEnd(text))
	s.put("%s\n", endOf(text))
}

func withLineEnd(text string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text
}

// endOf is a line that does not stand in the text.
func endOf(text string) string {
	end := "END_OF_FILE"
	for strings.Contains("\n"+text+"\n", "\n"+end+"\n") {
		end += "_"
	}
	return end
}

// limit is a command's own in whole seconds, as every timeout program knows
// them; 0: none.
func limit(seconds float64) int { return int(math.Ceil(seconds)) }

func (s *scripter) command(c Command) {
	s.put("\n# %s\n", c.Name)
	dir := cmpDir(c.Dir)
	if c.Report != "" {
		for _, f := range c.Files {
			root, re := filesOf(f)
			s.put("wipe %s %s\n", root, re)
		}
	}
	s.put("(\n\tcd \"$work\" && cd %s || exit 127\n", quote(dir))
	for _, k := range slices.Sorted(maps.Keys(c.Env)) {
		s.put("\texport %s=%s\n", k, quote(c.Env[k]))
	}
	args := c.Args
	if len(args) == 0 {
		args = []string{"/bin/sh", "-c", c.Run}
	}
	s.put("\tstart %s %d ", quote(c.User), limit(c.TimeoutSec))
	for _, a := range args {
		s.put("%s ", quote(a))
	}
	s.b.Truncate(s.b.Len() - 1)
	s.put("\n) </dev/null >\"$tmp/out\" 2>\"$tmp/err\"\nstatus=$?\nended %s $status %d\n", c.Name, limit(c.TimeoutSec))
	if c.Report == "" {
		s.put("check %s $status\n", quote(Global(c.Name, c.Name)))
		return
	}
	s.report(c, dir)
}

func cmpDir(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// report collects a command's report and reads it.
func (s *scripter) report(c Command, dir string) {
	rd, ok := s.readers[c.Report]
	if !ok {
		s.faults = append(s.faults, fmt.Errorf("command %q: no script reads a report of the format %s", c.Name, c.Report))
		s.put("doubt='a report of the format %s is read by assay alone'\n", c.Report)
		return
	}
	s.here(rd.file, rd.text)
	s.put("root=$(cd \"$work\" && cd %s && pwd)\nset --\n", quote(dir))
	if len(c.Files) == 0 {
		s.put("set -- \"$tmp/out\"\n")
	} else {
		s.put("{\n")
		for _, f := range c.Files {
			root, re := filesOf(f)
			s.put("\tfiles %s %s\n", root, re)
		}
		s.put("} | LC_ALL=C sort -u >\"$tmp/files\"\nwhile IFS= read -r f; do set -- \"$@\" \"$f\"; done <\"$tmp/files\"\n")
	}
	s.put("if [ $# = 0 ]; then : ; else\n\t%s\nfi >\"$tmp/report\" || doubt='the report of %s cannot be read'\n", rd.line, c.Name)
	s.put("[ $# != 0 ] || : >\"$tmp/report\"\ntook %s $status\n", c.Name)
}

// filesOf makes of a pattern the directory to look in, and the extended regular
// expression of the whole path as find prints it; both as words of the script.
func filesOf(pattern string) (root, re string) {
	abs := path.IsAbs(pattern)
	pattern = path.Clean(pattern)
	fixed := pattern
	if i := strings.IndexAny(pattern, "*?["); i >= 0 {
		fixed = path.Dir(pattern[:i] + "x")
	}
	if abs {
		return quote(fixed), quote(ere(pattern))
	}
	if fixed == "." {
		return `"$work"`, `"$(printf '%s' "$work" | sed 's/[][\.*^$+?(){}|]/\\&/g')/"` + quote(ere(pattern))
	}
	return `"$work"/` + quote(fixed), `"$(printf '%s' "$work" | sed 's/[][\.*^$+?(){}|]/\\&/g')/"` + quote(ere(pattern))
}

// ere is a pattern of a path as an extended regular expression.
func ere(pattern string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); {
		rest := pattern[i:]
		switch c := rest[0]; {
		case strings.HasPrefix(rest, "**/"):
			b.WriteString("([^/]*/)*")
			i += 3
		case rest == "**":
			b.WriteString(".*")
			i += 2
		case c == '*':
			b.WriteString("[^/]*")
			i++
		case c == '?':
			b.WriteString("[^/]")
			i++
		case c == '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				end = len(rest) - 1
			}
			set := rest[:end+1]
			if strings.HasPrefix(set, "[!") {
				set = "[^" + set[2:]
			}
			b.WriteString(set)
			i += end + 1
		case strings.IndexByte(`\.^$+(){}|`, c) >= 0:
			b.WriteString(`\` + string(c))
			i++
		default:
			b.WriteByte(c)
			i++
		}
	}
	return b.String()
}

// expected writes the closed lists.
func (s *scripter) expected(p *Plan) {
	var b strings.Builder
	for _, c := range p.Expected() {
		b.WriteString(c.ID + "\n")
	}
	s.put("\n")
	s.here("expected", b.String())
}
