package repo

import (
	"context"
	_ "embed"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"assay/internal/sandbox"
)

//go:embed helpers/assay_cover.py
var helperPython []byte

// coverDir is where helpers lie in a sandbox, beside the project's own
// environment, into which nothing is installed.
const coverDir = "/opt/assay-cover"

// cover finds what each stable test covers, in runs of their own: what measures
// also slows, and may change what a test sees.
func (r *suiteRun) cover(ctx context.Context) error {
	for at, c := range r.c.Commands {
		first, ran := r.kept[at]
		if !ran || first.fatal() {
			continue
		}
		limit := min(r.left(), 10*first.wall+2*time.Minute)
		if limit < first.wall {
			r.find(Finding{Kind: Partial, Command: c.Name, Detail: "what its tests cover is not known: the budget is used up", Remedy: "give a larger budget"})
			continue
		}
		found, err := r.coverCommand(ctx, c, limit)
		if err != nil {
			return err
		}
		if found == nil {
			continue
		}
		r.apply(c.Name, found)
		n := 0
		for _, t := range r.suite.Tests {
			if t.Command == c.Name && t.Covers != nil {
				n++
			}
		}
		r.c.Say("%s: coverage of %d tests, %d files", c.Name, n, len(r.suite.Files))
	}
	// Files of later commands came after those of earlier ones.
	if r.suite.Static != nil {
		r.suite.Static = append(r.suite.Static, make([]string, len(r.suite.Files)-len(r.suite.Static))...)
	}
	return nil
}

// coverCommand is nil where the ecosystem cannot tell.
func (r *suiteRun) coverCommand(ctx context.Context, c Command, limit time.Duration) (*covered, error) {
	switch c.Report {
	case "pytest", "pytest-log":
		return r.coverPython(ctx, c, limit)
	case "go-test":
		return r.coverGo(ctx, c, limit)
	case "jest", "vitest", "mocha", "mocha-log", "node-test", "tap":
		return r.coverNode(ctx, c, limit)
	case "junit":
		return r.coverJava(ctx, c, limit)
	}
	return nil, nil
}

// coverPython lets our plug-in see the suite run once.
func (r *suiteRun) coverPython(ctx context.Context, c Command, limit time.Duration) (*covered, error) {
	files := map[string][]byte{path.Join(coverDir, "assay_cover.py")[1:]: helperPython}
	env := []string{"ASSAY_COVER=" + coverLog, "ASSAY_COVER_ROOT=" + r.c.Workdir,
		"PYTHONPATH=" + r.with("PYTHONPATH", ":", coverDir), "PYTEST_ADDOPTS=" + r.with("PYTEST_ADDOPTS", " ", "-p assay_cover")}
	return r.recorded(ctx, c, limit, env, files)
}

// coverLog is what the names of helpers' records begin with.
const coverLog = logsDir + "/assay-cover"

// with adds to a variable of the image or the configuration.
func (r *suiteRun) with(name, sep, add string) string {
	for _, kv := range slices.Backward(slices.Concat(r.c.Image.Config.Env, r.c.Env)) {
		if v, ok := strings.CutPrefix(kv, name+"="); ok && v != "" {
			return v + sep + add
		}
	}
	return add
}

// recorded runs a command with a helper and reads the helper's records. A run
// that ends badly still covered what it covered.
func (r *suiteRun) recorded(ctx context.Context, c Command, limit time.Duration, env []string, files map[string][]byte) (*covered, error) {
	t := trial{seed: r.c.Seed, limit: limit}
	sb, err := r.fork(ctx, t, files)
	if err != nil {
		return nil, err
	}
	defer sb.Close()
	c.Files = []string{coverLog + ".*"}
	if err := r.clear(ctx, sb, c); err != nil {
		return nil, err
	}
	env = append(slices.Clone(r.c.Env), append(env, "PYTHONHASHSEED=1")...)
	plain := c
	plain.Report, plain.Files = "", nil
	res, err := r.inside(ctx, sb, plain, t, env)
	if err != nil {
		return nil, err
	}
	if res.timedOut {
		r.find(Finding{Kind: Partial, Command: c.Name, Detail: fmt.Sprintf("the run that looks what tests cover was ended after %v; of the others it is not known", res.wall.Round(time.Second)), Remedy: "give a larger budget"})
	}
	return r.records(ctx, sb, c)
}

func (r *suiteRun) records(ctx context.Context, sb sandbox.Sandbox, c Command) (*covered, error) {
	sources, err := r.gather(ctx, sb, c, r.c.Workdir)
	if err != nil {
		return nil, err
	}
	found := newCovered()
	for _, s := range sources {
		if err := found.read(s.Data); err != nil {
			r.find(Finding{Kind: Partial, Command: c.Name, Detail: "what tests cover cannot be read: " + err.Error()})
			return nil, nil
		}
	}
	if len(found.tests) == 0 && len(found.byFile) == 0 {
		return nil, nil
	}
	return found, nil
}
