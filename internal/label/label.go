// Package label gives a task its static place on four axes: how far its
// solution reaches (scope), how much its text says (specification), how broken
// its machine is (environment), and how much work it asks for (process). Every
// number comes from the task's directory alone, so tasks of other people have
// labels too, and equal directories have equal ones. docs/labels.md has the
// formulas.
//
// It never runs anything, and says nothing of how agents fare: measured
// difficulty is of jobs, not of tasks.
package label

import (
	"fmt"
	"strings"

	"assay/task"
)

// Version is that of the formulas; labels of different versions do not compare.
const Version = 1

// Labels are a task's.
type Labels struct {
	Version       int           `json:"v"`
	Language      string        `json:"language,omitempty"` // of most of the solution's files
	Generator     string        `json:"generator,omitempty"`
	Scope         Scope         `json:"scope"`
	Specification Specification `json:"specification"`
	Environment   Environment   `json:"environment"`
	Process       Process       `json:"process"`
}

// Scope is how far the gold solution reaches.
type Scope struct {
	// Known is false where the solution is no more than commands: then Lines
	// are those of the script.
	Known   bool     `json:"known"`
	Lines   int      `json:"lines"` // added and removed
	Added   int      `json:"added"`
	Removed int      `json:"removed"`
	Files   int      `json:"files"`
	Modules int      `json:"modules"` // directories
	Layers  []string `json:"layers"`  // parts of a project that it touches, sorted
}

// Level is how much of a full specification is missing: "L0" nothing, "L4" all.
type Level string

// Specification is what the statement says.
type Specification struct {
	Words     int      `json:"words"`
	Facts     []string `json:"facts"` // kinds of facts that are there
	Level     Level    `json:"level"`
	Ambiguous bool     `json:"ambiguous"` // L3 or L4
}

// Environment is what is wrong with the machine, beside the code.
type Environment struct {
	Faults int      `json:"faults"`
	Depth  int      `json:"depth"` // of the longest chain in which one fault masks the next; 0 without faults
	Kinds  []string `json:"kinds"` // operators' names, or what a Dockerfile does
	From   string   `json:"from"`  // "record", "dockerfile", "none"
}

// Tier is how long an engineer who knows the project would need.
type Tier string

const (
	Short  Tier = "<15 min"
	Medium Tier = "15-60 min"
	Long   Tier = ">1 h"
)

// Process is what a trajectory with the gold solution takes, estimated.
type Process struct {
	Steps   int     `json:"steps"`
	Files   int     `json:"files"` // looked at or changed
	Minutes float64 `json:"minutes"`
	Tier    Tier    `json:"tier"`
}

// Of reads a task directory and labels it.
func Of(dir string) (Labels, error) {
	t, err := task.Load(dir)
	if err != nil {
		return Labels{}, fmt.Errorf("label: %w", err)
	}
	return OfTask(t)
}

// OfTask labels a task that is loaded.
func OfTask(t *task.Task) (Labels, error) {
	d, err := open(t)
	if err != nil {
		return Labels{}, fmt.Errorf("label %s: %w", t.Dir, err)
	}
	defer d.close()
	g, err := d.gold()
	if err != nil {
		return Labels{}, fmt.Errorf("label %s: %w", t.Dir, err)
	}
	l := Labels{Version: Version, Generator: d.record.generator}
	l.Scope, l.Language = g.scope()
	if p := t.Config.Task; l.Language == "" && d.record.there && p != nil && len(p.Keywords) > 2 {
		l.Language = p.Keywords[2] // generator, grade, language
	}
	l.Specification = specify(d.instruction(), t.Config.Environment.Workdir)
	if l.Environment, err = d.environment(); err != nil {
		return Labels{}, fmt.Errorf("label %s: %w", t.Dir, err)
	}
	l.Process = estimate(l)
	return l, nil
}

// Table is the form in which labels stand in task.toml, [metadata.assay.labels].
func (l Labels) Table() map[string]any {
	t := map[string]any{
		"v": l.Version,
		"scope": map[string]any{"known": l.Scope.Known, "lines": l.Scope.Lines, "added": l.Scope.Added, "removed": l.Scope.Removed,
			"files": l.Scope.Files, "modules": l.Scope.Modules, "layers": l.Scope.Layers},
		"specification": map[string]any{"words": l.Specification.Words, "facts": l.Specification.Facts, "level": string(l.Specification.Level),
			"ambiguous": l.Specification.Ambiguous},
		"environment": map[string]any{"faults": l.Environment.Faults, "depth": l.Environment.Depth, "kinds": l.Environment.Kinds, "from": l.Environment.From},
		"process":     map[string]any{"steps": l.Process.Steps, "files": l.Process.Files, "minutes": l.Process.Minutes, "tier": string(l.Process.Tier)},
	}
	if l.Language != "" {
		t["language"] = l.Language
	}
	return t
}

// estimate is what the gold needs of somebody who finds it: minutes and steps
// grow with what is changed, where, what is not told and what is broken. The
// weights put SWE-bench Verified's usual tasks, one file and some 14 lines, at
// a quarter of an hour to one hour, as its annotators did.
func estimate(l Labels) Process {
	level := int(l.Specification.Level[1] - '0')
	lines := min(l.Scope.Lines, 300)
	files, modules := l.Scope.Files, l.Scope.Modules
	deeper := max(0, l.Environment.Depth-1)
	p := Process{Files: files + modules + l.Environment.Faults}
	p.Steps = 4 + 3*files + lines/10 + 2*level + 4*l.Environment.Faults + 3*deeper
	p.Minutes = 5 + 0.8*float64(lines) + 5*float64(max(0, files-1)) + 4*float64(max(0, modules-1)) + 4*float64(level) +
		6*float64(l.Environment.Faults) + 5*float64(deeper)
	if l.Environment.Faults > 0 && l.Environment.From == "record" {
		// The faults are the work: the lines that mend them, often of whole files, are found and not written.
		p.Minutes -= 0.8 * float64(lines) * 0.9
	}
	p.Minutes = float64(int(p.Minutes*10+0.5)) / 10
	switch {
	case p.Minutes < 15:
		p.Tier = Short
	case p.Minutes <= 60:
		p.Tier = Medium
	default:
		p.Tier = Long
	}
	return p
}

// record is what assay's forge wrote of how a task was made.
type record struct {
	generator string
	operators []string
	depth     int
	there     bool
}

// recordOf reads [metadata.assay.forge]; what is not of the kind that the forge
// writes is not there.
func recordOf(c task.Config) record {
	facts, ok := c.Metadata.Assay.Rest["forge"].(map[string]any)
	if !ok {
		return record{}
	}
	r := record{there: true}
	r.generator, _ = facts["generator"].(string)
	switch list := facts["operators"].(type) {
	case []any:
		for _, v := range list {
			if s, ok := v.(string); ok {
				r.operators = append(r.operators, s)
			}
		}
	case []string:
		r.operators = list
	}
	if notes, ok := facts["notes"].(map[string]any); ok {
		if s, ok := notes["depth"].(string); ok {
			if _, err := fmt.Sscan(strings.TrimSpace(s), &r.depth); err != nil {
				r.depth = 0
			}
			// A chain is no longer than the faults it is of.
			r.depth = min(max(r.depth, 0), len(r.operators))
		}
	}
	return r
}
