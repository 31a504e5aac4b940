package history

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// kind is what part of a repository a path belongs to.
type kind int

const (
	unknownKind kind = iota
	source
	test
	fixture   // of tests, not code
	doc       // prose
	changelog // prose about changes, for users
	deps      // what the project needs, and how it is built
	config    // of tools around the code
	other     // data, pictures, anything else
)

var (
	testDir   = regexp.MustCompile(`(^|/)(tests?|testing|spec|specs|__tests__|t|unittests?|testdata|fixtures|__snapshots__|test-suite|testsuite)/`)
	testName  = regexp.MustCompile(`(^test_|^tests?\.|_tests?\.|\.test\.|\.spec\.|_spec\.|-test\.|-spec\.|^conftest\.py$)`)
	javaTest  = regexp.MustCompile(`(^Test[A-Z].*|Tests?|IT|TestCase)\.(java|kt|scala|groovy|cs)$`)
	docName   = regexp.MustCompile(`(?i)^(readme|authors|contributors|contributing|license|licence|copying|notice|maintainers|code_of_conduct|security|thanks|install)\b`)
	logName   = regexp.MustCompile(`(?i)^(change(s|log)|history|news|releases?|release[-_]notes|whats-?new)\b`)
	logDir    = regexp.MustCompile(`(?i)(^|/)(changes|changelog(\.d)?|newsfragments?|news|unreleased|\.changeset|release-?notes|changelogs)/`)
	docExt    = []string{".md", ".rst", ".txt", ".adoc", ".asciidoc", ".mdx", ".html", ".tex", ".man", ".pod", ".textile", ".markdown"}
	depsName  = regexp.MustCompile(`(?i)^(requirements[-_a-z0-9]*\.(txt|in)|constraints\.txt|setup\.(py|cfg)|pyproject\.toml|pipfile|poetry\.lock|uv\.lock|environment\.ya?ml|tox\.ini|noxfile\.py|package\.json|npm-shrinkwrap\.json|bower\.json|go\.(mod|sum|work)|cargo\.toml|pom\.xml|build\.gradle(\.kts)?|settings\.gradle(\.kts)?|gradle\.properties|cmakelists\.txt|makefile(\.am|\.in)?|configure(\.ac|\.in)?|meson\.build|gemfile|.*\.gemspec|build\.(xml|sbt)|mix\.exs|composer\.json|dockerfile|.*\.lock|.*-lock\.(json|yaml)|.*\.cmake|__version__\.py|_?version\.(py|go|js|ts|rb|h))$`)
	configDir = regexp.MustCompile(`^(\.[^/]+|ci|scripts?|tools?|bin|release|packaging|debian|contrib)/`)
	docDir    = regexp.MustCompile(`(?i)(^|/)(docs?|documentation|man|website)/`)
	sideDir   = regexp.MustCompile(`(?i)(^|/)(examples?|benchmarks?|bench|benches|demos?|samples?|vendor|vendored|third[-_]party|node_modules|dist|build|_?vendored?|extern(al)?)/`)
)

// sources are extensions of languages that tests run.
func isSourceExt(ext string) bool {
	return slices.Contains([]string{".py", ".pyx", ".pyi", ".go", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".rs",
		".java", ".kt", ".scala", ".groovy", ".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".hh", ".hxx", ".rb", ".php", ".pl", ".pm", ".sh",
		".cs", ".swift", ".lua", ".ex", ".exs", ".erl", ".hs", ".ml", ".clj", ".dart", ".vue", ".svelte", ".jq", ".y", ".l", ".s"}, ext)
}

// classify tells a path's kind by its name; isTest, of the environment, comes
// before what names tell.
func classify(p string, isTest func(string) bool) kind {
	name, ext := path.Base(p), strings.ToLower(path.Ext(p))
	code := isSourceExt(ext)
	switch {
	case depsName.MatchString(name) && !testDir.MatchString(p): // a suite's list of files has the runner's configuration too
		return deps
	case sideDir.MatchString(p) && !testDir.MatchString(p):
		return other
	case isTest != nil && isTest(p) || testDir.MatchString(p) && (code || !docDir.MatchString(p)) ||
		code && (testName.MatchString(name) || javaTest.MatchString(name)):
		if code {
			return test
		}
		if isTest == nil && slices.Contains([]string{".md", ".rst"}, ext) {
			return doc
		}
		return fixture
	case logName.MatchString(name) && !code, logDir.MatchString(p) && !code:
		return changelog
	case docDir.MatchString(p), docName.MatchString(name), slices.Contains(docExt, ext):
		return doc
	case strings.HasPrefix(name, "."), configDir.MatchString(p):
		return config
	case code:
		return source
	}
	return other
}

// stem is a module's name as tests would say it: "src/click/core.py" is "core",
// "lib/index.js" and "pkg/__init__.py" are their directory.
func stem(p string) string {
	b := path.Base(p)
	b, _, _ = strings.Cut(b, ".")
	if slices.Contains([]string{"__init__", "index", "mod", "lib", "main", "__main__"}, b) {
		b = path.Base(path.Dir(p))
	}
	return b
}

// module is the directory that stands for a part of the project.
func module(p string) string { return path.Dir(p) }

// sayable reports whether a path can stand in a record: JSON and TOML hold
// text, and a path that is none would come back as another one.
func sayable(p string) bool {
	return utf8.ValidString(p) && !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// Patterns turns globs relative to the working directory ("tests/**",
// "*_test.go") into a question; a pattern without a slash is about the name.
func patterns(globs []string) func(string) bool {
	var all []*regexp.Regexp
	for _, g := range globs {
		all = append(all, regexp.MustCompile(globRegexp(g)))
	}
	return func(p string) bool {
		return slices.ContainsFunc(all, func(r *regexp.Regexp) bool { return r.MatchString(p) })
	}
}

func globRegexp(g string) string {
	var b strings.Builder
	b.WriteByte('^')
	if !strings.Contains(strings.TrimSuffix(g, "/"), "/") {
		b.WriteString("(?:.*/)?")
	}
	g = strings.TrimPrefix(g, "/")
	if strings.HasSuffix(g, "/") {
		g += "**"
	}
	for i := 0; i < len(g); i++ {
		switch {
		case strings.HasPrefix(g[i:], "**/"):
			b.WriteString("(?:.*/)?")
			i += 2
		case strings.HasPrefix(g[i:], "**"):
			b.WriteString(".*")
			i++
		case g[i] == '*':
			b.WriteString("[^/]*")
		case g[i] == '?':
			b.WriteString("[^/]")
		default:
			b.WriteString(regexp.QuoteMeta(g[i : i+1]))
		}
	}
	b.WriteString("(?:/.*)?$")
	return b.String()
}
