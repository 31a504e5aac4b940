package job

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/agent"
	"assay/internal/grade"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// setUp makes the agent's sandbox and what every step finds in it.
func (a *attempt) setUp(ctx context.Context) error {
	spec := a.spec(a.image)
	spec.Network = a.network()
	spec.Limits.MemBytes = a.allowed(spec.Limits.MemBytes)
	var err error
	if spec.ReadOnly, err = a.lock(); err != nil {
		return err
	}
	if a.gate, err = a.openGate(spec.Network, filepath.Join(a.dir, "agent", "egress.ndjson")); err != nil {
		return err
	}
	if a.gate != nil {
		spec.Egress = a.gate
		if err := a.allow(0); err != nil {
			return err
		}
	}
	spec.Set = a.set
	if a.p.arm.Model != nil && a.needs[0].Dialect != "" {
		spec.Relays = append(spec.Relays, sandbox.Relay{Port: ModelPort, Handle: a.lines.serve})
	}
	if len(a.r.cfg.Tools) > 0 {
		spec.Relays = append(spec.Relays, sandbox.Relay{Port: ToolPort, Handle: a.bench.serve})
	}
	sb, err := a.r.deps.Backend.Create(ctx, spec)
	if err != nil {
		return unhealthy(fmt.Errorf("start sandbox for %q: %w", a.p.name, err))
	}
	a.sb = sb
	if h, ok := sb.(sandbox.Held); ok {
		a.rec.Use.LimitsHeld, a.rec.Use.LimitsUnheld = h.Held()
	}
	if o, ok := sb.(sandbox.Outlet); ok {
		a.rec.Modes.Outlet = o.Outlet()
	}
	return a.furnish(ctx)
}

// furnish puts in place what the first step finds in its sandbox.
func (a *attempt) furnish(ctx context.Context) error {
	t := a.p.task
	if err := a.putFiles(ctx); err != nil {
		return err
	}
	// Harbor uploads loose files only when an image is named and nothing is built.
	env := filepath.Join(t.Dir, "environment")
	if t.Config.Environment.DockerImage != "" && !exists(filepath.Join(env, "Dockerfile")) && exists(env) {
		if err := a.putDir(ctx, env, a.workdir()); err != nil {
			return &endError{trial.CauseTaskMalformed, err}
		}
	}
	return a.healthy(ctx, t.Config.Environment.Healthcheck)
}

// spec describes a sandbox of this trial on img.
func (a *attempt) spec(img image.Image) sandbox.Spec {
	return sandbox.Spec{Image: img, Mounts: a.mounts(), Limits: a.limits(), UID: a.uid()}
}

