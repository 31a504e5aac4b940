package grade

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// ran is one command's run, as far as it is seen from outside.
type ran struct {
	checks.Ran
	wall    time.Duration
	cpu     time.Duration
	rss     int64
	dropped int64
	stdout  []byte // of a command whose report is its output
	cut     bool   // stdout is not all of it
}

// killedExit is what a shell would say of a program that SIGKILL ended.
const killedExit = 128 + 9

// timeScale gives the canary run more time than the real one: a test that waits
// for what it expects waits longest when it must fail, and the real run alone
// says whether the work is in time.
func timeScale(real bool) time.Duration {
	if real {
		return 1
	}
	return 2
}

// commands runs a plan's commands one after the other within the verifier's
// time, each limit scaled. Their output goes to logs; an empty name of a
// directory keeps none.
func (r Request) commands(ctx context.Context, sb sandbox.Starter, p *checks.Plan, dir string, scale time.Duration, logs string, all io.Writer) ([]ran, error) {
	end := time.Now().Add(scale * r.Key.Timeout)
	var out []ran
	for _, c := range p.Commands {
		left := time.Until(end)
		if left <= 0 {
			out = append(out, ran{Ran: checks.Ran{Name: c.Name, NotStarted: "the verifier's time was used up before"}})
			continue
		}
		if own := scale * c.Timeout(); own > 0 && own < left {
			left = own
		}
		one, err := r.command(ctx, sb, c, dir, left, logs, all)
		if err != nil {
			return out, fmt.Errorf("run the command %q: %w", c.Name, err)
		}
		out = append(out, one)
	}
	return out, nil
}

func (r Request) command(ctx context.Context, sb sandbox.Starter, c checks.Command, dir string, limit time.Duration, logs string, all io.Writer) (ran, error) {
	out := ran{Ran: checks.Ran{Name: c.Name}}
	log, err := r.logFile(logs, c.Name)
	if err != nil {
		return out, err
	}
	defer log.Close()
	keep := r.OutputCap
	stream := isStream(c)
	if stream {
		keep = max(keep, report.MaxBytes)
	}
	tee := &capped{w: io.MultiWriter(log, all), left: r.OutputCap}
	fmt.Fprintf(all, "[%s]\n", c.Name)
	res, err := sandbox.Exec(ctx, sb, planCommand(c, r, dir), sandbox.ExecOptions{
		Timeout: limit, Grace: r.Grace, Cap: keep, Stdout: tee, Stderr: tee,
	})
	switch {
	case errors.Is(err, sandbox.ErrNotStarted):
		out.NotStarted = err.Error()
		fmt.Fprintf(tee, "%v\n", err)
		return out, nil
	case res.Cancelled:
		return out, context.Cause(ctx)
	case err != nil && !(res.TimedOut && errors.Is(err, context.DeadlineExceeded)):
		return out, err // else it cannot be ended alone, as where it forks without end; the sandbox will be
	}
	out.Exit, out.Signal = res.Exit.Code, res.Exit.Signal
	out.TimedOut, out.OutOfMemory = res.TimedOut, res.Exit.OutOfMemory
	out.wall, out.cpu, out.rss, out.dropped = res.Wall, res.Exit.CPU, res.Exit.MaxRSS, res.Dropped+tee.dropped
	if stream {
		out.stdout, out.cut = res.Stdout, res.Dropped > 0 && int64(len(res.Stdout)) >= keep
	}
	if res.TimedOut {
		fmt.Fprintf(all, "[%s: stopped after %v]\n", c.Name, limit)
	}
	return out, log.Close()
}

// planCommand is a command of a plan as a sandbox runs it.
func planCommand(c checks.Command, r Request, dir string) sandbox.Command {
	cmd := sandbox.Command{Args: c.Args, Env: slices.Clone(r.Env), Dir: commandDir(c, dir), User: c.User}
	if len(cmd.Args) == 0 {
		cmd.Args = []string{"/bin/sh", "-c", c.Run}
	}
	if cmd.User == "" {
		cmd.User = r.Key.User
	}
	for _, k := range sortedKeys(c.Env) {
		cmd.Env = append(cmd.Env, k+"="+c.Env[k])
	}
	if r.Order != 0 {
		env, _, _ := r.order(c, cmd.Env)
		cmd.Env = append(cmd.Env, env...)
	}
	return cmd
}

func commandDir(c checks.Command, dir string) image.Path {
	return image.Path("/" + inBox(dir, c.Dir))
}

// isStream reports whether a command's report is its standard output.
func isStream(c checks.Command) bool {
	rd, err := report.ReaderOf(c.Report)
	return err == nil && rd.Stream && len(c.Files) == 0
}

// logFile is where a command's output is kept; names are the plan's, which has
// checked them, and never lead out of the directory.
func (r Request) logFile(dir, name string) (*os.File, error) {
	if dir == "" {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	name = filepath.Base(filepath.Clean("/"+name)) + ".log"
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
}

// capped passes on the first bytes that it gets and counts the others.
type capped struct {
	w             io.Writer
	left, dropped int64
}

func (c *capped) Write(b []byte) (int, error) {
	n := len(b)
	if int64(len(b)) > c.left {
		c.dropped += int64(len(b)) - c.left
		b = b[:c.left]
	}
	c.left -= int64(len(b))
	if len(b) > 0 {
		c.w.Write(b) // a full disk of the host must not stop the program; its file is closed with a check
	}
	return n, nil
}

// reports reads what every command left. Nothing runs in the sandbox any more.
func (p *placer) readReports(ctx context.Context, sb sandbox.Trees, all []ran) error {
	for i := range all {
		c := p.plan.Commands[i]
		if c.Report == "" || all[i].NotStarted != "" {
			continue
		}
		sources, err := p.sources(ctx, sb, c, all[i])
		var far *tooFar
		switch {
		case errors.As(err, &far):
			all[i].ReportErr = far.Error()
			continue
		case err != nil:
			return fmt.Errorf("collect the report of %q: %w", c.Name, err)
		case len(sources) == 0:
			continue // there is none: what was expected of it is missing
		}
		exit := all[i].Exit
		if all[i].TimedOut {
			exit = killedExit
		}
		rep, err := report.Read(c.Report, sources, exit)
		var unread *report.Error
		if errors.As(err, &unread) && unread.None && exit != 0 && isStream(c) {
			continue // the runner did not begin, and said why in words of its own
		}
		if err != nil {
			all[i].ReportErr = err.Error()
			continue
		}
		all[i].Report = rep
	}
	return nil
}

// tooFar says that a report is more than anybody reads.
type tooFar struct{ what string }

func (e *tooFar) Error() string { return e.what }

// sources are a command's report, in order of their names; none if it left none.
func (p *placer) sources(ctx context.Context, sb sandbox.Trees, c checks.Command, one ran) ([]report.Source, error) {
	root := string(commandDir(c, p.dir))
	if isStream(c) {
		if len(bytes.TrimSpace(one.stdout)) == 0 {
			return nil, nil
		}
		return []report.Source{{Name: "stdout", Data: one.stdout, Cut: one.cut, Root: root}}, nil
	}
	patterns, err := p.reports(c)
	if err != nil {
		return nil, err
	}
	found := map[string]report.Source{}
	for _, pattern := range patterns {
		if err := gather(ctx, sb, pattern, found); err != nil {
			return nil, err
		}
	}
	var out []report.Source
	for _, name := range sortedKeys(found) {
		s := found[name]
		s.Root = root
		out = append(out, s)
	}
	return out, nil
}
