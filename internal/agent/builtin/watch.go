package builtin

import (
	"crypto/sha256"
	"strings"
)

// watch notices that nothing new happens: the same action with the same
// result, or the same error whatever is done.
type watch struct {
	window int // turns that are remembered
	turns  []watched
}

type watched struct{ same, failed [32]byte }

// saw takes in a turn and says how often its like happened within the window,
// this time included.
func (w *watch) saw(done []action, seen []observation) (same, failed int) {
	if len(done) == 0 {
		return 0, 0
	}
	var acts, errs strings.Builder
	for i, a := range done {
		acts.WriteString(a.name + "\x00" + a.arguments + "\x00" + seen[i].text + "\x00")
		// A status alone says nothing: so many commands end with 1.
		if seen[i].bad && !strings.HasPrefix(seen[i].text, "[exit status") {
			errs.WriteString(seen[i].text + "\x00")
		}
	}
	now := watched{same: sha256.Sum256([]byte(acts.String()))}
	if errs.Len() > 0 {
		now.failed = sha256.Sum256([]byte(errs.String()))
	}
	if w.turns = append(w.turns, now); len(w.turns) > w.window {
		w.turns = w.turns[1:]
	}
	for _, t := range w.turns {
		if t.same == now.same {
			same++
		}
		if errs.Len() > 0 && t.failed == now.failed {
			failed++
		}
	}
	return same, failed
}
