package gateway

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash"
	"regexp"
	"slices"
	"strings"

	"assay/internal/model"
)

// LoopRules say when an agent goes round in circles. A step is what a model
// did in one turn (its tool calls, or its text if it called none) and what
// came of it (their results, or what was said next). Steps are read from the
// agent's requests, so that they are the same whatever the provider. Zero
// switches a rule off.
type LoopRules struct {
	// Repeat: the last so many steps were the same action with the same result.
	Repeat int `json:"repeat,omitempty"`
	// Errors: the last so many results were the same error, whatever was done.
	Errors int `json:"errors,omitempty"`
	// Stale: among the last so many steps none was new in this conversation.
	Stale int `json:"stale,omitempty"`
}

// DefaultLoopRules are loose enough for an agent that polls a build or tries
// one command a few times: nobody needs the same answer ten times in a row.
func DefaultLoopRules() LoopRules { return LoopRules{Repeat: 10, Errors: 15, Stale: 30} }

// String is the rules as people read them.
func (r LoopRules) String() string {
	return fmt.Sprintf("%d equal steps, %d equal errors, %d steps without a new one", r.Repeat, r.Errors, r.Stale)
}

// maxConversations bounds what is remembered of one session: agents have a
// main conversation and some sub-agents.
const maxConversations = 64

// loops is what a session remembers of its conversations.
type loops struct {
	all map[digest]*conversation // by how they begin
}

type conversation struct {
	turns  int // of the model, in the longest request so far
	seen   map[digest]bool
	last   digest
	repeat int // equal steps in a row
	err    digest
	errors int // equal errors in a row
	stale  int // steps since the last new one
}

// step is a turn of the model and what came of it.
type step struct {
	whole  digest
	result digest
	failed bool
}

// stepsOf reads all steps of a request that are complete: what follows the
// last turn of the model is the result of that.
func stepsOf(r *model.Request) (begin digest, steps []step) {
	first := sha256.New()
	i := 0
	for ; i < len(r.Messages) && r.Messages[i].Role != model.RoleAssistant; i++ {
		if r.Messages[i].Role == model.RoleUser {
			writeMessage(first, r.Messages[i])
		}
	}
	first.Sum(begin[:0])
	for i < len(r.Messages) {
		action, result := sha256.New(), sha256.New()
		var text strings.Builder
		failed := false
		for ; i < len(r.Messages) && r.Messages[i].Role == model.RoleAssistant; i++ {
			writeAction(action, r.Messages[i])
		}
		for ; i < len(r.Messages) && r.Messages[i].Role != model.RoleAssistant; i++ {
			failed = writeMessage(result, r.Messages[i]) || failed
			text.WriteString(said(r.Messages[i]))
		}
		var s step
		result.Sum(s.result[:0])
		s.failed = failed || looksFailed(text.String())
		action.Write(s.result[:])
		action.Sum(s.whole[:0])
		steps = append(steps, s)
	}
	return begin, steps
}

// writeAction is a message's calls, or its text if it has none: what a model
// says beside equal calls does not make them different.
func writeAction(h hash.Hash, m model.Message) {
	calls := false
	for _, p := range m.Parts {
		if p.Kind == model.PartCall {
			calls = true
			fmt.Fprintf(h, "%q %s\n", p.Call.Name, normal(p.Call.Arguments))
		}
	}
	if !calls {
		fmt.Fprintf(h, "%q\n", strings.TrimSpace(m.Text()))
	}
}

// normal is the arguments without differences of spelling.
func normal(args string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(args)) == nil {
		return b.String()
	}
	return strings.TrimSpace(args)
}

// writeMessage adds what a message says, without the ids of calls; true: a
// tool failed by its own word.
func writeMessage(h hash.Hash, m model.Message) (failed bool) {
	fmt.Fprintf(h, "%s %q\n", m.Role, said(m))
	return slices.ContainsFunc(m.Parts, func(p model.Part) bool { return p.Result != nil && p.Result.Error })
}

// said is the text of a message, that of results included. What changes by
// itself from one run of a command to the next is taken out.
func said(m model.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		switch {
		case p.Kind == model.PartText:
			b.WriteString(p.Text)
		case p.Result != nil:
			for _, q := range p.Result.Parts {
				b.WriteString(q.Text)
			}
		}
	}
	return passing.ReplaceAllString(b.String(), "#")
}

// passing matches times of day, durations, and the numbers that codex and
// copilot give to each output.
var passing = regexp.MustCompile(`\bChunk ID: [0-9a-f]+|\bshellId: \d+|\b\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?\b|\b\d+(\.\d+)? ?(ms|µs|s|sec|secs|seconds)\b`)

// failing matches what results of tools say when they failed.
var failing = regexp.MustCompile(`(?i)\berror\b|\bexception\b|traceback \(most recent|command not found|no such file|permission denied|syntax error|"?(exit_?code|returncode|exit status|exit code)"?[ :=>]+"?[1-9]`)

// looksFailed: most dialects have no mark for a tool that failed.
func looksFailed(text string) bool { return failing.MatchString(text) }

// look counts a request's new steps and says which rule they break; empty:
// none. A conversation that was compacted begins anew.
func (l *loops) look(rules LoopRules, r *model.Request) string {
	begin, steps := stepsOf(r)
	if l.all == nil {
		l.all = map[digest]*conversation{}
	}
	c := l.all[begin]
	if c == nil || len(steps) < c.turns {
		if c == nil && len(l.all) >= maxConversations {
			return ""
		}
		c = &conversation{seen: map[digest]bool{}}
		l.all[begin] = c
	}
	for _, s := range steps[c.turns:] {
		c.add(s)
	}
	c.turns = len(steps)
	return c.breaks(rules)
}

func (c *conversation) add(s step) {
	if c.repeat == 0 || s.whole != c.last {
		c.last, c.repeat = s.whole, 0
	}
	c.repeat++
	switch {
	case !s.failed:
		c.errors = 0
	case c.errors == 0 || s.result != c.err:
		c.err, c.errors = s.result, 1
	default:
		c.errors++
	}
	c.stale++
	if !c.seen[s.whole] {
		c.seen[s.whole], c.stale = true, 0
	}
}

func (c *conversation) breaks(r LoopRules) string {
	switch {
	case r.Repeat > 0 && c.repeat >= r.Repeat:
		return fmt.Sprintf("the same action had the same result %d times in a row", c.repeat)
	case r.Errors > 0 && c.errors >= r.Errors:
		return fmt.Sprintf("the same error came %d times in a row", c.errors)
	case r.Stale > 0 && c.stale >= r.Stale:
		return fmt.Sprintf("none of the last %d steps was new", c.stale)
	}
	return ""
}

// look watches a request of the work for loops.
func (a *asked) look(r *model.Request) {
	s := a.s
	if s.conf.Loop == nil || a.call.Side != "" || a.call.RetryOf != 0 {
		return
	}
	s.mu.Lock()
	why := s.state.loops.look(*s.conf.Loop, r)
	s.mu.Unlock()
	if why != "" {
		s.Stop(Stop{Kind: model.ErrLoop, Message: why})
	}
}
