package forge

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/repo"
	"assay/task"
)

// made is a candidate worked out: what a task directory says.
type made struct {
	cand    Candidate
	env     *repo.Environment
	healthy *image.View
	broken  Delta       // complete, with its commit and its times
	back    Delta       // from broken to solved
	state   *image.View // the broken tree
	layer   image.LayerID

	plan  *checks.Plan
	tests map[string][]byte // files below tests/, besides the plan and its script
	words string            // the instruction
	facts map[string]any    // [metadata.assay.forge], beside those of the candidate
}

// Names of a task's files that the forge makes.
const (
	layerFile   = "layer.tar.gz"   // below environment/
	payloadFile = "payload.tar.gz" // below solution/
)

// dockerfile is the Dockerfile and the layer beside it: every engine makes the
// broken state of them, removals included.
func (m *made) dockerfile() (text, layer []byte, err error) {
	s, err := stepsOf(m.broken, m.healthy, m.healthy, nil, m.env.Workdir)
	if err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Made by assay forge of a healthy image: see docs/forge.md.\nFROM %s\n", m.env.Image)
	user := m.env.User
	root := user == "" || user == "root" || user == "0"
	if !root {
		b.WriteString("USER root\n")
	}
	if lines := s.lines(true); len(lines) > 0 {
		fmt.Fprintf(&b, "RUN %s\n", strings.Join(lines, " && \\\n    "))
	}
	if len(s.rest)+len(s.above) > 0 {
		if layer, err = s.archive(m.healthy); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&b, "ADD %s /\n", layerFile)
	}
	if !root {
		fmt.Fprintf(&b, "USER %s\n", user)
	}
	fmt.Fprintf(&b, "WORKDIR %s\n", m.env.Workdir)
	return b.Bytes(), layer, nil
}

// solution is solve.sh and what it unpacks. Files that are put back in a state
// get their old times; in a patch they are new, as an agent's work is.
func (m *made) solution() (script, payload []byte, err error) {
	where := map[string]string{}
	s, err := stepsOf(m.broken, m.healthy, m.healthy, nil, "")
	if err != nil {
		return nil, nil, err
	}
	for _, c := range s.copies {
		where[c[0]] = c[1]
	}
	spliced := "" // in a state the tools for it may be what is broken
	if m.cand.Grade == GradePatch {
		spliced = m.env.Workdir
	}
	if s, err = stepsOf(m.back, m.state, m.healthy, where, spliced); err != nil {
		return nil, nil, err
	}
	var b bytes.Buffer
	b.WriteString("#!/bin/sh\n# Made by assay forge: puts back what was changed.\nset -e\nPATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\nhere=$(dirname \"$0\")\n")
	for _, l := range s.lines(false) {
		b.WriteString(l + "\n")
	}
	if len(s.rest) > 0 {
		options := ""
		if m.cand.Grade == GradePatch {
			s.above, options = nil, "-m "
		}
		if slices.ContainsFunc(s.rest, func(e Edit) bool { return len(e.Xattrs) > 0 }) {
			options += "--xattrs --xattrs-include='*' "
		}
		if payload, err = s.archive(m.healthy); err != nil {
			return nil, nil, err
		}
		fmt.Fprintf(&b, "tar -x -z -p --numeric-owner %s-f \"$here/%s\" -C /\n", options, payloadFile)
	}
	return b.Bytes(), payload, nil
}

