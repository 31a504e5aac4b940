package web

import (
	"regexp"
	"slices"

	"assay/trial"
)

// WithoutCode is j for readers who may see figures and not the work: its pages
// hold no instruction, message, reasoning, tool input or output, patch, log,
// test output, note or error text. What stays are names of jobs, tasks, agents,
// models and steps, registered words, counts, sizes and times.
func WithoutCode(j *Job) *Job {
	bare := *j
	bare.Bare = true
	bare.Notes = nil
	bare.Problems = nil
	if n := len(j.Problems); n > 0 {
		bare.Problems = []string{count(n, "thing", "things") + " could not be read; what it is is left out"}
	}
	bare.Replaced = slices.Clone(j.Replaced)
	for i := range bare.Replaced {
		if w := bare.Replaced[i].Why; w != "retry" && w != "rerun" {
			bare.Replaced[i].Why = "replaced"
		}
	}
	bare.Trials = make([]*Trial, len(j.Trials))
	for i, t := range j.Trials {
		bare.Trials[i] = t.withoutCode()
	}
	return &bare
}

func (t *Trial) withoutCode() *Trial {
	b := *t
	b.Detail, b.Notes, b.Problems = "", nil, nil
	b.Rewards = plainRewards(t.Rewards)
	b.Steps = slices.Clone(t.Steps)
	for i := range b.Steps {
		b.Steps[i].Rewards = plainRewards(b.Steps[i].Rewards)
		b.Steps[i].Error = plainWord(b.Steps[i].Error)
	}
	if t.Exception != nil {
		b.Exception = &trial.Exception{Type: plainWord(t.Exception.Type), At: t.Exception.At}
	}
	b.LiveSteps = slices.Clone(t.LiveSteps)
	for i := range b.LiveSteps {
		b.LiveSteps[i].Text, b.LiveSteps[i].Tool = "", plainWord(b.LiveSteps[i].Tool)
	}
	b.Marks = slices.Clone(t.Marks)
	for i := range b.Marks {
		b.Marks[i].Text = ""
	}
	return &b
}

// plain is the form of a tool's, a class's or a reward's name. Whoever writes
// these could write anything there.
var plain = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]{0,39}$`)

func plainWord(s string) string {
	if s == "" || plain.MatchString(s) {
		return s
	}
	return "left out"
}

func plainRewards(all []Reward) (out []Reward) {
	for _, r := range all {
		out = append(out, Reward{plainWord(r.Key), r.Value})
	}
	return out
}

// withoutCode keeps the shape of what a trial left: how many steps, calls,
// files and lines there were, and how large they are.
func (d Detail) withoutCode() Detail {
	d.Bare, d.Files, d.More = true, nil, false
	if d.Problem != "" {
		d.Problem = "the trial's directory cannot be read"
	}
	parts := slices.Clone(d.Parts)
	for i := range parts {
		p := &parts[i]
		p.Shape = Shape{Steps: p.Steps.Total, TestBytes: p.Test.Size}
		for _, s := range p.Steps.Shown {
			p.Shape.Calls += len(s.Calls)
		}
		for _, f := range p.Diff {
			p.Shape.Files++
			p.Shape.Added += f.Added
			p.Shape.Removed += f.Removed
		}
		*p = Part{Name: p.Name, Shape: p.Shape, Steps: p.Steps.withoutCode()}
	}
	d.Parts = parts
	return d
}

// Shape is what is told of work that is not shown.
type Shape struct {
	Steps, Calls          int // calls of the steps that are listed
	Files, Added, Removed int // of the diff, as far as it is read
	TestBytes             int64
}

func (s Steps) withoutCode() Steps {
	bare := Steps{Total: s.Total}
	for _, st := range s.Shown {
		b := Step{ID: st.ID, Source: plainWord(st.Source), Time: clockOrNothing(st.Time), Usage: st.Usage, Skipped: st.Skipped, Copied: st.Copied}
		for _, c := range st.Calls {
			b.Calls = append(b.Calls, Call{Name: plainWord(c.Name)})
		}
		bare.Shown = append(bare.Shown, b)
	}
	return bare
}

var clockLike = regexp.MustCompile(`^[0-9TZ:.+ -]{1,40}$`)

// clockOrNothing keeps a time, which is an agent's word too, if it looks like one.
func clockOrNothing(s string) string {
	if clockLike.MatchString(s) {
		return s
	}
	return ""
}
