package gateway

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"

	"assay/internal/model"
)

// outgoing is a request as the provider gets it.
type outgoing struct {
	dialect model.Dialect
	path    string
	query   url.Values
	body    []byte

	// of a request that is translated
	asked    *model.Request // in the agent's dialect
	from, to model.Codec    // of the answer

	noUsage, noLogprobs, noTokens bool // was asked for, and not by the agent
}

// shape makes the provider's request of the agent's.
func (a *asked) shape() (*outgoing, *model.Error) {
	if a.members == nil {
		if _, err := object(a.body); err != nil {
			return nil, badRequest(err)
		}
		return nil, badRequest(errors.New("the body has a key in two spellings"))
	}
	a.note()
	if e := a.remote(); e != nil {
		return nil, e
	}
	if d := a.s.up.speaks(a.route.dialect); d != a.route.dialect && a.call.Side != SideCount {
		return a.translated(d)
	}
	return a.passing(), nil
}

// note reads what a call's line says of its request.
func (a *asked) note() {
	a.call.Model, a.call.Stream = a.route.model, a.route.stream
	for _, m := range a.members {
		switch m.key {
		case "model":
			if a.route.dialect != model.Gemini {
				a.call.Model = a.text(m)
			}
		case "stream":
			a.call.Stream = string(m.value.of(a.body)) == "true"
		}
	}
	a.call.Model = clip(a.call.Model, 200)
	a.call.Sent = a.s.up.Model
	if a.call.Sent == "" {
		a.call.Sent = a.call.Model
	}
	if a.call.Side == "" {
		a.call.Side = sideOf(a.body, a.members)
	}
}

// text of a member that is a string; empty: it is something else.
func (a *asked) text(m member) string {
	var s string
	_ = json.Unmarshal(m.value.of(a.body), &s) // something else is none
	return s
}

// passing is the agent's own request with the least changes.
func (a *asked) passing() *outgoing {
	o := &outgoing{dialect: a.route.dialect, path: a.route.path, query: outQuery(a.r.URL.Query())}
	e := edit{}
	if a.s.up.Model != "" && a.call.Model != a.s.up.Model {
		if o.dialect == model.Gemini {
			_, verb, _ := strings.Cut(o.path, ":")
			o.path = "/v1beta/models/" + url.PathEscape(a.s.up.Model) + ":" + verb
		} else {
			e["model"], _ = json.Marshal(a.s.up.Model) // a string always can
		}
	}
	if a.call.Side != SideCount {
		a.pin(e)
		a.extra(o, e)
	}
	a.withhold(e)
	o.body = e.apply(a.body, a.members)
	return o
}

// sideMarks are words in the instructions of requests without tools that are
// not part of the work, as they were seen. More general ones would catch work.
func sideMarks() map[string][]string {
	return map[string][]string{
		SideTitle:  {"title generator", "generate a title", "generate a brief title", "generate a concise title", "conversation title", "new conversation topic", "short title for"},
		SideCommit: {"commit message"},
	}
}

// sideOf names the kind of a request that is not part of the work; empty: it
// is, as far as can be seen.
func sideOf(body []byte, all []member) string {
	var instructions []byte
	for _, m := range all {
		switch m.key {
		case "tools", "functions":
			if els, ok := elements(body, m.value); !ok || len(els) > 0 {
				return ""
			}
		case "system", "instructions", "systemInstruction", "system_instruction":
			instructions = append(instructions, m.value.of(body)...)
		case "messages", "input", "contents":
			els, ok := elements(body, m.value)
			if !ok || len(els) > 3 {
				return ""
			}
			if len(els) > 0 {
				instructions = append(instructions, els[0].of(body)...)
			}
		}
	}
	low := strings.ToLower(string(instructions[:min(len(instructions), 8<<10)]))
	for side, marks := range sideMarks() {
		for _, mark := range marks {
			if strings.Contains(low, mark) {
				return side
			}
		}
	}
	return ""
}
