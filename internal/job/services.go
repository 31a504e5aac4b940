package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/grade"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trial"
)

// compose reads which services the task wants beside its agent and gets their
// images; without any it does nothing.
func (a *attempt) compose(ctx context.Context) error {
	t := a.p.task
	beside, err := t.Sidecars()
	if err != nil || len(beside) == 0 {
		return err // a file that cannot be read was refused before
	}
	c, err := t.Compose(a.env)
	if err != nil {
		return &endError{trial.CauseUnsupported, fmt.Errorf("the services of %s: %w", t.Name, err)}
	}
	if len(c.Beside) == 0 { // all of them belong to profiles
		return nil
	}
	for _, n := range c.Notes {
		a.note(c.File + ": " + n)
	}
	a.main = &c.Main
	a.env = mergeEnv(c.Main.Env, a.env)
	set := &sandbox.Set{}
	if set.Main, err = a.service(c.Main, a.image); err != nil {
		return err
	}
	for _, s := range c.Beside {
		img, err := a.serviceImage(ctx, s)
		if err != nil {
			return fmt.Errorf("service %q (%s:%d): %w", s.Name, c.File, s.Line, err)
		}
		one, err := a.service(s, img)
		if err != nil {
			return err
		}
		set.Beside = append(set.Beside, one)
		if err := a.r.keepImage(img); err != nil {
			return err
		}
	}
	a.set = set
	a.rec.Modes.Services = trial.ServicesKept
	return nil
}

// mergeEnv lets later values win.
func mergeEnv(lists ...[]string) []string {
	var out []string
	at := map[string]int{}
	for _, e := range slices.Concat(lists...) {
		name, _, _ := strings.Cut(e, "=")
		if i, ok := at[name]; ok {
			out[i] = e
			continue
		}
		at[name] = len(out)
		out = append(out, e)
	}
	return out
}

// serviceImage is the image of a service: built of the task's files, the
// agent's own, or one by name.
func (a *attempt) serviceImage(ctx context.Context, s task.Service) (image.Image, error) {
	if s.Build == nil && s.Image == task.MainImage {
		return a.image, nil
	}
	env := serviceEnvironment(s)
	env.uid = a.uid()
	got, err := a.r.images.get(ctx, env)
	return got.image, err
}

func serviceEnvironment(s task.Service) environment {
	if b := s.Build; b != nil {
		return environment{dir: b.Dir, dockerfile: b.Dockerfile, target: b.Target, args: b.Args, beside: true}
	}
	return environment{name: s.Image, beside: true}
}

// how tells builds of one directory apart; empty for a plain one.
func (e environment) how() string {
	if e.dockerfile == "" && e.target == "" && len(e.args) == 0 && !e.beside {
		return ""
	}
	return fmt.Sprintf("\x00%q %q %q %v", e.dockerfile, e.target, e.args, e.beside)
}

// base is the image that --image puts in the place of an environment's own.
func (m *images) base(env environment) string {
	if env.beside {
		return ""
	}
	return m.override
}

// services says whether the backend has a place for them.
func (m *images) services() bool {
	return m.composed || m.deps.Backend != nil && m.deps.Backend.Capabilities().Services
}

// beside are the images of the services that stand beside a task's agent, as
// far as they can be told before its variables are known.
func (m *images) beside(t *task.Task) (all []environment) {
	if list, err := t.Sidecars(); err != nil || len(list) == 0 {
		return nil
	}
	var env []string
	if m.deps.Env != nil {
		env, _ = task.ResolveEnv(t.Config.Environment.Env, m.deps.Env) // a trial says what is wrong
	}
	c, err := t.Compose(env)
	if err != nil {
		return nil
	}
	for _, s := range c.Beside {
		if s.Build != nil || s.Image != task.MainImage {
			all = append(all, serviceEnvironment(s))
		}
	}
	return all
}

