package program

import (
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// verdicts is "id status kind", line by line.
func verdicts(s Suite, got map[string]report.Test) string {
	var b strings.Builder
	for _, c := range s.Cases {
		t := got[c.ID]
		b.WriteString(strings.TrimSpace(c.ID+" "+string(t.Status)+" "+string(t.Kind)) + "\n")
	}
	return b.String()
}

func (p *place) want(s Suite, files map[string]string, want string) map[string]report.Test {
	p.t.Helper()
	got := p.run(s, files)
	if have := verdicts(s, got); strings.TrimSpace(have) != strings.TrimSpace(want) {
		p.t.Errorf("got\n%swant\n%s", have, want)
		for id, t := range got {
			if t.Message != "" {
				p.t.Logf("%s: %s", id, t.Message)
			}
		}
	}
	return got
}

func TestPythonCalls(t *testing.T) {
	p := newPlace(t, "python3")
	s := suite(t, checks.Cases{Call: "python", Source: "sol.py"}, "", `{"id":"sum","func":"add","args":[1,2],"want":3}
{"id":"float","func":"add","args":[0.5,0.5],"want":1}
{"id":"wrong","func":"add","args":[1,2],"want":4}
{"id":"tuple","func":"pair","args":[1],"want":{"$tuple":[1,1]}}
{"id":"list is no tuple","func":"pair","args":[1],"want":[1,1]}
{"id":"set","func":"uniq","args":[[1,1,2]],"want":{"$set":[2,1]}}
{"id":"raises","func":"div","args":[1,0],"raises":{"type":"ArithmeticError","message":"division"}}
{"id":"does not raise","func":"div","args":[4,2],"raises":{"type":"ArithmeticError"}}
{"id":"exception","func":"div","args":[1,0],"want":1}
{"id":"state","calls":[{"func":"count","args":[],"want":1},{"func":"count","args":[],"want":2}]}
{"id":"fresh","func":"count","args":[],"want":1}
{"id":"none","func":"nothere","args":[],"want":1}
{"id":"kw","func":"add","args":[1],"kwargs":{"b":{"$int":"0xffffffffffffffffffff"}},"want":{"$int":"0x100000000000000000000"}}
{"id":"script","script":"assert add(1, 2) == 3\nassert pair('x') == ('x', 'x')\ntry:\n    div(1, 0)\nexcept ZeroDivisionError:\n    pass\nelse:\n    raise AssertionError\n","funcs":["add","pair","div"]}
{"id":"wrong script","script":"assert add(1, 2) == 3\nassert add(1, 2) == 4\n","funcs":["add"]}
`)
	p.want(s, map[string]string{"sol.py": `
n = 0
def add(a, b): return a + b
def pair(a): return a, a
def uniq(a): return set(a)
def div(a, b): return a / b
def count():
    global n
    n += 1
    print("noise", n)
    return n
`}, `sum passed
float passed
wrong failed assertion
tuple passed
list is no tuple failed assertion
set passed
raises passed
does not raise failed assertion
exception error exception
state passed
fresh passed
none error exception
kw passed
script passed
wrong script failed assertion`)
}
