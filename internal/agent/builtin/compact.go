package builtin

import (
	"context"
	"errors"

	"assay/internal/model"
)

// bytesPerToken is what a token is taken for where the server does not count:
// low, so that the guess is too many rather than too few.
const bytesPerToken = 3

// fit compacts the conversation when it has grown past what the strategy, or
// the model, has room for.
func (r *run) fit(ctx context.Context) error {
	most := r.strategy.Context
	if w := r.s.Model.Window; w > 0 && (most == 0 || most > w*4/5) {
		most = w * 4 / 5
	}
	// Two turns of its own at least: a root that is too large by itself cannot
	// be helped, and must not be made anew at each turn.
	if most == 0 || r.strategy.Compaction == "off" || len(r.messages) < r.root+4 || r.tokens+size(r.last()...) < most {
		return nil
	}
	return r.compact(ctx, r.strategy.Compaction == "summary")
}

// last is what came after the last answer of the model, which the tokens do
// not count yet.
func (r *run) last() []model.Message {
	for i := len(r.messages) - 1; i >= 0; i-- {
		if r.messages[i].Role == model.RoleAssistant {
			return r.messages[i+1:]
		}
	}
	return nil
}

// compact begins a new root with what must not be lost: the task, the plan, and
// the model's own summary, or, without one, the last actions.
func (r *run) compact(ctx context.Context, ask bool) error {
	r.summary = ""
	if ask {
		if err := r.summarise(ctx); err != nil {
			return err
		}
	}
	actions := r.actions
	if r.summary != "" {
		r.actions = nil // it tells of them
	}
	r.compacted++
	r.s.Recorder.System("The conversation was compacted: a new one goes on with the task, the plan and a summary.")
	err := r.reroot("again")
	r.actions = actions
	return err
}

// summarise asks the model what is to remain. A model that cannot say is no
// reason to end: then the plan and the last actions remain.
func (r *run) summarise(ctx context.Context) error {
	word, err := r.say("compact", nil)
	if err != nil {
		return err
	}
	q := model.Request{Model: r.s.Model.Model, Messages: append(r.messages[:len(r.messages):len(r.messages)], user(word))}
	r.protocol.offer(&q, r.tools) // servers want the tools of a conversation that has calls
	if len(q.Tools) > 0 {
		q.Choice = model.ChoiceNone
	}
	answer, err := r.ask.Complete(ctx, q)
	var no *model.Error
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &no):
		return nil
	case err != nil:
		return err
	}
	r.usage = append(r.usage, agentUsage(answer.Usage))
	r.summary = clip(answer.Message.Text(), maxPlan)
	r.log.say("summary", r.summary)
	return nil
}

// reroot begins a conversation anew, with the system prompt and another one.
func (r *run) reroot(prompt string) error {
	system, err := r.say("system", nil)
	if err != nil {
		return err
	}
	first, err := r.say(prompt, nil)
	if err != nil {
		return err
	}
	r.messages = []model.Message{{Role: model.RoleSystem, Parts: []model.Part{{Kind: model.PartText, Text: system}}}, user(first)}
	r.root, r.tokens = len(r.messages), size(r.messages...)
	r.log.say("harness", first)
	return nil
}

// size guesses the tokens of messages.
func size(messages ...model.Message) int64 {
	n := 0
	for _, m := range messages {
		for _, p := range m.Parts {
			n += len(p.Text) + len(p.Signature) + len(p.Raw)
			if p.Call != nil {
				n += len(p.Call.Arguments)
			}
			if p.Result != nil {
				for _, q := range p.Result.Parts {
					n += len(q.Text)
				}
			}
		}
	}
	return int64(n / bytesPerToken)
}
