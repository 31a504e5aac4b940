package decide

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// golang builds test binaries once for many changes of a package and runs only
// the tests that cover each, every run on a fresh tree.
type golang struct {
	*batch
	call goCall
	dir  string            // where go test is called
	dirs map[string]string // of each package
}

func takesGo(c *command) bool {
	return c.Build == "" && (c.Driver == "go" || c.Driver == "" && c.Report == report.GoTest)
}

const goBins = "/tmp/.assay-decide-bins"

func newGo(ctx context.Context, d *Decider, c *command) (_ driver, err error) {
	g := &golang{batch: &batch{d: d, c: c}, dirs: map[string]string{}}
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

// learn has the suite's own command say how it calls go test.
func (g *golang) learn(ctx context.Context) error {
	args, dir, err := g.called(ctx, "go", "go_shim.sh")
	if err != nil {
		return err
	}
	g.dir = dir
	if g.call, err = readGoArgs(args); err != nil {
		return err
	}
	if !slices.ContainsFunc(g.call.build, func(f string) bool { return strings.HasPrefix(f, "-ldflags") }) {
		g.call.build = append(g.call.build, "-ldflags=-s -w") // no debugger looks at these
	}
	res, err := g.tool(ctx, startTime, append(append([]string{"list"}, g.call.build...), append([]string{"-f", "{{.ImportPath}} {{.Dir}}"}, g.call.packages...)...)...)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(res.Stdout)) {
		if p, dir, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			g.dirs[p] = dir
		}
	}
	if len(g.dirs) == 0 {
		return fmt.Errorf("go list names no package: %s", ending(res.Stderr))
	}
	g.sb, err = g.d.kept(ctx, g.sb) // what it said is part of the tree that every run begins with
	return err
}

func (g *golang) tool(ctx context.Context, limit time.Duration, args ...string) (sandbox.ExecResult, error) {
	line := g.as(g.dir, "go")
	for _, a := range args {
		line += " " + repo.Quote(a)
	}
	return g.shell(ctx, line, limit)
}

func (g *golang) variant(old, files map[string][]byte) (goVariant, error) {
	return goVariantOf(old, files)
}

func (g *golang) schema(old map[string][]byte, variants []goVariant) (map[string][]byte, []goSpan, error) {
	files, spans := goSchema(old, variants)
	for _, f := range slices.Collect(maps.Keys(files)) {
		text, err := goSwitch(old[f])
		if err != nil {
			return nil, nil, err
		}
		files[path.Join(path.Dir(f), "zz_assay_switch.go")] = text
	}
	return files, spans, nil
}

func (g *golang) errorLine() *regexp.Regexp { return goErrorLine }

func (g *golang) unfit(r *request) string {
	for f, now := range r.files {
		if was, ok := r.old[f]; ok && path.Ext(f) == ".go" {
			if why := goUnfit(was, now); why != "" {
				return f + ": " + why
			}
		}
	}
	return ""
}

