package mutate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/syntax"
)

// mutants are all texts that one operator makes of a source.
func mutants(t *testing.T, p *syntax.Parser, name, path, src string) []string {
	t.Helper()
	f, err := newFile(t.Context(), p, path, []byte(src))
	if err != nil || f == nil {
		t.Fatalf("%s: %v\n%s", path, err, src)
	}
	table := slices.DeleteFunc(operators(), func(o operator) bool { return o.name != name })
	var out []string
	for _, s := range f.sites(table) {
		out = append(out, string(apply(f.src, s.edits)))
	}
	return out
}

// A macro that no grammar knows spoils nothing but what it stands in.
func TestMacrosBeside(t *testing.T) {
	const src = `#define EACH(list, item) for (item = list; item; item = item->next)
int any(struct item *list)
{
    struct item *i;
    EACH(list, i) if (i->set) return 1; else
}
static int less(int a, int b)
{
    return a < b;
}
`
	f := grammarsOf(t, syntax.C)
	tree, err := f.Parse(t.Context(), syntax.C, []byte(src))
	if err != nil || !tree.Root.Error {
		t.Fatalf("%v: the source has no error", err)
	}
	want := strings.Replace(src, "return a < b", "return a <= b", 1)
	if got := mutants(t, f, "wrong-boundary", "x.c", src); !slices.Contains(got, want) {
		t.Errorf("%q", got)
	}
}

