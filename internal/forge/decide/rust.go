package decide

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/grade/report"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// cargo builds a crate's test programs once for many changes and starts them
// itself; documentation tests, which are compiled each time, come last and only
// for what all others let pass.
type cargo struct {
	*batch
	dir   string   // where cargo test is called
	flags []string // of it, without those of the tests
	built []program
}

// program is a test program: as reports call it, and where it lies.
type program struct{ name, path string }

func takesCargo(c *command) bool {
	return c.Build == "" && (c.Driver == "cargo" || c.Driver == "" && c.Report == "cargo-test")
}

func newCargo(ctx context.Context, d *Decider, c *command) (_ driver, err error) {
	g := &cargo{batch: &batch{d: d, c: c}}
	g.by = g
	if g.sb, err = d.box(ctx); err != nil {
		return nil, err
	}
	if err = g.learn(ctx); err == nil {
		err = g.healthy(ctx)
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *cargo) learn(ctx context.Context) error {
	args, dir, err := g.called(ctx, "cargo", "cargo_shim.sh")
	if err != nil {
		return err
	}
	g.dir = dir
	seen := false
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "--":
			return errors.New("it passes flags to its tests")
		case a == "test" && !seen:
			seen = true
		case a == "--no-fail-fast" || a == "-q" || a == "--quiet" || a == "-v" || a == "--verbose" || strings.HasPrefix(a, "--message-format"):
		case a == "--doc" || a == "--workspace" || a == "--all" || a == "-p":
			return fmt.Errorf("it uses %s", a)
		default:
			g.flags = append(g.flags, a)
		}
	}
	g.sb, err = g.d.kept(ctx, g.sb)
	return err
}

func (g *cargo) unfit(*request) string { return "" }

func (g *cargo) variant(old, files map[string][]byte) (goVariant, error) {
	return rustVariantOf(old, files)
}

func (g *cargo) schema(old map[string][]byte, variants []goVariant) (map[string][]byte, []goSpan, error) {
	files, spans := rustSchema(old, variants)
	return files, spans, nil
}

var (
	rustErrorLine  = regexp.MustCompile(`(?m)^([^\s:]+\.rs):(\d+):\d+: error`)
	rustExecutable = regexp.MustCompile(`(?m)^ +Executable (?:unittests )?(.+) \((.*?)([^/()]+?)(-[0-9a-f]{16})\)$`)
)

func (g *cargo) errorLine() *regexp.Regexp { return rustErrorLine }

func (g *cargo) line(words ...string) string {
	line := g.as(g.dir, "cargo") + " test"
	for _, f := range slices.Concat(g.flags, words) {
		line += " " + repo.Quote(f)
	}
	return line
}

func (g *cargo) build(ctx context.Context, _ []*test, limit time.Duration, _ bool) (res sandbox.ExecResult, err error) {
	if res, err = g.shell(ctx, g.line("--no-run", "--message-format=short"), limit); err != nil || res.TimedOut || res.Exit.Code != 0 {
		return res, err
	}
	g.built = nil
	for _, m := range rustExecutable.FindAllSubmatch(res.Stderr, -1) {
		g.built = append(g.built, program{string(m[1]) + "[" + string(m[3]) + "]", string(m[2]) + string(m[3]) + string(m[4])})
	}
	return res, nil
}

