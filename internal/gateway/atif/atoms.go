package atif

import (
	"crypto/sha256"
	"encoding/json"
	"strings"

	"assay/internal/model"
)

// key is the digest of something said, or of all that was said so far.
type key [16]byte

// atom is one thing said: a text, a call, a result. Requests are compared atom
// by atom, since clients merge and split messages as their dialect likes.
type atom struct {
	key  key
	role model.Role
	part model.Part
	msg  int // which message of the request held it
}

func (x *atom) assistant() bool { return x.role == model.RoleAssistant }

// speller identifies parts. It remembers them, since every request repeats all
// that came before.
type speller map[saying]key

// saying is what identifies a part.
type saying struct {
	kind model.PartKind
	role model.Role // of texts
	name string     // of calls
	text string
}

const maxSayings = 200_000

// flatten turns messages into atoms, leading system messages apart: clients
// change those between calls of one conversation. Reasoning and what has no
// content for a reader is left out, since clients drop or reshape it.
func (s speller) flatten(messages []model.Message) (system []string, rest []atom) {
	for i, m := range messages {
		for _, p := range m.Parts {
			if m.Role == model.RoleSystem && len(rest) == 0 {
				if t := strings.TrimSpace(p.Text); p.Kind == model.PartText && t != "" {
					system = append(system, p.Text)
				}
				continue
			}
			if k, ok := s.identify(m.Role, p); ok {
				rest = append(rest, atom{key: k, role: m.Role, part: p, msg: i})
			}
		}
	}
	return system, rest
}

// identify is the digest of a part, without ids: clients and codecs make new
// ones, and where they do not, the order tells as much.
func (s speller) identify(role model.Role, p model.Part) (key, bool) {
	x := saying{kind: p.Kind}
	switch {
	case p.Kind == model.PartText || p.Kind == model.PartRefusal:
		x.kind, x.role, x.text = model.PartText, speaker(role), strings.TrimSpace(p.Text)
		if x.text == "" {
			return key{}, false
		}
	case p.Kind == model.PartCall && p.Call != nil:
		x.name, x.text = p.Call.Name, p.Call.Arguments
	case p.Kind == model.PartResult && p.Result != nil:
		x.text = strings.TrimSpace(resultText(p.Result))
	case p.Kind == model.PartMedia && p.Media != nil:
		x.name, x.text = p.Media.Type, p.Media.URL+p.Media.Data
	default:
		return key{}, false
	}
	k, ok := s[x]
	if !ok {
		k = x.digest()
		if len(s) < maxSayings {
			s[x] = k
		}
	}
	return k, true
}

func (x saying) digest() key {
	if x.kind == model.PartCall {
		return digest(string(x.kind), x.name, sameArguments(x.text))
	}
	return digest(string(x.kind), string(x.role), x.name, x.text)
}

// speaker folds roles that dialects do not tell apart.
func speaker(r model.Role) model.Role {
	if r == model.RoleTool {
		return model.RoleUser
	}
	return r
}

// sameArguments spells arguments as every client would that read and wrote
// them again.
func sameArguments(s string) string {
	if raw, ok := object(s); ok {
		if same, ok := respelled(raw); ok {
			return string(same)
		}
	}
	return strings.TrimSpace(s)
}

func resultText(r *model.Result) string {
	if len(r.Parts) == 1 && r.Parts[0].Kind == model.PartText {
		return r.Parts[0].Text
	}
	var texts []string
	for _, p := range r.Parts {
		switch {
		case p.Kind == model.PartText:
			texts = append(texts, p.Text)
		case p.Media != nil:
			texts = append(texts, p.Media.Type, p.Media.URL, p.Media.Data)
		}
	}
	return strings.Join(texts, "\n")
}

func digest(parts ...string) key {
	h := sha256.New()
	for _, p := range parts {
		var n [8]byte
		for i, l := 0, len(p); i < 8; i, l = i+1, l>>8 {
			n[i] = byte(l)
		}
		h.Write(n[:])
		h.Write([]byte(p))
	}
	var k key
	copy(k[:], h.Sum(nil))
	return k
}

// after is the digest of all that was said before and then next.
func (k key) after(next key) key {
	var both [2 * len(k)]byte
	copy(both[:], k[:])
	copy(both[len(k):], next[:])
	sum := sha256.Sum256(both[:])
	return key(sum[:len(k)])
}

// rolling are the digests of every beginning of atoms: rolling[i] is that of
// the first i after from.
func rolling(from key, atoms []atom) []key {
	all := make([]key, 1, len(atoms)+1)
	all[0] = from
	for _, x := range atoms {
		all = append(all, all[len(all)-1].after(x.key))
	}
	return all
}

// answerAtoms are those of an answer.
func (s speller) answer(r *model.Response) []atom {
	if r == nil {
		return nil
	}
	m := r.Message
	m.Role = model.RoleAssistant
	_, atoms := s.flatten([]model.Message{m})
	return atoms
}

// definition is a tool in OpenAI's function schema.
func definition(t model.Tool) (json.RawMessage, bool) {
	if t.Hosted != "" || t.Name == "" {
		raw, ok := object(string(t.Raw))
		return raw, ok
	}
	type function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
		Strict      *bool           `json:"strict,omitempty"`
	}
	f := function{Name: t.Name, Description: t.Description, Strict: t.Strict}
	if schema, ok := object(string(t.Schema)); ok {
		f.Parameters = schema
	}
	form := "function"
	if t.Custom {
		form = "custom"
	}
	b, err := json.Marshal(map[string]any{"type": form, form: f})
	if err != nil {
		return nil, false
	}
	return plain(b)
}

// shareText and shareTools keep one copy of what every request repeats.
func (a *Assembly) shareText(s string) string {
	k := digest(s)
	if old, ok := a.texts[k]; ok {
		return old
	}
	a.texts[k] = s
	return s
}

func (a *Assembly) shareTools(tools []model.Tool) []model.Tool {
	parts := make([]string, 0, 4*len(tools))
	for _, t := range tools {
		parts = append(parts, t.Namespace+"\x00"+t.Name+"\x00"+t.Hosted, t.Description, string(t.Schema), string(t.Raw))
	}
	k := digest(parts...)
	if old, ok := a.tools[k]; ok {
		return old
	}
	a.tools[k] = tools
	return tools
}
