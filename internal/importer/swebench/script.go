package swebench

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"assay/internal/exchange"
	"assay/internal/grade/report"
)

// format is how a command tells what became of its tests.
type format struct {
	report report.Format
	file   string // that it leaves; empty: its output
}

const (
	startMark = ">>>>> Start Test Output"
	endMark   = ">>>>> End Test Output"
	junitFile = "/tmp/assay-pytest.xml"
)

// known are the commands of SWE-bench's first twelve repositories, whose rows
// name none, and the names of their parsers, as SWE-bench's documentation of
// its specifications has them.
var known = map[string]struct{ command, parser string }{
	"astropy/astropy":              {"pytest -rA", "parse_log_pytest_v2"},
	"django/django":                {"./tests/runtests.py --verbosity 2 --settings=test_sqlite --parallel 1", "parse_log_django"},
	"marshmallow-code/marshmallow": {"pytest -rA", "parse_log_pytest"},
	"matplotlib/matplotlib":        {"pytest -rA", "parse_log_matplotlib"},
	"mwaskom/seaborn":              {"pytest --no-header -rA", "parse_log_seaborn"},
	"pallets/flask":                {"pytest -rA", "parse_log_pytest"},
	"psf/requests":                 {"pytest -rA", "parse_log_pytest_options"},
	"pvlib/pvlib-python":           {"pytest -rA --tb=long -p no:cacheprovider", "parse_log_pytest"},
	"pydata/xarray":                {"pytest -rA", "parse_log_pytest"},
	"pydicom/pydicom":              {"pytest -rA --tb=long -p no:cacheprovider", "parse_log_pytest_options"},
	"pylint-dev/astroid":           {"pytest -rA", "parse_log_pytest"},
	"pylint-dev/pylint":            {"pytest -rA", "parse_log_pytest_options"},
	"pytest-dev/pytest":            {"pytest -rA", "parse_log_pytest"},
	"pyvista/pyvista":              {"pytest -rA --tb=long -p no:cacheprovider", "parse_log_pytest"},
	"scikit-learn/scikit-learn":    {"pytest -rA", "parse_log_pytest_v2"},
	"sphinx-doc/sphinx":            {"tox --current-env -epy39 -v --", "parse_log_pytest_v2"},
	"sqlfluff/sqlfluff":            {"pytest -rA --tb=long -p no:cacheprovider", "parse_log_pytest"},
	"sympy/sympy":                  {"PYTHONWARNINGS='ignore::UserWarning,ignore::SyntaxWarning' bin/test -C --verbose", "parse_log_sympy"},
}

// condaSetup makes the environment of SWE-bench's images the shell's.
const condaSetup = `if [ -f /opt/miniconda3/bin/activate ]; then
	. /opt/miniconda3/bin/activate
	conda activate testbed
fi`

// evalScript is a row's script in its parts.
type evalScript struct{ setup, tests []string }

// script writes tests/run.sh. What prints the work's own diff is left out, and
// so is all after the tests; a single run of pytest leaves a JUnit file.
func (im Importer) script(s source, env environment) (string, format, error) {
	r := s.row
	parser := r.LogParser
	var e evalScript
	var err error
	if r.EvalScript != "" {
		if e, err = takeApart(r.EvalScript, env.placed); err != nil {
			return "", format{}, err
		}
	} else if e, parser, err = im.compose(r, env); err != nil {
		return "", format{}, err
	}
	if len(s.assets) > 0 {
		e.setup = append(e.setup, "cp -R /tests/"+assetsDir+"/. "+workdir+"/")
	}
	f, export := im.format(r, e.tests, parser)
	if f.report == "" {
		return "", f, fmt.Errorf("what its tests report cannot be read: its command %q is no single run of pytest, and its log_parser %q lists nothing but failures or is not known",
			strings.Join(e.tests, "; "), parser)
	}
	var b strings.Builder
	line := func(l ...string) { b.WriteString(strings.Join(l, "\n") + "\n") }
	line("#!/bin/bash", "# The row's own commands, without those that print the work into the output.", "set -uo pipefail", "exec 2>&1", "cd "+workdir)
	line(e.setup...)
	if export != "" {
		line(export)
	}
	if f.file == "" {
		line("echo '" + startMark + "'")
	}
	line(e.tests...)
	line("status=$?")
	if f.file == "" {
		line("echo '" + endMark + "'")
	}
	line("exit $status")
	return b.String(), f, nil
}

// runsPytest finds a command that is a run of pytest.
var runsPytest = regexp.MustCompile(`(^|[\s;&|/])(py\.test|pytest)(\s|$)`)

// format chooses a structured report where the runner is pytest, is run once
// and directly, and the row's ids are such that its report can hold them.
func (im Importer) format(r *exchange.Row, tests []string, parser string) (f format, export string) {
	n := 0
	for _, l := range tests {
		if runsPytest.MatchString(l) {
			n++
		}
	}
	usable := !slices.ContainsFunc(exchange.CheckIDs(r), exchange.IDFinding.Unusable)
	if n == 1 && usable && pytestIDs(r) && r.EvalType != "fail_only" {
		return format{report: "pytest", file: junitFile},
			`export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-} -o junit_family=xunit1 --junitxml=` + junitFile + `"`
	}
	text, ok := report.ParityOf(parser, r.ID)
	if parser == "" || !ok {
		return format{}, ""
	}
	im.note(r.ID, "its report is the runner's text, by SWE-bench's parser "+parser+": its evidence is self-reported")
	return format{report: text}, ""
}

