package scripted

import (
	"fmt"
	"slices"
	"strings"

	"assay/internal/model"
)

// check refuses conversations that a provider refuses: every call has its
// result where the dialect wants it, and no result comes without its call.
// Gemini goes by number and names, since its calls need no ids.
func (a *ask) check() error {
	if a.dialect == model.Responses {
		return a.checkAnywhere()
	}
	var open []call
	for i, m := range a.msgs {
		for _, r := range m.results {
			at := slices.IndexFunc(open, func(c call) bool { return answers(r, c) })
			if at < 0 {
				return fmt.Errorf("messages[%d]: a result %q without a call in the message before it", i, r.id+r.name)
			}
			open = slices.Delete(open, at, at+1)
		}
		if len(open) == 0 {
			open = slices.Clone(m.calls)
		}
		if next := i + 1; len(open) > 0 && (next == len(a.msgs) || len(a.msgs[next].results) == 0 || m.role == user) {
			return a.missing(open)
		}
	}
	return nil
}

func answers(r result, c call) bool {
	if r.id != "" && c.id != "" {
		return r.id == c.id
	}
	return r.name == c.name
}

func (a *ask) missing(open []call) error {
	var ids []string
	for _, c := range open {
		ids = append(ids, c.id)
	}
	list := strings.Join(ids, ", ")
	switch a.dialect {
	case model.Messages:
		return fmt.Errorf("`tool_use` ids were found without `tool_result` blocks immediately after: %s", list)
	case model.Gemini:
		return fmt.Errorf("please ensure that the number of function response parts is equal to the number of function call parts of the function call turn")
	default:
		return fmt.Errorf("an assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'; the following did not have response messages: %s", list)
	}
}

// checkAnywhere is for responses, where items stand in any order.
func (a *ask) checkAnywhere() error {
	open := map[string]bool{}
	for _, m := range a.msgs {
		for _, r := range m.results {
			if !open[r.id] {
				return fmt.Errorf("no tool call found for function call output with call_id %s", r.id)
			}
			delete(open, r.id)
		}
		for _, c := range m.calls {
			open[c.id] = true
		}
	}
	for id := range open {
		return fmt.Errorf("no tool output found for function call %s", id)
	}
	return nil
}
