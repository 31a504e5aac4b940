package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

const (
	maxHeadSteps = 800 // of a long trajectory, how many steps from its start
	maxTailSteps = 200 // and from its end are shown
	maxCalls     = 50  // tool calls or results of one step
	maxPiece     = 32 << 10
)

// Steps is a trajectory as a page shows it. It is read leniently: what is
// broken is named in Problem and everything before it is shown.
type Steps struct {
	Shown   []Step
	Total   int // steps in the file
	Agent   string
	Problem string
	// Around are the conversations beside the main one, in a line each: those
	// embedded in the document, and calls beside the work; the first of AroundN.
	Around  []string
	AroundN int
}

// Step is one step of a trajectory.
type Step struct {
	ID        int
	Source    string
	Brief     bool // the first words of the user: what the agent was asked
	Time      string
	Model     string
	Message   Text
	Reasoning Text
	Calls     []Call
	Results   []Text // of no call of this step
	Usage     string
	Copied    bool
	Skipped   int // steps left out before this one
}

// Call is one tool call and what came back.
type Call struct {
	Name    string
	Args    Text
	Results []Text
}

// The fields of ATIF that are shown; see package trajectory for the format.
type atifStep struct {
	StepID    int             `json:"step_id"`
	Source    string          `json:"source"`
	Timestamp string          `json:"timestamp"`
	Model     string          `json:"model_name"`
	Message   json.RawMessage `json:"message"`
	Reasoning string          `json:"reasoning_content"`
	Copied    bool            `json:"is_copied_context"`
	ToolCalls []atifCall      `json:"tool_calls"`
	Obs       *struct {
		Results []atifResult `json:"results"`
	} `json:"observation"`
	Metrics *struct {
		Prompt     *int64   `json:"prompt_tokens"`
		Completion *int64   `json:"completion_tokens"`
		Cost       *float64 `json:"cost_usd"`
	} `json:"metrics"`
}

type atifCall struct {
	ID   string          `json:"tool_call_id"`
	Name string          `json:"function_name"`
	Args json.RawMessage `json:"arguments"`
}

type atifResult struct {
	Call    string          `json:"source_call_id"`
	Content json.RawMessage `json:"content"`
}

// readSteps decodes one step at a time, so that a trajectory of many megabytes
// needs no more memory than what is kept of it.
func readSteps(r io.Reader, room int) Steps {
	var s Steps
	var head, tail []atifStep
	err := eachStep(r, &s, func(st atifStep) {
		s.Total++
		switch {
		case len(head) < maxHeadSteps:
			head = append(head, st)
		case len(tail) < maxTailSteps:
			tail = append(tail, st)
		default:
			tail[(s.Total-maxHeadSteps-1)%maxTailSteps] = st
		}
	})
	if err != nil {
		s.Problem = line(err.Error(), 300)
	}
	all := head
	if cut := s.Total - maxHeadSteps; cut > maxTailSteps { // tail is a ring
		oldest := cut % maxTailSteps
		tail = append(slices.Clone(tail[oldest:]), tail[:oldest]...)
	}
	all = append(all, tail...)
	level := waterLevel(all, room)
	briefed := false
	for i, st := range all {
		step := st.shown(level)
		if !briefed && st.Source == "user" {
			step.Brief, briefed = true, true
		}
		if i == maxHeadSteps && s.Total > len(all) {
			step.Skipped = s.Total - len(all)
		}
		s.Shown = append(s.Shown, step)
	}
	return s
}

// eachStep walks the top object of an ATIF document.
func eachStep(r io.Reader, s *Steps, f func(atifStep)) error {
	dec := json.NewDecoder(r)
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.Join(errors.New("trajectory.json is not an object"), err)
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		switch key {
		case "agent":
			var a struct{ Name, Version string }
			if err := dec.Decode(&a); err != nil {
				return fmt.Errorf("agent: %w", err)
			}
			s.Agent = line(strings.TrimSpace(a.Name+" "+a.Version), 200)
		case "steps":
			if t, err := dec.Token(); err != nil || t != json.Delim('[') {
				return errors.Join(errors.New("steps is not a list"), err)
			}
			for dec.More() {
				var st atifStep
				err := dec.Decode(&st)
				if mistyped := new(json.UnmarshalTypeError); err != nil && !errors.As(err, &mistyped) {
					return fmt.Errorf("step %d: %w", s.Total+1, err)
				}
				f(st)
			}
			if _, err := dec.Token(); err != nil {
				return err
			}
		case "extra":
			var x struct{ Assay around }
			err := dec.Decode(&x)
			if mistyped := new(json.UnmarshalTypeError); err != nil && !errors.As(err, &mistyped) {
				return fmt.Errorf("extra: %w", err)
			}
			s.Around, s.AroundN = x.Assay.lines()
		default:
			var skip json.RawMessage
			if err := dec.Decode(&skip); err != nil {
				return fmt.Errorf("%v: %w", key, err)
			}
		}
	}
	return nil
}

