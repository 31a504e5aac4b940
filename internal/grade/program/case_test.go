package program

import (
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"assay/internal/grade/checks"
)

func groups() []checks.Cases {
	return []checks.Cases{
		{Name: "run", Run: []string{"x"}},
		{Name: "py", Call: "python", Source: "s.py"},
		{Name: "js", Call: "javascript", Source: "s.js", Reference: "r.js"},
		{Name: "sql", Call: "sql", Source: "q.sql"},
	}
}

func TestFaultsOfCases(t *testing.T) {
	g := groups()
	for _, tt := range []struct {
		name string
		g    checks.Cases
		line string
		want string
	}{
		{"not JSON", g[0], `{`, "2: column"},
		{"a list", g[0], `[]`, "2: a case is not an object"},
		{"no id", g[0], `{"want":{"stdout":""}}`, "2: id is not a text"},
		{"id twice", g[0], `{"id":"first","want":{"stdout":""}}`, `2: the id "first" is that of line 1`},
		{"an id with a newline", g[0], `{"id":"a\nb","want":{"stdout":""}}`, "2: id is not a text"},
		{"unknown key", g[0], `{"id":"a","func":"f","want":{"stdout":""}}`, `2: a case of this group has no key "func"`},
		{"a key twice", g[0], `{"id":"a","id":"b"}`, `the key "id" occurs twice`},
		{"nothing wanted", g[0], `{"id":"a","want":{}}`, "2: want has none of"},
		{"no want", g[0], `{"id":"a"}`, "2: want is not an object"},
		{"unknown want", g[0], `{"id":"a","want":{"stdout":"","code":1}}`, `2: want has no key "code"`},
		{"a path that escapes", g[0], `{"id":"a","files":{"../x":""},"want":{"stdout":""}}`, `2: files: "../x" cannot be that`},
		{"an absolute path", g[0], `{"id":"a","want":{"files":{"/x":""}}}`, `2: files: "/x" cannot be that`},
		{"args of numbers", g[0], `{"id":"a","args":[1],"want":{"stdout":""}}`, "2: args is not a list of strings"},
		{"unknown comparison", g[0], `{"id":"a","compare":"set","want":{"stdout":""}}`, `2: no comparison here is called "set"`},
		{"a tolerance below 0", g[0], `{"id":"a","abs_tol":-1,"want":{"stdout":""}}`, "2: abs_tol is negative"},
		{"neither want nor raises", g[1], `{"id":"a","func":"f","args":[]}`, "2: neither want nor raises"},
		{"both", g[1], `{"id":"a","func":"f","args":[],"want":1,"raises":{"type":"E"}}`, "2: want and raises exclude"},
		{"no function", g[1], `{"id":"a","args":[],"want":1}`, "2: func is not the name"},
		{"a function that is code", g[1], `{"id":"a","func":"f(); g","args":[],"want":1}`, "2: func is not the name"},
		{"a bad pattern", g[1], `{"id":"a","func":"f","args":[],"raises":{"type":"E","message":"("}}`, "2: raises.message"},
		{"a bad tag", g[1], `{"id":"a","func":"f","args":[],"want":{"$wat":1}}`, `2: want:`},
		{"a fault in a call", g[1], `{"id":"a","calls":[{"func":"f","want":1},{"want":1}]}`, "2: calls[1]: func is not the name"},
		{"unknown key in a call", g[1], `{"id":"a","calls":[{"func":"f","want":1,"x":1}]}`, `2: calls[0]: a call has no key "x"`},
		{"script without functions", g[1], `{"id":"a","script":"x"}`, "2: a script names the functions"},
		{"script of JavaScript", g[2], `{"id":"a","script":"x","funcs":["f"]}`, "2: a script is Python"},
		{"named arguments of JavaScript", g[2], `{"id":"a","func":"f","kwargs":{}}`, "2: kwargs is an object"},
		{"rows of other widths", g[3], `{"id":"a","schema":"","want":{"rows":[[1],[1,2]]}}`, "2: want: rows[1] has 2 values, not 1"},
		{"rows of lists", g[3], `{"id":"a","schema":"","want":{"rows":[[[]]]}}`, "2: want: rows[0] holds a list"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			first := map[string]string{"": `{"id":"first","want":{"stdout":""}}`, "sql": `{"id":"first","schema":"","want":{"rows":[]}}`}[tt.g.Call]
			if first == "" {
				first = `{"id":"first","func":"f","want":1}`
			}
			_, err := Parse([]byte(first+"\n"+tt.line+"\n"), tt.g)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	for _, bad := range []checks.Cases{{}, {Call: "perl", Source: "x"}, {Call: "go"}, {Run: []string{"x"}, Reference: "r"}, {Run: []string{"x"}, Compare: "sql"}} {
		if _, err := Parse([]byte(`{"id":"a","want":{"stdout":""}}`), bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

func TestLoad(t *testing.T) {
	fsys := fstest.MapFS{
		"cases.ndjson": {Data: []byte("\n" + `{"id":"a","func":"f","args":[{"$tuple":[1]}],"timeout_sec":0.5,"abs_tol":0.5}` + "\n")},
		"ref.py":       {Data: []byte("def f(x): return x\n")},
		"bad.ndjson":   {Data: []byte("\n\n{}\n")},
	}
	s, err := Load(fsys, checks.Cases{Name: "n", File: "cases.ndjson", Call: "python", Source: "s.py", Reference: "ref.py", RelTol: 0.25})
	if err != nil {
		t.Fatal(err)
	}
	c := s.Cases[0]
	if len(s.Cases) != 1 || c.Line != 2 || c.Timeout != time.Second/2 || c.Equal != (Equality{Abs: 0.5, Rel: 0.25, Bools: true}) || c.Mode != Exact || string(s.Reference) != "def f(x): return x\n" {
		t.Errorf("%+v", s)
	}
	for file, want := range map[string]string{"bad.ndjson": "bad.ndjson:3: id is not", "none": "none", "../x": "../x"} {
		_, err := Load(fsys, checks.Cases{Name: "n", File: file, Run: []string{"x"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
