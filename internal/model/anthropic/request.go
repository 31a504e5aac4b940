package anthropic

import (
	"fmt"
	"strings"

	"assay/internal/model"
)

// Messages is the codec.
type Messages struct {
	// MaxTokens is the cap on output for requests that set none: the dialect
	// demands one. 0: 32000, as claude-code asks of every model.
	MaxTokens int64
}

var _ model.Codec = Messages{}

// Dialect is model.Messages.
func (Messages) Dialect() model.Dialect { return model.Messages }

// ParseRequest reads a request, of an answer or of a count of tokens.
func (Messages) ParseRequest(_ string, body []byte) (model.Request, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Request{}, fmt.Errorf("read messages request: %w", err)
	}
	r := model.Request{Dialect: model.Messages, Model: o.Str("model"), Stream: o.True("stream"), Usage: true}
	if parts := parseContent(o, "system"); len(parts) > 0 {
		r.Messages = append(r.Messages, model.Message{Role: model.RoleSystem, Parts: parts})
	}
	for _, m := range o.Objs("messages") {
		r.Messages = append(r.Messages, parseTurn(m)...)
	}
	for _, t := range o.Objs("tools") {
		r.Tools = append(r.Tools, parseTool(t))
	}
	r.Choice, r.Parallel = parseChoice(o.Obj("tool_choice"))
	r.Sampling = model.Sampling{
		Temperature: o.Float("temperature"), TopP: o.Float("top_p"), TopK: o.Int("top_k"),
		MaxTokens: o.Int("max_tokens"), Stop: o.Strs("stop_sequences"),
	}
	if c := o.Obj("output_config"); c != nil {
		r.Sampling.Effort = c.Str("effort")
		if f := c.Obj("format"); f != nil {
			r.Format = &model.Format{Schema: f.Raw("schema")}
		}
	}
	r.Extra = o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read messages request: %w", err)
	}
	return r, nil
}

func parseTool(t *model.Object) model.Tool {
	kind := t.Peek("type")
	if kind != "" && kind != "custom" {
		tool := model.Tool{Hosted: kind, Raw: t.JSON()}
		for _, own := range []string{"bash_", "text_editor_", "computer_", "memory_"} {
			if strings.HasPrefix(kind, own) {
				tool.Name = t.Peek("name")
			}
		}
		return tool
	}
	t.Drop("type")
	tool := model.Tool{
		Name: t.Str("name"), Description: t.Str("description"), Schema: t.Raw("input_schema"), Strict: t.Bool("strict"),
	}
	tool.Extra = t.Rest()
	if tool.Name == "" {
		t.Fail("a tool needs a name")
	}
	if tool.Schema == nil {
		tool.Schema = []byte(`{"type":"object"}`)
	}
	return tool
}

func parseChoice(c *model.Object) (model.ToolChoice, *bool) {
	if c == nil {
		return "", nil
	}
	parallel := c.Bool("disable_parallel_tool_use")
	if parallel != nil {
		*parallel = !*parallel
	}
	switch kind := c.Str("type"); kind {
	case "any":
		return model.ChoiceRequired, parallel
	case "tool":
		return model.ToolChoice(c.Str("name")), parallel
	default:
		return model.ToolChoice(kind), parallel
	}
}

// parseTurn takes the results of tools out of a turn of the user, in order.
func parseTurn(m *model.Object) []model.Message {
	role := model.Role(m.Str("role"))
	switch role {
	case model.RoleUser, model.RoleAssistant, model.RoleSystem:
	default:
		m.Fail("unknown role %q", role)
		return nil
	}
	parts := parseContent(m, "content")
	extra := m.Rest()
	if role != model.RoleUser {
		return []model.Message{{Role: role, Parts: parts, Extra: extra}}
	}
	var all []model.Message
	for _, p := range parts {
		role := model.RoleUser
		if p.Kind == model.PartResult {
			role = model.RoleTool
		}
		if n := len(all); n > 0 && all[n-1].Role == role {
			all[n-1].Parts = append(all[n-1].Parts, p)
			continue
		}
		all = append(all, model.Message{Role: role, Parts: []model.Part{p}})
	}
	if len(all) == 0 {
		all = []model.Message{{Role: model.RoleUser}}
	}
	all[0].Extra = extra
	return all
}

// parseContent reads a string or a list of blocks.
func parseContent(o *model.Object, key string) []model.Part {
	if !o.Has(key) {
		return nil
	}
	raw := o.Raw(key)
	if s, ok := model.StringOf(raw); ok {
		if s == "" {
			return nil
		}
		return []model.Part{{Kind: model.PartText, Text: s}}
	}
	var parts []model.Part
	for _, b := range o.Elements(key, raw) {
		parts = append(parts, parseBlock(b))
	}
	return parts
}

// parseBlock reads a block of a request or an answer.
func parseBlock(b *model.Object) model.Part {
	var p model.Part
	switch b.Peek("type") {
	case "text":
		p = model.Part{Kind: model.PartText, Text: b.Str("text")}
	case "thinking":
		p = model.Part{Kind: model.PartReasoning, Text: b.Str("thinking"), Signature: b.Str("signature")}
	case "redacted_thinking":
		return model.Part{Kind: model.PartReasoning, Raw: b.JSON(), Signature: b.Str("data"), Dialect: model.Messages}
	case "tool_use":
		call := &model.Call{ID: b.Str("id"), Name: b.Str("name"), Arguments: string(b.Raw("input"))}
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
		p = model.Part{Kind: model.PartCall, Call: call}
	case "tool_result":
		res := &model.Result{CallID: b.Str("tool_use_id"), Error: b.True("is_error"), Parts: parseContent(b, "content")}
		p = model.Part{Kind: model.PartResult, Result: res}
	case "image", "document":
		m := parseSource(b)
		if m == nil {
			return model.Part{Kind: model.PartOpaque, Raw: b.JSON(), Dialect: model.Messages}
		}
		p = model.Part{Kind: model.PartMedia, Media: m}
	default: // of a tool that the provider runs, or newer than this
		return model.Part{Kind: model.PartOpaque, Raw: b.JSON(), Dialect: model.Messages}
	}
	b.Drop("type")
	if p.Extra = b.Rest(); p.Extra != nil {
		p.Dialect = model.Messages
	}
	return p
}

// parseSource reads the source of an image or document; nil, and b untouched,
// if it is a file or a text of the provider's own kinds.
func parseSource(b *model.Object) *model.Media {
	src, err := model.ParseObject("source", b.PeekRaw("source"))
	if err != nil {
		return nil
	}
	var m *model.Media
	switch src.Peek("type") {
	case "base64":
		m = &model.Media{Type: src.Peek("media_type"), Data: src.Peek("data")}
	case "url":
		m = &model.Media{Type: "image/*", URL: src.Peek("url")}
		if b.Peek("type") == "document" {
			m.Type = "application/pdf"
		}
	default:
		return nil
	}
	b.Drop("source")
	return m
}
