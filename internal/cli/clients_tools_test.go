package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// Unmodified clients find the host's tools by MCP, and use them.
func TestClientsUseHostTools(t *testing.T) {
	b := newClientBed(t)
	for agent, tool := range map[string]string{"codex": "clock", "claude-code": "mcp__host__clock"} {
		t.Run(agent, func(t *testing.T) {
			b.t = t
			got := b.run("tools-"+agent, agent, "scripted:"+b.write("tools-"+agent+".yaml", "turns:\n"+
				"  - calls: [{tool: "+tool+", args: {}}]\n"+
				"  - calls: [{bash: \"echo 'Hello, world!' >hello.txt\"}]\n"), "--tool", "clock")
			solved(t, got)
			equalsTraffic(t, got)
			book, err := os.ReadFile(filepath.Join(got.Dir, "agent", "tools.ndjson"))
			if err != nil || bytes.Count(book, []byte(`"tool":"clock","via":"mcp"`)) != 1 || bytes.Contains(book, []byte("error")) {
				t.Errorf("the book of tools: %s, %v", book, err)
			}
			doc, err := os.ReadFile(filepath.Join(got.Dir, "agent", "trajectory.json"))
			if err != nil || !bytes.Contains(doc, []byte("money left: no limit")) {
				t.Errorf("the trajectory does not show what the tool said: %v", err)
			}
			events, err := os.ReadFile(filepath.Join(b.dir, "tools-"+agent, "events.ndjson"))
			if err != nil || !bytes.Contains(events, []byte(`"tool":"clock"`)) {
				t.Errorf("no event tells of the call: %v", err)
			}
		})
	}
}
