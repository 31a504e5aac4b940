package agenttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent"
	"assay/internal/agent/command"
	"assay/internal/agent/script"
)

// Programs find the model that was asked for, and none where none was; the key
// that they print is in nothing that is kept.
func TestEndpointVariables(t *testing.T) {
	const key = "trial-key-0123456789abcdef"
	const show = `echo "$ASSAY_MODEL at $ASSAY_MODEL_URL and $OPENAI_BASE_URL and $ANTHROPIC_BASE_URL"; printf %s "$OPENAI_API_KEY" | wc -c; echo "key $ANTHROPIC_API_KEY"`
	steps, err := script.New("steps.sh", []byte(show+"\n"))
	if err != nil {
		t.Fatal(err)
	}
	for log, a := range map[string]agent.Agent{"command.txt": command.New(show), "script.txt": steps} {
		s := Suite{Open: openNS(t)}
		for _, e := range []*agent.Endpoint{nil, {URL: "http://127.0.0.1:4180/s/x", Model: "m", Key: key}} {
			ses, _ := s.session(t, Case{Agent: a})
			ses.Model = e
			if _, err := a.Run(t.Context(), ses); err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(filepath.Join(string(ses.Logs), log))
			want := " at  and  and \n0\nkey \n"
			if e != nil {
				want = "m at http://127.0.0.1:4180/s/x and http://127.0.0.1:4180/s/x/v1 and http://127.0.0.1:4180/s/x\n26\nkey [key-removed]*************\n"
			}
			if err != nil || string(b) != want {
				t.Errorf("%s: %q, %v; want %q", log, b, err, want)
			}
			if text := observations(valid(t, ses.Recorder)); strings.Contains(text, key) {
				t.Errorf("the trajectory holds the key: %q", text)
			}
		}
	}
}
