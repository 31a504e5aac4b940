package syntax_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/syntax"
	"assay/internal/syntax/syntaxtest"
)

func parser(t testing.TB, langs ...syntax.Language) *syntax.Parser {
	return syntaxtest.Parser(t, os.Getenv("ASSAY_GRAMMARS"), os.Getenv("npm_config_registry"), langs...)
}

// shape is a tree as text: kinds of named nodes, in brackets.
func shape(n *syntax.Node) string {
	var b strings.Builder
	var write func(n *syntax.Node)
	write = func(n *syntax.Node) {
		b.WriteByte('(')
		if n.Field != "" {
			b.WriteString(n.Field + ": ")
		}
		b.WriteString(n.Kind)
		for _, c := range n.Children {
			if c.Named {
				b.WriteByte(' ')
				write(c)
			}
		}
		b.WriteByte(')')
	}
	write(n)
	return b.String()
}

func TestLanguages(t *testing.T) {
	p := parser(t)
	for _, c := range []struct {
		lang      syntax.Language
		src, want string
	}{
		{syntax.Python, "if x == 1:\n    f()\n", "(module (if_statement (condition: comparison_operator (identifier) (integer)) (consequence: block (expression_statement (call (function: identifier) (arguments: argument_list)))))"},
		{syntax.JavaScript, "x ? 1 : 2", "(program (expression_statement (ternary_expression (condition: identifier) (consequence: number) (alternative: number)))"},
		{syntax.TypeScript, "let x: number = 1", "(program (lexical_declaration (variable_declarator (name: identifier) (type: type_annotation (predefined_type)) (value: number)))"},
		{syntax.TSX, "const a = <b/>", "(program (lexical_declaration (variable_declarator (name: identifier) (value: jsx_self_closing_element (name: identifier))))"},
		{syntax.Go, "package a\nfunc f() { for i := range 3 {} }", "(source_file (package_clause (package_identifier)) (function_declaration (name: identifier) (parameters: parameter_list) (body: block"},
		{syntax.Rust, "fn f() { if let Some(x) = y && x > 1 {} }", "(source_file (function_item (name: identifier) (parameters: parameters) (body: block"},
		{syntax.Java, "class A extends B { }", "(program (class_declaration (name: identifier) (superclass: superclass (type_identifier)) (body: class_body))"},
		{syntax.C, "int f(int *a) { return a[0]; }", "(translation_unit (function_definition (type: primitive_type)"},
		{syntax.CPP, "class A : public B { int x; };", "(translation_unit (class_specifier (name: type_identifier) (base_class_clause"},
	} {
		tree, err := p.Parse(t.Context(), c.lang, []byte(c.src))
		if err != nil {
			t.Errorf("%s: %v", c.lang, err)
			continue
		}
		if got := shape(tree.Root); tree.Root.Error || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: error %v\n got %s\nwant %s", c.lang, tree.Root.Error, got, c.want)
		}
		if _, ok := syntax.ByPath("a/b." + string(c.lang)); ok != (c.lang == "tsx" || c.lang == "go" || c.lang == "java" || c.lang == "c" || c.lang == "cpp") {
			t.Errorf("ending of %s: %v", c.lang, ok)
		}
	}
}

