package gemini

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"assay/internal/model"
)

// Gemini is the codec.
type Gemini struct{}

var _ model.Codec = Gemini{}

// Dialect is model.Gemini.
func (Gemini) Dialect() model.Dialect { return model.Gemini }

// ParseRequest reads a request; the path names its model.
func (Gemini) ParseRequest(path string, body []byte) (model.Request, error) {
	o, err := model.ParseObject("", body)
	if err != nil {
		return model.Request{}, fmt.Errorf("read gemini request: %w", err)
	}
	r := model.Request{Dialect: model.Gemini, Usage: true}
	r.Model, r.Stream = modelOf(path)
	if name := strings.TrimPrefix(o.Str("model"), "models/"); r.Model == "" {
		r.Model = name
	}
	either(o, "systemInstruction", "generationConfig", "toolConfig", "safetySettings", "cachedContent")
	if s := o.Obj("systemInstruction"); s != nil {
		if parts := parseParts(s, &calls{}); len(parts) > 0 {
			r.Messages = append(r.Messages, model.Message{Role: model.RoleSystem, Parts: parts})
		}
	}
	names := &calls{}
	for _, c := range o.Objs("contents") {
		r.Messages = append(r.Messages, parseContent(c, names)...)
	}
	for _, t := range o.Objs("tools") {
		r.Tools = append(r.Tools, parseTools(t)...)
	}
	if c := o.Obj("toolConfig"); c != nil {
		r.Choice = parseChoice(c)
		keep(o, "toolConfig", c)
	}
	if c := o.Obj("generationConfig"); c != nil {
		parseConfig(c, &r)
		keep(o, "generationConfig", c)
	}
	r.Extra = o.Rest()
	if err := o.Err(); err != nil {
		return r, fmt.Errorf("read gemini request: %w", err)
	}
	return r, nil
}

// modelOf reads ".../models/NAME:streamGenerateContent".
func modelOf(path string) (name string, stream bool) {
	path, _, _ = strings.Cut(path, "?")
	name = path[strings.LastIndexByte(path, '/')+1:]
	method := ""
	if i := strings.LastIndexByte(name, ':'); i >= 0 { // names of models hold colons, too
		name, method = name[:i], name[i+1:]
	}
	if plain, err := url.PathUnescape(name); err == nil {
		name = plain
	}
	return name, method == "streamGenerateContent"
}

// either takes fields under their other spelling too: the format allows
// system_instruction for systemInstruction.
func either(o *model.Object, keys ...string) {
	for _, key := range keys {
		var snake strings.Builder
		for _, r := range key {
			if r >= 'A' && r <= 'Z' {
				snake.WriteByte('_')
				r += 'a' - 'A'
			}
			snake.WriteRune(r)
		}
		if other := snake.String(); other != key && !o.Has(key) && o.Has(other) {
			o.Put(key, o.Raw(other))
		}
	}
}

// keep puts back what was not taken of the object key.
func keep(o *model.Object, key string, c *model.Object) {
	if rest := c.Rest(); rest != nil {
		o.Put(key, model.JSON(rest))
	}
}

func parseConfig(c *model.Object, r *model.Request) {
	either(c, "topP", "topK", "maxOutputTokens", "stopSequences", "responseMimeType", "responseSchema",
		"responseJsonSchema", "thinkingConfig", "responseLogprobs")
	r.Sampling = model.Sampling{
		Temperature: c.Float("temperature"), TopP: c.Float("topP"), TopK: c.Int("topK"),
		MaxTokens: c.Int("maxOutputTokens"), Stop: c.Strs("stopSequences"), Seed: c.Int("seed"),
	}
	r.Logprobs = c.True("responseLogprobs")
	if c.Peek("responseMimeType") == "application/json" {
		c.Drop("responseMimeType")
		r.Format = &model.Format{Schema: c.Raw("responseJsonSchema")}
		if s := c.Raw("responseSchema"); s != nil {
			r.Format.Schema = jsonSchema(s)
		}
	}
	if t := c.Obj("thinkingConfig"); t != nil {
		either(t, "thinkingLevel")
		r.Sampling.Effort = strings.ToLower(t.Str("thinkingLevel"))
		keep(c, "thinkingConfig", t)
	}
}

func parseChoice(c *model.Object) model.ToolChoice {
	either(c, "functionCallingConfig")
	f := c.Obj("functionCallingConfig")
	if f == nil {
		return ""
	}
	either(f, "allowedFunctionNames")
	allowed := f.Strs("allowedFunctionNames")
	switch mode := strings.ToUpper(f.Str("mode")); {
	case mode == "ANY" && len(allowed) == 1:
		return model.ToolChoice(allowed[0])
	case mode == "ANY":
		return model.ChoiceRequired
	case mode == "NONE":
		return model.ChoiceNone
	case mode == "AUTO":
		return model.ChoiceAuto
	}
	return ""
}

