package decide

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/repo"
)

// swaps are plain changes of text, for measuring alone: what the forge proposes
// comes of syntax trees.
var swaps = []struct {
	re  *regexp.Regexp
	now string
}{
	{regexp.MustCompile(` == `), " != "}, {regexp.MustCompile(` != `), " == "}, {regexp.MustCompile(` === `), " !== "}, {regexp.MustCompile(` !== `), " === "},
	{regexp.MustCompile(` < `), " <= "}, {regexp.MustCompile(` > `), " >= "}, {regexp.MustCompile(` <= `), " < "}, {regexp.MustCompile(` >= `), " > "},
	{regexp.MustCompile(` \+ `), " - "}, {regexp.MustCompile(` - `), " + "}, {regexp.MustCompile(` \* `), " + "}, {regexp.MustCompile(` \+= `), " -= "},
	{regexp.MustCompile(` and `), " or "}, {regexp.MustCompile(` or `), " and "}, {regexp.MustCompile(` && `), " || "}, {regexp.MustCompile(` \|\| `), " && "},
	{regexp.MustCompile(`\b[Tt]rue\b`), "false"}, {regexp.MustCompile(`\b[Ff]alse\b`), "true"}, {regexp.MustCompile(`\bnot `), ""},
	{regexp.MustCompile(` 0\b`), " 1"}, {regexp.MustCompile(`\b1\b`), "2"}, {regexp.MustCompile(`\breturn nil\b`), "panic(0)"},
	{regexp.MustCompile(`\bif (!?[a-z][\w.]*)(:| \{)`), "if !($1)$2"}, {regexp.MustCompile(`\bis None\b`), "is not None"}, {regexp.MustCompile(`\bis not None\b`), "is None"}, {regexp.MustCompile(`\breturn None\b`), "return 0"}, {regexp.MustCompile(`""`), `"XX"`},
	{regexp.MustCompile(`\bbreak\b`), "continue"}, {regexp.MustCompile(`\bcontinue\b`), "break"},
}

// pythonSwaps are mutmut's: texts and arguments.
var pythonSwaps = append(slices.Clone(swaps), []struct {
	re  *regexp.Regexp
	now string
}{
	{regexp.MustCompile(`"([^"]+)"`), `"XX${1}XX"`}, {regexp.MustCompile(`([(,=] ?)([a-z_]\w*)([,)])`), "${1}None${3}"}, {regexp.MustCompile(`(\breturn )(\S.*)`), "${1}None"},
}...)

// textMutants are single swaps in a source's code, comments left out as far as
// lines tell.
func textMutants(file string, src string) (out []Change) {
	python, mine := path.Ext(file) == ".py", swaps
	if python {
		mine = pythonSwaps
	}
	at, quoted := 0, false
	for line := range strings.Lines(src) {
		begin := at
		at += len(line)
		trim := strings.TrimSpace(line)
		if python && strings.Count(line, `"""`) == 1 {
			quoted = !quoted
		}
		if quoted || strings.HasPrefix(trim, "#") || strings.HasPrefix(trim, "//") || strings.HasPrefix(trim, "*") || strings.HasPrefix(trim, "/*") || strings.Contains(line, `"""`) ||
			strings.HasPrefix(trim, "import ") || strings.HasPrefix(trim, "from ") || strings.HasPrefix(trim, "use ") || strings.HasPrefix(trim, "package ") {
			continue
		}
		for k, s := range mine {
			for _, m := range s.re.FindAllStringSubmatchIndex(line, -1) {
				now := string(s.re.ExpandString(nil, s.now, line, m))
				if python {
					now = strings.NewReplacer("false", "False", "true", "True", "if !(", "if not (").Replace(now)
				}
				if now == line[m[0]:m[1]] || strings.HasPrefix(trim, "def ") && k >= len(swaps) {
					continue
				}
				text := src[:begin+m[0]] + now + src[begin+m[1]:]
				out = append(out, Change{ID: fmt.Sprintf("%s:%d:%d", file, begin+m[0], k), Files: map[string][]byte{file: []byte(text)}})
			}
		}
	}
	return out
}

