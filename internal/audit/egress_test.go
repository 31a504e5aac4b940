package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/store"
	"assay/trial"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const allowed = `{"via":"connect","host":"a.example","verdict":"allowed","sent":10,"received":20}` + "\n"

// Ledgers with gaps make lower bounds; attempts that were replaced count; what
// an agent leaves under a ledger's name counts for nothing.
func TestLedgers(t *testing.T) {
	dir := t.TempDir()
	one := 1
	v := &store.View{Dir: dir, Name: "job", Trials: []*store.Trial{
		{Name: "gaps", Dir: filepath.Join(dir, "gaps"), Agent: "a", Status: store.TrialFinished, Record: trial.Record{Modes: trial.Modes{Network: "allowlist"}, Calls: &one},
			Replaced: []store.Replaced{{Attempt: 1, Kept: ".attempts/gaps.1"}, {Attempt: 2, Kept: "../elsewhere"}}},
		{Name: "forged", Dir: filepath.Join(dir, "forged"), Agent: "b", Status: store.TrialFinished, Record: trial.Record{Modes: trial.Modes{Network: "none"}}},
	}}
	write(t, filepath.Join(dir, "gaps/agent/egress.ndjson"), allowed+"{half\n"+`{"unwritten":3}`+"\n")
	write(t, filepath.Join(dir, "gaps/agent/model/calls.ndjson"), `{"seq":1,"host":"[::1]:80","request_bytes":5}`+"\n"+`{"seq":2,"host":"localhost:1"}`+"\n"+`{"seq":3}`+"\n")
	write(t, filepath.Join(dir, ".attempts/gaps.1/agent/egress.ndjson"), allowed)
	write(t, filepath.Join(dir, "forged/agent/egress.ndjson"), allowed)
	write(t, filepath.Join(dir, "forged/agent/model/calls.ndjson"), `{"seq":1,"host":"evil.example"}`+"\n")
	write(t, filepath.Join(filepath.Dir(dir), "elsewhere/agent/egress.ndjson"), allowed)
	s, err := State(v)
	if err != nil {
		t.Fatal(err)
	}
	a, b := s.Arms[0], s.Arms[1]
	if a.Run.Connections != 2 || a.Run.Sent != 20 || !a.Run.Partial || a.Model.Calls != 3 || a.Model.Away != 0 || a.Model.Unsent != 1 || s.Zero {
		t.Errorf("%+v", a)
	}
	if b.Run.Connections != 0 || b.Model.Calls != 0 {
		t.Errorf("a forged ledger counts: %+v", b)
	}
}

// A ledger that is no plain file is an error, not a zero.
func TestLedgerIsALink(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "other"), allowed)
	write(t, filepath.Join(dir, "t/agent/x"), "")
	if err := os.Symlink("../../other", filepath.Join(dir, "t/agent/egress.ndjson")); err != nil {
		t.Fatal(err)
	}
	v := &store.View{Dir: dir, Trials: []*store.Trial{{Name: "t", Dir: filepath.Join(dir, "t"), Status: store.TrialFinished, Record: trial.Record{Modes: trial.Modes{Network: "full"}}}}}
	if _, err := State(v); err == nil || !strings.Contains(err.Error(), "link") {
		t.Errorf("%v", err)
	}
}

func TestRegistryOf(t *testing.T) {
	for name, want := range map[string]string{"debian:12": "docker.io", "library/debian": "docker.io", "ghcr.io/a/b": "ghcr.io", "localhost/x": "localhost", "r:5000/x": "r:5000"} {
		if got := registryOf(name); got != want {
			t.Errorf("%s: %s", name, got)
		}
	}
}