// parseTools reads functions, and tools that the provider runs, each under its
// own key.
func parseTools(t *model.Object) []model.Tool {
	either(t, "functionDeclarations")
	var all []model.Tool
	for _, f := range t.Objs("functionDeclarations") {
		either(f, "parametersJsonSchema")
		tool := model.Tool{Name: f.Str("name"), Description: f.Str("description"), Schema: f.Raw("parametersJsonSchema")}
		if s := f.Raw("parameters"); s != nil && tool.Schema == nil {
			tool.Schema = jsonSchema(s)
		}
		if tool.Schema == nil {
			tool.Schema = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		if tool.Name == "" {
			f.Fail("a function needs a name")
		}
		tool.Extra = f.Rest()
		all = append(all, tool)
	}
	for key := range t.Rest() {
		all = append(all, model.Tool{Hosted: key, Raw: t.JSON()})
		break // a tool has one key
	}
	return all
}

// jsonSchema makes JSON Schema of Google's own dialect of it, whose types are
// in capitals.
func jsonSchema(raw json.RawMessage) json.RawMessage {
	var v any
	if json.Unmarshal(raw, &v) != nil {
		return raw
	}
	lower(v)
	return model.JSON(v)
}

func lower(v any) {
	switch v := v.(type) {
	case []any:
		for _, in := range v {
			lower(in)
		}
	case map[string]any:
		if t, ok := v["type"].(string); ok {
			switch t {
			case "STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL":
				v["type"] = strings.ToLower(t)
			}
		}
		for _, in := range v {
			lower(in)
		}
	}
}

// calls gives calls without ids ids, and finds the call that a result without
// one answers: the first of its name that has no result yet.
type calls struct {
	n        int
	open     map[string][]string // ids by name, in order; those with a result may be among them
	answered map[string]bool
}

// ownID begins the ids that are made here.
const ownID = "gemini_call_"

func (c *calls) call(call *model.Call) {
	c.n++
	if call.ID == "" {
		call.ID = fmt.Sprintf("%s%d", ownID, c.n)
	}
	if c.open == nil {
		c.open, c.answered = map[string][]string{}, map[string]bool{}
	}
	c.open[call.Name] = append(c.open[call.Name], call.ID)
}

func (c *calls) result(id, name string) string {
	ids := c.open[name]
	for id == "" && len(ids) > 0 {
		if !c.answered[ids[0]] {
			id = ids[0]
		}
		ids = ids[1:]
		c.open[name] = ids
	}
	if c.answered != nil {
		c.answered[id] = true
	}
	return id
}

// parseContent takes the results of tools out of a turn of the user, in order.
func parseContent(c *model.Object, names *calls) []model.Message {
	role := model.RoleUser
	switch who := c.Str("role"); who {
	case "model":
		role = model.RoleAssistant
	case "user", "function", "":
	case "system":
		role = model.RoleSystem
	default:
		c.Fail("unknown role %q", who)
		return nil
	}
	parts := parseParts(c, names)
	extra := c.Rest()
	var all []model.Message
	for _, p := range parts {
		role := role
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
		all = []model.Message{{Role: role}}
	}
	all[0].Extra = extra
	return all
}

func parseParts(c *model.Object, names *calls) []model.Part {
	var parts []model.Part
	if text := c.Peek("text"); text != "" && !c.Has("parts") { // a part instead of a content
		c.Drop("text")
		return []model.Part{{Kind: model.PartText, Text: text}}
	}
	for _, p := range c.Objs("parts") {
		part := parsePart(p)
		switch part.Kind {
		case model.PartCall:
			names.call(part.Call)
		case model.PartResult:
			part.Result.CallID = names.result(part.Result.CallID, part.Result.Name)
		}
		parts = append(parts, part)
	}
	return parts
}

// parsePart reads a part of a request or an answer.
func parsePart(o *model.Object) model.Part {
	either(o, "functionCall", "functionResponse", "inlineData", "fileData", "thoughtSignature")
	var p model.Part
	switch {
	case o.Has("functionCall"):
		f := o.Obj("functionCall")
		call := &model.Call{ID: f.Str("id"), Name: f.Str("name"), Arguments: string(f.Raw("args"))}
		if call.Arguments == "" {
			call.Arguments = "{}"
		}
		p = model.Part{Kind: model.PartCall, Call: call}
	case o.Has("functionResponse"):
		p = model.Part{Kind: model.PartResult, Result: parseResult(o.Obj("functionResponse"))}
	case o.Has("inlineData"):
		d := o.Obj("inlineData")
		either(d, "mimeType")
		p = model.Part{Kind: model.PartMedia, Media: &model.Media{Type: d.Str("mimeType"), Data: d.Str("data")}}
	case o.Has("fileData"):
		d := o.Obj("fileData")
		either(d, "mimeType", "fileUri")
		p = model.Part{Kind: model.PartMedia, Media: &model.Media{Type: d.Str("mimeType"), URL: d.Str("fileUri")}}
	case o.Has("text"):
		p = model.Part{Kind: model.PartText, Text: o.Str("text")}
		if o.True("thought") {
			p.Kind = model.PartReasoning
		}
	default:
		return model.Part{Kind: model.PartOpaque, Raw: o.JSON(), Dialect: model.Gemini}
	}
	p.Signature = o.Str("thoughtSignature")
	if p.Extra = o.Rest(); p.Extra != nil {
		p.Dialect = model.Gemini
	}
	return p
}

// parseResult reads {"output": text} and {"error": text} as text; any other
// object is the text of its JSON.
func parseResult(f *model.Object) *model.Result {
	res := &model.Result{CallID: f.Str("id"), Name: f.Str("name")}
	raw := f.Raw("response")
	text := string(raw)
	var fields map[string]json.RawMessage
	if raw != nil && json.Unmarshal(raw, &fields) == nil && len(fields) == 1 {
		for key, v := range fields {
			if s, ok := model.StringOf(v); ok && (key == "output" || key == "error") {
				text, res.Error = s, key == "error"
			}
		}
	}
	if text != "" {
		res.Parts = []model.Part{{Kind: model.PartText, Text: text}}
	}
	for _, p := range f.Objs("parts") {
		res.Parts = append(res.Parts, parsePart(p))
	}
	return res
}