// packagesOf are the packages of tests, in their order.
func packagesOf(tests []*test) (out []string) {
	for _, t := range tests {
		if p, _, ok := strings.Cut(t.ID, "::"); ok && !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out
}

// build makes the test binaries of the packages that tests are of.
func (g *golang) build(ctx context.Context, tests []*test, limit time.Duration, many bool) (res sandbox.ExecResult, err error) {
	args := append([]string{"test", "-c"}, g.call.build...)
	if many && !slices.ContainsFunc(g.call.build, func(f string) bool { return strings.HasPrefix(f, "-gcflags") }) {
		args = append(args, "-gcflags=-e") // all errors, not the first ten
	}
	into := map[string][]string{}
	for _, p := range packagesOf(tests) {
		dir := path.Dir(g.binary(p))
		into[dir] = append(into[dir], p)
	}
	for _, dir := range slices.Sorted(maps.Keys(into)) {
		line := "mkdir -p " + dir + "; " + g.as(g.dir, "go")
		for _, a := range slices.Concat(args, []string{"-o", dir + "/"}, into[dir]) {
			line += " " + repo.Quote(a)
		}
		if res, err = g.shell(ctx, line, limit); err != nil || res.TimedOut || res.Exit.Code != 0 {
			return res, err
		}
	}
	return res, nil
}

// binary is where a package's tests are built; those of packages of one name
// lie in different folders.
func (g *golang) binary(p string) string {
	n := 0
	for q := range g.dirs {
		if q < p && path.Base(q) == path.Base(p) {
			n++
		}
	}
	return fmt.Sprintf("%s/%d/%s.test", goBins, n, path.Base(p))
}

// test runs the binaries of r's tests, one after the other.
func (g *golang) test(ctx context.Context, r *request, limit time.Duration, vars ...string) (o outcome, err error) {
	began := time.Now()
	o.status = map[string]report.Status{}
	defer func() { o.took = time.Since(began) }()
	for _, p := range g.lastFirst(packagesOf(r.tests), r.last) {
		dir, ok := g.dirs[p]
		if !ok {
			continue
		}
		var names []string
		for _, t := range r.tests {
			if q, name, _ := strings.Cut(t.ID, "::"); q == p {
				top, _, _ := strings.Cut(name, "/")
				if top = regexp.QuoteMeta(top); !slices.Contains(names, top) {
					names = append(names, top)
				}
			}
		}
		line := g.as(dir, repo.Quote(g.binary(p))) + " -test.paniconexit0 -test.timeout=0 -test.v=test2json -test.run=" +
			repo.Quote("^("+strings.Join(names, "|")+")$")
		if r.stop {
			line += " -test.failfast"
		}
		for _, f := range g.call.run {
			line += " " + repo.Quote(f)
		}
		res, err := g.shell(ctx, line, limit-time.Since(began), vars...)
		if err != nil {
			return o, err
		}
		g.read(p, res, &o)
		if o.timedOut = res.TimedOut; o.timedOut {
			break
		}
		if r.stop && (res.Exit.Code != 0) {
			break
		}
	}
	return o, nil
}

// lastFirst puts the package of a test that hung behind the others.
func (g *golang) lastFirst(packages []string, last string) []string {
	if p, _, ok := strings.Cut(last, "::"); ok {
		if i := slices.Index(packages, p); i >= 0 {
			packages = append(slices.Delete(packages, i, i+1), p)
		}
	}
	return packages
}

var goResult = regexp.MustCompile(`^\s*\x16?--- (PASS|FAIL|SKIP): (.+) \(\d+\.\d+s\)$`)

// read takes what a test binary prints.
func (g *golang) read(p string, res sandbox.ExecResult, o *outcome) {
	open := []string{}
	failed := false
	sc := bufio.NewScanner(bytes.NewReader(res.Stdout))
	sc.Buffer(nil, maxReport)
	var last []string
	for sc.Scan() {
		line := sc.Text()
		if name, ok := strings.CutPrefix(strings.TrimPrefix(line, "\x16"), "=== RUN   "); ok {
			open = append(open, name)
			continue
		}
		m := goResult.FindStringSubmatch(line)
		if m == nil {
			if last = append(last, line); len(last) > 60 {
				last = last[30:]
			}
			continue
		}
		id := p + "::" + m[2]
		o.status[id] = map[string]report.Status{"PASS": report.Passed, "FAIL": report.Failed, "SKIP": report.Skipped}[m[1]]
		open = slices.DeleteFunc(open, func(n string) bool { return n == m[2] })
		if m[1] == "FAIL" && !failed {
			failed = true
			if o.output == "" {
				o.output = strings.Join(last, "\n")
			}
		}
		if !failed {
			last = nil
		}
	}
	if len(open) > 0 {
		o.running = p + "::" + open[0]
	}
	if !res.TimedOut && len(open) > 0 {
		o.crashed = fmt.Sprintf("the test binary ended with %d", res.Exit.Code)
		for _, n := range open {
			o.status[p+"::"+n] = report.Errored
		}
		if o.output == "" {
			o.output = ending(res.Stderr)
		}
	}
}
