package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"assay/internal/model"
)

// Chat is the codec of chat completions.
type Chat struct {
	// CompletionTokens writes the cap on output as max_completion_tokens, which
	// OpenAI's reasoning models demand, instead of max_tokens, which everybody
	// else knows.
	CompletionTokens bool
}

var _ model.Codec = Chat{}

const chatPath = "/v1/chat/completions"

// Dialect is model.Chat.
func (Chat) Dialect() model.Dialect { return model.Chat }

// ParseRequest reads a request.
func (Chat) ParseRequest(_ string, body []byte) (model.Request, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Request{}, fmt.Errorf("read chat request: %w", err)
	}
	r := model.Request{Dialect: model.Chat, Model: o.Str("model"), Stream: o.True("stream")}
	legacy := legacyCalls{}
	for _, m := range o.Objs("messages") {
		r.Messages = append(r.Messages, parseChatMessages(m, &legacy)...)
	}
	r.Tools = parseChatTools(o)
	r.Choice = parseChatChoice(o)
	r.Parallel = o.Bool("parallel_tool_calls")
	r.Sampling = model.Sampling{
		Temperature: o.Float("temperature"), TopP: o.Float("top_p"), TopK: o.Int("top_k"),
		MaxTokens: o.Int("max_completion_tokens"), Stop: o.Strs("stop"), Seed: o.Int("seed"),
		Effort: o.Str("reasoning_effort"),
	}
	if n := o.Int("max_tokens"); r.Sampling.MaxTokens == nil {
		r.Sampling.MaxTokens = n
	}
	if so := o.Obj("stream_options"); so != nil {
		r.Usage = so.True("include_usage")
	}
	r.Logprobs = o.True("logprobs")
	r.Format = parseChatFormat(o.Obj("response_format"))
	r.Extra = o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read chat request: %w", err)
	}
	return r, nil
}

func parseChatFormat(o *model.Object) *model.Format {
	if o == nil {
		return nil
	}
	switch o.Str("type") {
	case "json_object":
		return &model.Format{}
	case "json_schema":
		if s := o.Obj("json_schema"); s != nil {
			return &model.Format{Name: s.Str("name"), Schema: s.Raw("schema"), Strict: s.Bool("strict")}
		}
	}
	return nil
}

// parseChatTools reads tools, and functions, their form of 2023.
func parseChatTools(o *model.Object) []model.Tool {
	var all []model.Tool
	for _, t := range o.Objs("tools") {
		all = append(all, parseChatTool(t))
	}
	for _, f := range o.Objs("functions") {
		all = append(all, parseFunction(f))
	}
	return all
}

func parseChatTool(t *model.Object) model.Tool {
	if f := t.Obj("function"); f != nil {
		return parseFunction(f)
	}
	if c := t.Obj("custom"); c != nil {
		tool := model.Tool{Name: c.Str("name"), Description: c.Str("description"), Custom: true, Raw: c.Raw("format")}
		tool.Extra = c.Rest()
		if tool.Name == "" {
			c.Fail("a tool needs a name")
		}
		return tool
	}
	return model.Tool{Hosted: orUnknown(t.Peek("type")), Raw: t.JSON()}
}

func orUnknown(kind string) string {
	if kind == "" {
		return "unknown"
	}
	return kind
}

