package builtin

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"assay/internal/model"
)

// action is a tool call as react sees it, in whatever way it was asked for.
type action struct {
	id, name  string
	arguments string // JSON text
	problem   string // why it cannot be run; empty: it can
}

// protocol is how tools are offered, asked for and answered.
type protocol interface {
	// offer puts the tools into a request.
	offer(r *model.Request, tools []tool)
	// actions takes an answer apart. The message it returns is what the
	// conversation goes on with: the answer, made such that every server takes
	// it back.
	actions(turn int, m model.Message, tools []tool) (model.Message, []action)
	// answer tells what the actions came to, and then word, if there is one.
	answer(done []action, seen []observation, word string) []model.Message
}

// native uses the tool calls of the model's API.
type native struct{}

func (native) offer(r *model.Request, tools []tool) {
	for _, t := range tools {
		r.Tools = append(r.Tools, t.definition())
	}
}

// actions gives calls without an id, or with one that was used already, an id
// of their own, and empties arguments that are no JSON object: servers refuse
// them when they come back.
func (native) actions(turn int, m model.Message, _ []tool) (model.Message, []action) {
	var all []action
	seen := map[string]bool{}
	kept := model.Message{Role: model.RoleAssistant, Extra: m.Extra}
	for _, p := range m.Parts {
		if p.Kind == model.PartCall && p.Call != nil {
			c := *p.Call
			if c.ID == "" || seen[c.ID] {
				c.ID = fmt.Sprintf("call-%d-%d", turn, len(all)+1)
			}
			seen[c.ID] = true
			a := action{id: c.ID, name: c.Name, arguments: c.Arguments}
			if c.Custom {
				a.problem = "free-form calls are not understood here: send a JSON object"
			}
			all = append(all, a)
			if !object(c.Arguments) {
				c.Arguments = "{}"
			}
			p.Call = &c
		}
		kept.Parts = append(kept.Parts, p)
	}
	return kept, all
}

// object reports whether a text is a JSON object of a sane size.
func object(s string) bool {
	var m map[string]json.RawMessage
	return len(s) <= maxArguments && json.Unmarshal([]byte(s), &m) == nil && m != nil
}

func (native) answer(done []action, seen []observation, word string) []model.Message {
	var parts []model.Part
	for i, a := range done {
		text := seen[i].text
		if i == len(done)-1 && word != "" {
			text, word = text+"\n\n"+word, ""
		}
		parts = append(parts, model.Part{Kind: model.PartResult, Result: &model.Result{
			CallID: a.id, Name: a.name, Error: seen[i].bad, Parts: []model.Part{{Kind: model.PartText, Text: text}},
		}})
	}
	var all []model.Message
	if len(parts) > 0 {
		all = append(all, model.Message{Role: model.RoleTool, Parts: parts})
	}
	if word != "" {
		all = append(all, user(word))
	}
	return all
}

func user(text string) model.Message {
	return model.Message{Role: model.RoleUser, Parts: []model.Part{{Kind: model.PartText, Text: text}}}
}

// plain asks for tools in fenced blocks, for models without tool calls.
type plain struct{}

func (plain) offer(*model.Request, []tool) {} // the system prompt says it all

func (plain) actions(turn int, m model.Message, tools []tool) (model.Message, []action) {
	var all []action
	for _, b := range blocks(m.Text()) {
		word, rest, _ := strings.Cut(b.info, " ")
		for _, t := range tools {
			if t.Name == word {
				a := action{id: fmt.Sprintf("call-%d-%d", turn, len(all)+1), name: t.Name}
				a.arguments, a.problem = t.fromBlock(strings.TrimSpace(rest), b)
				all = append(all, a)
			}
		}
	}
	kept := model.Message{Role: model.RoleAssistant, Extra: m.Extra}
	for _, p := range m.Parts { // a call that nobody offered would need an answer
		if p.Kind != model.PartCall {
			kept.Parts = append(kept.Parts, p)
		}
	}
	return kept, all
}

func (plain) answer(done []action, seen []observation, word string) []model.Message {
	var b strings.Builder
	for i, a := range done {
		fmt.Fprintf(&b, "[%s]\n%s\n\n", a.name, seen[i].text)
	}
	b.WriteString(word)
	return []model.Message{user(strings.TrimSpace(b.String()))}
}

// fromBlock makes a call's JSON of a block: the words after the tool's name are
// name=value, or the value of the tool's head parameter; the text within is
// that of its body.
func (t tool) fromBlock(info string, b block) (arguments, problem string) {
	if !b.closed {
		return "{}", "the block is not closed, so it may not be whole. Nothing was done."
	}
	if t.schema != nil {
		return b.text, ""
	}
	values := map[string]any{}
	var head []string
	last := ""
	for word := range strings.FieldsSeq(info) {
		switch name, value, ok := strings.Cut(word, "="); {
		case ok && t.param(name) != nil:
			values[name], last = value, name
		case last != "": // values may have blanks
			values[last] = values[last].(string) + " " + word
		default:
			head = append(head, word)
		}
	}
	if len(head) > 0 {
		if t.head == "" {
			return "{}", fmt.Sprintf("nothing but name=value may stand after %q", t.Name)
		}
		values[t.head] = strings.Trim(strings.Join(head, " "), "`\"'")
	}
	text := strings.TrimSuffix(b.text, "\n")
	switch {
	case t.body == "change":
		old, new, err := pieces(b.text)
		if err != nil {
			return "{}", err.Error()
		}
		values["old"], values["new"] = old, new
	case t.body == "content": // a file ends as the block does
		values[t.body] = b.text
	case t.body != "" && text != "":
		values[t.body] = text
	case t.body == "" && t.head != "" && values[t.head] == nil && text != "":
		values[t.head] = strings.TrimSpace(text)
	}
	raw, err := json.Marshal(values)
	if err != nil { // strings alone
		return "{}", strconv.Quote(err.Error())
	}
	return string(raw), ""
}
