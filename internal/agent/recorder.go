package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"assay/task"
	"assay/trajectory"
	"assay/trial"
)

const (
	maxText  = 1 << 20  // bytes of one message, argument or observation
	maxTotal = 64 << 20 // bytes of all of them; later ones keep maxLate
	maxLate  = 2 << 10
	maxMark  = 2000 // bytes of a step's text in an event
)

// Recorder collects the steps of one run into an ATIF trajectory. The document
// is valid at any moment, so that an agent cut off at its deadline leaves one
// too. A Recorder is used by many goroutines at once; texts too long are cut
// with a marker that says how much is missing.
type Recorder struct {
	mu     sync.Mutex
	b      *trajectory.Builder
	onStep func(trial.StepMark)
	total  int64
	limit  int64 // of total
	calls  int
}

// NewRecorder begins a trajectory with the brief's instruction as its first
// step. onStep, which may be nil, is called once for every later step, in
// order and one at a time; it must not call the recorder.
func NewRecorder(info trial.AgentInfo, b task.Brief, onStep func(trial.StepMark)) *Recorder {
	a := trajectory.Agent{Name: info.Name, Version: info.Version}
	if info.Model != nil {
		a.ModelName = info.Model.Name
	}
	r := &Recorder{onStep: onStep, limit: maxTotal}
	r.b = trajectory.NewBuilder(a, "", r.cut(b.Instruction), time.Now())
	return r
}

// System records what the harness or the environment said.
func (r *Recorder) System(text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text = r.cut(text)
	id, err := r.b.AddSystem(time.Now(), trajectory.Text(text))
	r.mark(id, err, trajectory.System, text, "")
}

// Say records a message of an agent that asked no model for it.
func (r *Recorder) Say(text string) {
	r.Turn(trajectory.AgentStep{Message: text, LLMCalls: new(int64)})
}

// Turn records one turn of an agent as it is, its texts cut.
func (r *Recorder) Turn(s trajectory.AgentStep) (id int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Message, s.Reasoning = r.cut(s.Message), r.cut(s.Reasoning)
	tool := ""
	if len(s.Calls) > 0 {
		tool = s.Calls[0].Function
	}
	r.cutResults(s.Results)
	id, err := r.b.AddAgent(time.Now(), s)
	r.mark(id, err, trajectory.Agents, s.Message, tool)
	return id
}

// Observe records what calls of a turn came to, once they have.
func (r *Recorder) Observe(step int64, results ...trajectory.ObservationResult) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if step != 0 {
		r.cutResults(results)
		r.refused(r.b.Observe(step, results...))
	}
}

// Call is a tool call under way.
type Call struct {
	r    *Recorder
	step int64 // 0: the step could not be recorded
	id   string
}

// Call records that an agent that asks no model uses a tool; the answer comes
// with Done.
func (r *Recorder) Call(tool string, arguments map[string]string) Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls++
	id := "call-" + strconv.Itoa(r.calls)
	cut := make(map[string]string, len(arguments))
	var shown []string
	for _, k := range slices.Sorted(maps.Keys(arguments)) {
		cut[k] = r.cut(arguments[k])
		shown = append(shown, cut[k])
	}
	raw, err := json.Marshal(cut)
	var step int64
	if err == nil {
		step, err = r.b.AddAgent(time.Now(), trajectory.AgentStep{
			Calls: []trajectory.ToolCall{{ID: id, Function: tool, Arguments: raw}}, LLMCalls: new(int64),
		})
	}
	r.mark(step, err, trajectory.Agents, strings.Join(shown, " "), tool)
	return Call{r, step, id}
}

// Done records what the call came to. Calling it again adds another answer.
func (c Call) Done(output string) {
	if c.step == 0 {
		return
	}
	c.r.mu.Lock()
	defer c.r.mu.Unlock()
	content := trajectory.Text(c.r.cut(output))
	err := c.r.b.Observe(c.step, trajectory.ObservationResult{CallID: c.id, Content: &content})
	c.r.refused(err)
}

// Document returns the trajectory so far; it is always valid.
func (r *Recorder) Document() *trajectory.Trajectory { return r.b.Trajectory() }

// mark tells of a step that was recorded, or notes why it was not.
func (r *Recorder) mark(id int64, err error, source trajectory.Source, text, tool string) {
	if err != nil {
		r.refused(err)
		return
	}
	if r.onStep != nil {
		r.onStep(trial.StepMark{StepID: int(id), Source: string(source), Text: head(text, maxMark), Tool: tool})
	}
}

// refused notes a step that would have broken the document: the trajectory
// says that something is missing instead of failing the run.
func (r *Recorder) refused(err error) {
	if err != nil {
		r.b.Note("a step could not be recorded: " + err.Error())
	}
}

func (r *Recorder) cutResults(results []trajectory.ObservationResult) {
	for i, res := range results {
		if c := res.Content; c != nil && c.Parts == nil {
			cut := trajectory.Text(r.cut(c.Text))
			results[i].Content = &cut
		}
	}
}

// cut shortens one text to the caps, and makes it text.
func (r *Recorder) cut(s string) string {
	most := maxText
	if r.total > r.limit {
		most = maxLate
	}
	if len(s) > most {
		kept := head(s, most)
		s = kept + fmt.Sprintf("\n[%d bytes cut]", len(s)-len(kept))
	}
	r.total += int64(len(s))
	return strings.ToValidUTF8(s, "\ufffd")
}

// head is at most n bytes of s, not ending within a character.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
