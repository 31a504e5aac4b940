package builtin

import (
	"context"
	"errors"
	"fmt"
	"text/template"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/task"
	"assay/trial"
)

// React thinks, acts and observes until it submits, or until its strategy says
// that this leads nowhere.
type React struct {
	strategy Strategy
	connect  Connect
	info     trial.AgentInfo
}

// NewReact returns the agent of a strategy.
func NewReact(s Strategy, c Connect) (React, error) {
	if err := s.check(); err != nil {
		return React{}, err
	}
	plain, err := ParseStrategy("", nil)
	if err != nil {
		return React{}, err
	}
	info := trial.AgentInfo{Name: "react", Version: "1.0.0"}
	if d := s.digest(); d != plain.digest() {
		info.Version += "+" + d
	}
	return React{s, c, info}, nil
}

// Info names the agent; another strategy is another version.
func (a React) Info() trial.AgentInfo { return a.info }

// Needs asks for a model.
func (a React) Needs(task.Brief) (agent.Needs, error) { return agent.Needs{Dialect: Dialects}, nil }

// Run works on the task. However the model ends it, that is a report.
func (a React) Run(ctx context.Context, s agent.Session) (agent.Report, error) {
	if ctx.Err() != nil {
		return agent.Report{}, context.Cause(ctx)
	}
	r, err := a.begin(s)
	if err != nil {
		return agent.Report{}, fmt.Errorf("react: %w", err)
	}
	err = r.work(ctx)
	r.shell.close()
	if e := r.log.Close(); err == nil {
		err = e
	}
	return ended(ctx, s, r.report(), "react", err)
}

// run is one run of react. It belongs to one goroutine.
type run struct {
	strategy Strategy
	s        agent.Session
	ask      Completer
	protocol protocol
	texts    *template.Template
	tools    []tool
	shell    *shell
	box      box
	use      *use
	watch    watch
	log      *transcript

	messages []model.Message // the conversation since its last root
	root     int             // of messages belong to the root
	tokens   int64           // of the conversation, as far as known
	notes    string          // the plan
	summary  string
	actions  []string // the last ones, a line each

	turn      int
	idle      int    // answers in a row without an action
	malformed int    // answers in a row none of whose actions could be run
	repaired  int    // failed checks
	checked   string // "passed", "failed" or ""
	unchecked bool   // it submitted without a check before
	compacted int    // times
	usage     []trial.Usage
	ended     ending
}

// ending is why a run is over.
type ending struct {
	word   string // "submitted", "turns", …
	cause  trial.Cause
	detail string
}

func (a React) begin(s agent.Session) (*run, error) {
	if s.Model == nil {
		return nil, errors.New("no model is configured")
	}
	ask, err := a.connect(*s.Model)
	if err != nil {
		return nil, err
	}
	r := &run{strategy: a.strategy, s: s, ask: ask, use: &use{}, protocol: native{}, watch: watch{window: 2 * a.strategy.Stuck}}
	if r.texts, err = a.strategy.prompts(); err != nil {
		return nil, err
	}
	if r.tools, err = a.strategy.tools(s.Tools); err != nil {
		return nil, err
	}
	if a.strategy.Protocol == "text" || a.strategy.Protocol == "auto" && s.Model.NoTools {
		r.protocol = plain{}
	}
	env := commandEnv(a.strategy, s.Env)
	r.box = box{s: s, env: env, use: r.use}
	r.shell = &shell{s: s, env: env, max: a.strategy.Output, use: r.use}
	if r.log, err = openTranscript(s, "react.txt"); err != nil {
		return nil, err
	}
	return r, r.reroot("brief")
}

// work is the loop: ask, act, observe. It returns an error only for what is
// neither the model's doing nor the agent's.
func (r *run) work(ctx context.Context) error {
	for r.turn = 1; r.turn <= r.strategy.Turns; r.turn++ {
		if err := r.fit(ctx); err != nil {
			return err
		}
		answer, err := r.complete(ctx)
		if err != nil || r.ended.word != "" {
			return err
		}
		kept, actions := r.protocol.actions(r.turn, answer.Message, r.tools)
		step := r.record(answer, actions)
		seen, err := r.act(ctx, step, actions)
		if err != nil || r.ended.word != "" {
			return err
		}
		word, err := r.judge(answer, actions, seen)
		if err != nil || r.ended.word != "" {
			return err
		}
		r.messages = append(r.messages, something(kept))
		if answer.Stop != model.StopPause || len(actions) > 0 { // a paused turn is sent back as it is
			r.messages = append(r.messages, r.protocol.answer(actions, seen, word)...)
		}
	}
	r.end("turns", trial.CauseNoSubmission, fmt.Sprintf("no submission within %d answers of the model", r.strategy.Turns))
	return nil
}

// something is a message that servers take back: one that says nothing they
// refuse.
func something(m model.Message) model.Message {
	for _, p := range m.Parts {
		if p.Text != "" || p.Call != nil || p.Signature != "" || len(p.Raw) > 0 {
			return m
		}
	}
	m.Parts = []model.Part{{Kind: model.PartText, Text: "(no answer)"}}
	return m
}

// act runs the actions of one answer in order, until one ends the work. What
// is not run gets an answer too: APIs want one for every call.
func (r *run) act(ctx context.Context, step int64, actions []action) ([]observation, error) {
	var all []observation
	for i, a := range actions {
		var o observation
		var err error
		switch {
		case r.ended.word != "":
			o = failure("[not run: the work was handed in]")
		case i >= r.strategy.Calls:
			o = failure("[not run: more than %d calls in one answer]", r.strategy.Calls)
		default:
			o, err = r.do(ctx, a)
		}
		if err != nil && ctx.Err() != nil { // what it said until then is worth a step
			o.text += "\n" + cutOff(ctx)
		}
		o.text = clip(o.text, r.strategy.Output)
		all = append(all, o)
		r.observe(step, a, o)
		if err != nil {
			return all, err
		}
		if o.done {
			r.end("submitted", "", "")
		}
	}
	return all, nil
}

// do runs one action.
func (r *run) do(ctx context.Context, a action) (observation, error) {
	if a.problem != "" {
		return failure("[not run: %s]", a.problem), nil
	}
	for _, t := range r.tools {
		if t.Name != a.name {
			continue
		}
		args, err := t.parse(a.arguments)
		if err != nil {
			return observation{text: "[not run: " + err.Error() + "]", bad: true}, nil
		}
		return t.run(ctx, r, args)
	}
	return failure("[not run: there is no tool %q; there are %s]", clip(a.name, 100), r.toolList()), nil
}

func (r *run) end(word string, cause trial.Cause, detail string) {
	r.ended = ending{word, cause, detail}
}

// say renders a prompt.
func (r *run) say(name string, set func(*situation)) (string, error) {
	_, text := r.protocol.(plain)
	b := r.s.Brief
	at := situation{
		Task: b.Task, Step: b.Step, Instruction: b.Instruction, Workdir: string(r.s.Workdir), Strategy: r.strategy,
		Text: text, Tools: r.tools, Notes: r.notes, Summary: r.summary, Actions: r.actions,
	}
	if set != nil {
		set(&at)
	}
	return say(r.texts, name, at)
}
