package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/agent/external"
	"assay/internal/gateway"
	"assay/internal/job"
	"assay/internal/store"
	"assay/trial"
)

type agentCheckCmd struct {
	Agent   string        `arg:"" help:"Name, NAME/VARIANT, or a recipe file."`
	Image   string        `default:"host" placeholder:"NAME" help:"Image to work on."`
	Timeout time.Duration `default:"2m" placeholder:"DUR" help:"The agent's time."`
	Keep    string        `placeholder:"DIR" help:"Keep the job there, with everything that was recorded. It must not exist."`

	registryFlags
}

func (agentCheckCmd) Help() string {
	return `Lets an installed agent solve one small task, with a scripted model instead of a real one, in a sandbox without a
network, and says whether it started, asked the model, solved the task and left its own log. It is a job like any other.

Examples:
  assay agent check codex
  assay agent check ./my-agent.toml --image debian:bookworm
  assay -e docker agent check pi --image debian:bookworm
  assay agent check codex --keep jobs/check && assay trajectory show jobs/check/*

Exit status: 0 the agent works, 1 it does not, 2 usage, or it is not installed, 3 lost to infrastructure, 130 interrupted.`
}

// agentChecked is what a check found.
type agentChecked struct {
	Agent    string   `json:"agent"`
	Version  string   `json:"version"`
	Image    string   `json:"image"`
	Calls    int      `json:"calls"` // of the model
	Solved   bool     `json:"solved"`
	Logs     []string `json:"logs"`    // of the agent's own that were collected
	Expected bool     `json:"logging"` // whether the recipe names any
	Cause    string   `json:"cause"`
	Detail   string   `json:"detail,omitempty"`
	Seconds  float64  `json:"seconds"`
	OK       bool     `json:"ok"`

	output  string // of the agent, when it failed
	outcome trial.Outcome
}

func (c *agentCheckCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	work, err := os.MkdirTemp("", "assay-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	dir := filepath.Join(work, "job")
	if c.Keep != "" {
		if dir, err = filepath.Abs(c.Keep); err != nil {
			return err
		}
		if _, err := os.Lstat(dir); err == nil {
			return usagef("--keep %s: it exists", c.Keep)
		}
	}
	found, err := c.check(ctx, a, g, work, dir)
	if err != nil {
		return err
	}
	if err := c.tell(a, g, found); err != nil {
		return err
	}
	switch {
	case found.OK:
		return nil
	case found.outcome == trial.Infra:
		return partial(fmt.Errorf("the check was lost to infrastructure: %s", found.Detail))
	}
	return fmt.Errorf("agent %s does not work on %s", c.Agent, c.Image)
}

// check runs the job and reads what it left.
func (c *agentCheckCmd) check(ctx *boundCtx, a *app, g *grammar, work, dir string) (agentChecked, error) {
	var found agentChecked
	if err := writeCheck(work); err != nil {
		return found, err
	}
	tasks, source, err := a.loadTasks(filepath.Join(work, "task"), 0)
	if err != nil {
		return found, err
	}
	m, err := a.armory(g, modelFlags{})
	if err != nil {
		return found, err
	}
	defer m.Close()
	arms, err := m.grid([]string{c.Agent}, []string{"scripted:" + filepath.Join(work, "model.yaml")}, armOptions{})
	if err != nil {
		return found, usage(err)
	}
	agent, ok := arms[0].Agent.(*external.Agent)
	if !ok {
		return found, usagef("agent %q is built in: 'assay demo' shows that those work", c.Agent)
	}
	r, err := a.open(ctx, g)
	if err != nil {
		return found, err
	}
	defer r.Close()
	deps, err := a.deps(g, r, dir)
	if err != nil {
		return found, err
	}
	if deps.Fetch, err = a.fetcher(g, r.images, c.registryFlags); err != nil {
		return found, err
	}
	start := time.Now()
	_, err = job.Run(ctx, job.Config{Dir: dir, Source: source, Path: filepath.Join(work, "task"), Tasks: tasks, Arms: arms, Attempts: 1, Concurrent: 1,
		Retries: -1, Image: c.Image, AgentLimit: c.Timeout}, deps)
	if err != nil {
		return found, fmt.Errorf("check agent %s: %w", c.Agent, err)
	}
	if ctx.Err() != nil {
		return found, context.Cause(ctx)
	}
	found = agentChecked{Agent: c.Agent, Version: agent.Info().Version, Image: c.Image, Seconds: time.Since(start).Seconds(), Expected: agent.KeepsLogs()}
	return found, found.read(dir)
}

// read fills in what the one trial of the job came to.
func (f *agentChecked) read(dir string) error {
	trials, err := filepath.Glob(filepath.Join(dir, "*", "result.json"))
	if err != nil || len(trials) != 1 {
		return errors.Join(fmt.Errorf("%s holds %d results, not one", dir, len(trials)), err)
	}
	t, err := store.ReadTrial(filepath.Dir(trials[0]))
	if err != nil {
		return err
	}
	f.outcome, f.Cause, f.Detail, f.Solved = t.Outcome, string(t.Cause), t.Record.Detail, t.Outcome == trial.Pass
	logs := filepath.Join(t.Dir, "agent")
	if rec, err := gateway.Read(filepath.Join(logs, "model")); err == nil {
		f.Calls = len(rec.Calls())
	}
	err = fs.WalkDir(os.DirFS(logs), ".", func(p string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err == nil && d.Type().IsRegular() && strings.HasPrefix(p, "session/") {
			f.Logs = append(f.Logs, p)
		}
		return err
	})
	f.OK = f.Solved && f.Calls > 0 && (len(f.Logs) > 0 || !f.Expected)
	if !f.OK {
		f.output = lastOutput(logs)
	}
	return err
}

// lastOutput is the end of what the agent printed.
func lastOutput(logs string) string {
	files, err := filepath.Glob(filepath.Join(logs, "*.txt"))
	if err != nil {
		return ""
	}
	slices.Sort(files)
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && len(b) > 0 && filepath.Base(f) != "exit-code.txt" {
			return strings.ToValidUTF8(string(b[max(0, len(b)-2000):]), "?")
		}
	}
	return ""
}