// Offsets are bytes of the file whatever its characters are.
func TestOffsetsAreBytes(t *testing.T) {
	p := parser(t, syntax.Python)
	for _, word := range []string{"a", "ä", "漢", "😀", "e\u0301", "\xff\xfe", "\x00"} {
		src := fmt.Sprintf("x = '%s'\ny = '%s%s' # %s\nmark = 12345\n", word, word, word, word)
		tree, err := p.Parse(t.Context(), syntax.Python, []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		var found *syntax.Node
		tree.Root.Walk(func(n *syntax.Node) bool {
			if n.Kind == "integer" {
				found = n
			}
			return true
		})
		if found == nil || tree.Text(found) != "12345" || found.Row != 2 || found.Col != 7 {
			t.Errorf("%q: %+v", word, found)
		}
	}
}

// A long text with wide characters crosses the borders of the parser's buffer.
func TestLongText(t *testing.T) {
	p := parser(t, syntax.JavaScript)
	for pad := range 3 {
		src := strings.Repeat("a", pad) + "(\"" + strings.Repeat("😀ä", 20000) + "\", 77)"
		tree, err := p.Parse(t.Context(), syntax.JavaScript, []byte(src))
		if err != nil || tree.Root.Error {
			t.Fatalf("%v, error %v", err, tree != nil)
		}
		got := ""
		tree.Root.Walk(func(n *syntax.Node) bool {
			if n.Kind == "number" {
				got = tree.Text(n)
			}
			return true
		})
		if got != "77" {
			t.Errorf("pad %d: %q", pad, got)
		}
	}
}

func TestErrorsAreMarked(t *testing.T) {
	p := parser(t, syntax.Python, syntax.Java)
	for src, lang := range map[string]syntax.Language{
		"def f(:\n  pass\n":   syntax.Python,
		"x = (1\n":            syntax.Python,
		"class A { int f( }":  syntax.Java,
		"class A { int x = 1": syntax.Java,
	} {
		tree, err := p.Parse(t.Context(), lang, []byte(src))
		if err != nil || !tree.Root.Error {
			t.Errorf("%q: %v, no error marked", src, err)
		}
	}
}

func TestLimits(t *testing.T) {
	c := syntax.Config{Cache: os.Getenv("ASSAY_GRAMMARS"), MaxBytes: 1 << 20, MaxTime: time.Nanosecond}
	if c.Cache == "" {
		dir, _ := os.UserCacheDir()
		c.Cache = filepath.Join(dir, "assay", "grammars")
	}
	normal := parser(t, syntax.Python)
	p, err := syntax.New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Parse(t.Context(), syntax.Python, make([]byte, 1<<20+1)); !errors.Is(err, syntax.ErrTooBig) {
		t.Errorf("a big file: %v", err)
	}
	if _, err := p.Parse(t.Context(), syntax.Python, []byte(strings.Repeat("x = 1\n", 1000))); !errors.Is(err, syntax.ErrTooLong) {
		t.Errorf("no time: %v", err)
	}
	if _, err := normal.Parse(t.Context(), syntax.Python, []byte(strings.Repeat("(", 200000))); err != nil && !errors.Is(err, syntax.ErrTooBig) && !errors.Is(err, syntax.ErrTooLong) {
		t.Errorf("deep nesting: %v", err)
	}
	if _, err := normal.Parse(t.Context(), syntax.Python, []byte(strings.Repeat("[", 20000)+strings.Repeat("]", 20000))); !errors.Is(err, syntax.ErrTooBig) {
		t.Errorf("deep nesting that is right: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := normal.Parse(ctx, syntax.Python, []byte("x = 1\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := normal.Parse(t.Context(), syntax.Python, []byte("x = 1\n")); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

func TestParallel(t *testing.T) {
	p := parser(t, syntax.Python, syntax.Go)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			lang, src := syntax.Python, strings.Repeat(fmt.Sprintf("def f%d():\n    return %d\n", i, i), 50)
			if i%2 == 1 {
				lang, src = syntax.Go, "package a\n"+strings.Repeat(fmt.Sprintf("var _ = %d\n", i), 50)
			}
			tree, err := p.Parse(t.Context(), lang, []byte(src))
			if err != nil || tree.Root.Error || tree.Root.End != len(src) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

func FuzzParse(f *testing.F) {
	p := syntaxtest.Parser(f, os.Getenv("ASSAY_GRAMMARS"), os.Getenv("npm_config_registry"))
	for i, s := range []string{"def f():\n\tpass", "if (a) { b() }", "x = '\xff😀'", "#define X(", "\x00", "r#\"a\"#", "`${`${"} {
		f.Add(uint8(i), []byte(s))
	}
	langs := syntax.Languages()
	f.Fuzz(func(t *testing.T, l uint8, src []byte) {
		tree, err := p.Parse(t.Context(), langs[int(l)%len(langs)], src)
		if err != nil {
			return
		}
		tree.Root.Walk(func(n *syntax.Node) bool {
			if n.Start < 0 || n.End < n.Start || n.End > len(src) {
				t.Fatalf("%s at %d..%d of %d", n.Kind, n.Start, n.End, len(src))
			}
			for _, c := range n.Children {
				if c.Parent != n || c.Start < n.Start || c.End > n.End {
					t.Fatalf("%s at %d..%d is outside %s at %d..%d", c.Kind, c.Start, c.End, n.Kind, n.Start, n.End)
				}
			}
			return true
		})
	})
}
