package external

import (
	"errors"
	"reflect"
	"strings"
	"testing"
)

// What show prints, Parse reads back as the same recipe.
func TestRoundTrip(t *testing.T) {
	all, err := Table()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 4 {
		t.Errorf("a table of %d agents", len(all))
	}
	for _, r := range all {
		b, err := r.Format()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse(r.Name+".toml", b)
		if err != nil || !reflect.DeepEqual(again, r) {
			t.Errorf("%s: %v\n%s\n%+v\n%+v", r.Name, err, b, r, again)
		}
	}
}

const small = "name = \"my\"\nversion = \"1\"\n[install]\nruntime = \"none\"\n[run]\ncommand = [\"x\"]\n"

func TestParse(t *testing.T) {
	if _, err := Parse("my.toml", []byte(small)); err != nil {
		t.Fatal(err)
	}
	node := strings.Replace(small, `"none"`, `"node"`, 1)
	python := strings.Replace(small, `"none"`, `"python"`, 1)
	for _, c := range []struct{ text, want string }{
		{strings.Replace(small, "my", "../x", 1), "my.toml:1: name:"},
		{strings.Replace(small, `"1"`, `"a b"`, 1), "my.toml:2: version:"},
		{strings.Replace(small, "command", "comand", 1), "my.toml:6: run.comand: no such key"},
		{strings.Replace(small, `["x"]`, `[]`, 1), "my.toml:6: run.command: missing"},
		{strings.Replace(small, `["x"]`, `["{{nothing}}"]`, 1), `my.toml:6: run.command: no variable is named "nothing"`},
		{strings.Replace(small, `["x"]`, `["{{brief|xml}}"]`, 1), `no form is named "xml"`},
		{strings.Replace(small, `"none"`, `"ruby"`, 1), "my.toml:4: install.runtime:"},
		{strings.Replace(node, `"node"`, "\"node\"\npackages = [\"x\"]", 1), `my.toml:5: install.packages: "x" has no exact version`},
		{strings.Replace(node, `"node"`, "\"node\"\npackages = [\"x@latest\"]", 1), "no exact version"},
		{strings.Replace(node, `"node"`, "\"node\"\npackages = [\"--prefix=/x@1\"]", 1), "is no package of node"},
		{strings.Replace(python, `"python"`, "\"python\"\npackages = [\"-r/etc/passwd==1\"]", 1), "is no package of python"},
		{strings.Replace(python, `"python"`, "\"python\"\npackages = [\"x>=1\"]", 1), "is no package of python"},
		{strings.Replace(small, `"none"`, "\"none\"\npackages = [\"x@1\"]", 1), "has no package manager"},
		{strings.Replace(small, `"none"`, "\"none\"\ncopy = [\"../../etc\"]", 1), "my.toml:5: install.copy:"},
		{strings.Replace(small, `"none"`, "\"none\"\n[install.programs]\nx = \"/bin/sh\"", 1), "install.programs"},
		{small + "[vars]\nbase = \"x\"\n", `"base" is a variable of every recipe`},
		{small + "[run.env]\n\"a b\" = \"x\"\n", "is no name of a variable"},
		{"dialects = [\"telex\"]\n" + small, `my.toml:1: dialects: no dialect is named "telex"`},
		{small + "[run]\n", "my.toml:7"},
		{strings.Repeat("# \n", maxRecipe), "larger than"},
	} {
		_, err := Parse("my.toml", []byte(c.text))
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}

func TestExpand(t *testing.T) {
	got, err := Expand(`{{a}} {{ a | json }} {{a|sh}} {{b}} {"x": {"y": 1}}`, map[string]string{"a": `it's "{{b}}"`, "b": "B"})
	want := `it's "{{b}}" "it's \"{{b}}\"" 'it'\''s "{{b}}"' B {"x": {"y": 1}}`
	if err != nil || got != want {
		t.Errorf("%s %v", got, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(small))
	all, err := Table()
	if err != nil {
		f.Fatal(err)
	}
	for _, r := range all {
		b, err := r.Format()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := Parse("x.toml", b)
		var e *Error
		if err != nil {
			if !errors.As(err, &e) {
				t.Errorf("%T", err)
			}
			return
		}
		if p := string(r.Place()); !strings.HasPrefix(p, placeRoot) || len(p) > len(placeRoot)+maxTag {
			t.Errorf("place %q", p)
		}
		if _, err := r.Format(); err != nil {
			t.Error(err)
		}
	})
}
