package repo

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/sandbox"
)

//go:embed helpers/assay_cover.cjs
var helperNode []byte

// coverNode runs each test file by itself, with V8's own coverage: what a file's
// tests run, children included, is told apart; tests of one file are not.
func (r *suiteRun) coverNode(ctx context.Context, c Command, limit time.Duration) (*covered, error) {
	end := time.Now().Add(limit)
	files := r.filesOf(c)
	t := trial{seed: r.c.Seed, limit: limit}
	sb, err := r.fork(ctx, t, map[string][]byte{coverDir[1:] + "/assay_cover.cjs": helperNode})
	if err != nil {
		return nil, err
	}
	defer sb.Close()
	ids := map[string]string{} // of a stream that names no files: where they come from
	done := 0
	for _, f := range files {
		left := time.Until(end)
		if left <= 0 {
			r.find(Finding{Kind: Partial, Command: c.Name, Count: len(files) - done, Detail: fmt.Sprintf("what the tests of %d of %d files cover is not known: the budget is used up", len(files)-done, len(files)), Remedy: "give a larger budget"})
			break
		}
		done++
		if err := r.coverFile(ctx, sb, c, f, min(left, 5*time.Minute), ids); err != nil {
			return nil, err
		}
	}
	for i := range r.suite.Tests {
		if x := &r.suite.Tests[i]; x.Command == c.Name && ids[x.ID] != "" {
			x.File = ids[x.ID]
		}
	}
	cover := c
	cover.Files = []string{coverLog + ".*"}
	found, err := r.records(ctx, sb, cover)
	if found != nil && !plainNode(c) {
		found.static, found.lines = map[string][]Range{}, false
	}
	return found, err
}

// plainNode reports whether the runner lets Node load files as they are.
func plainNode(c Command) bool {
	return c.Report != "jest" && c.Report != "vitest" && !regexp.MustCompile(`ts-node|tsx|@babel/register|esbuild|sucrase|swc|nyc`).MatchString(c.Run)
}

// coverFile runs one test file; ids gets the tests of a runner that names no files.
func (r *suiteRun) coverFile(ctx context.Context, sb sandbox.Sandbox, c Command, file string, limit time.Duration, ids map[string]string) error {
	one := Test{ID: file, Command: c.Name, File: strings.TrimPrefix(file, strings.TrimSuffix(c.Dir, "/")+"/")}
	if c.Dir == "" {
		one.File = file
	}
	line, ok := selectFile(c, one)
	if !ok {
		return nil
	}
	lines := "1"
	if !plainNode(c) {
		lines = "0"
	}
	env := append(slices.Clone(r.c.Env), "ASSAY_COVER="+coverLog, "ASSAY_COVER_ROOT="+r.c.Workdir, "ASSAY_COVER_FILE="+file, "ASSAY_COVER_LINES="+lines,
		"NODE_OPTIONS="+r.with("NODE_OPTIONS", " ", "--require "+path.Join(coverDir, "assay_cover.cjs")))
	run := c
	if c.Report != "tap" || len(c.Files) > 0 {
		run.Report, run.Files = "", nil
	}
	res, err := r.inside(ctx, sb, run, trial{line: line, limit: limit}, env)
	if err != nil || run.Report == "" || res.report == nil {
		return err
	}
	for _, t := range res.report.Tests {
		if was, twice := ids[t.ID]; twice && was != file {
			ids[t.ID] = "" // of several files
			continue
		}
		ids[t.ID] = file
	}
	return nil
}

// selectFile is the line that runs one file with all of its tests.
func selectFile(c Command, one Test) (string, bool) {
	if !strings.Contains(c.Select, "{files}") {
		return "", false
	}
	for _, words := range []string{" -t {pattern}", " --grep {pattern}"} {
		c.Select = strings.ReplaceAll(c.Select, words, "")
	}
	if c.Report == "mocha-log" {
		// Its arguments are files and directories too, which it would run beside.
		c.Select = withoutPaths(c.Select)
	}
	c.Report = "tap" // nothing but the file counts
	return Select(c, []Test{one})
}

// withoutPaths takes words out of mocha's line that name tests and not options.
func withoutPaths(line string) string {
	words := strings.Fields(line)
	out := words[:0]
	program := false
	for i, w := range words {
		name := strings.Trim(w, `'"`)
		value := i > 0 && strings.HasPrefix(words[i-1], "--") && !strings.Contains(words[i-1], "=") && slices.Contains(valued(), words[i-1])
		if program && !strings.HasPrefix(w, "-") && !value && w != "{files}" && (strings.HasSuffix(name, "/") || strings.ContainsAny(name, "*") || regexp.MustCompile(`\.[cm]?[jt]sx?$`).MatchString(name) || name == "test" || name == "tests" || name == "spec") {
			continue
		}
		program = program || strings.Contains(w, "mocha")
		out = append(out, w)
	}
	return strings.Join(out, " ")
}

// valued are mocha's options whose value is a path of its own.
func valued() []string {
	return []string{"--require", "-r", "--reporter", "--reporter-option", "--reporter-options", "--file", "--config", "--extension", "--ui", "--loader", "--import", "--package", "--timeout"}
}

// filesOf are the test files of a command: those of its tests, and for a runner
// that names none, those that its line names.
func (r *suiteRun) filesOf(c Command) []string {
	var out []string
	for _, t := range r.suite.Tests {
		if t.Command == c.Name && t.File != "" && !slices.Contains(out, t.File) {
			out = append(out, t.File)
		}
	}
	if c.Report != report.Format("tap") {
		slices.Sort(out)
		return out
	}
	for _, w := range strings.Fields(c.Run) {
		w = strings.TrimPrefix(strings.Trim(w, `'"`), "./")
		if !regexp.MustCompile(`\.[cm]?[jt]sx?$`).MatchString(w) {
			continue
		}
		for _, f := range r.files {
			if checks.Matches(w, path.Join("/", c.Dir), "/"+f) && !slices.Contains(out, f) {
				out = append(out, f)
			}
		}
	}
	slices.Sort(out)
	return out
}