// Each operator makes the mistake that it is named after.
func TestOperators(t *testing.T) {
	p := grammarsOf(t)
	fn := func(lines ...string) string { return "def f(a, b):\n    " + strings.Join(lines, "\n    ") + "\n" }
	js := func(lines ...string) string { return "function f(a, b) {\n  " + strings.Join(lines, "\n  ") + "\n}\n" }
	gof := func(lines ...string) string {
		return "package x\n\nfunc f(a, b int) error {\n\t" + strings.Join(lines, "\n\t") + "\n}\n"
	}
	all := []struct{ operator, path, src, want string }{
		{"wrong-boundary", "x.py", fn("return a < b"), fn("return a <= b")},
		{"wrong-direction", "x.py", fn("return a < b"), fn("return a > b")},
		{"wrong-equality", "x.py", fn("return a in b"), fn("return a not in b")},
		{"wrong-equality", "x.js", js("return a === b"), js("return a !== b")},
		{"wrong-connective", "x.js", js("if (a && b) return 1"), js("if (a || b) return 1")},
		{"forgotten-condition", "x.py", fn("if a and b > 1:", "    return 1"), fn("if a:", "    return 1")},
		{"forgotten-condition", "x.py", fn("if a and b > 1:", "    return 1"), fn("if b > 1:", "    return 1")},
		{"missing-negation", "x.py", fn("return not a"), fn("return a")},
		{"missing-negation", "x.js", js("return !a.b"), js("return a.b")},
		{"inverted-condition", "x.py", fn("if a and b:", "    return 1"), fn("if not (a and b):", "    return 1")},
		{"weak-null-check", "x.py", fn("return a is None"), fn("return not a")},
		{"weak-null-check", "x.ts", js("if (a !== undefined) return 1"), js("if (a) return 1")},
		{"found-at-zero", "x.js", js("return a.indexOf(b) !== -1"), js("return a.indexOf(b) > 0")},
		{"narrow-type", "x.py", fn("return isinstance(a, (int, str))"), fn("return isinstance(a, str)")},
		{"wrong-arithmetic", "x.py", fn("return a - 1"), fn("return a + 1")},
		{"swapped-operands", "x.py", fn("return a - b"), fn("return b - a")},
		{"broken-chain", "x.py", fn("return a + b + 1"), fn("return a + 1")},
		{"off-by-one", "x.py", fn("return a[1:]"), fn("return a[0:]")},
		{"off-by-one", "x.py", fn("for i in range(a):", "    b(i)"), fn("for i in range(1, a):", "    b(i)")},
		{"off-by-one", "x.js", js("return a[b.length - 1]"), js("return a[b.length]")},
		{"wrong-constant", "x.py", fn("return a * 3"), fn("return a * 4")},
		{"wrong-boolean", "x.py", fn("return a(True)"), fn("return a(False)")},
		{"wrong-default", "x.py", "def f(a=True):\n    return a\n", "def f(a=False):\n    return a\n"},
		{"wrong-separator", "x.py", fn("return ','.join(a)"), fn("return ';'.join(a)")},
		{"wrong-key", "x.py", fn("return a['items']"), fn("return a['item']")},
		{"wrong-pattern", "x.js", js("return /^a+$/.test(b)"), js("return /^a*$/.test(b)")},
		{"wrong-pattern", "x.py", fn(`return re.compile(r"\d+\.x")`), fn(`return re.compile(r"\d*\.x")`)},
		{"wrong-member", "x.py", fn("b(Color.RED)", "return Color.BLUE"), fn("b(Color.RED)", "return Color.RED")},
		{"missing-guard", "x.py", fn("if a is None:", "    return 1", "return a.b"), fn("return a.b")},
		{"missing-guard", "x.go", gof("if a < b {", "\treturn nil", "}", "return g(a)"), gof("return g(a)")},
		{"removed-conditional", "x.py", fn("if a:", "    b.x()", "return b"), fn("return b")},
		{"unconditional-body", "x.py", fn("if a:", "    b.x()", "    b.y()", "return b"), fn("b.x()", "b.y()", "return b")},
		{"missing-case", "x.py", fn("if a:", "    b(1)", "elif b:", "    b(2)", "return b"), fn("if a:", "    b(1)", "return b")},
		{"missing-else", "x.js", js("if (a) { b(1) } else { b(2) }"), js("if (a) { b(1) }")},
		{"swapped-branches", "x.js", js("if (a) { b(1) } else { b(2) }"), js("if (a) { b(2) } else { b(1) }")},
		{"wrong-exit", "x.py", fn("for i in a:", "    if i:", "        break"), fn("for i in a:", "    if i:", "        continue")},
		{"missing-exit", "x.py", fn("for i in a:", "    if i:", "        b(i)", "        break"), fn("for i in a:", "    if i:", "        b(i)")},
		{"return-in-loop", "x.py", fn("for i in a:", "    b(i)", "return a"), fn("for i in a:", "    b(i)", "    return a")},
		{"once-only", "x.py", fn("while a:", "    a = b(a)"), fn("if a:", "    a = b(a)")},
		{"removed-loop", "x.py", fn("for i in a:", "    b(i)", "return a"), fn("return a")},
		{"removed-wrapper", "x.py", fn("try:", "    b(1)", "except KeyError:", "    pass"), fn("b(1)")},
		{"swapped-ternary", "x.py", fn("return 1 if a else 2"), fn("return 2 if a else 1")},
		{"removed-ternary", "x.js", js("return a ? 1 : 2"), js("return 1")},
		{"wrong-exception", "x.py", fn("raise ValueError(a)"), fn("raise TypeError(a)")},
		{"narrow-exception", "x.py", fn("try:", "    b()", "except (KeyError, IndexError):", "    pass"), fn("try:", "    b()", "except KeyError:", "    pass")},
		{"swallowed-error", "x.go", gof("if err := g(); err != nil {", "\treturn err", "}", "return nil"), gof("if err := g(); err != nil {", "\treturn nil", "}", "return nil")},
		{"missing-return", "x.js", js("return a(b)"), js("a(b)")},
		{"returned-nothing", "x.py", fn("return a(b)"), fn("return None")},
		{"missing-assignment", "x.py", fn("b = b + 1", "a.x = b", "return a"), fn("b = b + 1", "return a")},
		{"stale-state", "x.py", fn("b = b + 1", "a.x = None", "return a"), fn("b = b + 1", "return a")},
		{"stale-state", "x.py", fn("b = b + 1", "self.cache.clear()", "return a"), fn("b = b + 1", "return a")},
		{"missing-reassignment", "x.py", fn("a = b(a)", "return a"), fn("return a")},
		{"lost-result", "x.py", fn("a = a.strip()", "return a"), fn("a.strip()", "return a")},
		{"missing-call", "x.py", fn("a.append(b)", "return a"), fn("return a")},
		{"wrong-update", "x.py", fn("a += b", "return a"), fn("a = b", "return a")},
		{"shuffled-statements", "x.py", fn("out.x(1)", "out.y(2)"), fn("out.y(2)", "out.x(1)")},
		{"lost-normalisation", "x.py", fn("return a.strip()"), fn("return a")},
		{"lost-conversion", "x.py", fn("return int(a)"), fn("return a")},
		{"missing-copy", "x.py", fn("return list(a)"), fn("return a")},
		{"missing-copy", "x.js", js("return [...a]"), js("return a")},
		{"lost-fallback", "x.py", fn("x = a or b", "return x"), fn("x = a", "return x")},
		{"lost-fallback", "x.ts", js("return a?.b"), js("return a.b")},
		{"missing-await", "x.js", "async function f() { return (await g()).a }\n", "async function f() { return (g()).a }\n"},
		{"confused-method", "x.py", fn("return a.startswith(b)"), fn("return a.endswith(b)")},
		{"swapped-arguments", "x.py", fn("return g(a, b)"), fn("return g(b, a)")},
		{"swapped-values", "x.py", fn("return g(x=a, y=b)"), fn("return g(x=b, y=a)")},
		{"forgotten-argument", "x.py", fn("return g(a, key=b)"), fn("return g(a)")},
		{"wrong-variable", "x.py", "def f(min_len, max_len):\n    return g(min_len)\n", "def f(min_len, max_len):\n    return g(max_len)\n"},
		{"wrong-attribute", "x.py", "class A:\n    def f(self):\n        self.min_len = 1\n        self.max_len = 2\n        return self.min_len\n", "class A:\n    def f(self):\n        self.min_len = 1\n        self.max_len = 2\n        return self.max_len\n"},
		{"swapped-tuple", "x.py", fn("return a, b"), fn("return b, a")},
		{"lost-base", "x.py", "class A(B, C):\n    pass\n", "class A(B):\n    pass\n"},
		{"lost-base", "x.java", "class A implements B { }\n", "class A { }\n"},
		{"lost-method", "x.py", "class A(B):\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n", "class A(B):\n    def f(self):\n        return 1\n\n"},
		{"shuffled-methods", "x.py", "class A(B):\n    def f(self):\n        return 1\n\n    def g(self):\n        return 2\n", "class A(B):\n    def g(self):\n        return 2\n\n    def f(self):\n        return 1\n"},
		{"lost-decorator", "x.py", "class A:\n    @staticmethod\n    def f():\n        return 1\n", "class A:\n    def f():\n        return 1\n"},
	}
	shown := map[string]bool{}
	for _, c := range all {
		shown[c.operator] = true
		got := mutants(t, p, c.operator, c.path, c.src)
		if !slices.Contains(got, c.want) {
			t.Errorf("%s of\n%s\ngives %q\nand not %q", c.operator, c.src, got, c.want)
		}
	}
	for _, name := range Operators() {
		if !shown[name] {
			t.Errorf("%s has no example", name)
		}
	}
}