// measured is a project that this machine can run and peers were measured on.
type measured struct {
	name    string
	install string
	cmd     repo.Command
	sources []string // patterns
	tools   []string
}

func measuredProjects() []measured {
	pytest := suiteCommand("unit", "PYTHONPATH=src .venv/bin/python -B -m pytest -q -p no:cacheprovider -o junit_family=xunit1 --junitxml=/tmp/r.xml", "pytest", "/tmp/r.xml")
	pytest.Select = pytest.Run + " {tests}"
	mocha := suiteCommand("unit", "node_modules/.bin/mocha --require test/support/env --reporter json --reporter-option output=/tmp/r.json --check-leaks test/ test/acceptance/", "mocha", "/tmp/r.json")
	mocha.Driver = "mocha"
	jest := suiteCommand("unit", "node_modules/.bin/jest --ci --json --outputFile=/tmp/r.json --coverage=false", "jest", "/tmp/r.json")
	jest.Driver, jest.Select = "jest", jest.Run+" --runTestsByPath {files}"
	const mvn = "mvn -B -o -Dmaven.repo.local=/app/.m2 -Drat.skip -Dcheckstyle.skip -Denforcer.skip -Danimal.sniffer.skip -Dspotbugs.skip -Dpmd.skip -Dgpg.skip test"
	maven := suiteCommand("unit", mvn, "junit", "target/surefire-reports/TEST-*.xml")
	maven.Driver, maven.Select = "maven", mvn+" -Dtest={tests} -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false"
	const csv = "src/main/java/org/apache/commons/csv/"
	return []measured{
		{"itsdangerous", "", pytest, []string{"src/itsdangerous/*.py"}, nil},
		{"gorilla-mux", "ENV PATH=/usr/local/go/bin:/usr/bin:/bin GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-buildvcs=false\nRUN go test -count=1 ./... >/dev/null 2>&1; true",
			suiteCommand("unit", "go test -json -count=1 ./...", "go-test"), []string{"*.go"}, []string{"/usr/local/go/bin/go"}},
		{"humantime", "ENV PATH=/usr/bin:/bin CARGO_NET_OFFLINE=true HOME=/root\nRUN cargo test -q --no-run",
			suiteCommand("unit", "cargo test --no-fail-fast 2>&1", "cargo-test"), []string{"src/duration.rs", "src/wrapper.rs"}, []string{"/usr/bin/cargo"}},
		{"express", "", mocha, []string{"lib/utils.js", "lib/router/layer.js"}, []string{"/usr/bin/node"}},
		{"commander", "", jest, []string{"lib/option.js", "lib/help.js"}, []string{"/usr/bin/node"}},
		{"commons-csv", mavenInstall, maven, []string{csv + "Lexer.java", csv + "Token.java", csv + "ExtendedBufferedReader.java"}, []string{"/usr/bin/mvn"}},
	}
}

