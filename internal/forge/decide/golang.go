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
	"assay/internal/sandbox"
)

// golang builds test binaries once for many changes of a package and runs only
// the tests that cover each, every run on a fresh tree.
type golang struct {
	d    *Decider
	c    *command
	sb   sandbox.Sandbox
	call goCall
	dir  string            // where go test is called
	dirs map[string]string // of each package
}

func takesGo(c *command) bool {
	return c.Build == "" && (c.Driver == "go" || c.Driver == "" && c.Report == report.GoTest)
}

const (
	goSaid = inside + "/said"
	goBins = "/tmp/.assay-decide-bins"
)

func newGo(ctx context.Context, d *Decider, c *command) (_ driver, err error) {
	g := &golang{d: d, c: c, dirs: map[string]string{}}
	if g.sb, err = d.box(ctx); err != nil {
		return nil, err
	}
	if err := g.learn(ctx); err != nil {
		g.close()
		return nil, err
	}
	// The healthy suite, as this driver runs it, has to pass.
	o, err := once(ctx, g, &request{tests: c.tests})
	if err == nil {
		if failed, _, _ := failures(&request{tests: c.tests}, o); o.broken != "" || o.timedOut || len(failed) > 0 {
			err = fmt.Errorf("%d of %d stable tests do not pass%s %s", len(failed), len(c.tests), example(failed), clip(o.broken, 500))
		}
	}
	if err != nil {
		g.close()
		return nil, err
	}
	return g, nil
}

func (g *golang) close() error { return g.sb.Close() }

