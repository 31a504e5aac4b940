package repo

import (
	"fmt"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// Where the grader keeps tests and takes reports from.
const (
	testsDir = "/tests"
	logsDir  = "/logs/verifier"
)

// Runner is how one test runner is started so that it leaves a report that
// package report reads. In its lines {program}, {args} and {name} stand for
// what Runner.Command is given; Command.Select tells of the others.
type Runner struct {
	Name     string
	Language string // of syntax.Language; empty: any
	Program  string // what {program} is if nothing else is said
	Args     string // what {args} is if nothing else is said
	Report   report.Format
	Files    []string
	Run      string
	Select   string
	Driver   string
}

// Runners lists every runner that is known by name; a further one is a row here.
func Runners() []Runner {
	const (
		python = `PYTHONPATH=/tests${PYTHONPATH:+:$PYTHONPATH} {program} -B `
		pytest = python + `-m pytest -q -p no:cacheprovider -p assay_pytest --assay-report=/logs/verifier/{name}.log {args}`
		unit   = python + `/tests/assay_unittest.py --assay-report=/logs/verifier/{name}.log `
		jest   = `{program} --ci --json --outputFile=/logs/verifier/{name}.json --coverage=false {args}`
		vitest = `{program} run --reporter=json --outputFile=/logs/verifier/{name}.json {args}`
		mocha  = `{program} --reporter /tests/assay_mocha.cjs --reporter-options output=/logs/verifier/{name}.log `
		node   = `{program} --test --test-reporter=/tests/assay_node.mjs --test-reporter-destination=/logs/verifier/{name}.log `
		golang = `{program} test -json -count=1 {args} `
		maven  = `{program} -B -o {args} test`
		ctest  = `cmake --build {program} 2>&1 && ctest --test-dir {program} --output-junit /logs/verifier/{name}.xml {args}`
	)
	log, json, xml := []string{"/logs/verifier/{name}.log"}, []string{"/logs/verifier/{name}.json"}, []string{"/logs/verifier/{name}.xml"}
	return []Runner{
		{Name: "pytest", Language: "python", Program: "python3", Report: "pytest-log", Files: log, Run: pytest, Select: pytest + " {tests}", Driver: "pytest"},
		{Name: "unittest", Language: "python", Program: "python3", Args: "discover", Report: "unittest", Files: log, Run: unit + "{args}", Select: unit + "{tests}", Driver: "unittest"},
		{Name: "django", Language: "python", Program: "python3", Args: "manage.py test", Report: "django", Files: log, Run: unit + "--script {args}", Select: unit + "--script {args} {tests}"},
		{Name: "jest", Language: "javascript", Program: "node_modules/.bin/jest", Report: "jest", Files: json, Run: jest, Select: jest + " -t {pattern} --runTestsByPath {files}", Driver: "jest"},
		{Name: "vitest", Language: "javascript", Program: "node_modules/.bin/vitest", Report: "vitest", Files: json, Run: vitest, Select: vitest + " -t {pattern} {files}", Driver: "vitest"},
		{Name: "mocha", Language: "javascript", Program: "node_modules/.bin/mocha", Report: "mocha-log", Files: log, Run: mocha + "{args}", Select: mocha + "--grep {pattern} {args} {files}", Driver: "mocha"},
		{Name: "node-test", Language: "javascript", Program: "node", Report: "node-test", Files: log, Run: node + "{args}", Select: node + "{files}", Driver: "node-test"},
		{Name: "tape", Language: "javascript", Program: "node_modules/.bin/tape", Args: "'test/**/*.js'", Report: "tap", Run: "{program} {args}", Select: "{program} {files}", Driver: "tape"},
		{Name: "tap", Language: "javascript", Program: "node_modules/.bin/tap", Report: "tap", Run: "{program} --no-coverage --reporter=tap {args}", Select: "{program} --no-coverage --reporter=tap {files}"},
		{Name: "go", Language: "go", Program: "go", Report: "go-test", Run: golang + "./...", Select: golang + "-run {pattern} {packages}", Driver: "go"},
		{Name: "cargo", Language: "rust", Program: "cargo", Report: "cargo-test", Run: "{program} test --no-fail-fast {args} 2>&1", Select: "{program} test --no-fail-fast {args} {targets} -- --exact {tests} 2>&1", Driver: "cargo"},
		{Name: "maven", Language: "java", Program: "mvn", Report: "junit", Files: []string{"**/target/surefire-reports/TEST-*.xml"}, Run: maven, Select: maven + " -Dtest={tests} -DfailIfNoTests=false -Dsurefire.failIfNoSpecifiedTests=false", Driver: "maven"},
		{Name: "gradle", Language: "java", Program: "gradle", Report: "junit", Files: []string{"**/build/test-results/test/TEST-*.xml"}, Run: "{program} --offline --continue test {args}", Select: "{program} --offline --continue test {args} {tests}", Driver: "gradle"},
		{Name: "ctest", Program: "build", Report: "ctest", Files: xml, Run: ctest, Select: ctest + " -R {pattern}", Driver: "ctest"},
		{Name: "automake", Program: "make", Report: "tap", Run: automake},
		{Name: "make", Program: "make", Args: "check", Run: "{program} {args}"},
		{Name: "prove", Language: "perl", Program: "perl", Args: "t", Report: "tap", Files: []string{logsDir + "/{name}/*.tap"}, Run: prove},
	}
}

// automake's harness says in a .trs file beside each test what came out; here
// they become one stream of TAP.
const automake = `{program} -k check {args} >/logs/verifier/{name}.log 2>&1; s=$?; find . -name '*.trs' | sort | awk '
{ f = $0; sub(/^\.\//, "", f); sub(/\.trs$/, "", f)
  while ((getline line < $0) > 0) if (line ~ /^:test-result: /) {
    sub(/^:test-result: /, "", line); w = line; sub(/ .*/, "", w); d = line; if (!sub(/^[A-Z]+ /, "", d)) d = ""
    n++; ok = (w == "PASS" || w == "SKIP" || w == "XPASS") ? "ok" : "not ok"
    t = w == "SKIP" ? " # SKIP" : (w == "XFAIL" || w == "XPASS") ? " # TODO" : ""
    print ok " " n " - " f (d == "" ? "" : ": " d) t } }
END { print "1.." n+0 }'; exit $s`

// prove's own output is for people; each test program is run as prove runs it.
const prove = `mkdir -p /logs/verifier/{name}; s=0; for t in $(find {args} -name '*.t' | sort); do
{program} -Ilib -Iblib/lib -Iblib/arch "$t" >"/logs/verifier/{name}/$(echo "$t" | tr / _).tap" 2>/dev/null || s=1; done; exit $s`

// RunnerNamed finds a runner.
func RunnerNamed(name string) (Runner, error) {
	var names []string
	for _, r := range Runners() {
		if r.Name == name {
			return r, nil
		}
		names = append(names, r.Name)
	}
	return Runner{}, fmt.Errorf("no test runner is called %q (there are %s)", name, strings.Join(names, ", "))
}

// RunnerOptions say how a runner is started in one repository. Texts are words
// of a shell as they are.
type RunnerOptions struct {
	Name    string // of the command; empty: the runner's
	Program string // "/opt/venv/bin/python", "./mvnw", of ctest the build directory; empty: the runner's own
	Args    string // empty: the runner's own
	Build   string // of what must be made before, where Run does not
	Dir     string // relative to the working directory
}

// Command is the runner's command, as it stands in an environment and, but for
// what a plan adds, in a check plan: it begins by reading the image's profile.
func (r Runner) Command(o RunnerOptions) Command {
	name, program, args := o.Name, o.Program, o.Args
	if name == "" {
		name = r.Name
	}
	if program == "" {
		program = r.Program
	}
	if args == "" {
		args = r.Args
	}
	fill := func(s string) string {
		if s == "" {
			return ""
		}
		if args == "" {
			s = strings.ReplaceAll(s, " {args}", "")
		}
		s = strings.NewReplacer("{name}", name, "{program}", program, "{args}", args).Replace(s)
		return ". /etc/profile; " + strings.TrimRight(s, " ")
	}
	c := Command{Command: checks.Command{Name: name, Run: fill(r.Run), Dir: o.Dir, Report: r.Report}, Build: o.Build, Select: fill(r.Select), Driver: r.Driver}
	for _, f := range r.Files {
		c.Files = append(c.Files, strings.ReplaceAll(f, "{name}", name))
	}
	return c
}

// SupportFiles are what the suite's commands need below the grader's /tests:
// a task puts them into its tests/.
func (s *Suite) SupportFiles() map[string][]byte {
	files := map[string][]byte{}
	for _, c := range s.Commands {
		if name, data, ok := report.Support(c.Report); ok {
			files[name] = data
		}
	}
	return files
}
