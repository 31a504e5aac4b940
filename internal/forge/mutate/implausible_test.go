package mutate

import (
	"slices"
	"strings"
	"testing"

	"assay/internal/syntax"
)

// What readers of admitted bugs took for made by a machine is not made again.
func TestNobodyWrites(t *testing.T) {
	p := grammarsOf(t, syntax.Python, syntax.Go, syntax.JavaScript)
	fn := func(lines ...string) string { return "def f(a, b):\n    " + strings.Join(lines, "\n    ") + "\n" }
	gof := func(s string) string { return "package x\n\nfunc f(a, b int) int {\n\t" + s + "\n}\n" }
	for _, c := range []struct{ path, src, not string }{
		{"x.py", fn("seen = set()", "return seen"), fn("seen = clear()", "return seen")},
		{"x.py", fn("return len(a) > 0"), fn("return len(a) >= 0")},
		{"x.py", fn("return len(a) > 0"), fn("return len(a) < 0")},
		{"x.py", fn("return unpack(a)[0]"), fn("return unpack(a)[1]")},
		{"x.py", fn("a.x = b", "return a"), fn("return a")},
		{"x.go", gof("return a >> 4"), gof("return 4 >> a")},
		{"x.go", gof("for i := 0; i < a; i++ {\n\t\tb += i\n\t}\n\treturn b"), gof("for i := 0; i < a; i-- {\n\t\tb += i\n\t}\n\treturn b")},
		{"x.js", "function f (a) {\n  return a.length - 1\n}\n", "function f (a) {\n  return a.length - 0\n}\n"},
		{"x.js", "function f (a) {\n  for (let i = 0; i < 3; i++) { g(i) }\n}\n", "function f (a) {\n  for (let i = 0; i < 3; i--) { g(i) }\n}\n"},
		{"x.go", gof("if a > b {\n\t\tpanic(b)\n\t}\n\treturn b"), gof("panic(b)\n\treturn b")},
		{"x.go", gof("if a > b {\n\t\tfmt.Errorf(\"%d\", len(c))\n\t}\n\treturn b"), gof("if a > b {\n\t\tfmt.Errorf(\"%d\", len(c) - 1)\n\t}\n\treturn b")},
		{"x.go", "package x\n\nfunc (r *R) use(m M) {\n\tr.all = append(r.all, m)\n}\n", "package x\n\nfunc (r *R) use(m M) {\n}\n"},
		{"x.go", "package x\n\nfunc (r *R) use(ms ...M) {\n\tfor _, m := range ms {\n\t\tr.add(m)\n\t}\n}\n", "package x\n\nfunc (r *R) use(ms ...M) {\n}\n"},
		{"x.py", fn("a = str(a)", "return a + b"), fn("a = a", "return a + b")},
		{"x.py", fn("a.x = list(a.x)", "return a"), fn("a.x = a.x", "return a")},
		{"x.go", gof("a = b\n\treturn a"), gof("a = a\n\treturn a")},
		{"x.js", "function f (a) {\n  a = a || 3\n  return a\n}\n", "function f (a) {\n  a = a\n  return a\n}\n"},
		{"x.py", fn("if a:\n"+strings.Repeat("        b += g(b)\n", 6), "return b"), fn("return b")},
	} {
		for _, name := range Operators() {
			if slices.Contains(mutants(t, p, name, c.path, c.src), c.not) {
				t.Errorf("%s makes\n%s", name, c.not)
			}
		}
	}
}
