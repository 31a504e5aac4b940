package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/task"
	"assay/trajectory"
	"assay/trial"
)

// maxAsked bounds what of one file goes into the prompt, in bytes.
const maxAsked = 256 << 10

// Oneshot asks a model once and writes what it answers into the files that the
// task names: one sample a trial, so that -k 10 gives pass@10. The model never
// touches the sandbox.
type Oneshot struct{ connect Connect }

// NewOneshot returns the agent.
func NewOneshot(c Connect) Oneshot { return Oneshot{c} }

// Info names the agent.
func (Oneshot) Info() trial.AgentInfo { return trial.AgentInfo{Name: "oneshot", Version: "1.0.0"} }

// Needs asks for a model. A task that names no answer file is none for this
// agent; of no task at all nothing is known yet.
func (Oneshot) Needs(b task.Brief) (agent.Needs, error) {
	if b.Task == "" {
		return agent.Needs{Dialect: Dialects}, nil
	}
	_, err := targets(b, b.Workdir)
	return agent.Needs{Dialect: Dialects}, err
}

// asked is a file as the prompt shows it.
type asked struct {
	Path    string
	Text    string // ends with a line end
	Fence   string // longer than any in Text
	Missing bool
	Hidden  bool // it is there and no text, or too long a one
}

// Run asks once. An answer without a file in it is a report, not an error.
func (a Oneshot) Run(ctx context.Context, s agent.Session) (agent.Report, error) {
	if ctx.Err() != nil {
		return agent.Report{}, context.Cause(ctx)
	}
	o := &shot{s: s, use: &use{}}
	o.box = box{s: s, env: s.Env, use: o.use}
	err := o.run(ctx, a.connect)
	report := o.use.report
	report.Usage, report.Cause, report.Detail, report.Metadata = o.usage, o.cause, o.detail, map[string]any{"ending": o.word, "written": o.written}
	return ended(ctx, s, report, "oneshot", err)
}

// cutOff says what ended a run from outside.
func cutOff(ctx context.Context) string {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, agent.ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		return "[ended at the deadline]"
	case errors.Is(cause, agent.ErrStopped):
		return "[ended by a limit]"
	}
	return "[interrupted]"
}

// ended tells a limit, which is a report, from a cancellation and from what
// went wrong.
func ended(ctx context.Context, s agent.Session, report agent.Report, name string, err error) (agent.Report, error) {
	if ctx.Err() == nil {
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		return report, err
	}
	s.Recorder.System(cutOff(ctx))
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, agent.ErrDeadline), errors.Is(cause, context.DeadlineExceeded):
		report.TimedOut = true
	case errors.Is(cause, agent.ErrStopped):
		report.Stopped = true
	default:
		return report, cause
	}
	return report, nil
}

// shot is one run of oneshot.
type shot struct {
	s   agent.Session
	box box
	use *use

	usage   trial.Usage
	word    string // how it ended
	cause   trial.Cause
	detail  string
	written []string
}

func (o *shot) run(ctx context.Context, connect Connect) error {
	if o.s.Model == nil {
		return errors.New("no model is configured")
	}
	ask, err := connect(*o.s.Model)
	if err != nil {
		return err
	}
	paths, err := targets(o.s.Brief, string(o.s.Workdir))
	if err != nil {
		return err
	}
	files, err := o.files(ctx, paths)
	if err != nil {
		return err
	}
	answer, err := o.ask(ctx, ask, files)
	if err != nil || o.word != "" {
		return err
	}
	found := extract(answer.Message.Text(), files)
	if len(found) == 0 {
		o.end("no answer", trial.CauseNoSubmission, "the answer holds no text for "+strings.Join(paths, ", "))
	}
	for _, f := range found {
		if err := o.write(ctx, f); err != nil {
			return err
		}
	}
	switch {
	case o.word != "":
	case answer.Stop == model.StopLength:
		o.end("cut", trial.CauseContextLimit, "the answer was cut off at the limit of the model's output")
	default:
		o.end("answered", "", "")
	}
	return nil
}

func (o *shot) end(word string, cause trial.Cause, detail string) {
	o.word, o.cause, o.detail = word, cause, detail
}

// files reads what the answer's files hold now.
func (o *shot) files(ctx context.Context, paths []string) ([]asked, error) {
	var all []asked
	for _, p := range paths {
		text, cut, err := o.box.sh(ctx, maxAsked, nil, `[ -f "$1" ] && exec cat -- "$1"`, p)
		var no toolError
		switch {
		case errors.As(err, &no):
			all = append(all, asked{Path: p, Missing: true})
			continue
		case err != nil:
			return nil, err
		case cut || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0:
			all = append(all, asked{Path: p, Hidden: true})
			continue
		}
		f := asked{Path: p, Text: string(text), Fence: "```"}
		for strings.Contains(f.Text, f.Fence) {
			f.Fence += "`"
		}
		if f.Text != "" && !strings.HasSuffix(f.Text, "\n") {
			f.Text += "\n"
		}
		all = append(all, f)
	}
	return all, nil
}

// ask sends the prompt and records the answer.
func (o *shot) ask(ctx context.Context, ask Completer, files []asked) (model.Response, error) {
	var none Strategy
	texts, err := none.prompts()
	if err != nil {
		return model.Response{}, err
	}
	prompt, err := say(texts, "oneshot", situation{Instruction: o.s.Brief.Instruction, Files: files})
	if err != nil {
		return model.Response{}, err
	}
	o.s.Recorder.System(prompt)
	answer, err := ask.Complete(ctx, model.Request{Model: o.s.Model.Model, Messages: []model.Message{user(prompt)}})
	var no *model.Error
	switch {
	case ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case err == nil && answer.Err != nil:
		no = answer.Err
	case err != nil && !errors.As(err, &no):
		return answer, err
	}
	if no != nil {
		o.s.Recorder.System("The model's server says: " + clip(no.Error(), 2000))
		o.end("model_error", blamed(no), clip(no.Error(), 1000))
		return answer, nil
	}
	o.usage = agentUsage(answer.Usage)
	o.s.Recorder.Turn(turn(answer))
	if answer.Stop == model.StopRefusal {
		o.end("refused", trial.CauseAgentRefused, clip(answer.Message.Text(), 1000))
	}
	return answer, nil
}

// turn is an answer as a step of the trajectory.
func turn(answer model.Response) trajectory.AgentStep {
	one := int64(1)
	step := trajectory.AgentStep{Message: answer.Message.Text(), Model: answer.Model, LLMCalls: &one}
	for _, p := range answer.Message.Parts {
		if p.Kind == model.PartReasoning {
			step.Reasoning += p.Text
		}
	}
	if u := answer.Usage; u != nil {
		step.Metrics = &trajectory.Metrics{PromptTokens: u.Input, CompletionTokens: u.Output, CachedTokens: u.Cached}
	}
	return step
}

// write puts one file of the answer in place.
func (o *shot) write(ctx context.Context, f answered) error {
	call := o.s.Recorder.Call("write", map[string]string{"path": f.path, "content": f.text})
	err := o.box.write(ctx, f.path, []byte(f.text))
	var no toolError
	switch {
	case errors.As(err, &no):
		call.Done(no.Error())
		o.end("not written", trial.CauseNoSubmission, no.Error())
		return nil
	case err != nil:
		call.Done("not written: " + err.Error())
		return err
	}
	call.Done(fmt.Sprintf("[%d bytes written]", len(f.text)))
	o.written = append(o.written, f.path)
	return nil
}
