package external

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// Options say how an arm runs a recipe. The zero value runs it as it is.
type Options struct {
	Layer     image.LayerID     // where it is installed; empty: its program is in the task's image
	Variant   string            // of the recipe; empty: none
	NoRetries bool              // the recipe's switch
	Effort    string            // one of the recipe's; empty: the agent's own
	Env       map[string]string // for the agent's own process, on top of the recipe's
}

// Agent runs one recipe.
type Agent struct {
	recipe  Recipe // with its variant
	options Options
}

// outputKept is what is kept of an agent's output, which is often its log.
const outputKept = 8 << 20

// New makes an agent of a recipe.
func New(r Recipe, o Options) (*Agent, error) {
	r, err := r.with(o.Variant)
	if err != nil {
		return nil, err
	}
	if o.Effort != "" {
		if _, ok := r.Effort[o.Effort]; !ok {
			return nil, fmt.Errorf("agent %s has no effort %q; it has %v", r.Name, o.Effort, slices.Sorted(maps.Keys(r.Effort)))
		}
	}
	return &Agent{recipe: r, options: o}, nil
}

// with returns the recipe as a variant changes it.
func (r Recipe) with(name string) (Recipe, error) {
	if name == "" {
		return r, nil
	}
	v, ok := r.Variants[name]
	if !ok {
		return r, fmt.Errorf("agent %s has no variant %q; it has %v", r.Name, name, slices.Sorted(maps.Keys(r.Variants)))
	}
	r.Run.Env, r.Vars = maps.Clone(r.Run.Env), maps.Clone(r.Vars)
	if r.Run.Env == nil {
		r.Run.Env = map[string]string{}
	}
	if r.Vars == nil {
		r.Vars = map[string]string{}
	}
	maps.Copy(r.Run.Env, v.Env)
	maps.Copy(r.Vars, v.Vars)
	if v.Dialects != nil {
		r.Dialects = v.Dialects
	}
	if v.Prepare != nil {
		r.Run.Prepare = v.Prepare
	}
	if v.Command != nil {
		r.Run.Command = v.Command
	}
	files := slices.DeleteFunc(slices.Clone(r.Files), func(f ConfigFile) bool {
		return slices.ContainsFunc(v.Files, func(o ConfigFile) bool { return o.Path == f.Path })
	})
	r.Files = append(files, v.Files...)
	return r, nil
}

// Info names the agent.
func (a *Agent) Info() trial.AgentInfo {
	name := a.recipe.Name
	if a.options.Variant != "" {
		name += "/" + a.options.Variant
	}
	return trial.AgentInfo{Name: name, Version: a.recipe.Version}
}

// KeepsLogs reports whether the recipe says where the agent keeps its own log.
func (a *Agent) KeepsLogs() bool { return len(a.recipe.Logs.Home)+len(a.recipe.Logs.Workdir) > 0 }

// Needs asks for the agent's layer and the brief as a file.
func (a *Agent) Needs(b task.Brief) (agent.Needs, error) {
	n := agent.Needs{Files: agent.BriefFiles(b.Instruction), Memory: a.recipe.Run.MemoryMB << 20}
	if a.options.Layer != "" {
		n.Mounts = []sandbox.Mount{{Layer: a.options.Layer, Target: a.recipe.Place(), ReadOnly: true}}
	}
	var dialects []string
	for _, d := range a.recipe.Dialects {
		dialects = append(dialects, string(d))
	}
	n.Dialect = strings.Join(dialects, ",")
	return n, nil
}

