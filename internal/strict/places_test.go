package strict

import (
	"errors"
	"strings"
	"testing"
)

func TestWhere(t *testing.T) {
	text := "a = 1\n[[c]]\nname = \"x\"\n  list = [\n \"p\",\n \"q\" ]\n[[c.d]]\nf = 1\n[[c]]\nname = \"y\"\ni = { j = 2 }\n"
	w := Where([]byte(text))
	for _, c := range []struct {
		line, column int
		path         []any
	}{
		{1, 1, []any{"a"}},
		{3, 1, []any{"c", 0, "name"}},
		{6, 2, []any{"c", 0, "list", 1}},
		{8, 1, []any{"c", 0, "d", 0, "f"}},
		{10, 1, []any{"c", 1, "name"}},
		{11, 7, []any{"c", 1, "i", "j"}},
		{9, 3, []any{"c", 1, "absent"}}, // of what is around it
		{0, 0, []any{"absent"}},
	} {
		if f := w.At(errors.New("x"), c.path...); f.Line != c.line || f.Column != c.column {
			t.Errorf("%v: %d:%d, want %d:%d", c.path, f.Line, f.Column, c.line, c.column)
		}
	}
}

func TestNested(t *testing.T) {
	deep := "a = 1\nb = " + strings.Repeat("[", 1<<20) + "\n"
	var v struct{ A int }
	f := TOML([]byte(deep), &v)
	if len(f) != 1 || f[0].Line != 2 || !strings.Contains(f[0].Err.Error(), "nested deeper") {
		t.Errorf("%+v", f)
	}
	if len(Where([]byte(deep))) != 0 {
		t.Error("the places of a document that is too deep")
	}
	ok := "a = '" + strings.Repeat("[", 200) + "' # " + strings.Repeat("[", 200) + "\nb = \"\"\"" + strings.Repeat("\\\"[\n", 200) + "\"\"\"\n"
	if line, deep := nested([]byte(ok)); deep {
		t.Errorf("brackets of a string counted, line %d", line)
	}
}

func FuzzTOML(f *testing.F) {
	f.Add("a = 1\n[[b.c]]\nd = { e = [1, 2] }\n")
	f.Fuzz(func(t *testing.T, text string) {
		var v map[string]any
		TOML([]byte(text), &v)
		Where([]byte(text)).At(nil, "b", "c", 0)
	})
}
