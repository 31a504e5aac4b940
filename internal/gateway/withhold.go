package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"assay/internal/model"
)

// Tools that a provider runs reach the network past the sandbox's rules, so
// they are taken out of requests unless they are granted. What an agent itself
// runs passes, whoever defined it.

// clientTools are the types of tools that the agent runs; a trailing asterisk
// stands for a date. Everything else is the provider's, so that a type which is
// invented tomorrow is withheld.
func clientTools(d model.Dialect) []string {
	switch d {
	case model.Chat:
		return []string{"", "function", "custom"}
	case model.Responses:
		return []string{"function", "custom", "namespace", "local_shell", "apply_patch", "computer*", "tool_search"}
	case model.Messages:
		return []string{"", "custom", "bash_*", "text_editor_*", "computer_*", "memory_*", "tool_search_tool_*"}
	}
	return []string{"functionDeclarations", "computerUse"} // keys of gemini's tools
}

// hostedFields are members of a request that make the provider reach out by
// themselves.
func hostedFields(d model.Dialect) []string {
	switch d {
	case model.Chat:
		return []string{"web_search_options", "plugins"}
	case model.Messages:
		return []string{"mcp_servers"}
	}
	return nil
}

func listed(all []string, name string) bool {
	return slices.ContainsFunc(all, func(p string) bool {
		prefix, star := strings.CutSuffix(p, "*")
		return p == name || star && strings.HasPrefix(name, prefix)
	})
}

// granted reports whether a provider's tool may be used.
func (s *Session) granted(name string) bool {
	return slices.ContainsFunc(s.conf.Grant, func(g string) bool {
		return g == "*" || g == name || strings.HasPrefix(name, g+"_20") // web_search grants web_search_20250305
	})
}

// withhold adds to e what takes a provider's tools out of the body.
func (a *asked) withhold(e edit) {
	d := a.route.dialect
	for _, m := range a.members {
		switch {
		case m.key == "tools":
			if els, ok := elements(a.body, m.value); ok {
				a.withholdFrom(e, els)
			}
		case listed(hostedFields(d), m.key) && !a.s.granted(m.key):
			e[m.key] = nil
			a.call.Withheld = append(a.call.Withheld, m.key)
		}
	}
	if len(a.call.Withheld) == 0 {
		return
	}
	for _, m := range a.members { // a choice of what is no longer there is an error
		if m.key == "tool_choice" && slices.ContainsFunc(a.missing, func(n string) bool { return n != "" && bytes.Contains(m.value.of(a.body), []byte(`"`+n+`"`)) }) {
			e[m.key] = nil
		}
	}
}

func (a *asked) withholdFrom(e edit, els []span) {
	var kept [][]byte
	before := len(a.call.Withheld)
	for _, el := range els {
		if tool := a.withholdTool(el.of(a.body)); tool != nil {
			kept = append(kept, tool)
		}
	}
	if len(a.call.Withheld) == before {
		return
	}
	if len(kept) == 0 {
		e["tools"], e["tool_choice"], e["parallel_tool_calls"] = nil, nil, nil
		return
	}
	e["tools"] = slices.Concat([]byte("["), bytes.Join(kept, []byte(",")), []byte("]"))
}

// withholdTool returns what remains of a tool; nil: nothing.
func (a *asked) withholdTool(raw []byte) []byte {
	fields, err := members(raw, span{0, len(raw)})
	if err != nil {
		return raw // the provider will say so
	}
	client := clientTools(a.route.dialect)
	if a.route.dialect == model.Gemini {
		return a.withholdGemini(raw, fields, client)
	}
	var kind, name string
	cut := edit{}
	for _, f := range fields {
		switch strings.ToLower(f.key) {
		case "type":
			_ = json.Unmarshal(f.value.of(raw), &kind) // no string is no type
		case "name", "server_label":
			_ = json.Unmarshal(f.value.of(raw), &name)
		case "tools": // of a namespace
			if els, ok := elements(raw, f.value); ok {
				a.withholdNested(cut, raw, els)
			}
		}
	}
	if listed(client, kind) || a.s.granted(kind) || a.s.granted(name) {
		return cut.apply(raw, fields)
	}
	a.call.Withheld = append(a.call.Withheld, clip(kind, 100))
	a.missing = append(a.missing, kind, name)
	return nil
}