// pytestIDs reports whether the row's ids are pytest's own: FILE.py::NAME.
func pytestIDs(r *exchange.Row) bool {
	for _, id := range append(append([]string{}, r.FailToPass...), r.PassToPass...) {
		if file, _, ok := strings.Cut(id, "::"); !ok || !strings.HasSuffix(file, ".py") {
			return false
		}
	}
	return true
}

// prints are commands that only print the state of the work.
var prints = regexp.MustCompile(`^git( -c \S+)* (status|show|diff|log)( |$)`)

// takeApart parts a row's eval_script. With placed tests, the commands that
// check them out and patch them are left out, too.
func takeApart(script string, placed bool) (evalScript, error) {
	var e evalScript
	into, seen := &e.setup, false
	all := strings.Split(strings.ReplaceAll(script, "\r\n", "\n"), "\n")
	for i := 0; i < len(all); i++ {
		l := all[i]
		block := []string{l}
		if end := heredoc(l); end != "" {
			for i++; i < len(all) && all[i] != end; i++ {
				block = append(block, all[i])
			}
			if i == len(all) {
				return e, fmt.Errorf("eval_script: the here-document up to %q has no end", end)
			}
			block = append(block, end)
		}
		t := strings.TrimSpace(l)
		switch {
		case strings.Contains(l, startMark):
			into, seen = &e.tests, true
			continue
		case strings.Contains(l, endMark):
			if len(e.tests) == 0 {
				return e, errors.New("eval_script: no command between its marks")
			}
			return e, nil
		case strings.HasPrefix(t, "#!"), strings.HasPrefix(t, "set -uxo"), t == "", prints.MatchString(t):
			continue
		case placed && !seen && (strings.HasPrefix(t, "git checkout ") || strings.HasPrefix(t, "git apply ")):
			continue
		}
		*into = append(*into, block...)
	}
	return e, errors.New("eval_script: it has no start and end mark of the test output")
}

// heredoc is the word that ends the here-document which a line begins.
func heredoc(l string) string {
	m := regexp.MustCompile(`<<-?\s*['"]?([A-Za-z_][A-Za-z0-9_]*)['"]?`).FindStringSubmatch(l)
	if m == nil {
		return ""
	}
	return m[1]
}

// compose makes the script of a row that has none.
func (im Importer) compose(r *exchange.Row, env environment) (e evalScript, parser string, err error) {
	command := im.TestCommand
	k, ok := known[r.Repo]
	if command == "" {
		command = k.command
	}
	parser = r.LogParser
	if parser == "" && ok {
		parser = k.parser
	}
	if command == "" && pytestIDs(r) {
		command = "pytest -rA"
	}
	if command == "" {
		return e, "", errors.New("it has no eval_script, and the test command of its repository is not known: name one with --test-command")
	}
	setup := im.Setup
	if setup == "" {
		setup = condaSetup
	}
	e.setup = []string{setup}
	files := env.testFiles
	if len(files) == 0 {
		files = filesOf(r)
	}
	if !env.placed && r.TestPatch != "" {
		if old := env.oldTests; len(old) > 0 && r.BaseCommit != "" {
			e.setup = append(e.setup, "git checkout -q "+shellQuote(r.BaseCommit)+" -- "+quoteAll(old))
		}
		e.setup = append(e.setup, "git apply /tests/"+testPatchName+" || exit 97")
	}
	e.tests = []string{command + " " + quoteAll(directives(r.Repo, files))}
	return e, parser, nil
}

// filesOf are the files that the ids of a row name, where no test patch does.
func filesOf(r *exchange.Row) []string {
	var all []string
	for _, id := range append(append([]string{}, r.FailToPass...), r.PassToPass...) {
		if file, _, ok := strings.Cut(id, "::"); ok && !slices.Contains(all, file) {
			all = append(all, file)
		}
	}
	slices.Sort(all)
	return all
}

// directives are the test files as the repository's runner wants them named.
func directives(repo string, files []string) []string {
	var all []string
	for _, f := range files {
		switch {
		case slices.ContainsFunc([]string{".json", ".png", ".csv", ".txt", ".md", ".jpg", ".jpeg", ".pkl", ".yml", ".yaml", ".toml", ".rst", ".svg", ".cfg", ".ini", ".html", ".po", ".mo"}, func(ext string) bool { return strings.HasSuffix(f, ext) }):
			continue
		case repo == "django/django":
			f = strings.TrimSuffix(strings.TrimPrefix(f, "tests/"), ".py")
			f = strings.ReplaceAll(f, "/", ".")
		}
		all = append(all, f)
	}
	return all
}

func shellQuote(s string) string {
	if regexp.MustCompile(`^[A-Za-z0-9_./:@%+=,-]+$`).MatchString(s) && !strings.HasPrefix(s, "-") {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

func quoteAll(all []string) string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = shellQuote(s)
	}
	return strings.Join(out, " ")
}