// write makes the task directory.
func (m *made) write(dir string) error {
	df, layer, err := m.dockerfile()
	if err != nil {
		return fmt.Errorf("task %s: %w", m.cand.Name, err)
	}
	solve, payload, err := m.solution()
	if err != nil {
		return fmt.Errorf("task %s: %w", m.cand.Name, err)
	}
	plan, err := m.plan.Encode()
	if err != nil {
		return fmt.Errorf("task %s: plan: %w", m.cand.Name, err)
	}
	files := []task.File{
		{Path: "instruction.md", Data: []byte(m.words)},
		{Path: "environment/Dockerfile", Data: df},
		{Path: "solution/solve.sh", Data: solve, Exec: true},
		{Path: "tests/" + checks.File, Data: plan},
		{Path: "tests/" + checks.ScriptName, Data: []byte("#!/bin/sh\nexit 1\n"), Exec: true},
	}
	for name, b := range map[string][]byte{"environment/" + layerFile: layer, "solution/" + payloadFile: payload} {
		if b != nil {
			files = append(files, task.File{Path: name, Data: b})
		}
	}
	for name, b := range m.tests {
		files = append(files, task.File{Path: "tests/" + name, Data: b})
	}
	slices.SortFunc(files, func(a, b task.File) int { return cmp.Compare(a.Path, b.Path) })
	if err := task.Write(dir, m.config(), files); err != nil {
		return err
	}
	return script(filepath.Join(dir, "tests"))
}

// script makes test.sh of the plan, for Harbor, where a script can do what the
// plan says.
func script(tests string) error {
	p, err := checks.Load(tests)
	if err != nil {
		return err
	}
	b, err := p.Script()
	if err != nil {
		b = []byte("#!/bin/sh\n# assay alone grades this task: " + strings.ReplaceAll(err.Error(), "\n", " ") + "\nexit 1\n")
	}
	return os.WriteFile(filepath.Join(tests, checks.ScriptName), b, 0o755)
}

// config is task.toml.
func (m *made) config() task.Config {
	c, e := m.cand, m.env
	agent := 3600.0
	// Gold may take half of it, and graded twice over with canaries is four runs.
	verifier := max(600, 40*e.Suite.Millis/1000)
	out := task.Config{
		Task:        &task.Package{Name: "forge/" + strings.Trim(path.Base(c.Name), "-._"), Version: "1.0.0", Description: cut(m.title(), 200), Keywords: []string{c.Generator, string(c.Grade)}},
		Agent:       task.AgentConfig{TimeoutSec: &agent},
		Verifier:    task.VerifierConfig{TimeoutSec: &verifier},
		Environment: task.Environment{Workdir: e.Workdir},
	}
	if len(e.Languages) > 0 {
		out.Task.Keywords = append(out.Task.Keywords, e.Languages[0])
	}
	if mb := e.Limits.MemoryMB; mb > 0 {
		room := max(2*mb, 1024)
		out.Environment.MemoryMB = &room
	}
	facts := map[string]any{
		"generator": c.Generator, "candidate": c.Name, "seed": int64(c.Seed), "environment": e.Image, "tree": e.Source.Tree, "layers": layerNames(e.Layers),
	}
	for k, v := range map[string]string{"repository": e.Source.URL, "commit": e.Source.Commit, "licence": e.Source.Licence, "origin_commit": c.Origin.Commit, "issue": c.Origin.Issue, "date": c.Origin.Date, "system": e.System} {
		if v != "" {
			facts[k] = v
		}
	}
	if len(c.Operators) > 0 {
		facts["operators"] = c.Operators
	}
	if len(c.Notes) > 0 {
		facts["notes"] = c.Notes
	}
	for k, v := range m.facts {
		facts[k] = v
	}
	out.Metadata.Assay = task.Assay{Grade: task.GradeKind(c.Grade), Verifier: task.VerifierSealed, Rest: map[string]any{"forge": facts}}
	return out
}

func (m *made) title() string {
	if m.cand.Statement.Title != "" {
		return m.cand.Statement.Title
	}
	line, _, _ := strings.Cut(strings.TrimLeft(m.words, "# \n"), "\n")
	return line
}

func layerNames(ids []image.LayerID) []string {
	out := make([]string, len(ids))
	for i, id := range ids {
		out[i] = string(id)
	}
	return out
}

// cut shortens a text for a line of people's.
func cut(s string, n int) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n-3], "") + "…"
}
