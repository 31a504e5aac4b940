package trajectory

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
)

// Behaviour is how an agent worked, read from what the document shows of it
// (see [Trajectory.Actions]). None of it says whether the work was good.
type Behaviour struct {
	Turns    int                `json:"turns"`    // agent steps, copied ones left out
	Messages int                `json:"messages"` // as a chat would hold them: results are messages of their own
	Actions  map[ActionKind]int `json:"actions"`
	Seen     []string           `json:"files_seen"`    // sorted; at most 500 of SeenN
	Changed  []string           `json:"files_changed"` // sorted; at most 500 of ChangedN
	SeenN    int                `json:"files_seen_count"`
	ChangedN int                `json:"files_changed_count"`
	TestRuns int                `json:"test_runs"`
	Repeated int                `json:"repeated_actions"` // with the text and the output of an earlier one
	Looping  int                `json:"looping_actions"`  // the same action and output three times within ten actions
	Thoughts int64              `json:"reasoning_bytes"`
}

const (
	maxFiles   = 500
	loopWindow = 10
	loopTimes  = 3
)

// Behave reads the document's own steps.
func (t *Trajectory) Behave() Behaviour {
	b := Behaviour{Actions: map[ActionKind]int{}}
	for i := range t.Steps {
		s := &t.Steps[i]
		if s.copied() {
			continue
		}
		if s.Source == Agents {
			b.Turns++
		}
		if s.Source == Agents || s.Message.String() != "" {
			b.Messages++
		}
		if s.Observation != nil {
			b.Messages += len(s.Observation.Results)
		}
		if s.ReasoningContent != nil {
			b.Thoughts += int64(len(*s.ReasoningContent))
		}
	}
	seen, changed := map[string]bool{}, map[string]bool{}
	var marks [][32]byte
	for _, a := range t.Actions() {
		b.Actions[a.Kind]++
		for _, f := range a.Seen {
			if f != "" {
				seen[f] = true
			}
		}
		for _, f := range a.Changed {
			if f != "" {
				changed[f] = true
			}
		}
		if a.Test {
			b.TestRuns++
		}
		marks = append(marks, sha256.Sum256([]byte(a.Tool+"\x00"+strings.Join(strings.Fields(a.Text), " ")+"\x00"+a.Output)))
	}
	b.Repeated, b.Looping = repeats(marks)
	b.SeenN, b.ChangedN = len(seen), len(changed)
	b.Seen, b.Changed = firstFiles(seen), firstFiles(changed)
	return b
}

func firstFiles(set map[string]bool) []string {
	all := slices.Sorted(maps.Keys(set))
	if all == nil {
		return []string{}
	}
	return all[:min(len(all), maxFiles)]
}

// repeats counts marks that were there before, and those of which the window
// around holds several.
func repeats(marks [][32]byte) (repeated, looping int) {
	before := map[[32]byte]int{}
	for i, m := range marks {
		if before[m] > 0 {
			repeated++
		}
		before[m]++
		in := 0
		for j := max(0, i-loopWindow+1); j < min(len(marks), i+loopWindow); j++ {
			if marks[j] == m {
				in++
			}
		}
		if in >= loopTimes {
			looping++
		}
	}
	return repeated, looping
}

// All are the document and those embedded in it, outer ones first.
func (t *Trajectory) All() []*Trajectory {
	all := []*Trajectory{t}
	for i := range t.Subagents {
		all = append(all, t.Subagents[i].All()...)
	}
	return all
}
