package swebench

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"assay/internal/exchange"
	"assay/internal/grade/checks"
	"assay/internal/importer"
	"assay/task"
)

// Names in a task directory. solution/ and tests/ are the grader's alone, and
// no gold is below tests/: what is there can be read by the code that is
// graded.
const (
	rowFile       = "row.json"
	patchName     = "gold.patch" // of SWE-smith the bug, which is taken back
	testPatchName = "test.patch"
	runName       = "run.sh"
	f2pName       = "fail_to_pass.txt"
	p2pName       = "pass_to_pass.txt"
	placedDir     = "repo"
	assetsDir     = "assets"

	workdir = "/testbed"
	// testTime is SWE-bench's own limit of one instance, in seconds.
	testTime  = 1800.0
	agentTime = 3600.0
	buildTime = 1800.0
)

const solve = `#!/bin/sh
# The gold solution.
set -e
cd ` + workdir + `
git apply %s/solution/` + patchName + `
`

// dir lays an instance out as a task directory.
func (im Importer) dir(ctx context.Context, s source) (importer.Dir, error) {
	r := s.row
	d := importer.Dir{Name: dirName(r.ID)}
	add := func(name string, data []byte, exec bool) {
		d.Files = append(d.Files, importer.File{Path: name, Data: data, Exec: exec})
	}
	for _, f := range exchange.CheckIDs(r) {
		if im.Found != nil {
			im.Found(f)
		}
	}
	env, err := im.environment(ctx, s)
	if err != nil {
		return d, err
	}
	d.Files = append(d.Files, env.files...)
	run, format, err := im.script(s, env)
	if err != nil {
		return d, err
	}
	plan, err := im.plan(r, format, env)
	if err != nil {
		return d, err
	}
	encoded, err := plan.Encode()
	if err != nil {
		return d, err
	}
	config, err := im.config(r, env)
	if err != nil {
		return d, err
	}
	reverse := ""
	if im.Smith {
		reverse = "--reverse "
	}
	add("task.toml", config, false)
	add("instruction.md", []byte(im.instruction(r)), false)
	add("solution/"+rowFile, r.Raw, false)
	add("solution/"+patchName, []byte(r.Patch), false)
	add("solution/solve.sh", fmt.Appendf(nil, solve, reverse), true)
	add("tests/"+checks.File, encoded, false)
	add("tests/"+f2pName, lines(r.FailToPass), false)
	if len(r.PassToPass) > 0 {
		add("tests/"+p2pName, lines(r.PassToPass), false)
	}
	add("tests/"+runName, []byte(run), true)
	add("tests/"+checks.ScriptName, im.testScript(r, plan), true)
	if r.TestPatch != "" {
		add("tests/"+testPatchName, []byte(r.TestPatch), false)
	}
	for _, f := range s.assets {
		add("tests/"+assetsDir+"/"+f.Path, f.Data, false)
	}
	return d, nil
}

func lines(ids []string) []byte { return []byte(strings.Join(ids, "\n") + "\n") }

// instruction is what the agent is told: the issue, and hints where they were
// asked for.
func (im Importer) instruction(r *exchange.Row) string {
	text := strings.TrimRight(r.Problem, "\n")
	if text == "" {
		text = "Some tests of this repository fail. Find out why and repair the code; the tests are right."
		im.note(r.ID, "it has no problem statement: the agent is only told that tests fail")
	}
	if im.Hints && strings.TrimSpace(r.Hints) != "" {
		text += "\n\n## Hints\n\n" + strings.TrimRight(r.Hints, "\n")
	}
	for _, l := range strings.Split(r.Patch, "\n") {
		if code, ok := strings.CutPrefix(l, "+"); ok && len(strings.TrimSpace(code)) >= leakLength && !strings.HasPrefix(l, "+++") && strings.Contains(text, strings.TrimSpace(code)) {
			im.note(r.ID, "its problem statement holds a line of the solution: "+strings.TrimSpace(code))
			break
		}
	}
	return text + "\n"
}

