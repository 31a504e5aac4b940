package program

import (
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/sandbox"
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
	p.t.Helper()
	got := p.run(s, files)
	p.sameInContainer(s, files, got)
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
	s := p.suite(checks.Cases{Call: "python", Source: "sol.py"}, "", `{"id":"sum","func":"add","args":[1,2],"want":3}
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

func TestJavaScriptCalls(t *testing.T) {
	p := newPlace(t, "node")
	const lines = `{"id":"sum","func":"add","args":[1,2],"want":3}
{"id":"wrong","func":"add","args":[1,2],"want":"3"}
{"id":"bool","func":"id","args":[true],"want":1}
{"id":"undefined","func":"nothing","args":[],"want":{"$undefined":""}}
{"id":"undefined is not null","func":"nothing","args":[],"want":null}
{"id":"object","func":"id","args":[{"a":[1,{"b":null}]}],"want":{"a":[1.0,{"b":null}]}}
{"id":"set","func":"uniq","args":[[3,1,3]],"want":{"$set":[1,3]}}
{"id":"map","func":"index","args":[["a","b"]],"want":{"$dict":[[0,"a"],[1,"b"]]}}
{"id":"big","func":"id","args":[{"$int":"0x20000000000000001"}],"want":{"$int":"0x20000000000000001"}}
{"id":"nan","func":"add","args":[{"$float":"nan"},1],"want":{"$float":"nan"}}
{"id":"raises","func":"fail","args":["x"],"raises":{"type":"Error","message":"^x is bad$"}}
{"id":"async","func":"later","args":[5],"want":5}
{"id":"generator","func":"gen","args":[2],"want":{"$iter":[0,1]}}
{"id":"surrogate","func":"id","args":["\ud800 \ud83d\ude00"],"want":"\ud800 😀"}
`
	const want = `sum passed
wrong failed assertion
bool failed assertion
undefined passed
undefined is not null failed assertion
object passed
set passed
map passed
big passed
nan passed
raises passed
async passed
generator passed
surrogate passed`
	const body = `function add(a, b) { console.log('noise'); return a + b }
function id(x) { return x }
function nothing() {}
const uniq = (a) => new Set(a)
function index(a) { return new Map(a.map((x, i) => [i, x])) }
function fail(x) { throw new RangeError(x + ' is bad') }
async function later(x) { await null; return x }
function* gen(n) { for (let i = 0; i < n; i++) yield i }
`
	const names = "add, id, nothing, uniq, index, fail, later, gen"
	for _, tt := range []struct{ name, file, text string }{
		{"exports", "sol.js", body + "module.exports = {" + names + "}\n"},
		{"module", "sol.mjs", body + "export {" + names + "}\n"},
		{"script", "sol.js", body},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && tt.name != "exports" {
				t.Skip("one form is enough")
			}
			p := &place{t: t, b: p.b, img: p.img}
			p.want(p.suite(checks.Cases{Call: "javascript", Source: tt.file}, "", lines), map[string]string{tt.file: tt.text}, want)
		})
	}
}

func TestGoCalls(t *testing.T) {
	p := newPlace(t)
	p.warmGo()
	s := p.suite(checks.Cases{Call: "go", Source: "sol.go"}, "", `{"id":"sum","func":"Add","args":[1,2],"want":3}
{"id":"wrong","func":"Add","args":[1,2],"want":4}
{"id":"slice","func":"Twice","args":[["a","b"]],"want":["a","b","a","b"]}
{"id":"map","func":"Count","args":["aab"],"want":{"$dict":[["a",2],["b",1]]}}
{"id":"two results","func":"DivMod","args":[7,2],"want":[3,1]}
{"id":"raises","func":"DivMod","args":[1,0],"raises":{"type":"error","message":"zero"}}
{"id":"panics","func":"At","args":[[1],5],"raises":{"type":"panic"}}
{"id":"struct","func":"Move","args":[{"X":1,"Y":2.5}],"want":{"X":2,"Y":2.5}}
{"id":"variadic","func":"Sum","args":[1,2,3],"want":6}
{"id":"bytes","func":"Raw","args":[{"$bytes":"AP8="}],"want":{"$bytes":"/wA="}}
{"id":"pointer","func":"Deref","args":[null],"want":-1}
{"id":"wrong type","func":"Add","args":["a",2],"want":3}
`)
	p.want(s, map[string]string{"sol.go": `package main

import ("errors"; "fmt")

func main() { fmt.Println("the program itself") }
func Add(a, b int) int { fmt.Println("noise"); return a + b }
func Twice(s []string) []string { return append(s, s...) }
func Count(s string) map[string]int { m := map[string]int{}; for _, r := range s { m[string(r)]++ }; return m }
func DivMod(a, b int) (int, int, error) { if b == 0 { return 0, 0, errors.New("zero") }; return a / b, a % b, nil }
func At(s []int, i int) int { return s[i] }
type Point struct { X int; Y float64; hidden int }
func Move(p Point) *Point { p.X++; return &p }
func Sum(n ...int64) (s int64) { for _, x := range n { s += x }; return }
func Raw(b []byte) []byte { return []byte{b[1], b[0]} }
func Deref(p *int) int { if p == nil { return -1 }; return *p }
`, "sol_test.go": "package main\n\nthis is no Go\n"}, `sum passed
wrong failed assertion
slice passed
map passed
two results passed
raises passed
panics passed
struct passed
variadic passed
bytes passed
pointer passed
wrong type failed assertion`)
	s = p.suite(checks.Cases{Call: "go", Source: "sol.go"}, "", `{"id":"a","func":"F","args":[],"want":1}`+"\n"+`{"id":"b","func":"F","args":[],"want":1}`)
	p.want(s, map[string]string{"sol.go": "package sol\n\nfunc G() int { return 1 }\n"}, "a error build\nb error build")
	p.want(s, nil, "a error build\nb error build")
}

func TestPrograms(t *testing.T) {
	p := newPlace(t, "bash", "python3")
	s := p.suite(checks.Cases{Run: []string{"bash", "prog.sh"}, TimeSec: 2}, "", `{"id":"stdin","stdin":"3 4\n","want":{"stdout":"7"}}
{"id":"args","args":["-m","a b"],"want":{"stdout":"a b\n"}}
{"id":"wrong","stdin":"3 4\n","want":{"stdout":"8"}}
{"id":"status","args":["-x","3"],"want":{"exit":3}}
{"id":"wrong status","args":["-x","3"],"want":{"stdout":""}}
{"id":"any status","args":["-x","3"],"want":{"stdout":"","exit":null}}
{"id":"stderr","args":["-e"],"want":{"stderr":"oops\n"}}
{"id":"files","args":["-c"],"files":{"in/a.txt":"x\ny\n"},"want":{"files":{"out.txt":"2"}}}
{"id":"missing file","args":["-x","0"],"want":{"files":{"out.txt":"2"}}}
{"id":"link","args":["-l"],"want":{"files":{"out.txt":"2"}}}
{"id":"bytes","args":["-b"],"compare":"exact","want":{"stdout":{"$bytes":"AP8K"}}}
{"id":"slow","args":["-s"],"want":{"stdout":""}}
{"id":"env","args":["-v"],"env":{"GREETING":"hi"},"want":{"stdout":"hi"}}
{"id":"tolerance","args":["-m","pi is 3.1415"],"compare":"numbers","abs_tol":0.001,"want":{"stdout":"pi is 3.14159"}}
{"id":"json","args":["-m","{\"b\": [1, 2.0], \"a\": null}"],"compare":"json","want":{"stdout":"{\"a\":null,\"b\":[1.0,2]}"}}
{"id":"json in another order","args":["-m","[2, 1]"],"compare":"json","want":{"stdout":"[1,2]"}}
{"id":"json in any order","args":["-m","[2, 1]"],"compare":"json-unordered","want":{"stdout":"[1,2]"}}
{"id":"left over","args":["-left"],"want":{"stdout":"fresh\n"}}
{"id":"left over again","args":["-left"],"want":{"stdout":"fresh\n"}}
`)
	p.want(s, map[string]string{"prog.sh": `case $1 in
-m) echo "$2" ;;
-x) exit $2 ;;
-e) echo oops >&2 ;;
-c) wc -l <in/a.txt >out.txt ;;
-l) ln -s /etc/hostname out.txt ;;
-b) printf '\000\377\n' ;;
-s) sleep 60 ;;
-v) echo "$GREETING" ;;
-left) if [ -e /tmp/left ] || [ -e left ] || [ -e /dev/shm/left ] || pgrep sleep; then echo stale; else echo fresh; fi
   touch left /tmp/left /dev/shm/left; sleep 1000 >/dev/null 2>&1 & setsid sleep 1000 >/dev/null 2>&1 & ;;
