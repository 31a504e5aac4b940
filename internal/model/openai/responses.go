package openai

import (
	"encoding/json"
	"fmt"

	"assay/internal/model"
)

// Responses is the codec of responses. What its server keeps between requests
// is not here: see [model.Request.Stateless].
type Responses struct{}

var _ model.Codec = Responses{}

const responsesPath = "/v1/responses"

// Dialect is model.Responses.
func (Responses) Dialect() model.Dialect { return model.Responses }

// ParseRequest reads a request. Items that a model wrote in a row become one
// message, and so do results.
func (Responses) ParseRequest(_ string, body []byte) (model.Request, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Request{}, fmt.Errorf("read responses request: %w", err)
	}
	r := model.Request{Dialect: model.Responses, Model: o.Str("model"), Stream: o.True("stream"), Usage: true}
	if text := o.Str("instructions"); text != "" {
		r.Messages = append(r.Messages, textMessage(model.RoleSystem, text))
	}
	if raw := o.Raw("input"); raw != nil {
		if text, ok := model.StringOf(raw); ok {
			r.Messages = append(r.Messages, textMessage(model.RoleUser, text))
		} else {
			for _, item := range o.Elements("input", raw) {
				r.Messages = addItem(r.Messages, item)
			}
		}
	}
	for _, t := range o.Objs("tools") {
		r.Tools = append(r.Tools, parseTools(t)...)
	}
	parseResponsesChoice(o, &r)
	r.Parallel = o.Bool("parallel_tool_calls")
	r.Sampling = model.Sampling{
		Temperature: o.Float("temperature"), TopP: o.Float("top_p"), MaxTokens: o.Int("max_output_tokens"),
	}
	if c := o.Obj("reasoning"); c != nil {
		r.Sampling.Effort = c.Str("effort")
		keep(o, "reasoning", c)
	}
	if c := o.Obj("text"); c != nil {
		r.Format = parseTextFormat(c.Obj("format"))
		keep(o, "text", c)
	}
	r.Extra = o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read responses request: %w", err)
	}
	return r, nil
}

func textMessage(role model.Role, text string) model.Message {
	return model.Message{Role: role, Parts: []model.Part{{Kind: model.PartText, Text: text}}}
}

// keep puts back what was not taken of the object key.
func keep(o *model.Object, key string, c *model.Object) {
	if rest := c.Rest(); rest != nil {
		o.Put(key, model.JSON(rest))
	}
}

func parseTextFormat(f *model.Object) *model.Format {
	if f == nil {
		return nil
	}
	switch f.Str("type") {
	case "json_object":
		return &model.Format{}
	case "json_schema":
		return &model.Format{Name: f.Str("name"), Schema: f.Raw("schema"), Strict: f.Bool("strict")}
	}
	return nil
}

func parseResponsesChoice(o *model.Object, r *model.Request) {
	raw := o.PeekRaw("tool_choice")
	if s, ok := model.StringOf(raw); ok {
		r.Choice = model.ToolChoice(s)
		o.Drop("tool_choice")
		return
	}
	c, err := model.ParseObject("tool_choice", raw)
	if raw == nil || err != nil {
		return
	}
	name := c.Peek("name")
	if c.Peek("type") == "allowed_tools" {
		name = c.Peek("mode")
	}
	if name != "" { // else it names a tool that the provider runs, and stays in Extra
		r.Choice = model.ToolChoice(name)
		o.Drop("tool_choice")
	}
}

// parseTools reads a tool; a namespace holds several.
func parseTools(t *model.Object) []model.Tool {
	switch kind := t.Peek("type"); kind {
	case "function", "custom":
		return []model.Tool{parseFlatTool(t)}
	case "namespace":
		name, about := t.Str("name"), t.Raw("description")
		var all []model.Tool
		for _, in := range t.Objs("tools") {
			tool := parseFlatTool(in)
			tool.Namespace = name
			if about != nil {
				if tool.Extra == nil {
					tool.Extra = map[string]json.RawMessage{}
				}
				tool.Extra[namespaceAbout] = about
			}
			all = append(all, tool)
		}
		return all
	default:
		tool := model.Tool{Hosted: orUnknown(kind), Raw: t.JSON()}
		switch kind {
		case "local_shell", "shell", "apply_patch", "computer", "computer_use_preview":
			tool.Name = kind // the agent runs it
		}
		return []model.Tool{tool}
	}
}

// namespaceAbout keeps the description of a namespace with each of its tools.
const namespaceAbout = "namespace_description"