// mounts are those of every step: a sandbox gets its mounts once.
func (a *attempt) mounts() []sandbox.Mount {
	var all []sandbox.Mount
	for _, n := range a.needs {
		for _, m := range n.Mounts {
			if !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// limits are the task's where it states them, else the job's.
func (a *attempt) limits() sandbox.Limits {
	l := a.r.cfg.Limits
	e := a.p.task.Config.Environment
	if e.StorageMB != nil {
		l.DiskBytes = *e.StorageMB << 20
	}
	if e.MemoryMB != nil {
		l.MemBytes = *e.MemoryMB << 20
	}
	if e.CPUs != nil {
		l.CPUs = *e.CPUs
	}
	return l
}

// putFiles makes the directories Harbor promises, the workdir, and the small
// files the agent asked for in its first step, in one stream.
func (a *attempt) putFiles(ctx context.Context) error {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	dirs := []string{"logs", "logs/agent", "logs/verifier", "logs/artifacts"}
	for _, d := range dirs {
		mode := int64(0o777)
		if d == "logs" {
			mode = 0o755
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: d + "/", Mode: mode, ModTime: time.Now()}); err != nil {
			return err
		}
	}
	if err := a.putAgentFiles(ctx, w, &buf, 0); err != nil {
		return err
	}
	if a.hasWorkdir() {
		return nil
	}
	if err := a.sb.Put(ctx, a.workdir(), emptyTar()); err != nil {
		return fmt.Errorf("make the workdir %s: %w", a.workdir(), err)
	}
	return nil
}

// hasWorkdir reports whether the image is known to have the workdir; one that is
// reached through links, or lies in a bind of the machine's, is not.
func (a *attempt) hasWorkdir() bool {
	if a.workdir() == "/" {
		return true
	}
	v, err := a.r.deps.Images.View(a.image.Layers)
	if err != nil {
		return false // the put meets it, or what is wrong shows elsewhere
	}
	e, err := v.Lstat(string(a.workdir()))
	return err == nil && e.IsDir()
}

// putAgentFiles adds a step's files of the agent to what w holds, and puts all
// of it.
func (a *attempt) putAgentFiles(ctx context.Context, w *tar.Writer, buf *bytes.Buffer, step int) error {
	for _, f := range a.needs[step].Files {
		if err := tarFile(w, f); err != nil {
			return &endError{trial.CauseAgentSetup, err}
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := a.sb.Put(ctx, "/", buf); err != nil {
		return fmt.Errorf("put the trial's files: %w", err)
	}
	return nil
}

func tarFile(w *tar.Writer, f agent.File) error {
	name := string(f.Path)
	for len(name) > 0 && name[0] == '/' {
		name = name[1:]
	}
	h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: int64(f.Mode), Size: int64(len(f.Data)), ModTime: time.Now()}
	if err := w.WriteHeader(h); err != nil {
		return fmt.Errorf("agent file %s: %w", f.Path, err)
	}
	_, err := w.Write(f.Data)
	return err
}

func emptyTar() io.Reader {
	var buf bytes.Buffer
	tar.NewWriter(&buf).Close() // writes two zero blocks into memory; cannot fail
	return &buf
}

// putDir puts a directory of the task below dst.
func (a *attempt) putDir(ctx context.Context, dir string, dst image.Path) error {
	if dst == a.workdir() {
		a.given = append(a.given, dir)
	}
	if err := sandbox.PutDir(ctx, a.sb, dst, dir, sandbox.TreeCaps{}); err != nil {
		return fmt.Errorf("put %s: %w", dir, err)
	}
	return nil
}

// givenToAgent is what set-up, and in live verification the grader, put into the
// sandbox: none of it is the agent's work.
func (a *attempt) givenToAgent() grade.Given {
	own := []image.Path{"/logs", "/tests"}
	for _, n := range a.needs {
		for _, f := range n.Files {
			own = append(own, f.Path)
		}
		if n.Solution {
			own = append(own, "/solution")
		}
	}
	for _, m := range a.mounts() {
		own = append(own, m.Target)
	}
	return grade.Given{Dirs: a.given, Own: own}
}

// setUpStep puts in place what one step brings: its workdir/, the agent's files
// for it and, for an agent that runs it, the solution.
func (a *attempt) setUpStep(ctx context.Context, i int, key task.Key) error {
	t := a.p.task
	for _, d := range []string{"agent", "verifier", "artifacts"} {
		if err := os.MkdirAll(a.stepDir(key.Step, d), 0o755); err != nil {
			return err
		}
	}
	if err := a.furnishStep(ctx, i); err != nil {
		return a.spoiltBy(ctx, i, err)
	}
	if err := a.dial(ctx, i, key.Step); err != nil {
		return err
	}
	if !a.needs[i].Solution {
		return nil
	}
	if key.Solution == "" && len(key.SolutionFiles) == 0 {
		return &endError{trial.CauseUnsupported, fmt.Errorf("task %s has no solution for agent %s to run", t.Name, a.p.arm.Spec)}
	}
	return a.putSolution(ctx, key)
}

// furnishStep puts in place what a step brings for whoever works on it.
func (a *attempt) furnishStep(ctx context.Context, i int) error {
	if t := a.p.task; t.MultiStep() {
		if err := a.stepWorkdir(ctx, i); err != nil {
			return err
		}
		if err := a.healthy(ctx, t.Config.Steps[i].Healthcheck); err != nil {
			return err
		}
	}
	if i > 0 && len(a.needs[i].Files) > 0 {
		var buf bytes.Buffer
		return a.putAgentFiles(ctx, tar.NewWriter(&buf), &buf, i)
	}
	return nil
}

// putSolution is the job's part of the oracle: the agent itself never holds
// the key.
func (a *attempt) putSolution(ctx context.Context, key task.Key) error {
	err := a.putSolutionFiles(ctx, key)
	if err != nil && !errors.Is(err, sandbox.ErrLost) && ctx.Err() == nil {
		return &endError{trial.CauseTaskMalformed, fmt.Errorf("put the solution of %s: %w", a.p.task.Name, err)}
	}
	return err
}

// putSolutionFiles copies the solution's directory, without what its
// .harborignore leaves out, and the scripts of formats that keep them elsewhere.
func (a *attempt) putSolutionFiles(ctx context.Context, key task.Key) error {
	if key.Solution != "" {
		names, err := a.p.task.Inputs(key.Solution)
		if err != nil {
			return err
		}
		caps := sandbox.TreeCaps{
			Skip:       func(rel string, _ bool) bool { return !slices.Contains(names, rel) },
			Executable: func(rel string) bool { return rel == "solve.sh" },
		}
		if err := sandbox.PutDir(ctx, a.sb, "/solution", key.Solution, caps); err != nil {
			return err
		}
	}
	if len(key.SolutionFiles) == 0 {
		return nil
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range slices.Sorted(maps.Keys(key.SolutionFiles)) {
		if err := tarFile(w, agent.File{Path: image.Path(name), Mode: 0o755, Data: key.SolutionFiles[name]}); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	return a.sb.Put(ctx, "/solution", &buf)
}

// stepWorkdir puts steps/<name>/workdir/ into the workdir and runs its setup.sh.
func (a *attempt) stepWorkdir(ctx context.Context, i int) error {
	dir, name := a.p.task.StepWorkdir(i), a.p.task.Steps[i].Name
	if dir == "" {
		return nil
	}
	if err := a.putDir(ctx, dir, a.workdir()); err != nil {
		return &endError{trial.CauseTaskMalformed, err}
	}
	if !exists(filepath.Join(dir, "setup.sh")) {
		return nil
	}
	r, err := sandbox.Exec(ctx, a.sb, sandbox.Command{
		Args: []string{"bash", "setup.sh"}, Dir: a.workdir(), Env: a.env,
		User: a.p.task.Brief(i).User,
	}, sandbox.ExecOptions{Timeout: 10 * time.Minute})
	if err != nil {
		return &endError{trial.CauseTaskUnhealthy, fmt.Errorf("step %s: setup.sh: %w", name, err)}
	}
	if r.Exit.Code != 0 || r.TimedOut {
		return &endError{trial.CauseTaskUnhealthy, fmt.Errorf("step %s: setup.sh ended with status %d: %s", name, r.Exit.Code, tail(r.Stderr, 500))}
	}
	return nil
}

// healthy waits for a health check, with Harbor's meaning of its fields:
// failures during the start period do not count, then `retries` in a row end it.
func (a *attempt) healthy(ctx context.Context, h *task.Healthcheck) error {
	if h == nil || h.Command == "" {
		return nil
	}
	begin, failed, retries := time.Now(), int64(0), int64(3)
	if h.Retries != nil {
		retries = *h.Retries
	}
	for {
		r, err := sandbox.Exec(ctx, a.sb, sandbox.Command{Args: []string{"sh", "-c", h.Command}, Dir: a.workdir(), Env: a.env},
			sandbox.ExecOptions{Timeout: seconds(h.TimeoutSec, 30)})
		if err != nil && !errors.Is(err, sandbox.ErrNotStarted) {
			return err
		}
		if err == nil && r.Exit.Code == 0 && !r.TimedOut {
			return nil
		}
		starting := time.Since(begin) < seconds(h.StartPeriodSec, 0)
		wait := seconds(h.IntervalSec, 5)
		if starting {
			wait = seconds(h.StartIntervalSec, 5)
		} else if failed++; failed >= retries {
			return &endError{trial.CauseTaskUnhealthy, fmt.Errorf("health check %q failed %d times: %s", h.Command, failed, tail(r.Stderr, 500))}
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

// seconds is *f, or the default of the format when it is nil.
func seconds(f *float64, standard float64) time.Duration {
	if f != nil {
		standard = *f
	}
	return time.Duration(standard * float64(time.Second))
}

func exists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// tail is the end of some output, for a message.
func tail(b []byte, n int) string {
	b = bytes.TrimSpace(b)
	if len(b) > n {
		b = b[len(b)-n:]
	}
	return string(bytes.ToValidUTF8(b, []byte("?")))
}