*) read a b; echo $((a + b)) ;;
esac
`}, `stdin passed
args passed
wrong failed assertion
status passed
wrong status error exception
any status passed
stderr passed
files passed
missing file failed assertion
link failed assertion
bytes passed
slow error timeout
env passed
tolerance passed
json passed
json in another order failed assertion
json in any order passed
left over passed
left over again passed`)
	s = p.suite(checks.Cases{Run: []string{"no-such-program"}}, "", `{"id":"a","want":{"stdout":""}}`)
	p.want(s, nil, "a error exception")
}

func TestQueries(t *testing.T) {
	p := newPlace(t, "python3")
	const schema = `"schema":"CREATE TABLE t(id INTEGER, name TEXT, x REAL); INSERT INTO t VALUES (1,'a;b',0.5),(2,NULL,1.5),(3,'c',NULL),(3,'c',NULL);"`
	lines := `{"id":"rows",` + schema + `,"want":{"rows":[[3,"c"],[1,"a;b"],[2,null],[3,"c"]]}}
{"id":"names",` + schema + `,"want":{"columns":["id","name"],"rows":[[3,"c"],[1,"a;b"],[2,null],[3,"c"]]}}
{"id":"other names",` + schema + `,"want":{"columns":["a","b"],"rows":[[3,"c"],[1,"a;b"],[2,null],[3,"c"]]}}
{"id":"fewer",` + schema + `,"want":{"rows":[[3,"c"],[1,"a;b"],[2,null]]}}
{"id":"doubled",` + schema + `,"want":{"rows":[[3,"c"],[1,"a;b"],[2,null],[2,null]]}}
{"id":"text for a number",` + schema + `,"want":{"rows":[["3","c"],[1,"a;b"],[2,null],[3,"c"]]}}
{"id":"ordered",` + schema + `,"ordered":true,"want":{"rows":[[3,"c"],[1,"a;b"],[2,null],[3,"c"]]}}
{"id":"own query",` + schema + `,"query":"SELECT sum(x)/3 FROM t","want":{"rows":[[0.6666666666]]}}
{"id":"close",` + schema + `,"query":"SELECT sum(x)/3 FROM t","abs_tol":1e-6,"want":{"rows":[[0.6666666666]]}}
{"id":"empty",` + schema + `,"query":"SELECT id, name FROM t WHERE 0","want":{"columns":["id","name"],"rows":[]}}
{"id":"after",` + schema + `,"query":"DELETE FROM t WHERE id = 3; UPDATE t SET name = 'z'","after":"SELECT id, name FROM t ORDER BY id","ordered":true,"want":{"rows":[[1,"z"],[2,"z"]]}}
{"id":"bad",` + schema + `,"query":"SELEC 1","want":{"rows":[[1]]}}
{"id":"bad schema","schema":"CREATE","want":{"rows":[[1]]}}
`
	p.want(p.suite(checks.Cases{Call: "sql", Source: "q.sql"}, "", lines), map[string]string{"q.sql": "-- what; ever\nSELECT id, name FROM t"}, `rows passed
