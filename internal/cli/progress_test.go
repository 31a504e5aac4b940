package cli

import (
	"bytes"
	"encoding/json"
	"testing"

	"assay/trial"
)

// A note may hold what an agent's programs printed: it is one line, and steers nothing.
func TestNotesSteerNothing(t *testing.T) {
	var errs bytes.Buffer
	p := (&app{World: World{Stderr: &errs}}).progress(false)
	data, err := json.Marshal(map[string]string{"text": "hook said \x1b]0;title\a\x1b[2Jx\r\npass         demo × agent #1\u009b31m"})
	if err != nil {
		t.Fatal(err)
	}
	p.event(trial.Event{Kind: trial.Noted, Data: data})
	if got, want := errs.String(), "note      hook said x pass         demo × agent #1\ufffd31m\n"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
}
