package repo

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxSelection is what of a line for /bin/sh may be names of tests: Linux takes
// 128 KiB as one argument.
const maxSelection = 96 << 10

// Select is the line that runs some of a command's tests: these, and where the
// runner cannot be that exact, some others of the same files. It is not ok if
// the command's runner has no way to run a part, or the list would be too long
// for a line: then the whole suite is to be run.
func Select(cmd Command, tests []Test) (run string, ok bool) {
	if cmd.Select == "" || len(tests) == 0 {
		return "", false
	}
	p := picked{}
	for _, t := range tests {
		if t.Command != "" && t.Command != cmd.Name || !p.add(string(cmd.Report), t) {
			return "", false
		}
	}
	line := cmd.Select
	for _, hole := range []struct {
		name  string
		words func(string) (string, bool)
	}{{"{tests}", p.names}, {"{pattern}", p.pattern}, {"{files}", p.fileWords}, {"{packages}", p.packageWords}, {"{targets}", p.targetWords}} {
		if !strings.Contains(line, hole.name) {
			continue
		}
		words, ok := hole.words(string(cmd.Report))
		if !ok || len(words) > maxSelection {
			return "", false
		}
		line = strings.ReplaceAll(line, hole.name, words)
	}
	return line, true
}

// picked are tests in the words of their runner.
type picked struct {
	tests    []string // as the runner spells them
	titles   []string // for one regular expression
	files    []string
	packages []string
	targets  []string // of cargo
}

func (p *picked) put(list *[]string, s string) bool {
	if s == "" {
		return false
	}
	if !slices.Contains(*list, s) || len(*list) > 5000 { // beyond, only the line's length suffers
		*list = append(*list, s)
	}
	return true
}

// add takes in one test; false: nothing runs it alone.
func (p *picked) add(format string, t Test) bool {
	if t.File != "" {
		p.put(&p.files, t.File)
	}
	switch format {
	case "pytest", "pytest-log":
		id, ok := nodeID(t.ID)
		return ok && p.put(&p.tests, id)
	case "unittest", "django":
		return !strings.ContainsAny(t.ID, " ()") && !strings.HasPrefix(t.ID, "unittest.loader") && p.put(&p.tests, t.ID)
	case "go-test":
		pkg, name, ok := strings.Cut(t.ID, "::")
		name, _, _ = strings.Cut(name, "/")
		return ok && p.put(&p.packages, pkg) && p.put(&p.titles, name)
	case "cargo-test":
		return p.cargo(t.ID)
	case "jest", "vitest", "mocha-log":
		file, titles, ok := strings.Cut(t.ID, " > ")
		if t.File == "" {
			p.put(&p.files, file)
		}
		return ok && p.put(&p.titles, strings.ReplaceAll(strings.ReplaceAll(titles, " > ", " "), ` \> `, " > "))
	case "node-test":
		if t.File == "" {
			file, _, _ := strings.Cut(t.ID, " > ")
			return p.put(&p.files, file)
		}
		return true
	case "tap":
		return t.File != ""
	case "junit":
		return p.method(t.ID)
	case "ctest":
		return p.put(&p.titles, t.ID)
	}
	return false
}

// nodeID is an id as pytest's command line takes it. A parameter with a control
// character, which the report shows as a picture, cannot be named: all
// parameters of its function are run. JUnit's reports know of some tests the
// module alone, as they do of those that a class inherits from another file's.
func nodeID(id string) (string, bool) {
	base, params, ok := strings.Cut(id, "[")
	if ok {
		params = "[" + params
		if strings.ContainsFunc(params, func(r rune) bool { return r >= 0x2400 && r <= 0x2421 || r == '\uFFFD' }) {
			params = ""
		}
	}
	where, name, ok := strings.Cut(base, "::")
	if !ok || strings.Contains(where, "/") || strings.HasSuffix(where, ".py") {
		return base + params, true
	}
	parts := strings.Split(where, ".")
	for i, part := range slices.Backward(parts) {
		if strings.HasPrefix(part, "test_") || strings.HasSuffix(part, "_test") { // as pytest finds them
			classes := append(parts[i+1:], name)
			return strings.Join(parts[:i+1], "/") + ".py::" + strings.Join(classes, "::") + params, true
		}
	}
	return "", false
}

