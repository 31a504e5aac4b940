package web

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/trial"
)

// secretJob is a job whose every text of a task, an agent or a verifier holds
// the word.
func secretJob(t *testing.T, dir string, tasks int) *Job {
	const s = "hunter2 secret_sauce()"
	j := fixtureJob(t, dir, tasks, 1, false)
	for i, tr := range j.Trials {
		if i < 6 {
			writeTrial(t, tr)
			put(t, tr.Dir, "agent/more.log", s)
			put(t, tr.Dir, "steps/one/agent/workspace.diff", "--- a/hunter2.py\n+++ b/hunter2.py\n@@ -1 +1,2 @@\n-"+s+"\n+x\n+"+s+"\n")
			put(t, tr.Dir, "verifier/test-stdout.txt", "hunter2\n")
		}
		tr.Detail, tr.Notes, tr.Problems = s, []string{s}, []string{s}
		tr.Exception = &trial.Exception{Type: s, Message: s, Traceback: s}
		tr.Marks = []Mark{{Kind: trial.Noted, Text: s}}
		tr.LiveSteps = []trial.StepMark{{StepID: 1, Source: s, Text: s, Tool: s}}
		tr.Rewards = []Reward{{s, "1"}, {"reward", "0.5"}}
		tr.Steps = []StepRow{{Name: "one", Rewards: []Reward{{s, "1"}}, Error: s}}
	}
	last := j.Trials[len(j.Trials)-1]
	last.State, last.Dir = StateRunning, filepath.Join(dir, "nowhere") // its steps are told by events alone
	j.Notes, j.Problems = []Note{{"", s}}, []string{s}
	j.Replaced[0].Why = s
	return j
}

// No line of anything that an agent, a task or a verifier wrote is on the page.
func TestNoCodeHoldsNoCode(t *testing.T) {
	dir := t.TempDir()
	j := secretJob(t, dir, 3)
	before, _ := json.Marshal(j)
	_, page := report(t, WithoutCode(j))
	if after, _ := json.Marshal(j); string(after) != string(before) {
		t.Error("the job itself was changed")
	}
	m := checkPage(t, page)
	if strings.Contains(page, "hunter2") || strings.Contains(page, "secret_sauce") {
		t.Error("a text is on the page")
	}
	lines := 0
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		for _, l := range texts(b) {
			lines++
			if strings.Contains(m.text.String(), l) {
				t.Errorf("%s: the page holds %q", filepath.Base(p), l)
			}
		}
		return nil
	})
	if err != nil || lines < 300 {
		t.Fatalf("%d lines were looked for: %v", lines, err)
	}
	text := m.text.String()
	for _, want := range []string{"without code", " tool calls; the patch changes 2 files, +", "left out of this report", j.Trials[0].Task, "reward"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	// The same job shown whole holds what was looked for.
	_, whole := report(t, j)
	if !strings.Contains(whole, "hunter2") || !strings.Contains(whole, "secret_sauce") {
		t.Error("the whole report does not show what the bare one leaves out: the test looks for nothing")
	}
}

// texts are the lines of a file, or of every string in a JSON document, that
// are long enough to be somebody's.
func texts(b []byte) (all []string) {
	add := func(s string) {
		for l := range strings.Lines(s) {
			if l = strings.TrimSpace(l); len(l) >= 8 && !clockLike.MatchString(l) {
				all = append(all, l)
			}
		}
	}
	var v any
	if json.Unmarshal(b, &v) != nil {
		add(string(b))
		return all
	}
	var walk func(key string, v any)
	walk = func(key string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, x := range v {
				walk(k, x)
			}
		case []any:
			for _, x := range v {
				walk(key, x)
			}
		case string:
			switch key {
			case "function_name", "name", "source", "model_name", "schema_version": // names stay
			default:
				add(v)
			}
		}
	}
	walk("", v)
	return all
}

func TestNoCodeOfManyTrials(t *testing.T) {
	w, page := report(t, WithoutCode(secretJob(t, t.TempDir(), 70)))
	if w.Folder == "" {
		t.Fatal("no folder")
	}
	pages := []string{page}
	err := filepath.WalkDir(w.Folder, func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := os.ReadFile(p)
			pages = append(pages, string(b))
		}
		return err
	})
	if err != nil || len(pages) != 211 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, p := range pages {
		if strings.Contains(p, "hunter2") || strings.Contains(p, "secret_sauce") || strings.Contains(p, "timeparse") {
			t.Fatal("a text is on a page")
		}
	}
}

func TestNoCodeOfHostileWork(t *testing.T) {
	_, page := report(t, WithoutCode(evilJob(t, t.TempDir())))
	m := checkPage(t, page)
	if m.tags["script"] != 1 || m.tags["img"] != 0 {
		t.Errorf("elements came from a trial: %v", m.tags)
	}
}