func (c *agentCheckCmd) tell(a *app, g *grammar, f agentChecked) error {
	if g.JSON {
		return a.emit("agent.checked", f)
	}
	say := func(ok bool, what, detail string) {
		mark := "ok  "
		if !ok {
			mark = "FAIL"
		}
		fmt.Fprintf(a.Stdout, "%s  %-7s %s\n", mark, what, detail)
	}
	say(f.Calls > 0, "asks", fmt.Sprintf("%d calls of the model", f.Calls))
	say(f.Solved, "solves", fmt.Sprintf("%s in %.1f s on %s", f.Cause, f.Seconds, f.Image))
	if f.Expected {
		say(len(f.Logs) > 0, "logs", strings.Join(f.Logs[:min(3, len(f.Logs))], ", "))
	}
	if f.output != "" {
		fmt.Fprintf(a.Stderr, "the agent said:\n%s\n", f.output)
	}
	return nil
}

// writeCheck writes the task and the model's script. The script says the same
// twice, for agents that have no shell tool.
func writeCheck(dir string) error {
	for name, text := range map[string]string{
		"task/task.toml":      "schema_version = \"1.1\"\n[agent]\ntimeout_sec = 600.0\n[environment]\ndocker_image = \"host\"\n",
		"task/instruction.md": "Create a file hello.txt in the current directory with exactly this content: Hello, world!\n",
		"task/tests/test.sh":  "#!/bin/sh\nif [ \"$(cat hello.txt)\" = 'Hello, world!' ]; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n",
		"model.yaml": "turns:\n  - calls: [{bash: \"printf 'Hello, world!' >hello.txt\"}]\n" +
			"  - calls: [{write: {path: hello.txt, content: 'Hello, world!'}}]\n  - calls: [{submit: done}]\n",
	} {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(p, []byte(text), 0o755); err != nil {
			return err
		}
	}
	return nil
}