// around is what a document made of traffic says of other conversations; see
// docs/trajectories.md.
type around struct {
	Roots []struct {
		ID    string `json:"trajectory_id"`
		Kind  string
		Of    string
		Step  int
		Calls int
	}
	Side []struct{ Kind, Message string }
}

const maxAround = 40

func (a around) lines() (all []string, n int) {
	add := func(format string, args ...any) {
		if n++; n <= maxAround {
			all = append(all, line(fmt.Sprintf(format, args...), 200))
		}
	}
	for _, r := range a.Roots {
		switch {
		case r.Kind == "main":
		case r.Step > 0:
			add("%s %s: %s, of step %d of %s", r.Kind, r.ID, count(r.Calls, "call", "calls"), r.Step, r.Of)
		default:
			add("%s %s: %s", r.Kind, r.ID, count(r.Calls, "call", "calls"))
		}
	}
	for _, s := range a.Side {
		add("%s: %s", s.Kind, s.Message)
	}
	return all, n
}

// waterLevel is the largest power-of-two cap on each piece of text with which
// all pieces together fit into room.
func waterLevel(steps []atifStep, room int) int {
	var sizes []int
	for _, s := range steps {
		sizes = append(sizes, len(s.Message), len(s.Reasoning))
		for _, c := range s.ToolCalls[:min(len(s.ToolCalls), maxCalls)] {
			sizes = append(sizes, len(c.Args))
		}
		if s.Obs != nil {
			for _, r := range s.Obs.Results[:min(len(s.Obs.Results), maxCalls)] {
				sizes = append(sizes, len(r.Content))
			}
		}
	}
	for level := maxPiece; level > 64; level /= 2 {
		total := 0
		for _, n := range sizes {
			total += min(n, level)
		}
		if total <= room {
			return level
		}
	}
	return 64
}

func (s atifStep) shown(level int) Step {
	out := Step{
		ID: s.StepID, Source: line(s.Source, 20), Time: line(s.Timestamp, 40), Model: line(s.Model, 80), Copied: s.Copied,
		Message: Clip(contentText(s.Message), level), Reasoning: Clip(s.Reasoning, level),
	}
	at := map[string]int{}
	for i, c := range s.ToolCalls[:min(len(s.ToolCalls), maxCalls)] {
		at[c.ID] = i
		out.Calls = append(out.Calls, Call{Name: line(c.Name, 80), Args: Clip(argsText(c.Args), level)})
	}
	if s.Obs != nil {
		for _, r := range s.Obs.Results[:min(len(s.Obs.Results), maxCalls)] {
			t := Clip(contentText(r.Content), level)
			if i, ok := at[r.Call]; ok && r.Call != "" {
				out.Calls[i].Results = append(out.Calls[i].Results, t)
			} else {
				out.Results = append(out.Results, t)
			}
		}
	}
	if m := s.Metrics; m != nil {
		out.Usage = Tokens(m.Prompt) + " in, " + Tokens(m.Completion) + " out"
		if m.Cost != nil {
			out.Usage += ", " + Dollars(m.Cost)
		}
	}
	return out
}

// contentText is a message: a string, or parts of which pictures and sounds
// are only named.
func contentText(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || bytes.Equal(raw, []byte("null")) {
		return ""
	}
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var parts []struct {
		Type, Text string
		Source     *struct {
			MediaType string `json:"media_type"`
			Path      string
		}
	}
	if json.Unmarshal(raw, &parts) != nil {
		return string(raw)
	}
	var b strings.Builder
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('\n')
		}
		if p.Source != nil {
			fmt.Fprintf(&b, "[%s: %s, %s]", p.Type, p.Source.Path, p.Source.MediaType)
			continue
		}
		b.WriteString(p.Text)
	}
	return b.String()
}

// argsText shows a call's arguments as a person would write them: a single
// string as it is, several as "key: value", anything else as JSON.
func argsText(raw json.RawMessage) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(raw, &m) != nil {
		return string(raw)
	}
	plain := func(v json.RawMessage) string {
		var s string
		if json.Unmarshal(v, &s) == nil {
			return s
		}
		return string(v)
	}
	keys := slices.Sorted(maps.Keys(m))
	if len(keys) == 1 {
		return plain(m[keys[0]])
	}
	var b strings.Builder
	for i, k := range keys {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(k + ": " + plain(m[k]))
	}
	return b.String()
}
