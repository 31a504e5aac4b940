package scripted

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"assay/internal/model"
)

// wire is one dialect, from the server's side.
type wire interface {
	// read reads a request; an error is the client's fault.
	read(path string, body []byte) (*ask, error)
	// whole is an unstreamed answer.
	whole(*ask, *answer) object
	// events are a streamed answer, the last of them included.
	events(*ask, *answer) iter.Seq[event]
	// fail is an error in the dialect's own shape; its status goes into the body
	// too, where the dialect wants it there.
	fail(failure) object
	// within is an error in the middle of a stream, after n events.
	within(f failure, n int) event
}

func wires() map[model.Dialect]wire {
	return map[model.Dialect]wire{
		model.Chat: chat{}, model.Responses: responses{}, model.Messages: messages{}, model.Gemini: gemini{},
	}
}

// endpoint is what a path asks for.
type endpoint string

const (
	epAnswer endpoint = "answer"
	epCount  endpoint = "count" // how many tokens a request has
	epModels endpoint = "models"
	epProbe  endpoint = "probe" // is anybody there?
	epNone   endpoint = "none"
)

// modelVerb splits the end of ".../models/NAME:VERB"; a name may hold colons.
func modelVerb(path string) (name, verb string) {
	name = path[strings.LastIndexByte(path, '/')+1:]
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

// route finds out what is asked for and in which dialect an error is to be
// said. Any prefix may stand before a path, as providers and gateways have
// them.
func route(r *http.Request) (model.Dialect, endpoint) {
	p := strings.TrimRight(r.URL.Path, "/")
	d := model.Chat
	switch h := r.Header; {
	case h.Get("Anthropic-Version") != "" || h.Get("X-Api-Key") != "":
		d = model.Messages
	case h.Get("X-Goog-Api-Key") != "" || r.URL.Query().Has("key") || strings.Contains(p, "/v1beta"):
		d = model.Gemini
	}
	_, verb := modelVerb(p)
	switch post := r.Method == http.MethodPost; {
	case post && strings.HasSuffix(p, "/chat/completions"):
		return model.Chat, epAnswer
	case post && strings.HasSuffix(p, "/responses"):
		return model.Responses, epAnswer
	case post && strings.HasSuffix(p, "/messages"):
		return model.Messages, epAnswer
	case post && strings.HasSuffix(p, "/messages/count_tokens"):
		return model.Messages, epCount
	case post && (verb == "generateContent" || verb == "streamGenerateContent"):
		return model.Gemini, epAnswer
	case post && verb == "countTokens":
		return model.Gemini, epCount
	case post:
		return d, epNone
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return d, epNone
	case strings.HasSuffix(p, "/models") || strings.Contains(p, "/models/"):
		return d, epModels
	case p == "" || p == "/v1" || p == "/v1beta" || strings.HasSuffix(p, "/api/hello") || strings.HasSuffix(p, "/health"):
		return d, epProbe
	default:
		return d, epNone
	}
}

// key is the credential of a request, wherever its dialect puts it.
func key(r *http.Request) string {
	if k, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return k
	}
	for _, h := range []string{"X-Api-Key", "X-Goog-Api-Key", "Api-Key"} {
		if k := r.Header.Get(h); k != "" {
			return k
		}
	}
	return r.URL.Query().Get("key")
}

// decode reads JSON that may hold fields nobody knows.
func decode(body []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(to); err != nil {
		return fmt.Errorf("we could not parse the JSON body of your request: %w", err)
	}
	return nil
}

// encode writes JSON as servers do, "<" and all.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("scripted: " + err.Error()) // made of maps, texts and numbers only
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// texts reads content that is a text or a list of parts, and returns the text
// of all parts that have one.
func texts(raw json.RawMessage) (string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	if raw[0] == '"' {
		var s string
		err := json.Unmarshal(raw, &s)
		return s, err
	}
	var parts []struct {
		Text    string          `json:"text"`
		Refusal string          `json:"refusal"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &parts); err != nil {
		return "", fmt.Errorf("content is neither a text nor a list of parts: %w", err)
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
		b.WriteString(p.Refusal)
	}
	return b.String(), nil
}