// test runs the programs, and then the documentation's tests.
func (g *cargo) test(ctx context.Context, r *request, limit time.Duration, vars ...string) (o outcome, err error) {
	began := time.Now()
	o.status = map[string]report.Status{}
	defer func() { o.took = time.Since(began) }()
	names := map[string][]string{}
	for _, t := range r.tests {
		if p, name, ok := strings.Cut(t.ID, "] "); ok {
			names[p+"]"] = append(names[p+"]"], name)
		}
	}
	vars = append(vars, "CARGO_MANIFEST_DIR="+g.dir)
	for _, p := range g.built {
		if len(names[p.name]) == 0 {
			continue
		}
		line := g.as(g.dir, repo.Quote(p.path)) + " --exact"
		for _, n := range names[p.name] {
			line += " " + repo.Quote(n)
		}
		res, err := g.shell(ctx, line, limit-time.Since(began), vars...)
		if err != nil {
			return o, err
		}
		g.read(p.name, res, &o)
		if o.timedOut = res.TimedOut; o.timedOut || r.stop && res.Exit.Code != 0 {
			return o, nil
		}
	}
	for p, list := range names {
		if !strings.HasPrefix(p, "doc[") || len(list) == 0 {
			continue
		}
		res, err := g.shell(ctx, g.line("--no-fail-fast", "--doc"), limit-time.Since(began), vars...)
		if err != nil {
			return o, err
		}
		var docs outcome
		docs.status = map[string]report.Status{}
		g.read(p, res, &docs)
		o.timedOut = res.TimedOut
		g.documented(p, docs, &o)
	}
	return o, nil
}

var (
	rustResult = regexp.MustCompile(`^test (.+?)(?: - should panic| - compile fail| - compile)? \.\.\. (ok|FAILED|ignored)`)
	rustLine   = regexp.MustCompile(` \(line (\d+)\)$`)
)

// read takes what a test program prints.
func (g *cargo) read(p string, res sandbox.ExecResult, o *outcome) {
	sc := bufio.NewScanner(bytes.NewReader(res.Stdout))
	sc.Buffer(nil, maxReport)
	ended := false
	for sc.Scan() {
		line := sc.Text()
		if m := rustResult.FindStringSubmatch(line); m != nil {
			o.status[p+" "+m[1]] = map[string]report.Status{"ok": report.Passed, "FAILED": report.Failed, "ignored": report.Skipped}[m[2]]
		}
		ended = ended || strings.HasPrefix(line, "test result: ")
	}
	if res.Exit.Code != 0 && o.output == "" {
		o.output = failuresOf(res.Stdout)
	}
	if !res.TimedOut && !ended {
		o.crashed = fmt.Sprintf("%s ended with %d", p, res.Exit.Code)
	}
}

func failuresOf(out []byte) string {
	if _, rest, ok := bytes.Cut(out, []byte("\nfailures:\n")); ok {
		out = rest
	}
	return clip(strings.TrimSpace(string(bytes.ToValidUTF8(out, nil))), maxOutput)
}

// documented gives results of documentation tests the healthy tree's names:
// they hold line numbers, which other bodies have moved.
func (g *cargo) documented(p string, docs outcome, o *outcome) {
	type at struct {
		name string
		line int
		id   string
	}
	split := func(id string) at {
		a := at{name: id, id: id}
		if m := rustLine.FindStringSubmatchIndex(id); m != nil {
			a.name = id[:m[0]]
			a.line, _ = strconv.Atoi(id[m[2]:m[3]]) // digits
		}
		return a
	}
	sorted := func(list []at) []at {
		slices.SortFunc(list, func(a, b at) int { return cmp.Or(strings.Compare(a.name, b.name), a.line-b.line) })
		return list
	}
	var old, now []at
	for _, t := range g.c.tests {
		if strings.HasPrefix(t.ID, p+" ") {
			old = append(old, split(t.ID))
		}
	}
	for id := range docs.status {
		now = append(now, split(id))
	}
	old, now = sorted(old), sorted(now)
	for i, k := 0, 0; i < len(old) && k < len(now); {
		switch c := strings.Compare(old[i].name, now[k].name); {
		case c < 0:
			i++
		case c > 0:
			k++
		default:
			o.status[old[i].id] = docs.status[now[k].id]
			i, k = i+1, k+1
		}
	}
	if docs.crashed != "" {
		o.crashed = docs.crashed
	}
	if o.output == "" {
		o.output = docs.output
	}
}