func parseFlatTool(t *model.Object) model.Tool {
	tool := model.Tool{Name: t.Str("name"), Description: t.Str("description"), Strict: t.Bool("strict")}
	if t.Str("type") == "custom" {
		tool.Custom, tool.Raw = true, t.Raw("format")
	} else if tool.Schema = t.Raw("parameters"); tool.Schema == nil {
		tool.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if tool.Name == "" {
		t.Fail("a tool needs a name")
	}
	tool.Extra = t.Rest()
	return tool
}

// givenItem reports whether an opaque item is none of the model's: it stands in
// a message of the user, by itself.
func givenItem(kind string) bool {
	switch kind {
	case "item_reference", "local_shell_call_output", "shell_call_output", "apply_patch_call_output",
		"computer_call_output", "tool_search_output", "program_output", "mcp_approval_response",
		"compaction", "compaction_summary", "compaction_trigger", "additional_tools":
		return true
	}
	return false
}

// addItem adds an item to the messages that it belongs to.
func addItem(all []model.Message, item *model.Object) []model.Message {
	role := model.RoleAssistant
	kind := item.Peek("type")
	switch kind {
	case "message", "":
		who := item.Str("role")
		switch who {
		case "system", "developer":
			role = model.RoleSystem
		case "user":
			role = model.RoleUser
		case "assistant":
		default:
			item.Fail("unknown role %q", who)
			return all
		}
		if role != model.RoleAssistant {
			item.Drop("type", "id", "status")
			parts := parseItemContent(item)
			return append(all, model.Message{Role: role, Parts: parts, Extra: item.Rest()})
		}
	case "function_call_output", "custom_tool_call_output":
		role = model.RoleTool
	default:
		if givenItem(kind) {
			role = model.RoleUser
		}
	}
	parts := parseItem(item)
	if n := len(all); n > 0 && all[n-1].Role == role && role != model.RoleUser {
		all[n-1].Parts = append(all[n-1].Parts, parts...)
		return all
	}
	return append(all, model.Message{Role: role, Parts: parts})
}

// parseItem reads an item of a model, or a result.
func parseItem(item *model.Object) []model.Part {
	kind := item.Peek("type")
	switch kind {
	case "message", "":
		return parseSaid(item)
	case "reasoning":
		return []model.Part{parseReasoning(item)}
	case "function_call", "custom_tool_call":
		p := model.Part{Kind: model.PartCall, ID: item.Str("id"), Call: &model.Call{
			ID: item.Str("call_id"), Name: item.Str("name"), Namespace: item.Str("namespace"),
		}}
		if kind == "custom_tool_call" {
			p.Call.Custom, p.Call.Arguments = true, item.Str("input")
		} else {
			p.Call.Arguments = arguments(item)
		}
		return []model.Part{withRest(p, item)}
	case "function_call_output", "custom_tool_call_output":
		p := model.Part{Kind: model.PartResult, ID: item.Str("id"), Result: &model.Result{
			CallID: item.Str("call_id"), Custom: kind == "custom_tool_call_output", Parts: parseParts(item, "output"),
		}}
		return []model.Part{withRest(p, item)}
	}
	return []model.Part{{Kind: model.PartOpaque, ID: item.Peek("id"), Raw: item.JSON(), Dialect: model.Responses}}
}

// withRest keeps what is not known of p's object.
func withRest(p model.Part, o *model.Object) model.Part {
	o.Drop("type", "status")
	if p.Extra = o.Rest(); p.Extra != nil {
		p.Dialect = model.Responses
	}
	return p
}

// parseSaid reads a message of the model. What is said of the message as a
// whole stays with its first part.
func parseSaid(item *model.Object) []model.Part {
	id := item.Str("id")
	parts := parseItemContent(item)
	phase := item.Raw("phase")
	for i := range parts {
		p := &parts[i]
		p.ID = id
		if p.Kind == model.PartOpaque { // what cannot be read goes back as a message of its own
			p.Raw = model.JSON(obj{"type": "message", "role": "assistant", "content": []any{p.Raw}})
		}
	}
	if phase != nil && len(parts) > 0 {
		if parts[0].Extra == nil {
			parts[0].Extra = map[string]json.RawMessage{}
		}
		parts[0].Extra["phase"], parts[0].Dialect = phase, model.Responses
	}
	return parts
}

func parseItemContent(item *model.Object) []model.Part { return parseParts(item, "content") }

// parseParts reads a string or a list.
func parseParts(o *model.Object, key string) []model.Part {
	raw := o.Raw(key)
	if s, ok := model.StringOf(raw); ok {
		if s == "" {
			return nil
		}
		return []model.Part{{Kind: model.PartText, Text: s}}
	}
	var parts []model.Part
	for _, c := range o.Elements(key, raw) {
		parts = append(parts, parseInputPart(c))
	}
	return parts
}

func parseInputPart(c *model.Object) model.Part {
	var p model.Part
	opaque := model.Part{Kind: model.PartOpaque, Dialect: model.Responses}
	switch c.Peek("type") {
	case "input_text", "output_text", "text", "summary_text", "reasoning_text":
		p = model.Part{Kind: model.PartText, Text: c.Str("text")}
		if string(c.PeekRaw("annotations")) == "[]" {
			c.Drop("annotations")
		}
		if string(c.PeekRaw("logprobs")) == "[]" {
			c.Drop("logprobs")
		}
	case "refusal":
		p = model.Part{Kind: model.PartRefusal, Text: c.Str("refusal")}
	case "input_image":
		if !c.Has("image_url") {
			opaque.Raw = c.JSON()
			return opaque
		}
		p = model.Part{Kind: model.PartMedia, Media: mediaOfURL(c.Str("image_url"), "image/*")}
	case "input_file":
		key := "file_data"
		if !c.Has(key) {
			key = "file_url"
		}
		if !c.Has(key) {
			opaque.Raw = c.JSON()
			return opaque
		}
		p = model.Part{Kind: model.PartMedia, Media: mediaOfURL(c.Str(key), "application/pdf")}
	default:
		opaque.Raw = c.JSON()
		return opaque
	}
	return withRest(p, c)
}

// parseReasoning reads an item of reasoning: its own text or, where only that
// is told, the summary. The item itself is kept: providers want it back whole.
func parseReasoning(item *model.Object) model.Part {
	p := model.Part{Kind: model.PartReasoning, Raw: item.JSON(), Dialect: model.Responses}
	p.ID, p.Signature = item.Str("id"), item.Str("encrypted_content")
	for _, key := range []string{"content", "summary"} {
		if p.Text != "" {
			break
		}
		for i, t := range parseParts(item, key) {
			if i > 0 {
				p.Text += "\n\n"
			}
			p.Text += t.Text
		}
	}
	return p
}
