package exchange

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/store"
)

// A command's name is readable, says nothing of its values, and is another one
// for another line. Others keep the name that they have.
func TestArmName(t *testing.T) {
	for agent, want := range map[string]string{
		"oracle": "gold", "nop": "nop", "script:steps.sh": "script:steps.sh", "codex@1.2": "codex@1.2", "prediction:org/model": "org/model",
		"command:./my-agent --yes":                                         "command-my-agent-yes-ba2da29e",
		"command:./my-agent --no":                                          "command-my-agent-no-a12dbee9",
		"command:KEY=sk-1 /opt/bin/agent --token=t0p run":                  "command-agent-token-run-",
		"command:python3 -m agent sk-live-77 go":                           "command-python3-m-agent-go-",
		"command:!!":                                                       "command-line-",
		"command:" + strings.Repeat("very long words ", 300) + "\n\x1b[2J": "command-very-long-words-very-long-words-very-lon-",
	} {
		got := ArmName(agent, "")
		if got != want && !(strings.HasPrefix(got, want) && strings.HasPrefix(want, "command-")) {
			t.Errorf("%.60q: %q, want %q", agent, got, want)
		}
		if strings.HasPrefix(agent, "command:") && (len(got) > 60 || strings.ContainsAny(got, " /:\n\x1b") || strings.Contains(got, "sk-") || strings.Contains(got, "t0p")) {
			t.Errorf("%.60q: %q", agent, got)
		}
	}
	if a, b := ArmName("command:agent 1", "m"), ArmName("command:agent 2", "m"); a == b || ArmName("command:agent 1", "m") != a || !strings.HasSuffix(a, "__m") {
		t.Errorf("%q, %q", a, b)
	}
	for _, odd := range []string{strings.Repeat("x", 500), "a\nb", "\x1b", "../../up", "."} {
		f := fileName(odd)
		if f != filepath.Base(f) || strings.HasPrefix(f, ".") || len(f) > maxModelName || strings.ContainsAny(f, "\n\x1b") {
			t.Errorf("%.20q as a file: %q", odd, f)
		}
	}
}

// Every export of one job calls its arms the same, and no two arms share a name.
func TestArmNamesInExports(t *testing.T) {
	v := &store.View{Name: "j"}
	for _, agent := range []string{"command:sh -c 'exit 1'", "command:sh -c 'exit 2'", "org/a", "org__a"} {
		v.Trials = append(v.Trials, &store.Trial{Name: "t", Task: "set/x", Agent: agent, Rep: 1, Dir: t.TempDir(), Status: store.TrialFinished})
	}
	seen, files := map[string]bool{}, map[string]bool{}
	arms := Arms(v, 1)
	for _, a := range arms {
		seen[a.Model], files[a.FileName()] = true, true
		p, err := OfTrial(a.Trials[0], a.Model)
		if err != nil || p.Model != a.Model {
			t.Errorf("%+v, %v", p, err)
		}
		b, err := WritePredictions([]Prediction{p}, KindLines)
		var line struct {
			Model string `json:"model_name_or_path"`
		}
		if err == nil {
			err = json.Unmarshal(b, &line)
		}
		if err != nil || line.Model != a.Model {
			t.Errorf("%q, %v", b, err)
		}
		s, err := a.Summary("run", nil)
		if err != nil || s.FileName() != a.FileName()+".run.json" {
			t.Errorf("%q, %v", s.FileName(), err)
		}
	}
	if len(arms) != 4 || len(seen) != 4 || len(files) != 4 {
		t.Errorf("%d arms, names %v, files %v", len(arms), seen, files)
	}
	csv, err := CSV(v)
	if err != nil {
		t.Fatal(err)
	}
	junit, err := JUnit(v)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range arms[:2] {
		if !strings.Contains(string(csv), ","+a.Model+"\n") || !strings.Contains(string(csv), a.Agent) || !strings.Contains(string(junit), `<testsuite name="`+a.Model+`"`) {
			t.Errorf("%s is missing:\n%s\n%s", a.Model, csv, junit)
		}
	}
}