// leakLength is how long a line of the solution must be to be no accident in a
// problem statement.
const leakLength = 30

func (im Importer) note(id, text string) {
	if im.Note != nil {
		im.Note(id, text)
	}
}

// own are the fields that have files of their own.
var own = map[string]bool{
	"instance_id": true, "patch": true, "test_patch": true, "problem_statement": true, "hints_text": true, "eval_script": true,
	"FAIL_TO_PASS": true, "PASS_TO_PASS": true, "fail_to_pass": true, "pass_to_pass": true,
}

func (im Importer) config(r *exchange.Row, env environment) ([]byte, error) {
	rest := map[string]any{"dataset": im.Name(), "instance_id": r.ID}
	row := map[string]any{}
	for _, key := range r.Keys {
		if own[key] {
			continue
		}
		row[key] = plain(r.Value(key))
	}
	if len(row) > 0 {
		rest["row"] = row
	}
	agent, verify, build := agentTime, testTime+60, buildTime
	c := task.Config{
		Metadata: task.Metadata{Rest: rest, Assay: task.Assay{Grade: task.GradePatch, FallbackImage: env.fallback}},
		Agent:    task.AgentConfig{TimeoutSec: &agent},
		Verifier: task.VerifierConfig{TimeoutSec: &verify},
		Environment: task.Environment{
			DockerImage: env.image, BuildTimeoutSec: &build, Workdir: workdir, NetworkMode: task.NetworkNone,
		},
	}
	return c.Encode()
}

// plain is a JSON value as TOML can hold it: text, numbers and truths as they
// are, anything else as its JSON.
func plain(v json.RawMessage) any {
	var s string
	var b bool
	var n int64
	switch {
	case json.Unmarshal(v, &s) == nil && v[0] == '"':
		return strings.ReplaceAll(s, "\x00", "")
	case v[0] != 'n' && json.Unmarshal(v, &b) == nil:
		return b
	case v[0] != 'n' && json.Unmarshal(v, &n) == nil:
		return n
	}
	return string(v)
}

func (im Importer) plan(r *exchange.Row, f format, env environment) (checks.Plan, error) {
	for _, id := range append(append([]string{}, r.FailToPass...), r.PassToPass...) {
		if strings.ContainsAny(id, "\n\r") {
			return checks.Plan{}, fmt.Errorf("the test id %q holds a line end", id)
		}
	}
	c := checks.Command{
		Name: "tests", Args: []string{"/tests/" + runName}, Dir: workdir, TimeoutSec: testTime,
		Report: f.report, FailToPassFile: f2pName,
	}
	if len(r.PassToPass) > 0 {
		c.PassToPassFile = p2pName
	}
	if f.file != "" {
		c.Files = []string{f.file}
	}
	p := checks.Plan{Version: 1, Commands: []checks.Command{c}}
	if im.Smith && !env.placed {
		p.Protected = filesOf(r)
	}
	if env.placed {
		p.Place = map[string]string{placedDir: workdir}
	}
	return p, nil
}

// byStatus stands for the script of a plan that no script can judge by.
const byStatus = `#!/bin/bash
# For Harbor, which knows no check plan. The report of these tests is a text that
# no script here reads: their exit status alone decides.
mkdir -p /logs/verifier
if /bin/bash /tests/` + runName + `; then
	echo 1 >/logs/verifier/reward.txt
else
	echo 0 >/logs/verifier/reward.txt
fi
`

// testScript is what Harbor runs.
func (im Importer) testScript(r *exchange.Row, p checks.Plan) []byte {
	c := p.Commands[0]
	c.FailToPass, c.PassToPass, c.FailToPassFile, c.PassToPassFile = r.FailToPass, r.PassToPass, "", ""
	p.Commands = []checks.Command{c}
	b, err := p.Script()
	if err == nil {
		return b
	}
	im.note(r.ID, "under Harbor the tests' exit status alone decides: "+err.Error())
	return []byte(byStatus)
}
