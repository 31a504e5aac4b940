package store

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"assay/trajectory"
	"assay/trial"
)

// files finds the files of each step. A multi-step trial has them below
// steps/<name>/.
func (t *Trial) files(tr tree, name string, res *trial.Result) {
	steps := []string{""}
	if entries, err := tr.list(name + "/" + StepsDir); err == nil && len(entries) > 0 {
		steps = stepNames(entries, res)
	}
	for _, step := range steps {
		base := ""
		if step != "" {
			base = StepsDir + "/" + step + "/"
		}
		f := StepFiles{Step: step}
		for _, at := range []struct {
			to   *string
			name string
		}{
			{&f.Trajectory, TrajectoryFile}, {&f.Diff, DiffFile}, {&f.TestOutput, TestOutputFile},
			{&f.Details, RewardNotesFile}, {&f.Manifest, ManifestFile},
		} {
			found, why := tr.file(name + "/" + base + at.name)
			if why != "" {
				t.finding(name+"/"+base+at.name, "%s", why)
			}
			if found != "" {
				*at.to = base + at.name
			}
		}
		t.Steps = append(t.Steps, f)
	}
}

// stepNames are the steps in the order in which they ran, then those that only
// the directory knows.
func stepNames(entries []os.DirEntry, res *trial.Result) []string {
	var there, names []string
	for _, e := range entries {
		if e.IsDir() {
			there = append(there, e.Name())
		}
	}
	slices.Sort(there)
	if res != nil {
		for _, s := range res.StepResults {
			if slices.Contains(there, s.StepName) && !slices.Contains(names, s.StepName) {
				names = append(names, s.StepName)
			}
		}
	}
	for _, n := range there {
		if !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// describe reads task and agent of a trial without a result from its
// config.json.
func (t *Trial) describe(tr tree, name string) {
	var c struct {
		Task  struct{ Path, Name string }
		Agent struct {
			Name  string
			Model string `json:"model_name"`
		}
	}
	b, err := tr.read(name+"/"+ConfigFile, maxSmall)
	if err != nil || json.Unmarshal(b, &c) != nil {
		return
	}
	t.Task, t.Agent, t.Model = c.Task.Name, or(c.Agent.Name, "oracle"), c.Agent.Model
	if t.Task == "" {
		t.Task = lastPart(filepath.ToSlash(filepath.Clean(c.Task.Path)))
	}
}

// lockedDigest is the task's content digest from a trial's lock.json.
func lockedDigest(tr tree, name string) string {
	var l struct{ Task struct{ Digest string } }
	b, err := tr.read(name+"/"+LockFile, maxSmall)
	if err != nil || json.Unmarshal(b, &l) != nil {
		return ""
	}
	return l.Task.Digest
}

// Open opens a file of the trial by its path relative to the trial's
// directory: a regular one, reached through no link.
func (t *Trial) Open(name string) (*os.File, error) {
	tr, err := openTree(t.Dir)
	if err != nil {
		return nil, fmt.Errorf("open %q of trial %q: %w", name, t.Name, err)
	}
	defer tr.close()
	if found, why := tr.file(name); found == "" && why == "" {
		return nil, fmt.Errorf("open %q of trial %q: %w", name, t.Name, fs.ErrNotExist)
	} else if found == "" {
		return nil, fmt.Errorf("open %q of trial %q: %s", name, t.Name, why)
	}
	f, err := tr.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, fmt.Errorf("open %q of trial %q: %w", name, t.Name, err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		f.Close()
		return nil, fmt.Errorf("open %q of trial %q: not a regular file", name, t.Name)
	}
	return f, nil
}

// Trajectory reads the trajectory of a step; nil without an error when there
// is none.
func (t *Trial) Trajectory(step string) (*trajectory.Trajectory, error) {
	i := slices.IndexFunc(t.Steps, func(f StepFiles) bool { return f.Step == step })
	if i < 0 || t.Steps[i].Trajectory == "" {
		return nil, nil
	}
	f, err := t.Open(t.Steps[i].Trajectory)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	doc, err := trajectory.Read(f)
	if err != nil {
		return nil, fmt.Errorf("trajectory of trial %q: %w", t.Name, err)
	}
	return doc, nil
}
