package modeltest

import (
	"strconv"
	"strings"
	"testing"

	"assay/internal/model"
)

func n(i int64) *int64 { return &i }

// Responses are answers that every dialect can say.
func Responses() map[string]model.Response {
	text := func(s string) model.Part { return model.Part{Kind: model.PartText, Text: s} }
	think := model.Part{Kind: model.PartReasoning, Text: "First, look.\nThen write."}
	call := func(id, name, args string) model.Part {
		return model.Part{Kind: model.PartCall, Call: &model.Call{ID: id, Name: name, Arguments: args}}
	}
	usage := &model.Usage{Input: n(120), Cached: n(100), Output: n(9)}
	answer := func(stop model.Stop, parts ...model.Part) model.Response {
		return model.Response{
			ID: "id-1", Model: "m-1", Stop: stop, Usage: usage,
			Message: model.Message{Role: model.RoleAssistant, Parts: parts},
		}
	}
	return map[string]model.Response{
		"text":     answer(model.StopEnd, text("Hello, world! <&> \u2028 \U0001F600\r\nbye")),
		"length":   answer(model.StopLength, text("Hello, wor")),
		"thoughts": answer(model.StopEnd, think, text("Done.")),
		"call":     answer(model.StopCalls, call("c1", "bash", `{"command":"echo \"a\\nb\""}`)),
		"all": answer(model.StopCalls, think, text("I write two files."),
			call("c1", "write", `{"path":"a","text":"x"}`), call("c2", "write", `{"path":"b","text":"y"}`)),
	}
}

// asked is a request whose tools the answers call.
func asked() model.Request {
	return model.Request{
		Model: "m-1", Stream: true, Usage: true,
		Messages: []model.Message{{Role: model.RoleUser, Parts: []model.Part{{Kind: model.PartText, Text: "go"}}}},
		Tools: []model.Tool{
			{Name: "bash", Schema: []byte(`{"type":"object"}`)}, {Name: "write", Schema: []byte(`{"type":"object"}`)},
		},
	}
}

// write: an answer that was written whole is read as it was.
func write(t *testing.T, c model.Codec, r model.Response) {
	body, losses := c.FormatResponse(asked(), r)
	if len(losses) > 0 {
		t.Errorf("losses: %v", losses)
	}
	got, err := c.ParseResponse(body)
	if err != nil {
		t.Fatalf("%v\n%s", err, body)
	}
	check(t, r, got, body)
}

func check(t *testing.T, want, got model.Response, wire []byte) {
	t.Helper()
	got.Extra, got.Message.Extra, got.Dialect = nil, nil, ""
	for i := range got.Message.Parts {
		p := &got.Message.Parts[i]
		p.Extra, p.Dialect, p.Signature, p.Raw = nil, "", "", nil
	}
	if u := got.Usage; u != nil { // some dialects demand a number where none is known
		for _, n := range []**int64{&u.CacheWrite, &u.Reasoning} {
			if *n != nil && **n == 0 {
				*n = nil
			}
		}
	}
	if d := Same(want, got); d != "" {
		t.Errorf("(-want +got):\n%s\n%s", d, wire)
	}
}

// stream: an answer that was written as a stream is read as it was, however it
// is cut into deltas.
func stream(t *testing.T, c model.Codec, r model.Response) {
	for _, size := range []int{1, 3, 1 << 20} {
		wire := Encode(c, asked(), Deltas(r, size))
		got, err := Decode(c, Events(t, wire))
		if err != nil {
			t.Fatalf("%v\n%s", err, wire)
		}
		check(t, r, got, wire)
	}
}

// Encode is the stream of deltas.
func Encode(c model.Codec, asked model.Request, deltas []model.Delta) []byte {
	var wire []byte
	enc := c.Encode(asked)
	for _, d := range deltas {
		wire = append(wire, enc.Next(d)...)
	}
	return wire
}

