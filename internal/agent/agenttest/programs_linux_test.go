package agenttest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/agent"
	"assay/internal/agent/command"
	"assay/internal/agent/oracle"
	"assay/internal/image"
)

// Programs find the brief as a file and as a variable, whole in the one and
// without zero bytes in the other.
func TestBrief(t *testing.T) {
	c := Case{Agent: command.New(`printf '%s|%s|%s|' "$ASSAY_TASK" "$ASSAY_STEP" "$ASSAY_BRIEF_FILE"; printf %s "$ASSAY_BRIEF" >/tmp/a; tr -d '\000' <"$ASSAY_BRIEF_FILE" | cmp - /tmp/a && echo same`)}
	s := Suite{Open: openNS(t), Works: c}
	ses, _ := s.session(t, c)
	if _, err := c.Agent.Run(t.Context(), ses); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(string(ses.Logs), "command.txt"))
	if err != nil || string(b) != "org/name|first|/tmp/assay/brief.md|same\n" {
		t.Errorf("%q, %v", b, err)
	}
}

// A brief longer than any variable may be still reaches the program.
func TestHugeBrief(t *testing.T) {
	open := openNS(t)
	a := command.New(`wc -c <"$ASSAY_BRIEF_FILE"; printf %s "$ASSAY_BRIEF" | wc -c`)
	b := Suite{}.brief()
	b.Instruction = strings.Repeat("ä", 1<<20)
	needs, err := a.Needs(b)
	if err != nil {
		t.Fatal(err)
	}
	sb := open(t)
	if err := putFile(t.Context(), sb, needs.Files[0]); err != nil {
		t.Fatal(err)
	}
	logs := t.TempDir()
	ses := agent.Session{Brief: b, Sandbox: sb, Workdir: "/project", Recorder: agent.NewRecorder(a.Info(), b, nil), Logs: image.HostPath(logs)}
	if r, err := a.Run(t.Context(), ses); err != nil || *r.Exit != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	if out, err := os.ReadFile(filepath.Join(logs, "command.txt")); err != nil || string(out) != "2097152\n102400\n" {
		t.Errorf("%q, %v", out, err)
	}
	valid(t, ses.Recorder)
}

// An oracle without a solution, and a shell that is not there, are reports.
func TestNothingToRun(t *testing.T) {
	s := Suite{Open: openNS(t)}
	c := Case{Agent: oracle.New(), Solution: "#!/nonexistent/interpreter\n"}
	ses, _ := s.session(t, c)
	r, err := c.Agent.Run(t.Context(), ses)
	if err != nil || r.Exit == nil || *r.Exit == 0 {
		t.Errorf("%+v, %v", r, err)
	}
	ses.Workdir = "/nonexistent"
	r, err = c.Agent.Run(t.Context(), ses)
	if err != nil || r.Exit == nil || *r.Exit != 127 {
		t.Errorf("without a workdir: %+v, %v", r, err)
	}
	valid(t, ses.Recorder)
}

// Output beyond the cap is dropped, said so, and in order.
func TestOutputCap(t *testing.T) {
	s := Suite{Open: openNS(t)}
	c := Case{Agent: command.New(`echo first; echo second >&2; head -c 3000000 /dev/zero | tr '\000' x`)}
	ses, _ := s.session(t, c)
	ses.Output = 100_000
	if _, err := c.Agent.Run(t.Context(), ses); err != nil {
		t.Fatal(err)
	}
	out, err := os.ReadFile(filepath.Join(string(ses.Logs), "command.txt"))
	if err != nil || !strings.HasPrefix(string(out), "first\nsecond\nxxx") || len(out) > 101_000 || !strings.Contains(string(out), "dropped") {
		t.Errorf("%d bytes, %v", len(out), err)
	}
	if text := observations(valid(t, ses.Recorder)); len(text) > 101_000 || !strings.Contains(text, "dropped") {
		t.Errorf("%d bytes in the trajectory", len(text))
	}
}
