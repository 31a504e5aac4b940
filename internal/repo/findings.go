package repo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
	"assay/internal/sandbox"
)

// judgeRun says what is wrong with one run as a whole.
func (r *suiteRun) judgeRun(c Command, x result) {
	f := Finding{Command: c.Name}
	builds := 0
	if x.report != nil {
		for _, t := range x.report.Tests {
			if t.Kind == report.KindBuild {
				builds++
				f.Tests = append(f.Tests, t.ID)
			}
		}
	}
	switch {
	case x.memory:
		f.Kind, f.Detail, f.Remedy = OutOfMemory, "the run was short of memory", "give sandboxes more memory, or run a part of the suite"
	case x.report == nil && x.exit == 127:
		f.Kind, f.Detail, f.Remedy = NoReport, "a program of the command is not there: "+last(x), "name the command (--test), or install what it needs"
	case strings.HasPrefix(string(c.Report), "pytest") && x.exit == 3:
		f.Kind, f.Detail, f.Remedy = Crash, "pytest ended with an internal error: "+last(x), "an older pytest or plug-in often cures it: pin it by the project's date"
	case x.report == nil:
		f.Kind, f.Detail, f.Remedy = NoReport, x.bad+": "+last(x), "run the command in the image (assay sandbox shell) and see"
	case x.report.Void() != "":
		f.Kind, f.Detail, f.Remedy = VoidReport, "the report cannot be trusted: "+x.report.Void(), "leave out what makes it so (coverage gates, linters, output among the results)"
	case builds > 0 && (len(x.passed()) == 0 || x.exit == 2):
		f.Kind, f.Detail = Collection, fmt.Sprintf("%d files or packages did not load: %s", builds, firstMessage(x.report))
		f.Remedy = "a dependency is missing, or is newer than the project: add or pin it"
	case len(x.report.Tests) == 0:
		f.Kind, f.Detail, f.Remedy = NoTests, fmt.Sprintf("the runner found no test (exit status %d)", x.exit), "name the command that runs the tests (--test), or the part that has some (--subdir)"
	case builds > 0:
		f.Kind, f.Detail, f.Remedy = Collection, fmt.Sprintf("%d files or packages did not load: %s", builds, firstMessage(x.report)), "their tests decide nothing until what they need is there"
	default:
		return
	}
	r.find(f)
}

// last is the last line that a run printed.
func last(x result) string {
	ls := strings.Split(strings.TrimSpace(x.tail), "\n")
	return clip(oneLine(ls[len(ls)-1]))
}

func firstMessage(rep *report.Report) string {
	for _, t := range rep.Tests {
		if t.Kind == report.KindBuild && t.Message != "" {
			ls := strings.Split(strings.TrimSpace(t.Message), "\n")
			return clip(oneLine(t.ID + ": " + ls[len(ls)-1]))
		}
	}
	return "see what was printed"
}

func clip(s string) string {
	if len(s) > 300 {
		s = strings.ToValidUTF8(s[:300], "") + "…"
	}
	return s
}

// unfinished reads as much of a report as there is: tests that ended, and the
// one that was running.
func unfinished(f report.Format, sources []report.Source) (ended []report.Test, running string) {
	open := map[string]bool{}
	var begun []string
	var line struct {
		Start, End      *string
		Status          report.Status
		Took            float64
		Action          string
		Package, Test   string
		Elapsed         float64
		Plan            json.RawMessage // their kinds do not matter here
		Result, Message json.RawMessage
	}
	for _, s := range sources {
		sc := bufio.NewScanner(bytes.NewReader(s.Data))
		sc.Buffer(nil, 2<<20)
		for sc.Scan() && len(ended) < report.MaxTests {
			v := line
			if json.Unmarshal(sc.Bytes(), &v) != nil {
				continue
			}
			switch id := v.Package + "::" + v.Test; {
			case v.Start != nil:
				open[*v.Start] = true
				begun = append(begun, *v.Start)
			case v.End != nil:
				delete(open, *v.End)
				ended = append(ended, report.Test{ID: *v.End, Status: v.Status, Took: time.Duration(v.Took * float64(time.Second))})
			case f == "go-test" && v.Action == "run":
				open[id] = true
				begun = append(begun, id)
			case f == "go-test" && v.Test != "" && (v.Action == "pass" || v.Action == "fail" || v.Action == "skip"):
				delete(open, id)
				ended = append(ended, report.Test{ID: id, Took: time.Duration(v.Elapsed * float64(time.Second))})
			}
		}
	}
	for _, id := range slices.Backward(begun) {
		if open[id] {
			return ended, id
		}
	}
	return ended, ""
}

// fileOf is the file that a test's id names, relative to the working directory.
func fileOf(c Command, id string) string {
	file := ""
	switch c.Report {
	case "pytest", "pytest-log":
		file, _, _ = strings.Cut(id, "::")
	case "jest", "vitest", "mocha", "mocha-log", "node-test":
		file, _, _ = strings.Cut(id, " > ")
	case "cargo-test":
		if strings.HasPrefix(id, "doc[") {
			_, rest, _ := strings.Cut(id, "] ")
			file, _, _ = strings.Cut(rest, " - ")
		} else {
			file, _, _ = strings.Cut(id, "[")
		}
	}
	file = path.Join(c.Dir, file)
	if !local(file) || path.Ext(file) == "" {
		return ""
	}
	return file
}