// Deltas takes an answer apart into pieces of size bytes, which may fall
// within a character only where the dialect's own servers could do that: not
// at all.
func Deltas(r model.Response, size int) []model.Delta {
	out := []model.Delta{{Kind: model.DeltaStart, ID: r.ID, Model: r.Model}}
	for i, p := range r.Message.Parts {
		kind, text := model.DeltaText, p.Text
		switch p.Kind {
		case model.PartReasoning:
			kind = model.DeltaReasoning
		case model.PartRefusal:
			kind = model.DeltaRefusal
		case model.PartCall:
			c := *p.Call
			kind, text, c.Arguments = model.DeltaArguments, c.Arguments, ""
			out = append(out, model.Delta{Kind: model.DeltaCall, Index: i, Call: &c})
		}
		for _, piece := range pieces(text, size) {
			out = append(out, model.Delta{Kind: kind, Index: i, Text: piece})
		}
		out = append(out, model.Delta{Kind: model.DeltaEnd, Index: i})
	}
	return append(out, model.Delta{Kind: model.DeltaUsage, Usage: r.Usage},
		model.Delta{Kind: model.DeltaStop, Stop: r.Stop}, model.Delta{Kind: model.DeltaDone})
}

func pieces(s string, size int) []string {
	var all []string
	var b strings.Builder
	for _, r := range s {
		b.WriteRune(r)
		if b.Len() >= size {
			all = append(all, b.String())
			b.Reset()
		}
	}
	if b.Len() > 0 {
		all = append(all, b.String())
	}
	return all
}

// interleaved: calls whose pieces come mixed are told apart by index.
func interleaved(t *testing.T, c model.Codec) {
	r := Responses()["all"]
	var open, mixed, rest []model.Delta
	byPart := map[int][]model.Delta{}
	for _, d := range Deltas(r, 2) {
		switch d.Kind {
		case model.DeltaCall:
			open = append(open, d)
		case model.DeltaArguments:
			byPart[d.Index] = append(byPart[d.Index], d)
		case model.DeltaStop, model.DeltaUsage, model.DeltaDone:
			rest = append(rest, d)
		case model.DeltaEnd: // a chat server never says it
		default:
			mixed = append(mixed, d)
		}
	}
	mixed = append(mixed, open...)
	for i := 0; i < len(byPart[2]) || i < len(byPart[3]); i++ {
		for _, part := range []int{3, 2} {
			if i < len(byPart[part]) {
				mixed = append(mixed, byPart[part][i])
			}
		}
	}
	wire := Encode(c, asked(), append(mixed, rest...))
	got, err := Decode(c, Events(t, wire))
	if err != nil {
		t.Fatalf("%v\n%s", err, wire)
	}
	check(t, r, got, wire)
}

// many: a server that begins more calls than anybody can count costs no more
// than their bytes.
func many(t *testing.T, c model.Codec) {
	const n = 5000
	deltas := []model.Delta{{Kind: model.DeltaStart, ID: "x", Model: "m"}}
	for i := range n {
		deltas = append(deltas, model.Delta{Kind: model.DeltaCall, Index: i, Call: &model.Call{ID: strconv.Itoa(i), Name: "f" + strconv.Itoa(i)}})
	}
	for i := range n {
		deltas = append(deltas, model.Delta{Kind: model.DeltaArguments, Index: i, Text: "{}"}, model.Delta{Kind: model.DeltaEnd, Index: i})
	}
	deltas = append(deltas, model.Delta{Kind: model.DeltaStop, Stop: model.StopCalls}, model.Delta{Kind: model.DeltaDone})
	wire := Encode(c, asked(), deltas)
	got, err := Decode(c, Events(t, wire))
	if err != nil || len(got.Calls()) != n || got.Calls()[n-1].Name != "f"+strconv.Itoa(n-1) {
		t.Errorf("%d calls, %v", len(got.Calls()), err)
	}
}

// hostile: what is no answer is an error and never a panic.
func hostile(t *testing.T, c model.Codec) {
	bad := []string{
		"", " ", "null", "[]", `"x"`, "{", `{"id":`, "<html>", "\x00\xff", strings.Repeat("[", 100000),
		`{"choices":7}`, `{"choices":[7]}`, `{"output":"x"}`, `{"content":7}`, `{"candidates":[[]]}`,
	}
	for _, b := range bad {
		if r, err := c.ParseResponse([]byte(b)); err == nil {
			t.Errorf("%.40q is read as an answer: %+v", b, r)
		}
		if r, err := c.ParseRequest("", []byte(b)); err == nil && len(r.Messages) > 0 {
			t.Errorf("%.40q is read as a request: %+v", b, r)
		}
	}
	for _, b := range []string{"", "null", "[]", "{", "<html>", "\x00\xff", strings.Repeat("[", 100000)} {
		if _, err := c.Decode().Next(model.Event{Data: []byte(b)}); err == nil {
			t.Errorf("%.40q is read as an event", b)
		}
	}
}
