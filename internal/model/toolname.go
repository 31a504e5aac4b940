package model

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// maxName is the length of a function's name that every dialect takes.
const maxName = 64

// FlatName is the name under which a tool of a namespace is offered in a
// dialect without namespaces. Two names never become one.
func FlatName(namespace, name string) string {
	full := name
	if namespace != "" {
		full = namespace + "__" + name
	}
	flat := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		}
		return '_'
	}, full)
	if flat == full && len(flat) <= maxName {
		return flat
	}
	sum := sha256.Sum256([]byte(full))
	return flat[:min(len(flat), maxName-9)] + "_" + hex.EncodeToString(sum[:4])
}

// FreeForm is the schema of a function that stands for a free-form tool in a
// dialect that has none.
func FreeForm() json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],"additionalProperties":false}`)
}

// Flat is the call as a dialect without namespaces and free-form tools writes
// it. [Request.Restore] is the way back.
func (c Call) Flat() Call {
	flat := Call{ID: c.ID, Name: FlatName(c.Namespace, c.Name), Arguments: c.Arguments}
	if c.Custom {
		flat.Arguments = string(JSON(map[string]string{"input": c.Arguments}))
	}
	return flat
}

// Object is the call's arguments if they are a JSON object; none at all are an
// empty one.
func (c Call) Object() (json.RawMessage, bool) {
	if strings.TrimSpace(c.Arguments) == "" {
		return json.RawMessage("{}"), true
	}
	raw := json.RawMessage(c.Arguments)
	return raw, kindOf(raw) == "an object" && json.Valid(raw)
}

// toolIndex finds tools by the names that calls may have.
type toolIndex map[string]*Tool

func (r *Request) toolIndex() toolIndex {
	x := toolIndex{}
	for i := range r.Tools {
		t := &r.Tools[i]
		if t.Name == "" {
			continue
		}
		for _, name := range []string{t.Namespace + "\x00" + t.Name, "\x00" + FlatName(t.Namespace, t.Name)} {
			if x[name] == nil {
				x[name] = t
			}
		}
	}
	return x
}

func (x toolIndex) restore(c Call) Call {
	t := x[c.Namespace+"\x00"+c.Name]
	if t == nil || c.Custom {
		return c
	}
	c.Name, c.Namespace = t.Name, t.Namespace
	if t.Custom {
		c.Custom = true
		c.Arguments = freeText(c.Arguments)
	}
	return c
}

// Restore gives a call that an upstream made under a flat name the name and
// form that the request's own tool has. A call to a tool that the request does
// not have stays as it is.
func (r *Request) Restore(c Call) Call { return r.toolIndex().restore(c) }

// Restored is an answer whose calls are restored, and have ids.
func (r *Request) Restored(a Response) Response {
	a.Message.Parts = slices.Clone(a.Message.Parts)
	tools := r.toolIndex()
	for i, p := range a.Message.Parts {
		if p.Kind == PartCall {
			c := tools.restore(*p.Call)
			if c.ID == "" {
				c.ID = r.callID(i)
			}
			a.Message.Parts[i].Call = &c
		}
	}
	return a
}

// callID is an id for a call that a server gave none. It is unique within the
// conversation, and the same whenever that is replayed.
func (r *Request) callID(part int) string {
	return fmt.Sprintf("call_%d_%d", len(r.Messages), part)
}

// Tool is the request's tool that c calls, by its own or its flat name; nil if
// there is none.
func (r *Request) Tool(c Call) *Tool { return r.toolIndex()[c.Namespace+"\x00"+c.Name] }

// freeText is the text in the arguments of a function that stands for a
// free-form tool; what a model wrote instead of the object stays as it is.
func freeText(arguments string) string {
	var in struct{ Input *string }
	if json.Unmarshal([]byte(arguments), &in) == nil && in.Input != nil {
		return *in.Input
	}
	return arguments
}