// cargo takes "src/lib.rs[alpha] tests::adds". A documentation test cannot be
// asked for: rustdoc takes its name, "path - item (line 5)", for several words,
// each of which names no test.
func (p *picked) cargo(id string) bool {
	program, name, ok := strings.Cut(id, "] ")
	file, target, bracket := strings.Cut(program, "[")
	if !ok || !bracket {
		return false
	}
	switch {
	case file == "doc":
		return false
	case strings.HasSuffix(file, "src/lib.rs"):
		p.put(&p.targets, "--lib")
	case strings.HasPrefix(file, "tests/") || strings.Contains(file, "/tests/"):
		p.put(&p.targets, "--test "+Quote(target))
	default:
		p.put(&p.targets, "--bins")
	}
	return p.put(&p.tests, name)
}

// javaName is a class or a method of Java.
var javaName = regexp.MustCompile(`^[\pL_$][\pL\pN_$.]*$`)

// method takes "com.example.CartTest::adds", with what stands behind a method's
// name of parameters left out.
func (p *picked) method(id string) bool {
	class, method, _ := strings.Cut(id, "::")
	if i := strings.IndexAny(method, "({[ "); i >= 0 {
		method = method[:i]
	}
	if !javaName.MatchString(class) {
		return false
	}
	if method != "" && javaName.MatchString(method) {
		class += "#" + method
	}
	return p.put(&p.tests, class)
}

// names are the tests, one word each.
func (p *picked) names(format string) (string, bool) {
	switch format {
	case "junit":
		return Quote(p.surefire()), len(p.tests) > 0
	case "pytest", "pytest-log":
		if words := quoteAll(p.tests); len(words) <= maxSelection {
			return words, true
		}
		// Too many for a line: their files, as far as these are known.
		files := map[string]bool{}
		for _, id := range p.tests {
			f, _, _ := strings.Cut(id, "::")
			files[f] = true
		}
		return quoteAll(slices.Sorted(maps.Keys(files))), true
	}
	return quoteAll(p.tests), len(p.tests) > 0
}

// surefire joins methods of a class: "A#x+y,B".
func (p *picked) surefire() string {
	methods := map[string][]string{}
	for _, t := range p.tests {
		class, m, ok := strings.Cut(t, "#")
		if all, whole := methods[class]; !ok || whole && all == nil {
			methods[class] = nil
		} else {
			methods[class] = append(all, m)
		}
	}
	var out []string
	for _, class := range slices.Sorted(maps.Keys(methods)) {
		if ms := methods[class]; ms != nil {
			class += "#" + strings.Join(ms, "+")
		}
		out = append(out, class)
	}
	return strings.Join(out, ",")
}

// pattern is one regular expression of all titles, anchored.
func (p *picked) pattern(format string) (string, bool) {
	if len(p.titles) == 0 {
		return "", false
	}
	var alts []string
	for _, t := range p.titles {
		t = regexp.QuoteMeta(t)
		if strings.HasPrefix(format, "jest") || format == "vitest" || format == "mocha-log" {
			// JavaScript's are not sure of a blank that a picture stands for.
			t = strings.Map(func(r rune) rune {
				if r >= 0x2400 && r <= 0x2421 {
					return '.'
				}
				return r
			}, t)
		}
		alts = append(alts, t)
	}
	return Quote("^(" + strings.Join(alts, "|") + ")$"), true
}

func (p *picked) fileWords(string) (string, bool) { return quoteAll(p.files), len(p.files) > 0 }

func (p *picked) packageWords(string) (string, bool) {
	return quoteAll(p.packages), len(p.packages) > 0
}

func (p *picked) targetWords(string) (string, bool) { return strings.Join(p.targets, " "), true }

func quoteAll(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = Quote(w)
	}
	return strings.Join(out, " ")
}

// Quote makes one word for a shell of any text without NUL.
func Quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:@%+,=", r))
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