// learn has the suite's own command say how it calls go test.
func (g *golang) learn(ctx context.Context) error {
	shim, err := programs.ReadFile("drivers/go_shim.sh")
	if err != nil {
		return err
	}
	if err := g.d.putAt(ctx, g.sb, inside+"/bin", map[string][]byte{"go": shim}); err != nil {
		return err
	}
	line := "chmod 755 " + inside + "/bin/go; " + exported(g.c.Run, `PATH="`+inside+`/bin:$PATH"`)
	if _, err := g.shell(ctx, line, startTime); err != nil {
		return err
	}
	var args string
	for _, f := range []string{"args", "dir"} {
		res, err := g.shell(ctx, "ls "+goSaid+" | wc -l; cat "+goSaid+"/0/"+f, startTime)
		if err != nil {
			return err
		}
		count, text, _ := strings.Cut(string(res.Stdout), "\n")
		if strings.TrimSpace(count) != "1" {
			return fmt.Errorf("the command calls go test %s times", strings.TrimSpace(count))
		}
		if f == "args" {
			args = text
		} else {
			g.dir = strings.TrimSuffix(text, "\n")
		}
	}
	if g.call, err = readGoArgs(strings.Split(strings.TrimSuffix(args, "\n"), "\n")); err != nil {
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

func (g *golang) shell(ctx context.Context, line string, limit time.Duration, vars ...string) (sandbox.ExecResult, error) {
	cmd := sandbox.Command{Args: []string{"/bin/sh", "-c", line}, Env: append(g.c.variables(), vars...), Dir: g.d.dir(g.c), User: g.c.User}
	return sandbox.Exec(ctx, g.sb, cmd, sandbox.ExecOptions{Timeout: max(limit, time.Second), Cap: maxReport})
}

// as is the head of a line that runs where and as the suite's go test did.
func (g *golang) as(dir string) string {
	return ". " + goSaid + "/0/env; cd " + shellQuote(dir) + " && "
}

func (g *golang) tool(ctx context.Context, limit time.Duration, args ...string) (sandbox.ExecResult, error) {
	line := g.as(g.dir) + "go"
	for _, a := range args {
		line += " " + shellQuote(a)
	}
	return g.shell(ctx, line, limit)
}

// run builds changes together as far as that goes, and the others alone.
func (g *golang) run(ctx context.Context, rs []*request, tell func(*request, outcome)) error {
	var variants []goVariant
	byNumber := map[int]*request{}
	var single []*request
	old := map[string][]byte{}
	for i, r := range rs {
		if unfit := g.unfit(r); unfit != "" {
			tell(r, outcome{broken: unfit})
			continue
		}
		v, err := goVariantOf(r.old, r.files)
		if err != nil || r.alone || len(rs) == 1 {
			single = append(single, r)
			continue
		}
		v.number = i + 1
		variants = append(variants, v)
		byNumber[v.number] = r
		old[v.file] = r.old[v.file]
	}
	for range 6 {
		if len(variants) < 2 {
			break
		}
		files, spans := goSchema(old, variants)
		for _, f := range slices.Collect(maps.Keys(files)) {
			text, err := goSwitch(old[f])
			if err != nil {
				return err
			}
			files[path.Join(path.Dir(f), "zz_assay_switch.go")] = text
		}
		var rest []goVariant
		out, err := g.together(ctx, files, byNumber, variants, tell)
		if err != nil {
			return err
		}
		if out == nil {
			variants = nil
			break
		}
		bad, alone := blamed(out, spans)
		for _, v := range variants {
			switch {
			case bad[v.number]:
				tell(byNumber[v.number], outcome{broken: "it does not build: " + clip(string(bytes.ToValidUTF8(out, nil)), 1000)})
			case alone[v.number]:
				single = append(single, byNumber[v.number])
			default:
				rest = append(rest, v)
			}
		}
		if len(rest) == len(variants) { // nobody is to blame
			break
		}
		variants = rest
	}
	for _, v := range variants {
		single = append(single, byNumber[v.number])
	}
	for _, r := range single {
		o, err := g.one(ctx, r)
		if err != nil {
			return err
		}
		tell(r, o)
	}
	return nil
}

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

// together builds all variants and runs each. It gives back what the compiler
// said when that failed, and empty output when the build is not to be trusted.
func (g *golang) together(ctx context.Context, files map[string][]byte, byNumber map[int]*request, variants []goVariant, tell func(*request, outcome)) (said []byte, err error) {
	release := g.d.turn(false)
	defer func() { release() }()
	if err := g.sb.Reset(ctx, ""); err != nil {
		return nil, err
	}
	if err := g.d.put(ctx, g.sb, files); err != nil {
		return nil, err
	}
	var tests []*test
	seen := map[*test]bool{}
	for _, v := range variants {
		for _, t := range byNumber[v.number].tests {
			if !seen[t] {
				seen[t] = true
				tests = append(tests, t)
			}
		}
	}
	limit := time.Duration(len(variants)) * g.d.limit(g.c) // of one build instead of many
	res, err := g.build(ctx, tests, limit, "-gcflags=-e")
	if err != nil || res.TimedOut {
		return []byte{}, err
	}
	if res.Exit.Code != 0 {
		return append(res.Stderr, res.Stdout...), nil
	}
	built, err := g.sb.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer g.d.drop(built)
	null := &request{tests: tests}
	o, err := g.test(ctx, null, g.d.limit(g.c), "")
	if err != nil {
		return nil, err
	}
	if failed, _, _ := failures(null, o); o.timedOut || len(failed) > 0 {
		return []byte{}, nil // the switch itself is seen by some test
	}
	for _, v := range variants {
		if err := g.sb.Reset(ctx, built); err != nil {
			return nil, err
		}
		release()
		r := byNumber[v.number]
		release = g.d.turn(r.alone)
		o, err := g.test(ctx, r, g.d.limit(g.c), fmt.Sprintf("%s=%d", switchVar, v.number))
		if err != nil {
			return nil, err
		}
		release()
		tell(r, o)
		release = g.d.turn(false)
	}
	return nil, g.sb.Reset(ctx, "")
}

// one builds one change alone.
func (g *golang) one(ctx context.Context, r *request) (o outcome, err error) {
	release := g.d.turn(r.alone)
	defer release()
	began := time.Now()
	if err := g.sb.Reset(ctx, ""); err != nil {
		return o, err
	}
	if len(r.files) > 0 {
		if err := g.d.put(ctx, g.sb, r.files); err != nil {
			return o, err
		}
	}
	limit := g.d.limit(g.c)
	res, err := g.build(ctx, r.tests, limit)
	if err != nil {
		return o, err
	}
	if res.TimedOut {
		return outcome{timedOut: true, took: time.Since(began)}, nil
	}
	if res.Exit.Code != 0 {
		return outcome{broken: "it does not build: " + ending(append(res.Stdout, res.Stderr...)), took: time.Since(began)}, nil
	}
	o, err = g.test(ctx, r, limit-time.Since(began), "")
	o.took = time.Since(began)
	return o, err
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
func (g *golang) build(ctx context.Context, tests []*test, limit time.Duration, more ...string) (res sandbox.ExecResult, err error) {
	args := append([]string{"test", "-c"}, g.call.build...)
	if !slices.ContainsFunc(g.call.build, func(f string) bool { return strings.HasPrefix(f, "-gcflags") }) {
		args = append(args, more...)
	}
	into := map[string][]string{}
	for _, p := range packagesOf(tests) {
		dir := path.Dir(g.binary(p))
		into[dir] = append(into[dir], p)
	}
	for _, dir := range slices.Sorted(maps.Keys(into)) {
		line := "mkdir -p " + dir + "; " + g.as(g.dir) + "go"
		for _, a := range slices.Concat(args, []string{"-o", dir + "/"}, into[dir]) {
			line += " " + shellQuote(a)
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
		line := g.as(dir) + "exec " + shellQuote(g.binary(p)) + " -test.paniconexit0 -test.timeout=0 -test.v=test2json -test.run=" +
			shellQuote("^("+strings.Join(names, "|")+")$")
		if r.stop {
			line += " -test.failfast"
		}
		for _, f := range g.call.run {
			line += " " + shellQuote(f)
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
