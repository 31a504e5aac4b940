package builtin

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/agent"
	"assay/internal/sandbox"
)

// runOf is a run whose tools can be called one by one.
func runOf(t *testing.T, s agent.Session, strategy string) *run {
	t.Helper()
	st, err := ParseStrategy(strategy, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewReact(st, plays(says("", "")).connect)
	if err != nil {
		t.Fatal(err)
	}
	r, err := a.begin(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.shell.close)
	t.Cleanup(func() { r.log.Close() })
	return r
}

func TestFileTools(t *testing.T) {
	s := sessionIn(t, opener(t)(), "", map[string]string{
		"/app/a.txt": "one\ntwo\ntwo\n  three\n", "/app/d/b.py": "def f():\n    return 1\n", "/app/d/.git/x": "return", "/app/bin.dat": "a\x00b",
		"/app/-dash": "return\n", "/app/empty": "", "/app/long": strings.Repeat("x", 2000) + "\n",
	})
	var lines strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&lines, "line %d\n", i+1)
	}
	r := runOf(t, s, "")
	if res, err := sandbox.Exec(t.Context(), s.Sandbox, sandbox.Command{Args: []string{"/bin/sh", "-c", "cd /app && mkfifo pipe && ln -s a.txt link && ln -s /dev/zero zero"}}, sandbox.ExecOptions{}); err != nil || res.Exit.Code != 0 {
		t.Fatalf("%v %s", err, res.Stderr)
	}
	for _, c := range []struct {
		tool, arguments string
		want            string // of the observation
		bad             bool
	}{
		{"read", `{"path":"a.txt"}`, "one\ntwo\ntwo\n  three\n", false},
		{"read", `{"path":"link","from":"2","lines":1}`, "two\n\n[lines 2 to 2 of 4]", false},
		{"read", `{"path":"/app/a.txt","from":9}`, "4 lines only", true},
		{"read", `{"path":"nowhere"}`, "no such file", true},
		{"read", `{"path":"d"}`, "is a directory", true},
		{"read", `{"path":"pipe"}`, "not a regular file", true},
		{"read", `{"path":"zero"}`, "not a regular file", true},
		{"read", `{"path":"bin.dat"}`, "not text", true},
		{"read", `{"path":"empty"}`, "[the file is empty]", false},
		{"read", `{"path":"a\u0000b"}`, "zero byte", true},
		{"read", `{}`, `the argument "path" of read is missing`, true},
		{"read", `{"path":"a.txt","from":"x"}`, `"from" has to be a whole number`, true},
		{"read", `{"path":"a.txt","form":1}`, `read has no argument "form"; it has path, from, lines`, true},
		{"read", `{"path":["a.txt"]}`, `"path" has to be a string`, true},
		{"read", `{"path":`, "not a JSON object", true},
		{"read", `[]`, "not a JSON object", true},
		{"read", `null`, "not a JSON object", true},
		{"read", `{"path":"a.txt"} {}`, "not a JSON object", true},
		{"write", `{"path":"new/deep/x.txt","content":"it's \"ä\" $HOME\n"}`, "[16 bytes written to new/deep/x.txt]", false},
		{"read", `{"path":"new/deep/x.txt"}`, "it's \"ä\" $HOME\n", false},
		{"write", `{"path":"pipe","content":"x"}`, "not a regular file", true},
		{"write", `{"path":"/proc/version","content":"x"}`, "", true},
		{"write", `{"path":"d/e","content":""}`, "[0 bytes written", false},
		{"edit", `{"path":"a.txt","old":"  three","new":"four"}`, "[a.txt changed from line 4 on]", false},
		{"edit", `{"path":"a.txt","old":"two\n","new":"x"}`, "holds that piece 2 times", true},
		{"edit", `{"path":"a.txt","old":"two\ntwo\n","new":"2\n"}`, "[a.txt changed from line 2 on]", false},
		{"read", `{"path":"a.txt"}`, "one\n2\nfour\n", false},
		{"edit", `{"path":"d/b.py","old":"return 1\n    pass","new":"x"}`, "line 2 has its first line", true},
		{"edit", `{"path":"a.txt","old":"nope","new":"x"}`, "does not hold that piece, compared byte for byte. Nothing", true},
		{"edit", `{"path":"a.txt","old":"","new":"x"}`, "is empty", true},
		{"edit", `{"path":"a.txt","old":"one","new":"one"}`, "the same", true},
		{"search", `{"pattern":"ret(urn)? 1"}`, "d/b.py:2:    return 1", false},
		{"search", `{"pattern":"return","path":"-dash"}`, "-dash:1:return", false},
		{"search", `{"pattern":"-dashed"}`, "[nothing found]", false},
		{"search", `{"pattern":"x{3}","path":"long"}`, "xxx …", false},
		{"search", `{"pattern":"(","path":"d"}`, "grep", true},
		{"search", `{"pattern":"x","path":"nowhere"}`, "no such file", true},
		{"list", `{"path":"d"}`, "d/\nd/b.py\nd/e", false},
		{"list", `{"depth":1}`, "-dash\n", false},
		{"plan", `{"plan":" - [x] look\n"}`, "[noted]", false},
		{"bash", `{"command":"echo hi; (exit 3)"}`, "hi\n[exit status 3]", true},
		{"bash", `{"command":"true"}`, "[no output]", false},
		{"bash", `{"command":"sleep 50","timeout":1}`, "killed after 1s", true},
		{"bash", `{"command":"echo $PAGER $FROM_SESSION"}`, "cat yes", false},
		{"nonsense", `{}`, `there is no tool "nonsense"; there are bash, read, write`, true},
		{"submit", `{"check":" "}`, "give a shell command in `check`", true},
	} {
		o, err := r.do(t.Context(), action{name: c.tool, arguments: c.arguments})
		if err != nil {
			t.Fatalf("%s %s: %v", c.tool, c.arguments, err)
		}
		if !strings.Contains(o.text, c.want) || o.bad != c.bad || o.done {
			t.Errorf("%s %s: %+v; want %q", c.tool, c.arguments, o, c.want)
		}
	}
	if o, err := r.do(t.Context(), action{name: "submit", arguments: `{}`}); err != nil || !o.done || r.checked != "" {
		t.Errorf("a second submission without a check: %+v, %v", o, err)
	}
	if r.notes != "- [x] look" {
		t.Errorf("notes %q", r.notes)
	}
	if err := r.box.write(t.Context(), "many", []byte(lines.String())); err != nil {
		t.Fatal(err)
	}
	o, err := r.do(t.Context(), action{name: "read", arguments: `{"path":"many","from":900,"lines":1000}`})
	if err != nil || !strings.HasPrefix(o.text, "line 900\n") || !strings.HasSuffix(o.text, "[lines 900 to 1000 of 1000]") {
		t.Errorf("%+v, %v", o, err)
	}
}

