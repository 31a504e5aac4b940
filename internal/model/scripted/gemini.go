package scripted

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"assay/internal/model"
)

// gemini is Google's generateContent. A stream is data lines alone, each a
// whole object; arguments of calls come whole; the last one has finishReason
// and usageMetadata.
type gemini struct{}

type geminiPart struct {
	Text             string          `json:"text"`
	Thought          bool            `json:"thought"`
	FunctionCall     *geminiCall     `json:"functionCall"`
	FunctionResponse *geminiResponse `json:"functionResponse"`
}

type geminiCall struct {
	ID   string          `json:"id"`
	Name string          `json:"name"`
	Args json.RawMessage `json:"args"`
}

type geminiResponse struct {
	ID       string          `json:"id"`
	Name     string          `json:"name"`
	Response json.RawMessage `json:"response"`
}

type geminiContent struct {
	Role  string       `json:"role"`
	Parts []geminiPart `json:"parts"`
}

func (gemini) read(path string, body []byte) (*ask, error) {
	var in struct {
		Contents []geminiContent `json:"contents"`
		System   *geminiContent  `json:"systemInstruction"`
		Tools    []struct {
			Functions []struct {
				Name       string  `json:"name"`
				Parameters *schema `json:"parameters"`
				Schema     *schema `json:"parametersJsonSchema"`
			} `json:"functionDeclarations"`
		} `json:"tools"`
	}
	if err := decode(body, &in); err != nil {
		return nil, err
	}
	if len(in.Contents) == 0 {
		return nil, errors.New("* GenerateContentRequest.contents: contents is not specified")
	}
	name, verb := modelVerb(path)
	a := &ask{dialect: model.Gemini, model: name, stream: verb == "streamGenerateContent", size: len(body)}
	if in.System != nil {
		for _, p := range in.System.Parts {
			a.system += p.Text + "\n"
		}
	}
	for _, t := range in.Tools {
		for _, f := range t.Functions {
			one := tool{name: f.Name}
			for _, s := range []*schema{f.Parameters, f.Schema} { // the latter is the newer form
				if s != nil {
					one.schema = *s
				}
			}
			a.tools = append(a.tools, one)
		}
	}
	for i, c := range in.Contents {
		if err := a.geminiContent(c); err != nil {
			return nil, fmt.Errorf("* GenerateContentRequest.contents[%d]: %w", i, err)
		}
	}
	return a, nil
}

func (a *ask) geminiContent(c geminiContent) error {
	var m *message
	switch c.Role {
	case "user", "", "function":
		m = a.add(user)
	case "model":
		m = a.add(assistant)
	default:
		return errors.New("please use a valid role: user, model")
	}
	if len(c.Parts) == 0 {
		return errors.New("parts must not be empty")
	}
	for _, p := range c.Parts {
		switch {
		case p.FunctionCall != nil:
			f := p.FunctionCall
			m.calls = append(m.calls, call{id: f.ID, name: f.Name, args: string(f.Args)})
		case p.FunctionResponse != nil:
			f := p.FunctionResponse
			m.results = append(m.results, result{id: f.ID, name: f.Name, text: string(f.Response)})
		case !p.Thought:
			m.text += p.Text
		}
	}
	return nil
}

func (gemini) usage(u *Usage) object {
	return object{
		"promptTokenCount": u.Input, "cachedContentTokenCount": u.Cached,
		"candidatesTokenCount": u.Output - u.Reasoning, "thoughtsTokenCount": u.Reasoning, "totalTokenCount": u.Input + u.Output,
	}
}

// content is one object of a stream, or the whole.
func (g gemini) content(a *answer, parts []object, finish string) object {
	c := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	out := object{"candidates": []object{c}, "modelVersion": a.model, "responseId": a.id}
	if finish == "" {
		return out
	}
	c["finishReason"] = finish
	if a.usage != nil {
		out["usageMetadata"] = g.usage(a.usage)
	}
	if a.empty {
		delete(c, "content")
	}
	return out
}

func (a *answer) geminiFinish() string {
	return a.finish("STOP", "MAX_TOKENS", "SAFETY", "SAFETY", "STOP")
}

// callPart reports false for malformed arguments: the dialect cannot say them,
// and the provider ends with MALFORMED_FUNCTION_CALL.
func (gemini) callPart(c call) (object, bool) {
	if !json.Valid([]byte(c.args)) || !strings.HasPrefix(c.args, "{") {
		return nil, false
	}
	return object{"functionCall": object{"id": c.id, "name": c.name, "args": json.RawMessage(c.args)}}, true
}

func (g gemini) parts(a *answer) (parts []object, finish string) {
	finish = a.geminiFinish()
	parts = []object{}
	if a.empty {
		return parts, finish
	}
	if a.reasoning != "" {
		parts = append(parts, object{"text": a.reasoning, "thought": true, "thoughtSignature": signature(a.reasoning)})
	}
	if text := a.text + a.refusal; text != "" {
		parts = append(parts, object{"text": text})
	}
	for _, c := range a.calls {
		if p, ok := g.callPart(c); ok {
			parts = append(parts, p)
		} else {
			finish = "MALFORMED_FUNCTION_CALL"
		}
	}
	return parts, finish
}

func (g gemini) whole(_ *ask, a *answer) object {
	parts, finish := g.parts(a)
	return g.content(a, parts, finish)
}

func (g gemini) events(_ *ask, a *answer) iter.Seq[event] {
	return func(yield func(event) bool) {
		parts, finish := g.parts(a)
		for _, p := range parts {
			text, ok := p["text"].(string)
			if !ok {
				if !yield(event{data: encode(g.content(a, []object{p}, ""))}) {
					return
				}
				continue
			}
			for _, piece := range slices.Collect(pieces(text, a.chunk)) {
				one := with(p, object{"text": piece})
				if !yield(event{data: encode(g.content(a, []object{one}, ""))}) {
					return
				}
			}
		}
		yield(event{data: encode(g.content(a, []object{{"text": ""}}, finish))})
	}
}

func (gemini) fail(f failure) object {
	e := object{"code": f.status, "message": f.message, "status": f.googleStatus()}
	if f.retry > 0 {
		e["details"] = []object{{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": fmt.Sprintf("%gs", f.retry.Seconds())}}
	}
	return object{"error": e}
}

func (g gemini) within(f failure, _ int) event { return event{data: encode(g.fail(f))} }