// Run runs the program to its end, or to the end of ctx. Its exit status is a
// report and no verdict: agents exit with 0 after failures and with anything
// after successes.
func (a *Agent) Run(ctx context.Context, s agent.Session) (agent.Report, error) {
	if ctx.Err() != nil {
		return agent.Report{}, context.Cause(ctx)
	}
	if len(a.recipe.Dialects) > 0 && s.Model == nil {
		return agent.Report{}, fmt.Errorf("agent %s: no model was given to it", a.recipe.Name)
	}
	p, err := a.plan(s)
	if err != nil {
		return agent.Report{}, fmt.Errorf("agent %s: %w", a.recipe.Name, err)
	}
	if err := a.furnish(ctx, s, p.files); spoilt(ctx, s, err) {
		exit := 126
		return agent.Report{Exit: &exit, Cause: trial.CauseAgentExit, Detail: "on what the steps before left it cannot be started: " + err.Error()}, nil
	} else if err != nil {
		return agent.Report{}, fmt.Errorf("agent %s: %w", a.recipe.Name, err)
	}
	s.Output = max(s.Output, outputKept)
	call := s.Recorder.Call(a.recipe.Name, map[string]string{"command": p.shown})
	report, ran, err := a.run(ctx, s, p)
	if err != nil {
		call.Done("not run: " + err.Error())
		return report, fmt.Errorf("agent %s: %w", a.recipe.Name, err)
	}
	ran.Output = tail(ran.Output)
	call.Done(ran.Text())
	return report, s.LogExit(*report.Exit)
}

// run runs the commands of a plan, the first ones only until one fails.
func (a *Agent) run(ctx context.Context, s agent.Session, p plan) (agent.Report, agent.Ran, error) {
	var report agent.Report
	var ran agent.Ran
	var err error
	for _, c := range append(p.prepare, p.command) {
		ran, err = s.Exec(ctx, agent.Program{Args: c, Env: p.env, Bare: true, Log: a.recipe.Name + ".txt"})
		if err != nil {
			return report, ran, err
		}
		report.Add(ran)
		if ran.Exit != 0 || ran.TimedOut {
			break
		}
	}
	report.Exit = &ran.Exit
	if means := a.recipe.Run.Exits[strconv.Itoa(ran.Exit)]; means != "" {
		report.Detail = means
	}
	if said := a.gaveUp(ran.Output); said != "" {
		report.Cause, report.Detail = trial.CauseAgentExit, said
	}
	return report, ran, nil
}

// gaveUp is the last line of output in which the agent says that it failed.
// Earlier ones tell of what it got over.
func (a *Agent) gaveUp(output string) string {
	lines := strings.Split(strings.TrimRight(output, "\n"), "\n")
	for _, l := range lines[max(0, len(lines)-lastLines):] {
		for _, f := range a.recipe.Logs.Failed {
			if strings.Contains(l, f) {
				return l[:min(len(l), maxSaid)]
			}
		}
	}
	return ""
}

const (
	lastLines = 3       // of the output, that tell how it ended
	maxSaid   = 2 << 10 // bytes of one that are kept
	maxTail   = 16 << 10
)

// tail is the end of an output; all of it is in the log.
func tail(s string) string {
	if len(s) <= maxTail {
		return s
	}
	return fmt.Sprintf("[%d bytes before this are in the agent's log]\n%s", len(s)-maxTail, s[len(s)-maxTail:])
}