// In every language each proposal parses, changes something, and is one that
// the rest of the table did not make; a later run proposes the same.
func TestLanguages(t *testing.T) {
	p := grammarsOf(t)
	g := New(Config{Parser: p})
	for ending, least := range map[string]int{"py": 25, "ts": 25, "go": 20, "rs": 20, "java": 20, "c": 15} {
		src, err := os.ReadFile(filepath.Join("testdata", "sample."+ending+".txt"))
		if err != nil {
			t.Fatal(err)
		}
		files := func(yield func(string, []byte) bool) { yield("sample."+ending, src) }
		var ids []string
		kinds := map[string]bool{}
		for range 2 {
			ids = append(ids, "|")
			for made, err := range g.draw(t.Context(), files, 7, t.Logf) {
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, made.ID)
				kinds[made.Operators[0]] = true
				changed := made.Files["sample."+ending]
				lang, _ := syntax.ByPath("sample." + ending)
				tree, err := p.Parse(t.Context(), lang, changed)
				if err != nil || tree.Root.Error || string(changed) == string(src) || len(made.Lines["sample."+ending]) == 0 {
					t.Errorf("%s: %v: %v\n%s", ending, made.Operators, err, changed)
				}
			}
		}
		if half := len(ids) / 2; !slices.Equal(ids[:half], ids[half:]) {
			t.Errorf("%s: two runs differ", ending)
		}
		if len(kinds) < least {
			t.Errorf("%s: only %d kinds of mistakes: %v", ending, len(kinds), kinds)
		}
		if strings.Contains(fmt.Sprint(kinds), "t()") {
			t.Errorf("%s: a test in the source was touched", ending)
		}
	}
}

