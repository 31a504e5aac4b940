package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/trajectory"
	"assay/trial"
)

// complete asks the model for the next turn. What the model's provider says
// against it ends the run, but for two things that can be helped: tools that
// the model does not know, and a conversation that is too long for it.
func (r *run) complete(ctx context.Context) (model.Response, error) {
	answer, err := r.request(ctx)
	var no *model.Error
	if errors.As(err, &no) && ctx.Err() == nil {
		switch again, e := r.helped(ctx, no); {
		case e != nil:
			return answer, e
		case again:
			answer, err = r.request(ctx)
		}
	}
	switch {
	case err == nil && answer.Err != nil:
		r.refused(answer.Err)
	case err == nil:
		r.count(answer)
	case ctx.Err() != nil:
		return answer, context.Cause(ctx)
	case errors.As(err, &no):
		r.refused(no)
	default:
		return answer, err
	}
	return answer, nil
}

func (r *run) request(ctx context.Context) (model.Response, error) {
	q := model.Request{Model: r.s.Model.Model, Messages: r.messages}
	r.protocol.offer(&q, r.tools)
	return r.ask.Complete(ctx, q)
}

// helped changes what the model's server minded, if that can be.
func (r *run) helped(ctx context.Context, no *model.Error) (again bool, err error) {
	_, speaksTools := r.protocol.(native)
	switch {
	case no.Kind == model.ErrContext && len(r.messages) > r.root && r.strategy.Compaction != "off":
		return true, r.compact(ctx, false)
	case no.Kind == model.ErrBadRequest && r.turn == 1 && speaksTools && r.strategy.Protocol == "auto" && strings.Contains(no.Message, "tool"):
		r.s.Recorder.System("The model's server takes no tools (" + clip(no.Message, 500) + "): going on in plain text.")
		r.protocol = plain{}
		return true, r.reroot("brief")
	}
	return false, nil
}

// refused ends the run with the provider's word.
func (r *run) refused(no *model.Error) {
	r.s.Recorder.System("The model's server says: " + clip(no.Error(), 2000))
	r.end("model_error", blamed(no), clip(no.Error(), 1000))
}

// blamed is the cause of what the model itself, or a limit, is to blame for;
// empty: the record of the calls tells what the failure means for the trial.
func blamed(no *model.Error) trial.Cause {
	return map[model.ErrorKind]trial.Cause{
		model.ErrContext: trial.CauseContextLimit, model.ErrRefused: trial.CauseAgentRefused,
		model.ErrBudget: trial.CauseBudget, model.ErrLoop: trial.CauseLoop,
	}[no.Kind]
}

// count books what an answer cost.
func (r *run) count(answer model.Response) {
	u := agentUsage(answer.Usage)
	r.usage = append(r.usage, u)
	if u.InputTokens != nil && u.OutputTokens != nil {
		r.tokens = *u.InputTokens + *u.OutputTokens
		return
	}
	r.tokens = size(append(r.messages, answer.Message)...)
}

func agentUsage(u *model.Usage) trial.Usage {
	if u == nil {
		return trial.Usage{}
	}
	return trial.Usage{InputTokens: u.Input, CacheTokens: u.Cached, OutputTokens: u.Output}
}

// record makes a step of an answer.
func (r *run) record(answer model.Response, actions []action) int64 {
	step := turn(answer)
	r.log.say("agent", strings.TrimSpace(step.Reasoning+"\n"+step.Message))
	for _, a := range actions {
		raw := json.RawMessage(a.arguments)
		if !object(a.arguments) {
			raw, _ = json.Marshal(map[string]string{"malformed": clip(a.arguments, 2000)}) // a map of strings cannot fail
		}
		step.Calls = append(step.Calls, trajectory.ToolCall{ID: a.id, Function: a.name, Arguments: raw})
	}
	return r.s.Recorder.Turn(step)
}

// observe tells the recorder and the log what an action came to.
func (r *run) observe(step int64, a action, o observation) {
	text := trajectory.Text(o.text)
	r.s.Recorder.Observe(step, trajectory.ObservationResult{CallID: a.id, Content: &text})
	r.log.say(a.name+" "+clip(a.arguments, 4000), o.text)
	const remembered = 20
	if r.actions = append(r.actions, oneLine(a, o)); len(r.actions) > remembered {
		r.actions = r.actions[1:]
	}
}

// oneLine is an action and its outcome, briefly.
func oneLine(a action, o observation) string {
	return a.name + " " + brief(a.arguments, 200) + " → " + brief(o.text, 200)
}

func brief(text string, most int) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + " …"
	}
	return text
}

func (r *run) toolList() string {
	var names []string
	for _, t := range r.tools {
		names = append(names, t.Name)
	}
	return strings.Join(names, ", ")
}

// report is what the run came to.
func (r *run) report() agent.Report {
	report := r.use.report
	report.Usage = trial.SumUsage(r.usage...).Usage
	report.Cause, report.Detail = r.ended.cause, r.ended.detail
	report.Metadata = map[string]any{
		"ending": r.ended.word, "turns": len(r.usage), "repairs": r.repaired, "compactions": r.compacted, "strategy": r.strategy,
	}
	if r.checked != "" {
		report.Metadata["check"] = r.checked
	}
	return report
}
