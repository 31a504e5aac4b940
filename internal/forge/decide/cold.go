package decide

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/internal/sandbox"
)

// cold runs the suite's own command, each time on a fresh healthy tree: for
// what no other driver knows, and as the measure of the others.
type cold struct {
	d  *Decider
	c  *command
	sb sandbox.Sandbox
}

func newCold(ctx context.Context, d *Decider, c *command) (driver, error) {
	sb, err := d.box(ctx)
	if err != nil {
		return nil, err
	}
	if sb, err = d.kept(ctx, sb); err != nil {
		sb.Close()
		return nil, err
	}
	return &cold{d, c, sb}, nil
}

func (k *cold) close() error { return k.sb.Close() }

func (k *cold) run(ctx context.Context, rs []*request, tell func(*request, outcome)) error {
	for _, r := range rs {
		release := k.d.turn(r.alone)
		o, err := k.one(ctx, r)
		release()
		if err != nil {
			return err
		}
		tell(r, o)
	}
	return nil
}

const maxReport = 16 << 20 // bytes of what a command prints or leaves

func (k *cold) one(ctx context.Context, r *request) (o outcome, err error) {
	began := time.Now()
	defer func() { o.took = time.Since(began) }()
	if err := k.sb.Reset(ctx, ""); err != nil {
		return o, err
	}
	if len(r.files) > 0 {
		if err := k.d.put(ctx, k.sb, r.files); err != nil {
			return o, err
		}
	}
	limit := k.d.limit(k.c)
	if k.c.Build != "" {
		res, err := k.shell(ctx, k.c.Build, limit)
		if err != nil {
			return o, err
		}
		if o.timedOut = res.TimedOut; o.timedOut {
			return o, nil
		}
		if res.Exit.Code != 0 {
			o.broken = "the build failed: " + ending(append(res.Stdout, res.Stderr...))
			return o, nil
		}
	}
	if len(k.c.Files) > 0 { // none that lay there already
		var line strings.Builder
		for _, p := range k.c.Files {
			top, _ := k.pattern(p)
			fmt.Fprintf(&line, "find %s -type f -name %s -delete 2>/dev/null; ", repo.Quote(top), repo.Quote(path.Base(p)))
		}
		if _, err := k.shell(ctx, line.String(), limit); err != nil {
			return o, err
		}
	}
	run := k.c.Run
	if len(r.tests) < len(k.c.tests) {
		run = k.chosen(r.tests)
	}
	if r.stop {
		run = k.c.stopping(run)
	}
	res, err := k.shell(ctx, run, limit-time.Since(began))
	if err != nil {
		return o, err
	}
	o.timedOut = res.TimedOut
	k.read(ctx, res, &o)
	return o, ctx.Err()
}

func (k *cold) shell(ctx context.Context, line string, limit time.Duration) (sandbox.ExecResult, error) {
	cmd := sandbox.Command{Args: []string{"/bin/sh", "-c", line}, Env: k.c.variables(), Dir: k.d.dir(k.c), User: k.c.User}
	return sandbox.Exec(ctx, k.sb, cmd, sandbox.ExecOptions{Timeout: max(limit, time.Second), Cap: maxReport})
}

// read takes the report of a run.
func (k *cold) read(ctx context.Context, res sandbox.ExecResult, o *outcome) {
	sources := []report.Source{{Name: "stdout", Data: res.Stdout, Cut: res.Dropped > 0, Root: string(k.d.dir(k.c))}}
	if rd, err := report.ReaderOf(k.c.Report); err == nil && !rd.Stream {
		sources, err = k.files(ctx)
		if err != nil {
			o.crashed = err.Error()
			return
		}
	}
	rep, err := report.Read(k.c.Report, sources, res.Exit.Code)
	if err != nil {
		said := ending(append(res.Stdout, res.Stderr...))
		switch {
		case o.timedOut:
		case k.c.Build != "" || res.Exit.Code >= 128 || res.Exit.Code == 0 || takesPytest(k.c) || bytes.Contains(res.Stdout, []byte(forkDied)): // it began, and what it ran ended it
			o.crashed, o.output = err.Error(), said
		default:
			o.broken = err.Error() + "\n" + said
		}
		return
	}
	o.status = map[string]report.Status{}
	for _, t := range rep.Tests {
		if o.timedOut && t.Status != report.Failed && t.Status != report.Passed {
			continue // cut off, not failed
		}
		o.status[t.ID] = t.Status
		if t.Status != report.Passed && o.output == "" && k.c.byID[t.ID] != nil {
			o.output = t.Message
		}
	}
}

// files fetches the report's.
func (k *cold) files(ctx context.Context) (out []report.Source, err error) {
	for _, p := range k.c.Files {
		top, want := k.pattern(p)
		var buf bytes.Buffer
		err := k.sb.Get(ctx, image.Path(top), &buf, 4*maxReport)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		tr := tar.NewReader(&buf)
		for {
			h, err := tr.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				return nil, err
			}
			at := path.Join(top, h.Name)
			if !want.MatchString(at) {
				at = path.Join(path.Dir(top), h.Name) // a file alone
			}
			if h.Typeflag != tar.TypeReg || !want.MatchString(at) {
				continue
			}
			data, err := io.ReadAll(tr)
			if err != nil {
				return nil, err
			}
			out = append(out, report.Source{Name: strings.TrimPrefix(at, "/"), Data: data, Root: string(k.d.dir(k.c))})
		}
	}
	slices.SortFunc(out, func(a, b report.Source) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// pattern is the directory or file where a pattern's files lie, and what they
// are called: "*" stands for a part of a name, "**" for any folders.
func (k *cold) pattern(p string) (top string, want *regexp.Regexp) {
	if !path.IsAbs(p) {
		p = path.Join(string(k.d.dir(k.c)), p)
	}
	for top = p; strings.ContainsAny(top, "*?["); {
		top = path.Dir(top)
	}
	re := regexp.QuoteMeta(p)
	re = strings.NewReplacer(`\*\*/`, "(.*/)?", `\*\*`, ".*", `\*`, "[^/]*", `\?`, "[^/]").Replace(re)
	return top, regexp.MustCompile("^" + re + "$") // of quoted text: it compiles
}

// chosen is the command for some of its tests; the whole one where it has no
// way to choose.
func (k *cold) chosen(tests []*test) string {
	var list []repo.Test
	for _, t := range tests {
		list = append(list, *t.Test)
	}
	if run, ok := repo.Select(k.c.Command, list); ok {
		return run
	}
	return k.c.Run
}

// mochaCall is where Mocha is started.
var mochaCall = regexp.MustCompile(`^(.*?(?:^|[\s/])mocha)(\s)`)

// stopping is a line that ends at the first failure, where its runner can. Jest
// can too, but then leaves no report.
func (c *command) stopping(run string) string {
	switch c.Report {
	case "mocha", "mocha-log":
		return mochaCall.ReplaceAllString(run, "$1 --bail$2")
	}
	return run
}

// ending is the last part of what was printed.
func ending(b []byte) string {
	if n := len(b) - 2000; n > 0 {
		b = b[n:]
	}
	return fmt.Sprintf("…%s", bytes.ToValidUTF8(b, nil))
}