func parseFunction(f *model.Object) model.Tool {
	t := model.Tool{
		Name: f.Str("name"), Description: f.Str("description"),
		Schema: f.Raw("parameters"), Strict: f.Bool("strict"),
	}
	t.Extra = f.Rest()
	if t.Name == "" {
		f.Fail("a function needs a name")
	}
	if t.Schema == nil { // leaving it out means: no arguments
		t.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	return t
}

func parseChatChoice(o *model.Object) model.ToolChoice {
	raw := o.Raw("tool_choice")
	if raw == nil {
		raw = o.Raw("function_call")
	}
	if raw == nil {
		return ""
	}
	if s, ok := model.StringOf(raw); ok {
		return model.ToolChoice(s)
	}
	c, err := model.ParseObject("tool_choice", raw)
	if err != nil {
		o.Fail("%w", err)
		return ""
	}
	for _, in := range []*model.Object{c.Obj("function"), c.Obj("custom"), c} {
		if in == nil {
			continue
		}
		if name := in.Str("name"); name != "" {
			return model.ToolChoice(name)
		}
	}
	if a := c.Obj("allowed_tools"); a != nil {
		return model.ToolChoice(a.Str("mode"))
	}
	return ""
}

// legacyCalls gives the calls of the functions form, which has no ids, ids.
type legacyCalls struct {
	n    int
	last map[string]string // id by name
}

func (l *legacyCalls) call(name string) string {
	if l.last == nil {
		l.last = map[string]string{}
	}
	l.n++
	l.last[name] = fmt.Sprintf("call_function_%d", l.n)
	return l.last[name]
}

// parseChatMessages reads a message; a tool's is joined to none here.
func parseChatMessages(m *model.Object, legacy *legacyCalls) []model.Message {
	role := m.Str("role")
	switch role {
	case "system", "developer":
		return []model.Message{chatMessage(model.RoleSystem, m, parseContent(m, "content"))}
	case "user":
		return []model.Message{chatMessage(model.RoleUser, m, parseContent(m, "content"))}
	case "assistant":
		parts := parseAssistant(m, legacy)
		return []model.Message{chatMessage(model.RoleAssistant, m, parts)}
	case "tool":
		res := &model.Result{CallID: m.Str("tool_call_id"), Parts: parseContent(m, "content")}
		return []model.Message{chatMessage(model.RoleTool, m, []model.Part{{Kind: model.PartResult, Result: res}})}
	case "function":
		res := &model.Result{CallID: legacy.last[m.Str("name")], Parts: parseContent(m, "content")}
		return []model.Message{chatMessage(model.RoleTool, m, []model.Part{{Kind: model.PartResult, Result: res}})}
	}
	m.Fail("unknown role %q", role)
	return nil
}

func chatMessage(role model.Role, m *model.Object, parts []model.Part) model.Message {
	return model.Message{Role: role, Parts: parts, Extra: m.Rest()}
}

// parseAssistant reads the message of an answer, too.
func parseAssistant(m *model.Object, legacy *legacyCalls) []model.Part {
	var parts []model.Part
	if t := takeReasoning(m); t != "" {
		parts = append(parts, model.Part{Kind: model.PartReasoning, Text: t})
	}
	parts = append(parts, parseContent(m, "content")...)
	if t := m.Str("refusal"); t != "" {
		parts = append(parts, model.Part{Kind: model.PartRefusal, Text: t})
	}
	for _, c := range m.Objs("tool_calls") {
		parts = append(parts, model.Part{Kind: model.PartCall, Call: parseChatCall(c)})
	}
	if f := m.Obj("function_call"); f != nil {
		name := f.Str("name")
		call := &model.Call{ID: legacy.call(name), Name: name, Arguments: f.Str("arguments")}
		parts = append(parts, model.Part{Kind: model.PartCall, Call: call})
	}
	return parts
}

// takeReasoning reads reasoning in each of its spellings; servers that send two
// send the same text twice.
func takeReasoning(m *model.Object) string {
	a, _ := model.StringOf(m.Raw("reasoning_content"))
	b, _ := model.StringOf(m.Raw("reasoning"))
	if a == "" {
		return b
	}
	return a
}

func parseChatCall(c *model.Object) *model.Call {
	call := &model.Call{ID: c.Str("id")}
	if f := c.Obj("function"); f != nil {
		call.Name, call.Arguments = f.Str("name"), arguments(f)
	}
	if u := c.Obj("custom"); u != nil {
		call.Name, call.Arguments, call.Custom = u.Str("name"), u.Str("input"), true
	}
	return call
}

// arguments are text; some servers send the object itself.
func arguments(f *model.Object) string {
	raw := f.Raw("arguments")
	if s, ok := model.StringOf(raw); ok {
		return s
	}
	return string(raw)
}

// parseContent reads a string or a list of parts.
func parseContent(m *model.Object, key string) []model.Part {
	if !m.Has(key) {
		m.Drop(key)
		return nil
	}
	raw := m.Raw(key)
	if s, ok := model.StringOf(raw); ok {
		if s == "" {
			return nil
		}
		return []model.Part{{Kind: model.PartText, Text: s}}
	}
	var parts []model.Part
	for _, c := range m.Elements(key, raw) {
		parts = append(parts, parseChatPart(c))
	}
	return parts
}

func parseChatPart(c *model.Object) model.Part {
	var p model.Part
	switch c.Peek("type") {
	case "text":
		p = model.Part{Kind: model.PartText, Text: c.Str("text")}
	case "refusal":
		p = model.Part{Kind: model.PartRefusal, Text: c.Str("refusal")}
	case "image_url":
		u := c.Obj("image_url")
		if u == nil {
			c.Fail("image_url is missing")
			return p
		}
		p = model.Part{Kind: model.PartMedia, Media: mediaOfURL(u.Str("url"), "image/*")}
	case "input_audio":
		a := c.Obj("input_audio")
		if a == nil {
			c.Fail("input_audio is missing")
			return p
		}
		p = model.Part{Kind: model.PartMedia, Media: &model.Media{Type: "audio/" + a.Str("format"), Data: a.Str("data")}}
	default:
		return model.Part{Kind: model.PartOpaque, Raw: c.JSON(), Dialect: model.Chat}
	}
	c.Drop("type")
	if p.Extra = c.Rest(); p.Extra != nil {
		p.Dialect = model.Chat
	}
	return p
}

// mediaOfURL takes the type and the data out of a data: URL.
func mediaOfURL(url, otherwise string) *model.Media {
	if rest, ok := strings.CutPrefix(url, "data:"); ok {
		if kind, data, ok := strings.Cut(rest, ";base64,"); ok {
			return &model.Media{Type: kind, Data: data}
		}
	}
	return &model.Media{Type: otherwise, URL: url}
}

func urlOfMedia(m *model.Media) string {
	if m.Data == "" {
		return m.URL
	}
	return "data:" + m.Type + ";base64," + m.Data
}