// locate finds the files of tests and the patterns of test files.
func (r *suiteRun) locate(ctx context.Context) error {
	sb, err := r.fork(ctx, trial{}, nil)
	if err != nil {
		return err
	}
	defer sb.Close()
	res, err := r.shell(ctx, sb, `find . \( -name .git -o -name node_modules -o -name target -o -name .venv -o -name vendor \) -prune -o -type f -print 2>/dev/null | head -n 100000`, "", nil, time.Minute)
	if err != nil {
		return err
	}
	there := map[string]bool{}
	classes := map[string]string{} // of Java and Kotlin, by their full names' paths
	for f := range strings.SplitSeq(string(res.Stdout), "\n") {
		f = strings.TrimPrefix(f, "./")
		if there[f] = true; f != "" {
			r.files = append(r.files, f)
		}
		if ext := path.Ext(f); ext == ".java" || ext == ".kt" {
			if _, rest, ok := strings.Cut(f, "/java/"); ok {
				classes[strings.TrimSuffix(rest, ext)] = f
			}
		}
	}
	funcs, err := r.goFuncs(ctx, sb)
	if err != nil {
		return err
	}
	format := map[string]Command{}
	for _, c := range r.c.Commands {
		format[c.Name] = c
	}
	for i := range r.suite.Tests {
		t := &r.suite.Tests[i]
		c := format[t.Command]
		switch c.Report {
		case "junit":
			class, _, _ := strings.Cut(t.ID, "::")
			class, _, _ = strings.Cut(class, "$")
			t.File = classes[strings.ReplaceAll(class, ".", "/")]
		case "go-test":
			pkg, name, _ := strings.Cut(t.ID, "::")
			name, _, _ = strings.Cut(name, "/")
			t.File = funcs[pkg+"::"+name]
		default:
			if f := fileOf(c, t.ID); there[f] {
				t.File = f
			}
		}
	}
	r.suite.TestFiles = testFiles(r.c.Commands, r.suite.Tests, there)
	return nil
}

var goFunc = regexp.MustCompile(`^(?:\./)?(.+_test\.go):func ((?:Test|Example|Fuzz)\w*)\(`)

// goFuncs finds the files of Go's test functions, by "IMPORT/PATH::NAME".
func (r *suiteRun) goFuncs(ctx context.Context, sb sandbox.Sandbox) (map[string]string, error) {
	out := map[string]string{}
	for _, c := range r.c.Commands {
		if c.Report != "go-test" {
			continue
		}
		res, err := r.shell(ctx, sb, `. /etc/profile; go list -e -f '{{.ImportPath}}	{{.Dir}}' ./...; echo; grep -rnHE --include='*_test.go' -o '^func (Test|Example|Fuzz)[A-Za-z0-9_]*\(' . | sed 's/:[0-9]*:/:/'`, c.Dir, r.c.Env, 2*time.Minute)
		if err != nil {
			return nil, err
		}
		packages := map[string]string{} // by directory
		for line := range strings.SplitSeq(string(res.Stdout), "\n") {
			if pkg, dir, ok := strings.Cut(line, "\t"); ok {
				packages[dir] = pkg
				continue
			}
			m := goFunc.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			file := path.Join(r.c.Workdir, c.Dir, m[1])
			if pkg := packages[path.Dir(file)]; pkg != "" {
				out[pkg+"::"+m[2]] = strings.TrimPrefix(file, r.c.Workdir+"/")
			}
		}
	}
	return out, nil
}

// testFiles are patterns of what belongs to the tests: the files that tests
// are in, the directories that are known for tests, and the runner's
// configuration.
func testFiles(commands []Command, tests []Test, there map[string]bool) []string {
	set := map[string]bool{}
	dirs := regexp.MustCompile(`^(.*/)?(tests?|__tests__|testdata|spec|specs|src/test|t)/`)
	names := regexp.MustCompile(`(^|/)(test_[^/]*\.py|[^/]*_test\.(py|go)|conftest\.py|[^/]*[._-](test|spec)\.[cm]?[jt]sx?|test\.[cm]?[jt]s)$`)
	config := regexp.MustCompile(`^(pytest\.ini|tox\.ini|setup\.cfg|pyproject\.toml|package\.json|jest\.config\.[a-z]+|vitest\.config\.[a-z]+|\.mocharc\.[a-z]+|\.taprc|go\.mod|Cargo\.toml|pom\.xml|CMakeLists\.txt)$`)
	for f := range there {
		switch {
		case dirs.MatchString(f):
			set[dirs.FindString(f)+"**"] = true
		case names.MatchString(f), config.MatchString(f):
			set[f] = true
		}
	}
	for _, f := range (&Suite{Commands: commands, Tests: tests}).ownFiles() {
		if !dirs.MatchString(f) {
			set[f] = true
		}
	}
	var out []string
	for p := range set {
		out = append(out, p)
	}
	slices.Sort(out)
	return out
}
