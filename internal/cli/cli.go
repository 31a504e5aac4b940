// Package cli is the command layer: the only place that wires rooms together,
// reads the environment, parses flags and names exit codes. It decides
// nothing about tasks, trials or verdicts, and prints results to stdout and
// narration to stderr.
package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
	"golang.org/x/term"

	"assay/internal/doctor"
	"assay/internal/sandbox/docker/inside"
	"assay/internal/sandbox/hostile"
	"assay/internal/sandbox/ns"
)

// Exit codes, documented in every help.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitPartial     = 3   // some trials were lost to infrastructure
	exitGate        = 4   // a condition was not met: lint, prove, a bound
	exitInterrupted = 130 // Ctrl-C; the job can be resumed
)

// World is what the process gives the commands. Tests make their own.
type World struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            func(string) (string, bool)
	Terminal       bool // stderr is a terminal: progress may redraw a line
	Columns        int  // of that terminal; 0 when unknown
}

// Process is the World of this process.
func Process() World {
	cols, _, err := term.GetSize(int(os.Stderr.Fd()))
	return World{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Env:      os.LookupEnv,
		Terminal: err == nil,
		Columns:  cols,
	}
}

// Main runs one command line and returns its exit code. args[0] is the
// program's name.
func Main(args []string, w World) int {
	if code, handled := ns.Main(args); handled {
		return code
	}
	if code, handled := hostile.Main(args, arenaHost()); handled {
		return code
	}
	if code, handled := inside.Main(args); handled {
		return code
	}
	a := &app{World: w, argv: args}
	var g grammar
	code := -1 // set when kong itself ends: help, version
	parser, err := kong.New(&g, kong.Name("assay"),
		kong.Description(story),
		kong.Writers(w.Stdout, w.Stderr),
		kong.Exit(func(c int) { code = c; panic(exited{}) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}),
		kong.ShortUsageOnError(),
		kong.ExplicitGroups(groups()),
		kong.Vars{"jobs": "jobs"},
	)
	if err != nil {
		fmt.Fprintln(w.Stderr, "assay:", err)
		return exitFailed
	}
	a.parser = parser
	var kctx *kong.Context
	if stop := guard(func() { kctx, err = parser.Parse(args[1:]) }); stop {
		return code
	}
	if err == nil {
		err = repeated(kctx)
	}
	if err != nil {
		a.fail(&g, usage(err))
		return exitUsage
	}
	ctx, stop := interruptible(a)
	defer stop()
	err = kctx.Run(ctx, a, &g)
	if err != nil {
		return a.fail(&g, err)
	}
	return exitDone
}

// repeated refuses two values of a flag tagged "once". Of others the last one
// holds, so that a command line can be corrected at its end; of these the first
// would go unheard, with all the tasks that it names.
func repeated(ctx *kong.Context) error {
	given := map[*kong.Flag]bool{}
	for _, p := range ctx.Path {
		f := p.Flag
		if f == nil || p.Resolved || !f.Tag.Has("once") {
			continue
		}
		if given[f] {
			return fmt.Errorf("--%s is given twice, and takes one value", f.Name)
		}
		given[f] = true
	}
	return nil
}

type exited struct{}

// guard runs f and reports whether kong asked to exit in it, as it does after
// printing help.
func guard(f func()) (stop bool) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(exited); !ok {
				panic(r)
			}
			stop = true
		}
	}()
	f()
	return false
}

// interruptible ends ctx at the first SIGINT or SIGTERM; a second one ends the
// process, since the first may be waiting for a hanging disk.
func interruptible(a *app) (*boundCtx, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	go func() {
		select {
		case <-ch:
			a.say("interrupted: ending what runs; the job can be resumed (once more to end at once)")
			cancel(errInterrupted)
		case <-done:
			return
		}
		select {
		case <-ch:
			os.Exit(exitInterrupted)
		case <-done:
		}
	}()
	return &boundCtx{ctx}, func() { signal.Stop(ch); close(done); cancel(nil) }
}

// boundCtx lets kong hand the context to Run methods by its concrete type.
type boundCtx struct{ context.Context }

var errInterrupted = errors.New("interrupted")

// app is one invocation.
type app struct {
	World
	argv   []string
	parser *kong.Kong
}

// say narrates on stderr.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.Stderr, format+"\n", args...)
}

// emit prints one typed JSON object as a line of stdout.
func (a *app) emit(kind string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) < 2 || b[0] != '{' {
		b, _ = json.Marshal(map[string]any{"value": v})
	}
	head := fmt.Sprintf(`{"type":%q`, kind)
	if len(b) > 2 {
		head += ","
	}
	_, err = fmt.Fprintf(a.Stdout, "%s%s\n", head, b[1:])
	return err
}

// exitError carries an exit code with an error; a nil err prints nothing.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit %d", e.code)
	}
	return e.err.Error()
}
func (e *exitError) Unwrap() error { return e.err }

func usage(err error) error { return &exitError{exitUsage, err} }
func usagef(format string, args ...any) error {
	return usage(fmt.Errorf(format, args...))
}
func gate(err error) error    { return &exitError{exitGate, err} }
func partial(err error) error { return &exitError{exitPartial, err} }

// fail prints err in the form asked for and returns its exit code.
func (a *app) fail(g *grammar, err error) int {
	code := exitFailed
	var ee *exitError
	if errors.As(err, &ee) {
		code = ee.code
		if ee.err == nil {
			return code
		}
	}
	if errors.Is(err, errInterrupted) || errors.Is(err, context.Canceled) {
		code = exitInterrupted
	}
	hint := ""
	var r *doctor.Refusal
	if errors.As(err, &r) {
		hint = r.Finding.Remedy
	}
	if g.JSON {
		_ = a.emit("error", map[string]any{"error": err.Error(), "exit": code, "remedy": hint})
		return code
	}
	for i, line := range strings.Split(strings.TrimRight(err.Error(), "\n"), "\n") {
		if i == 0 {
			line = "assay: " + line
		}
		a.say("%s", line)
	}
	return code
}