// service puts a service into the sandbox's words.
func (a *attempt) service(s task.Service, img image.Image) (sandbox.Service, error) {
	out := sandbox.Service{
		Name: s.Name, Image: img, Args: arguments(s, img.Config), Env: s.Env, Dir: image.Path(s.Workdir), User: s.User, Hostname: s.Hostname,
		Aliases: s.Aliases, Hosts: s.Hosts, Restart: sandbox.Restart(s.Restart), ShmBytes: s.ShmBytes, Sysctls: s.Sysctls,
		Limits: sandbox.Limits{MemBytes: s.MemBytes, CPUs: s.CPUs, Pids: s.Pids},
	}
	if out.Limits.MemBytes == 0 {
		out.Limits.MemBytes = a.r.cfg.Limits.MemBytes
	}
	conditions := map[task.Condition]sandbox.Condition{task.Started: sandbox.Started, task.Healthy: sandbox.Healthy, task.Completed: sandbox.Completed}
	for _, w := range s.After {
		out.After = append(out.After, sandbox.After{Service: w.Service, Condition: conditions[w.Condition]})
	}
	for _, v := range s.Volumes {
		out.Volumes = append(out.Volumes, sandbox.Volume{Name: v.Name, Target: image.Path(v.Target), ReadOnly: v.ReadOnly})
	}
	for _, f := range s.Files {
		out.Files = append(out.Files, sandbox.HostFile{Source: image.HostPath(f.Source), Target: image.Path(f.Target)})
	}
	for _, t := range s.Tmpfs {
		out.Tmpfs = append(out.Tmpfs, image.Path(t))
	}
	if h := s.Health; h != nil {
		out.Health = image.Healthcheck{Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, StartInterval: h.StartInterval, Retries: h.Retries}
	} else if img.Config.Healthcheck != nil {
		out.Health = *img.Config.Healthcheck
	}
	return out, nil
}

// arguments are what a service runs: an entrypoint of its own leaves the
// image's command out, as in Docker.
func arguments(s task.Service, c image.Config) []string {
	switch {
	case s.Entrypoint != nil:
		return slices.Concat(s.Entrypoint, s.Command)
	case s.Command != nil:
		return slices.Concat(c.Entrypoint, s.Command)
	}
	return slices.Concat(c.Entrypoint, c.Cmd)
}

// mainEnvironment is where a Compose file says what the agent's own image is
// made of, where it says anything.
func mainEnvironment(t *task.Task, env environment) environment {
	beside, err := t.Sidecars()
	if err != nil || len(beside) == 0 || env.name != "" {
		return env
	}
	c, err := t.Compose(nil)
	if err != nil {
		return env // it is refused with the trial's own variables, in a better place
	}
	switch b := c.Main.Build; {
	case b != nil:
		env.dir, env.dockerfile, env.target, env.args = b.Dir, b.Dockerfile, b.Target, b.Args
	case c.Main.Image != "" && c.Main.Image != task.MainImage && !env.builds():
		env.name = c.Main.Image
	}
	return env
}

// unhealthy says whose fault it is that a service did not come up.
func unhealthy(err error) error {
	if errors.Is(err, sandbox.ErrUnhealthy) {
		return &endError{trial.CauseTaskUnhealthy, err}
	}
	return err
}

// neighbour finds a service for whatever is collected from it.
func (a *attempt) neighbour(name string) (grade.Place, bool) {
	c, ok := a.sb.(sandbox.Composed)
	if !ok {
		return nil, false
	}
	n, ok := c.Beside(name)
	return n, ok
}

// serviceLogs writes down what the services said.
func (a *attempt) serviceLogs(step string) error {
	c, ok := a.sb.(sandbox.Composed)
	if a.set == nil || !ok {
		return nil
	}
	dir := filepath.Join(a.stepDir(step, "agent"), "services")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, s := range a.set.Beside {
		n, ok := c.Beside(s.Name)
		if !ok {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, s.Name+".log"), n.Log(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