func (a *asked) withholdNested(cut edit, raw []byte, els []span) {
	var kept [][]byte
	before := len(a.call.Withheld)
	for _, el := range els {
		if tool := a.withholdTool(el.of(raw)); tool != nil {
			kept = append(kept, tool)
		}
	}
	if len(a.call.Withheld) > before {
		cut["tools"] = slices.Concat([]byte("["), bytes.Join(kept, []byte(",")), []byte("]"))
	}
}

func (a *asked) withholdGemini(raw []byte, fields []member, client []string) []byte {
	cut := edit{}
	for _, f := range fields {
		if !listed(client, camel(f.key)) && !a.s.granted(camel(f.key)) {
			cut[f.key] = nil
			a.call.Withheld = append(a.call.Withheld, clip(f.key, 100))
		}
	}
	if len(cut) == len(fields) && len(fields) > 0 {
		return nil
	}
	return cut.apply(raw, fields)
}

// withholdTools is the same for a request that is translated.
func (a *asked) withholdTools(r *model.Request) {
	r.Tools = slices.DeleteFunc(r.Tools, func(t model.Tool) bool {
		if t.Hosted == "" || t.Name != "" || listed(clientTools(a.route.dialect), t.Hosted) || a.s.granted(t.Hosted) {
			return false
		}
		a.call.Withheld = append(a.call.Withheld, clip(t.Hosted, 100))
		return true
	})
	for _, name := range hostedFields(a.route.dialect) {
		if _, ok := r.Extra[name]; ok && !a.s.granted(name) {
			delete(r.Extra, name)
			a.call.Withheld = append(a.call.Withheld, name)
		}
	}
	if len(r.Tools) == 0 {
		r.Choice, r.Parallel = "", nil
	}
}

// fetched are the members that make a provider fetch what they name. It would
// do so for the agent, from outside of the sandbox.
func fetched() []string {
	return []string{"image_url", "file_url", "fileUri", "file_uri"}
}

// remote refuses a body whose messages name media by address: nothing is
// fetched for an agent; media come as data. What a tool was called with is a
// text and not looked at.
func (a *asked) remote() *model.Error {
	for _, m := range a.members {
		if m.key != arrayOf(a.route.dialect) {
			continue
		}
		els, _ := elements(a.body, m.value)
		for _, el := range els {
			raw := el.of(a.body)
			if !suspicious(raw) {
				continue
			}
			var v any
			if json.Unmarshal(raw, &v) != nil {
				continue // too deep; the provider will say so
			}
			if at := remoteIn(v); at != "" {
				return &model.Error{Kind: model.ErrBadRequest, Status: http.StatusBadRequest, Message: fmt.Sprintf("media by address is not fetched here (%s); send it inline as data", clip(at, 80))}
			}
		}
	}
	return nil
}

// suspicious saves decoding of nearly all messages: it looks for the ends of
// the keys that fetched names and of "url", and for escapes, which may hide one.
func suspicious(raw []byte) bool {
	return bytes.Contains(raw, []byte(`url"`)) || bytes.Contains(raw, []byte(`ri"`)) || bytes.Contains(raw, []byte(`\u00`))
}

// remoteIn returns the first address within a message's parts; empty: none.
func remoteIn(v any) string {
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if at := remoteIn(e); at != "" {
				return at
			}
		}
	case map[string]any:
		if v["type"] == "url" {
			if at, ok := v["url"].(string); ok {
				return inline(at)
			}
		}
		for k, e := range v {
			switch {
			case k == "input" || k == "args" || k == "response" || k == "arguments": // of a tool
				continue
			case slices.Contains(fetched(), k):
				if o, ok := e.(map[string]any); ok {
					e = o["url"]
				}
				if at, ok := e.(string); ok && inline(at) != "" {
					return at
				}
			default:
				if at := remoteIn(e); at != "" {
					return at
				}
			}
		}
	}
	return ""
}

func inline(at string) string {
	if strings.HasPrefix(at, "data:") {
		return ""
	}
	return at
}