// A sandbox without its workdir, or without a shell, is told and no error.
func TestToolsWithoutGround(t *testing.T) {
	s := sessionIn(t, opener(t)(), "", nil)
	r := runOf(t, s, "")
	if _, err := r.do(t.Context(), action{name: "bash", arguments: `{"command":"rm -rf /app"}`}); err != nil {
		t.Fatal(err)
	}
	for _, a := range []action{{name: "read", arguments: `{"path":"x"}`}, {name: "submit", arguments: `{"check":"true"}`}} {
		if o, err := r.do(t.Context(), a); err != nil || !o.bad || o.done {
			t.Errorf("%s: %+v, %v", a.name, o, err)
		}
	}
}

// The check has a shell of its own and as many tries as the strategy says.
func TestRepair(t *testing.T) {
	s := sessionIn(t, opener(t)(), "", nil)
	r := runOf(t, s, "retries=2")
	do := func(check string) observation {
		o, err := r.do(t.Context(), action{name: "submit", arguments: `{"check":` + tomlString(check) + `}`})
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	if o := do("echo wrong; exit 4"); o.done || !strings.Contains(o.text, "wrong\n[check: exit status 4]") || !strings.Contains(o.text, "one more check may fail") {
		t.Errorf("%+v", o)
	}
	if o := do("exit 1"); o.done || !strings.Contains(o.text, "whatever the next check says") {
		t.Errorf("%+v", o)
	}
	if o := do("exit 1"); !o.done || !strings.Contains(o.text, "handed in as it is") || r.checked != "failed" {
		t.Errorf("%+v", o)
	}
	if o := do("pwd; echo [$x]"); !o.done || o.bad || !strings.Contains(o.text, "/app\n[]") || r.checked != "passed" {
		t.Errorf("%+v", o)
	}
}