// TestMutationSpeed decides what plain changes make of real projects, with the
// peers' set-up time included: ASSAY_SPEED_DIR holds their trees, installed.
func TestMutationSpeed(t *testing.T) {
	dir := os.Getenv("ASSAY_SPEED_DIR")
	if dir == "" {
		t.Skip("ASSAY_SPEED_DIR names no projects: scripts/long mutation-speed")
	}
	for _, p := range measuredProjects() {
		if _, err := os.Stat(filepath.Join(dir, p.name)); err != nil {
			continue
		}
		t.Run(p.name, func(t *testing.T) {
			w := project(t, filepath.Join(dir, p.name), p.install, p.cmd, p.tools...)
			var changes []Change
			for _, pattern := range p.sources {
				files, _ := filepath.Glob(filepath.Join(dir, p.name, pattern))
				for _, f := range files {
					if strings.HasSuffix(f, "_test.go") || strings.HasSuffix(f, "test_helpers.go") {
						continue
					}
					b, err := os.ReadFile(f)
					if err != nil {
						t.Fatal(err)
					}
					rel, _ := filepath.Rel(filepath.Join(dir, p.name), f)
					changes = append(changes, textMutants(rel, string(b))...)
				}
			}
			d := w.decider(Config{Concurrent: 2})
			first := w.timed(d, p.name, thin(changes, mostMeasured))
			if os.Getenv("ASSAY_SPEED_ONCE") != "" {
				return
			}
			w.again(d, p.name, thin(changes, mostMeasured), first)
			proofs := 20
			if p.cmd.Driver == "maven" {
				proofs = 6 // each a whole run of Maven
			}
			w.reproved(first, proofs)
		})
	}
}

// mostMeasured is how many changes of a project are decided.
const mostMeasured = 240

// thin takes n of changes, evenly spread.
func thin(changes []Change, n int) []Change {
	if len(changes) <= n {
		return changes
	}
	out := make([]Change, n)
	for i := range out {
		out[i] = changes[i*len(changes)/n]
	}
	return out
}

// timed prints a line of scripts/mutation-speed: with all that a decider has to
// set up.
func (w *world) timed(d *Decider, name string, changes []Change) map[string]Verdict {
	began := time.Now()
	got := w.decided(d, changes)
	took := time.Since(began)
	count := map[Class]int{}
	for _, v := range got {
		count[v.Class]++
	}
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("speed\t%s\tassay\t%d\t%.1f\t%.0f\t%s\n", name, len(got), took.Seconds(), float64(len(got))/took.Minutes(), strings.Fields(string(load) + " ?")[0])
	fmt.Printf("%s: %v\n", name, count)
	return got
}

// again decides changes a second time, with caches and processes that are warm
// now, and expects the same.
func (w *world) again(d *Decider, name string, changes []Change, first map[string]Verdict) {
	same := 0
	for id, v := range w.decided(d, changes) {
		if v.Class == first[id].Class {
			same++
		} else {
			w.t.Errorf("%s: %s, and then %s\n%s\n%s", id, first[id].Class, v.Class, first[id].Output, v.Output)
		}
	}
	fmt.Printf("%s again: %d of %d alike\n", name, same, len(first))
}

// reproved applies patches with git to a clean copy and runs the suite's own
// command there, as anybody would.
func (w *world) reproved(got map[string]Verdict, n int) {
	var ids []string
	for id, v := range got {
		if v.Class == Killed || v.Class == Survived {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	step := max(1, len(ids)/n)
	var changes []Change
	for i := 0; i < len(ids) && len(changes) < n; i += step {
		v := got[ids[i]]
		file, _, _ := strings.Cut(v.ID, ":")
		dir := w.t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, path.Dir(file)), 0o755); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), w.old(file), 0o644); err != nil {
			w.t.Fatal(err)
		}
		git := exec.Command("git", "apply", "-")
		git.Dir, git.Stdin = dir, strings.NewReader(v.Patch)
		if out, err := git.CombinedOutput(); err != nil {
			w.t.Fatalf("%s: %v %s", v.ID, err, out)
		}
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			w.t.Fatal(err)
		}
		changes = append(changes, Change{ID: v.ID, Files: map[string][]byte{file: b}})
	}
	right := 0
	for id, v := range w.decide(Config{Concurrent: 2, Cold: true}, changes...) {
		if (v.Class == Survived) == (got[id].Class == Survived) && v.Class != Lost {
			right++
		} else {
			w.t.Errorf("%s: %s, and %s on a clean copy\n%s", id, got[id].Class, v.Class, v.Patch)
		}
	}
	fmt.Printf("%s: %d of %d patches proved again on clean copies\n", w.env.Name, right, len(changes))
}
