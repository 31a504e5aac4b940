package builtin

import (
	"strings"

	"assay/internal/model"
	"assay/trial"
)

// judge looks at a turn: whether it leads anywhere. It returns a word to the
// model, often none, or ends the run.
func (r *run) judge(answer model.Response, actions []action, seen []observation) (word string, err error) {
	switch {
	case answer.Stop == model.StopRefusal && len(actions) == 0:
		r.end("refused", trial.CauseAgentRefused, clip(answer.Message.Text(), 1000))
		return "", nil
	case len(actions) == 0:
		return r.nothing(answer)
	}
	r.idle = 0
	if !anyRun(seen) {
		if r.malformed++; r.malformed >= r.strategy.Idle {
			r.end("malformed", trial.CauseMalformedCall, seen[0].text)
			return "", nil
		}
	} else {
		r.malformed = 0
	}
	return r.repeats(actions, seen)
}

// anyRun reports whether an action was more than refused by its form.
func anyRun(seen []observation) bool {
	for _, o := range seen {
		if !strings.HasPrefix(o.text, "[not run: ") {
			return true
		}
	}
	return false
}

// nothing handles an answer that does nothing.
func (r *run) nothing(answer model.Response) (string, error) {
	if answer.Stop == model.StopPause {
		return "", nil // the provider only wants it back; turns bound it
	}
	if r.idle++; r.idle >= r.strategy.Idle {
		if answer.Stop == model.StopLength {
			r.end("cut", trial.CauseContextLimit, "the model's answers are cut off at the limit of its output")
		} else {
			r.end("idle", trial.CauseNoSubmission, "the model calls no tool and does not submit")
		}
		return "", nil
	}
	if answer.Stop == model.StopLength {
		return r.nudge("cut", nil)
	}
	return r.nudge("idle", nil)
}

// repeats intervenes where nothing new happens.
func (r *run) repeats(actions []action, seen []observation) (string, error) {
	same, failed := r.watch.saw(actions, seen)
	switch {
	case same >= r.strategy.Stuck:
		r.end("loop", trial.CauseLoop, "the same action had the same result again and again: "+oneLine(actions[0], seen[0]))
	case failed >= r.strategy.Stuck:
		r.end("loop", trial.CauseLoop, "the same error came again and again: "+oneLine(actions[0], seen[0]))
	case same >= r.strategy.Nudge:
		return r.nudge("repeated", func(s *situation) { s.Times, s.Left = same, r.strategy.Stuck-same })
	case failed >= r.strategy.Nudge:
		return r.nudge("failing", func(s *situation) { s.Times, s.Left = failed, r.strategy.Stuck-failed })
	}
	return "", nil
}

// nudge is a word of the harness; the trajectory shows it as such.
func (r *run) nudge(name string, set func(*situation)) (string, error) {
	word, err := r.say(name, set)
	if err == nil {
		r.s.Recorder.System(word)
		r.log.say("harness", word)
	}
	return word, err
}
