package replay

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strings"

	"assay/internal/model"
)

// said is a conversation, as a list of what was said and where.
type said []saying

type saying struct{ where, text string }

// digest is equal for equal conversations.
func (s said) digest() [32]byte {
	h := sha256.New()
	for _, one := range s {
		fmt.Fprintf(h, "%d %s %d %s\n", len(one.where), one.where, len(one.text), one.text)
	}
	return [32]byte(h.Sum(nil))
}

// common counts the sayings that s and o begin with alike.
func (s said) common(o said) int {
	n := 0
	for n < len(s) && n < len(o) && s[n] == o[n] {
		n++
	}
	return n
}

// conversation lists what r says. Neighbours of one role are one message, and
// reasoning is left out: dialects differ in both, and a gateway may have
// translated.
func (n *normaliser) conversation(r *model.Request) said {
	var out said
	role, i := model.Role(""), -1
	for _, m := range r.Messages {
		if m.Role != role {
			role, i = m.Role, i+1
		}
		at := fmt.Sprintf("%s message %d", m.Role, i+1)
		for _, p := range m.Parts {
			where, text := at, ""
			switch p.Kind {
			case model.PartText, model.PartRefusal:
				where, text = at+", text", n.plain(p.Text)
			case model.PartCall:
				where, text = fmt.Sprintf("%s, call of %s", at, p.Call.Name), n.arguments(p.Call.Arguments)
			case model.PartResult:
				where = at + ", result"
				for _, q := range p.Result.Parts {
					text += n.plain(q.Text) + media(q)
				}
			case model.PartMedia:
				text = media(p)
			case model.PartOpaque:
				text = n.plain(string(p.Raw))
			}
			if text = strings.TrimSpace(text); text == "" {
				continue
			}
			if k := len(out) - 1; k >= 0 && out[k].where == where && strings.HasSuffix(where, ", text") {
				out[k].text += "\n" + text
				continue
			}
			out = append(out, saying{where, text})
		}
	}
	return out
}

func media(p model.Part) string {
	if p.Media == nil {
		return ""
	}
	return fmt.Sprintf("%s %x", p.Media.Type, sha256.Sum256([]byte(p.Media.Data+p.Media.URL)))
}

// arguments are JSON in one spelling, where they are JSON.
func (n *normaliser) arguments(text string) string {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return n.plain(text)
	}
	b, err := json.Marshal(n.walk("", v))
	if err != nil {
		return n.plain(text)
	}
	return string(b)
}

// body is a request that is no conversation, such as one for a count.
func (n *normaliser) body(path string, b []byte) said {
	text := string(b)
	var flat bytes.Buffer
	if json.Compact(&flat, b) == nil {
		text = flat.String()
	}
	return said{{"path", path}, {"body", n.plain(text)}}
}

// difference tells where what was asked leaves what is recorded.
func difference(asked, recorded said) string {
	n := asked.common(recorded)
	switch {
	case n < len(asked) && n < len(recorded) && asked[n].where == recorded[n].where:
		a, r := around(asked[n].text, recorded[n].text)
		return fmt.Sprintf("%s is %q, recorded is %q", asked[n].where, a, r)
	case n < len(asked) && n < len(recorded):
		return fmt.Sprintf("%s stands where %s is recorded", asked[n].where, recorded[n].where)
	case n < len(asked):
		return fmt.Sprintf("%s comes after the recorded conversation: %q", asked[n].where, clip(asked[n].text))
	case n < len(recorded):
		return fmt.Sprintf("%s is missing: %q", recorded[n].where, clip(recorded[n].text))
	default:
		return "the same conversation was recorded for another kind of request"
	}
}

// around cuts two texts to what is about their first difference.
func around(a, b string) (string, string) {
	i := 0
	for i < len(a) && i < len(b) && a[i] == b[i] {
		i++
	}
	from := max(0, i-20)
	return clip(strings.ToValidUTF8(a[from:], "")), clip(strings.ToValidUTF8(b[from:], ""))
}

func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