// The beginning of the row is varied whatever the seed is.
func TestRowIsVaried(t *testing.T) {
	p := grammarsOf(t, syntax.Python)
	var src strings.Builder
	for i := range 40 {
		fmt.Fprintf(&src, "def f%d(a, b):\n    if a < %d and b:\n        return None\n    a.x = b\n    return g(a, b)\n\n", i, i+2)
	}
	files := func(yield func(string, []byte) bool) { yield("x.py", []byte(src.String())) }
	for seed := range uint64(3) {
		operators, functions, n := map[string]int{}, map[string]int{}, 0
		for made, err := range New(Config{Parser: p}).draw(t.Context(), files, seed, t.Logf) {
			if err != nil {
				t.Fatal(err)
			}
			operators[made.Operators[0]]++
			functions[made.Functions[0]]++
			if n++; n == 30 {
				break
			}
		}
		if len(operators) < 8 || len(functions) < 25 {
			t.Errorf("seed %d: %d operators, %d functions in 30", seed, len(operators), len(functions))
		}
	}
}

func TestSourcesThatStayOut(t *testing.T) {
	for _, name := range []string{"vendor/a/b.go", "node_modules/x/i.js", "a.min.js", "setup.py", "docs/conf.py", "x_pb2.py", "types.d.ts", "examples/a.py"} {
		if own(name) {
			t.Errorf("%s counts as the project's own", name)
		}
	}
	for _, src := range []string{"# Code generated by protoc. DO NOT EDIT.\n", "/* @generated */", "a\x00b"} {
		if !generated([]byte(src)) {
			t.Errorf("%q counts as written by people", src)
		}
	}
	if generated([]byte("def f():\n    return 1\n")) || !own("src/a/b.py") {
		t.Error("an ordinary file is left out")
	}
}

func FuzzSites(f *testing.F) {
	p := grammarsOf(f, syntax.Python, syntax.JavaScript, syntax.Go, syntax.Rust, syntax.Java, syntax.C)
	endings := []string{"py", "js", "go", "rs", "java", "c"}
	for i, e := range endings {
		b, err := os.ReadFile(filepath.Join("testdata", "sample."+strings.Replace(e, "js", "ts", 1)+".txt"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), b)
	}
	f.Fuzz(func(t *testing.T, lang uint8, src []byte) {
		in, err := newFile(t.Context(), p, "x."+endings[int(lang)%len(endings)], src)
		if err != nil || in == nil {
			return
		}
		for _, s := range in.sites(operators()) {
			apply(in.src, s.edits)
		}
	})
}