// furnish makes the agent's own directories with its configuration, and a list
// of what in the work tree is not to be cleaned away. That an agent may forge
// the list is no matter: the tree is its own anyway.
func (a *Agent) furnish(ctx context.Context, s agent.Session, files []agent.File) error {
	had, err := a.cleanable(ctx, s)
	if err != nil && !errors.Is(err, errShell) {
		return fmt.Errorf("look at the work tree: %w", err)
	}
	files = append(files, agent.File{Path: ownList, Mode: 0o600, Data: []byte(strings.Join(had, "\x00"))})
	err = sandbox.PutAll(ctx, s.Sandbox, "/", func(w *tar.Writer) error {
		made := map[string]bool{}
		for _, d := range []string{string(ownHome), string(ownLogs)} {
			if err := directory(w, made, d); err != nil {
				return err
			}
		}
		for _, f := range files {
			if err := directory(w, made, path.Dir(string(f.Path))); err != nil {
				return err
			}
			h := &tar.Header{Typeflag: tar.TypeReg, Name: string(f.Path[1:]), Mode: int64(f.Mode), Size: int64(len(f.Data)), ModTime: time.Now()}
			if err := w.WriteHeader(h); err != nil {
				return fmt.Errorf("file %s: %w", f.Path, err)
			}
			if _, err := w.Write(f.Data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("put its files: %w", err)
	}
	return nil
}

// spoilt reports whether a later step's tree is what err is about: the agent's
// own work of the steps before, and no fault of the machine.
func spoilt(ctx context.Context, s agent.Session, err error) bool {
	return err != nil && s.Brief.Index > 0 && ctx.Err() == nil && !sandbox.Ended(err)
}

// cleanable are the paths that the recipe's globs of what is no work match.
func (a *Agent) cleanable(ctx context.Context, s agent.Session) ([]string, error) {
	var all []string
	for _, part := range []struct {
		dir   image.Path
		globs []string
	}{{s.Workdir, a.recipe.Clean.Workdir}, {"/tmp", a.recipe.Clean.Tmp}} {
		if len(part.globs) == 0 {
			continue
		}
		names, err := listed(ctx, s.Sandbox, part.dir, part.globs)
		if err != nil {
			return all, err
		}
		for _, n := range names {
			all = append(all, path.Join(string(part.dir), n))
		}
	}
	return all, nil
}

// directory writes the entries of p and what is above it, up to ownRoot, once.
func directory(w *tar.Writer, made map[string]bool, p string) error {
	if made[p] || len(p) < len(ownRoot) {
		return nil
	}
	if err := directory(w, made, path.Dir(p)); err != nil {
		return err
	}
	made[p] = true
	return w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: p[1:] + "/", Mode: 0o777, ModTime: time.Now()})
}

// Tidy keeps the agent's own logs below session/ of the trial's agent
// directory, and takes what is the agent's out of the tree.
func (a *Agent) Tidy(ctx context.Context, s agent.Session) (notes []string, err error) {
	kept, err := a.collect(ctx, s)
	if err != nil {
		return nil, err
	}
	notes = kept.notes()
	if kept.files == 0 && len(a.recipe.Logs.Home)+len(a.recipe.Logs.Workdir) > 0 {
		notes = append(notes, fmt.Sprintf("agent %s left no log of its own", a.recipe.Name))
	}
	if err = a.clean(ctx, s); err == nil {
		err = remove(ctx, s.Sandbox, string(ownRoot))
	}
	if errors.Is(err, errShell) {
		return append(notes, fmt.Sprintf("the agent's files are still in the tree: %v", err)), nil
	}
	return notes, err
}

// clean removes what the recipe names and was not there before the run.
func (a *Agent) clean(ctx context.Context, s agent.Session) error {
	now, err := a.cleanable(ctx, s)
	if err != nil || len(now) == 0 {
		return err
	}
	had, err := readFile(ctx, s.Sandbox, ownList, cleanList)
	if err != nil {
		return err
	}
	before := strings.Split(string(had), "\x00")
	return remove(ctx, s.Sandbox, slices.DeleteFunc(now, func(n string) bool { return slices.Contains(before, n) })...)
}

func (a *Agent) collect(ctx context.Context, s agent.Session) (*collector, error) {
	dir := filepath.Join(string(s.Logs), "session")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c := &collector{from: s.Sandbox, into: root}
	if s.Model != nil {
		c.secret = s.Model.Key
	}
	for _, part := range []struct {
		dir   image.Path
		globs []string
		at    string
	}{
		{ownHome, a.recipe.Logs.Home, "home"}, {ownLogs, []string{"**"}, "logs"}, {s.Workdir, a.recipe.Logs.Workdir, "workdir"},
	} {
		if err := c.take(ctx, part.dir, part.globs, part.at); err != nil {
			return nil, err
		}
	}
	return c, nil
}
