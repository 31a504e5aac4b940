package decide

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"time"

	"assay/internal/repo"
	"assay/internal/sandbox"
)

// batch decides changes of a compiled language: many bodies of functions in one
// build, and what cannot be done so alone. Every run is on a fresh tree.
type batch struct {
	d  *Decider
	c  *command
	sb sandbox.Sandbox // its Reset leads to the healthy tree
	by compiler
}

// compiler is what batch must know of a language.
type compiler interface {
	// unfit says why a change cannot be built; empty: it may.
	unfit(r *request) string
	// variant is a change as another body of one function.
	variant(old, files map[string][]byte) (goVariant, error)
	// schema are the files that hold all variants, and where these stand.
	schema(old map[string][]byte, variants []goVariant) (map[string][]byte, []goSpan, error)
	// build makes the programs of tests; many: of several variants.
	build(ctx context.Context, tests []*test, limit time.Duration, many bool) (sandbox.ExecResult, error)
	// errorLine finds a file and a line in what the compiler says.
	errorLine() *regexp.Regexp
	// test runs the programs that were built.
	test(ctx context.Context, r *request, limit time.Duration, vars ...string) (outcome, error)
}

func (g *batch) close() error { return g.sb.Close() }

func (g *batch) shell(ctx context.Context, line string, limit time.Duration, vars ...string) (sandbox.ExecResult, error) {
	cmd := sandbox.Command{Args: []string{"/bin/sh", "-c", line}, Env: append(g.c.variables(), vars...), Dir: g.d.dir(g.c), User: g.c.User}
	return sandbox.Exec(ctx, g.sb, cmd, sandbox.ExecOptions{Timeout: max(limit, time.Second), Cap: maxReport})
}

// said is where a program that stands before a compiler notes how it is called.
const said = inside + "/said"

// called has the suite's own command say how it calls a compiler, and where.
func (g *batch) called(ctx context.Context, name, file string) (args []string, dir string, err error) {
	shim, err := programs.ReadFile("drivers/" + file)
	if err != nil {
		return nil, "", err
	}
	if err := g.d.putAt(ctx, g.sb, inside+"/bin", map[string][]byte{name: shim}); err != nil {
		return nil, "", err
	}
	if _, err := g.shell(ctx, "chmod 755 "+inside+"/bin/"+name+"; chmod 777 "+inside, startTime); err != nil {
		return nil, "", err
	}
	if _, err := g.shell(ctx, exported(g.c.Run, `PATH="`+inside+`/bin:$PATH"`), startTime); err != nil {
		return nil, "", err
	}
	res, err := g.shell(ctx, "ls "+said+" | wc -l; cat "+said+"/0/dir "+said+"/0/args", startTime)
	if err != nil {
		return nil, "", err
	}
	lines := strings.Split(strings.TrimSuffix(string(res.Stdout), "\n"), "\n")
	if n := strings.TrimSpace(lines[0]); n != "1" || len(lines) < 3 {
		return nil, "", fmt.Errorf("the command calls %s's tests %s times", name, n)
	}
	return lines[2:], lines[1], nil
}

// masked finds how a suite's command gives up what root may do, or who it runs
// as: compiled tests are started so, too.
var masked = regexp.MustCompile(`\bsetpriv(\s+--[\w-]+(=\S+|\s+[-+]\S+|\s+\d+)?)+\s`)

// as is a line that runs a program where and as the suite's own command did.
func (g *batch) as(dir, program string) string {
	return ". " + said + "/0/env; cd " + repo.Quote(dir) + " && exec " + masked.FindString(g.c.Run) + program
}

// healthy fails where the suite, run as this driver does, does not give what it
// gives.
func (g *batch) healthy(ctx context.Context) error {
	r := &request{tests: g.c.tests}
	o, err := g.one(ctx, r)
	if err != nil {
		return err
	}
	if failed, _, _ := failures(r, o); o.broken != "" || o.timedOut || len(failed) > 0 {
		return fmt.Errorf("%d of %d stable tests do not pass%s %s", len(failed), len(g.c.tests), example(failed), clip(o.broken, 500))
	}
	return nil
}

// run builds changes together as far as that goes, and the others alone.
func (g *batch) run(ctx context.Context, rs []*request, tell func(*request, outcome)) error {
	var variants []goVariant
	byNumber := map[int]*request{}
	var single []*request
	old := map[string][]byte{}
	for i, r := range rs {
		if unfit := g.by.unfit(r); unfit != "" {
			tell(r, outcome{broken: unfit})
			continue
		}
		v, err := g.by.variant(r.old, r.files)
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
		files, spans, err := g.by.schema(old, variants)
		if err != nil {
			return err
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
		bad, alone := blamed(g.by.errorLine(), out, spans)
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

// together builds all variants and runs each. It gives back what the compiler
// said when that failed, and empty output when the build is not to be trusted.
func (g *batch) together(ctx context.Context, files map[string][]byte, byNumber map[int]*request, variants []goVariant, tell func(*request, outcome)) (said []byte, err error) {
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
	res, err := g.by.build(ctx, tests, limit, true)
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
	o, err := g.by.test(ctx, null, g.d.limit(g.c), "")
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
		o, err := g.by.test(ctx, r, g.d.limit(g.c), fmt.Sprintf("%s=%d", switchVar, v.number))
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
func (g *batch) one(ctx context.Context, r *request) (o outcome, err error) {
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
	res, err := g.by.build(ctx, r.tests, limit, false)
	if err != nil {
		return o, err
	}
	if res.TimedOut {
		return outcome{timedOut: true, took: time.Since(began)}, nil
	}
	if res.Exit.Code != 0 {
		return outcome{broken: "it does not build: " + ending(append(res.Stdout, res.Stderr...)), took: time.Since(began)}, nil
	}
	o, err = g.by.test(ctx, r, limit-time.Since(began), "")
	o.took = time.Since(began)
	return o, err
}
