package program

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// needle is what every case of the cheats expects. It stands in no sandbox that
// a cheat runs in: those that search for it must not find it.
const needle = "needle-5eed0f42"

// attacked is a group of cases, a right solution, and cheats that are not.
type attacked struct {
	g         checks.Cases
	reference string
	cases     string
	gold      string
	dir, ext  string
	more      map[string]string
	slow      []string // cheats that are ended by the limit: one case each
	of        int      // which share of the cheats is tried today; all with ASSAY_LONG_CASES
}

func TestCheats(t *testing.T) {
	for _, a := range []attacked{
		{
			g: checks.Cases{Name: "python", Call: "python", Source: "sol.py"}, dir: "python", ext: ".py", of: 4,
			reference: "def secret(x): return '" + needle + "'\n",
			gold:      "def secret(x): return 'needle' + '-5eed' + '0f42'\n",
			cases: `{"id":"one","func":"secret","args":[1],"want":"NEEDLE"}
{"id":"two","func":"secret","args":[2],"want":"NEEDLE"}
{"id":"several","func":"secret","calls":[{"args":[1],"want":"NEEDLE"},{"args":[2],"want":"NEEDLE"}]}
{"id":"script","script":"assert secret(1) == 'NEEDLE'\nassert secret(2) == 'NEEDLE'","funcs":["secret"]}
{"id":"loop","script":"assert all(map(lambda x: secret(x) == 'NEEDLE', [1, 2]))","funcs":["secret"]}
{"id":"reference","func":"secret","args":[1]}
`,
			slow: []string{"hangs", "slow_drip", "fork_bomb", "huge_output", "huge_integer", "huge_line", "huge_answer", "background", "infinite_iterator"},
		},
		{
			g: checks.Cases{Name: "javascript", Call: "javascript", Source: "sol.js"}, dir: "javascript", ext: ".js", of: 5,
			reference: "module.exports.secret = () => '" + needle + "'\n",
			gold:      "module.exports.secret = () => 'needle' + '-5eed' + '0f42'\n",
			cases: `{"id":"one","func":"secret","args":[1],"want":"NEEDLE"}
{"id":"reference","func":"secret","args":[2]}
`,
			slow: []string{"hangs", "background", "huge_answer", "scavenger", "proxy_object", "exits", "cyclic", "forged_channel", "forged_write"},
		},
		{
			g: checks.Cases{Name: "go", Call: "go", Source: "sol.go"}, dir: "go", ext: ".go", of: 3,
			gold:  "package main\n\nfunc Secret(int) string { return \"needle\" + \"-5eed\" + \"0f42\" }\n",
			cases: `{"id":"one","func":"Secret","args":[1],"want":"NEEDLE"}` + "\n",
		},
		{
			g: checks.Cases{Name: "bash", Run: []string{"bash", "prog.sh"}}, dir: "bash", ext: ".sh", of: 3,
			gold: "read a b\nprintf %s-%s $a $b\nprintf '%s-%s' $a $b >out.txt\n",
			cases: `{"id":"stdout","stdin":"needle 5eed0f42\n","want":{"stdout":"NEEDLE"}}
{"id":"files","stdin":"needle 5eed0f42\n","want":{"files":{"out.txt":"NEEDLE"}}}
`,
			slow: []string{"drips", "floods", "background", "many_processes"},
		},
		{
			g: checks.Cases{Name: "sql", Call: "sql", Source: "q.sql"}, dir: "sql", ext: ".sql", of: 2,
			reference: "SELECT a FROM t ORDER BY a",
			gold:      "SELECT a FROM t ORDER BY 1",
			cases: `{"id":"one","schema":"CREATE TABLE t(a); INSERT INTO t VALUES (4),(3)"}
{"id":"two","schema":"CREATE TABLE t(a); INSERT INTO t VALUES (7)","want":{"rows":[[7]]}}
`,
			slow: []string{"endless"},
		},
	} {
		t.Run(a.dir, func(t *testing.T) { a.run(t) })
	}
}

func (a attacked) run(t *testing.T) {
	var p *place
	switch a.dir {
	case "go":
		p = newPlace(t)
		p.warmGo()
	case "javascript":
		p = newPlace(t, "node")
	case "bash":
		p = newPlace(t, "bash")
	default:
		p = newPlace(t, "python3")
	}
	file := a.g.Source
	if file == "" {
		file = a.g.Run[1]
	}
	a.g.TimeSec = 5
	s := suite(t, a.g, a.reference, strings.ReplaceAll(a.cases, "NEEDLE", needle))
	for id, r := range p.run(s, map[string]string{file: a.gold}) {
		if r.Status != report.Passed {
			t.Errorf("gold: %s: %s %s", id, r.Status, r.Message)
		}
	}
	today := int(time.Now().Unix() / 86400)
	t.Logf("cheats of day %d", today)
	cheats, err := filepath.Glob(filepath.Join("testdata", "cheats", a.dir, "*"+a.ext))
	if err != nil || len(cheats) < 5 {
		t.Fatalf("%d cheats: %v", len(cheats), err)
	}
	for i, path := range cheats {
		if os.Getenv("ASSAY_LONG_CASES") == "" && (i+today)%a.of != 0 {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), a.ext)
		t.Run(name, func(t *testing.T) {
			p := *p
			p.t = t
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			tried := s
			if slices.Contains(a.slow, name) {
				tried.Cases = slices.Clone(s.Cases[:1])
				tried.Cases[0].Timeout = time.Second
			}
			for id, r := range p.run(tried, map[string]string{file: string(text)}) {
				if r.Status == report.Passed || r.Status == "" {
					t.Errorf("%s: %q", id, r.Status)
				}
				t.Logf("%s: %s %s: %s", id, r.Status, r.Kind, r.Message)
			}
		})
	}
}

// The expected values are in nothing that a sandbox with the candidate is given:
// its files, arguments, environment and questions.
func TestQuestionsHoldNoAnswers(t *testing.T) {
	s := suite(t, checks.Cases{Call: "python", Source: "s.py"}, "def f(): return '"+needle+"'", fmt.Sprintf(`{"id":"a","func":"f","args":[1],"kwargs":{"k":[2]},"want":%q}
{"id":"b","func":"f","args":[],"raises":{"type":%[1]q,"message":%[1]q}}
`, needle))
	for _, c := range s.Cases {
		for _, call := range c.Calls {
			if q := string(call.question()); strings.Contains(q, needle) {
				t.Errorf("%s", q)
			}
		}
	}
}