names passed
other names failed assertion
fewer failed assertion
doubled failed assertion
text for a number failed assertion
ordered failed assertion
own query failed assertion
close passed
empty passed
after passed
bad error exception
bad schema error exception`)

	// Several data sets per query, and rows that the reference gives.
	lines = `{"id":"one","schema":"CREATE TABLE t(a); INSERT INTO t VALUES (2),(1)"}
{"id":"two","schema":"CREATE TABLE t(a); INSERT INTO t VALUES (5),(9),(7)"}
`
	s := p.suite(checks.Cases{Call: "sql", Source: "q.sql"}, "SELECT a AS b FROM t ORDER BY a -- comment", lines)
	p.want(s, map[string]string{"q.sql": "select * from t order by 1"}, "one passed\ntwo passed")
	p.want(s, map[string]string{"q.sql": "select * from t"}, "one failed assertion\ntwo failed assertion")
	p.want(s, map[string]string{"q.sql": "select 1 as a union all select 2"}, "one passed\ntwo failed assertion")
	s.Reference = []byte("SELECT a FROM t")
	p.want(s, map[string]string{"q.sql": "select * from t order by a desc"}, "one passed\ntwo passed")
}

// Memory is a limit of each case, whoever is ended for it, and the next case
// has all of it again.
func TestMemory(t *testing.T) {
	p := newPlace(t, "python3")
	p.limits = sandbox.Limits{MemBytes: 256 << 20}
	s := p.suite(checks.Cases{Call: "python", Source: "sol.py"}, "", `{"id":"small","func":"f","args":[1],"want":1}
{"id":"large","func":"f","args":[4000],"want":1}
{"id":"small again","func":"f","args":[2],"want":2}
`)
	got := p.want(s, map[string]string{"sol.py": `def f(n):
    x = bytearray(n << 20)
    for i in range(0, len(x), 4096): x[i] = 1
    return n
`}, "small passed\nlarge error exception\nsmall again passed")
	if m := got["large"].Message; !strings.Contains(m, "memory limit") {
		t.Errorf("the limit is not named: %q", m)
	}
}
