package scripted

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A call's id tells where it stands: script, turn, number within the turn, and
// how many answers the conversation held before it, which keeps ids of a
// repeated turn apart. It is short and plain, since some clients rewrite ids
// that are not.
func callID(script, turn, k, before int) string {
	return fmt.Sprintf("call_s%dt%dk%dn%d", script, turn, k, before)
}

// idPlace compiles once per server what callID writes.
func idPlace() *regexp.Regexp { return regexp.MustCompile(`s(\d+)t(\d+)k(\d+)n(\d+)$`) }

// place returns the turn that is due: the one after the last that the
// conversation holds. A turn is known by the ids of its calls, else by its
// text. Answers that are not the script's count when they call tools (a client
// gave them ids of its own) or follow one that is the script's; others are
// examples that a client put there.
func (s *Server) place(script int, a *ask) int {
	turns := s.file.Scripts[script].Turns
	due, ours := 0, false
	for _, m := range a.msgs {
		if m.role != assistant {
			continue
		}
		if t, ok := s.turnOf(script, m); ok {
			due, ours = t+1, true
			continue
		}
		if t, ok := sameText(turns, due, m.text); ok && len(m.calls) == 0 {
			due, ours = t+1, true
			continue
		}
		if len(m.calls) > 0 || ours {
			due++
		}
	}
	return due
}

func (s *Server) turnOf(script int, m message) (turn int, ok bool) {
	for _, c := range m.calls {
		p := s.ids.FindStringSubmatch(c.id)
		if p == nil || p[1] != strconv.Itoa(script) {
			continue
		}
		if t, err := strconv.Atoi(p[2]); err == nil && t < maxTurns && (!ok || t > turn) {
			turn, ok = t, true
		}
	}
	return turn, ok
}

// sameText looks for a turn whose text a client has sent back, from the one
// that is due on and then before it. Clients trim texts, and one whose
// calls are written in the text adds those.
func sameText(turns []Turn, due int, text string) (int, bool) {
	text = squeeze(text)
	if text == "" {
		return 0, false
	}
	same := func(t *Turn) bool {
		for _, one := range append([]Turn{*t}, t.Again...) {
			if w := squeeze(one.Text); w == text || (w != "" && len(one.Calls) > 0 && strings.HasPrefix(text, w)) || inText(one.Calls, text) {
				return true
			}
		}
		return false
	}
	for i := min(due, len(turns)); i < len(turns); i++ {
		if same(&turns[i]) {
			return i, true
		}
	}
	for i := min(due, len(turns)) - 1; i >= 0; i-- {
		if same(&turns[i]) {
			return i, true
		}
	}
	return 0, false
}

// inText reports whether text holds the commands of calls that were written as
// text.
func inText(calls []Intention, text string) bool {
	for _, c := range calls {
		switch {
		case c.Bash != nil && *c.Bash != "" && strings.Contains(text, squeeze(*c.Bash)):
		case c.Write != nil && strings.Contains(text, squeeze(c.Write.Path)) && strings.Contains(text, squeeze(c.Write.Content)):
		default:
			return false
		}
	}
	return len(calls) > 0
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

// side is an answer to a request that is no part of the work: a client that
// wants a title or a commit message asks without tools, and says so in its
// instructions.
func side(a *ask) (kind, text string) {
	if len(a.tools) > 0 {
		return "", ""
	}
	s := strings.ToLower(a.system)
	for _, k := range []struct{ word, kind, text string }{
		{"commit message", "commit-message", "feat: do what was asked"},
		{"title generator", "title", "A title"},
		{"generate a title", "title", "A title"},
		{"conversation title", "title", "A title"},
		{"session title", "title", "A title"},
		{"under 50 characters", "title", "A title"},
		{"is a new topic", "title", `{"isNewTopic": true, "title": "A title"}`},
	} {
		if strings.Contains(s, k.word) {
			return k.kind, k.text
		}
	}
	return "", ""
}
