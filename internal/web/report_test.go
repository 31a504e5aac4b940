package web

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"assay/trial"
)

func report(t *testing.T, j *Job) (Written, string) {
	t.Helper()
	w, err := Report(t.Context(), j, filepath.Join(t.TempDir(), "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(w.Page)
	if err != nil {
		t.Fatal(err)
	}
	if w.Bytes != int64(len(b)) {
		t.Errorf("the page has %d bytes, said were %d", len(b), w.Bytes)
	}
	return w, string(b)
}

func TestReportIsOnePage(t *testing.T) {
	j := fixtureJob(t, t.TempDir(), 10, 2, true)
	w, page := report(t, j)
	if w.Folder != "" || w.Trials != 60 {
		t.Errorf("%+v", w)
	}
	m := checkPage(t, page)
	for _, tr := range j.Trials {
		if m.ids["t-"+slug(tr.Name)] != 1 {
			t.Errorf("no details of %s", tr.Name)
		}
	}
	text := m.text.String()
	for _, want := range []string{
		"self-reported", "20 / 20", "pass@2", "fallback_image host is used", "was replaced: retry, sandbox_lost",
		".attempts/", "partial", "overhead a trial", "Repair `parse_timestamp`", "20 passed in 0.38s", "timeparse.py", "3 failed, 17 passed",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the report does not say %q", want)
		}
	}
	if n := m.tags["img"] + m.tags["iframe"] + m.tags["object"] + m.tags["link"]; n > 0 {
		t.Errorf("%d elements ask for something outside", n)
	}
}

// The page allows its own style and script by their digests and nothing else.
func TestReportPolicyFitsItsContent(t *testing.T) {
	_, page := report(t, fixtureJob(t, t.TempDir(), 1, 1, true))
	m := checkPage(t, page)
	policy := strings.Join(m.metas, " ")
	for _, tag := range []string{"style", "script"} {
		sum := sha256.Sum256([]byte(m.raw[tag]))
		want := tag + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
		if m.raw[tag] == "" || !strings.Contains(policy, want) {
			t.Errorf("the policy %q does not hold %q", policy, want)
		}
	}
	if !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
		t.Errorf("policy %q", policy)
	}
}

func TestReportOfManyTrialsIsSmallAndQuick(t *testing.T) {
	j := fixtureJob(t, t.TempDir(), 500, 1, false)
	writeTrial(t, j.Trials[0])
	begin := time.Now()
	w, page := report(t, j)
	if took := time.Since(begin); took > time.Minute { // a second, when the machine is quiet
		t.Errorf("1,500 trials took %v", took)
	}
	if w.Folder == "" || len(page) > 1<<20 {
		t.Fatalf("the main page has %d bytes, folder %q", len(page), w.Folder)
	}
	pages, err := os.ReadDir(w.Folder)
	if err != nil || len(pages) != 1500 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	m := parseMarkup(page)
	if len(m.faults) > 0 {
		t.Error(m.faults)
	}
	linked := 0
	for _, h := range m.hrefs {
		if strings.HasPrefix(h, "#") {
			continue
		}
		linked++
		if _, err := os.Stat(filepath.Join(filepath.Dir(w.Page), filepath.FromSlash(h))); err != nil {
			t.Fatal(err)
		}
	}
	if linked < 1500 {
		t.Errorf("%d links to trials", linked)
	}
	b, err := os.ReadFile(filepath.Join(w.Folder, slug(j.Trials[0].Name)+".html"))
	if err != nil {
		t.Fatal(err)
	}
	one := parseMarkup(string(b))
	if len(one.faults) > 0 || !strings.Contains(one.text.String(), "20 passed in 0.38s") {
		t.Errorf("the trial's page: %v", one.faults)
	}
	for _, h := range one.hrefs {
		if h != "#main" && h != "../report.html" {
			t.Errorf("the trial's page leads to %q", h)
		}
	}
}

const evil = `</script></style><script>alert(1)</script><img src=x onerror=alert(1)>"'>` + "\x1b[31m\u202e\xff\x00" + `javascript:alert(1)`

// evilJob puts hostile text wherever a job has text.
func evilJob(t *testing.T, dir string) *Job {
	tr := &Trial{
		Name: `x" onclick="alert(1)__</a>`, Dir: filepath.Join(dir, "t"), Task: evil, Agent: evil, Rep: 1, Attempt: 2, State: StateFinished,
		Outcome: trial.Outcome(evil), Fault: trial.Fault(evil), Cause: trial.Cause(evil), Detail: evil, Evidence: trial.Evidence(evil),
		Checks:  &trial.Checks{Void: evil, Milestones: []trial.Milestone{{Name: evil, Reached: true}}},
		Modes:   trial.Modes{Backend: evil, UID: evil, Grade: evil, Verifier: evil, Network: evil, VerifierNetwork: evil},
		Image:   trial.ImageUsed{ID: evil, Source: evil, Fallback: true},
		Rewards: []Reward{{evil, evil}}, Timed: true, Wall: 5, Phases: []trial.PhaseTime{{Phase: trial.Phase(evil), Step: evil, Millis: 5}},
		EndState: []trial.EndState{{Step: evil, Layer: evil}}, Notes: []string{evil},
		Exception: &trial.Exception{Type: evil, Message: evil, Traceback: evil},
		Marks:     []Mark{{Kind: trial.Kind(evil), Text: evil}},
	}
	put(t, tr.Dir, "agent/trajectory.json", `{"agent":{"name":"</script>"},"steps":[{"step_id":1,"source":"\"><script>","message":"</pre><script>alert(1)</script>",`+
		`"model_name":"<b>","timestamp":"<i>","reasoning_content":"<x onload=1>","tool_calls":[{"tool_call_id":"1","function_name":"</code><script>","arguments":{"<a href=javascript:alert(1)>":"</pre>"}}],`+
		`"observation":{"results":[{"source_call_id":"1","content":"\u001b]0;x\u0007</script>"},{"content":[{"type":"<t>","text":"<script>"}]}]}}]}`)
	put(t, tr.Dir, "agent/workspace.diff", "--- a/"+evil+"\n+++ b/</code><script>\n@@ -0,0 +1,1 @@\n+"+evil+"\n")
	put(t, tr.Dir, "verifier/test-stdout.txt", evil)
	put(t, tr.Dir, "verifier/reward-details.json", `{"a":"</script>"}`)
	put(t, tr.Dir, "agent/<script>alert(1)<script>.log", evil)
	return &Job{
		Name: evil, Dir: dir, State: StateFinished, Started: fixtureStart, Finished: fixtureStart, Version: evil, Planned: 1, Trials: []*Trial{tr},
		Notes: []Note{{evil, evil}}, Problems: []string{evil},
		Replaced: []Replaced{{Trial: evil, Kept: evil, Cause: trial.Cause(evil), Why: evil}},
	}
}

func TestHostileTextStaysText(t *testing.T) {
	_, page := report(t, evilJob(t, t.TempDir()))
	m := checkPage(t, page)
	if m.tags["script"] != 1 || m.tags["style"] != 1 || m.tags["img"] != 0 {
		t.Errorf("elements came from a trial: %v", m.tags)
	}
	if strings.Contains(m.text.String(), "(binary)") {
		t.Error("a NUL hides an output")
	}
	if n := strings.Count(m.text.String(), "alert(1)"); n < 20 {
		t.Errorf("hostile text is shown %d times; it must be seen, as text", n)
	}
	for _, bad := range []string{"\x1b", "\u202e", "\x00", "\xff"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
}

func TestHugeOutputsAreCut(t *testing.T) {
	j := fixtureJob(t, t.TempDir(), 1, 1, true)
	tr := j.Trials[0]
	flood := strings.Repeat("<&\"'>flood\n", 5_000_000) // 55 MB
	put(t, tr.Dir, "verifier/test-stdout.txt", flood+"the last line")
	if err := os.Link(filepath.Join(tr.Dir, "verifier/test-stdout.txt"), filepath.Join(tr.Dir, "agent/flood.log")); err != nil {
		t.Fatal(err)
	}
	put(t, tr.Dir, "agent/trajectory.json", manySteps(3000, strings.Repeat("<<<<", 2000)))
	begin := time.Now()
	w, page := report(t, j)
	if w.Bytes > 6*maxRoom { // escaping makes four or five bytes of one
		t.Errorf("%s of page", Bytes(w.Bytes))
	}
	if took := time.Since(begin); took > time.Minute {
		t.Errorf("took %v", took)
	}
	m := checkPage(t, page)
	for _, want := range []string{"the last line", "left out", "2000 steps left out"} {
		if !strings.Contains(m.text.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

// What an agent leaves in the place of a log is opened only when it is a
// regular file below the trial's directory.
func TestLinksPipesAndHolesAreNotRead(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "secret.txt", "hunter2")
	j := fixtureJob(t, filepath.Join(dir, "job"), 1, 1, true)
	tr := j.Trials[0]
	at := func(name string) string { return filepath.Join(tr.Dir, filepath.FromSlash(name)) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"verifier/test-stdout.txt", "agent/workspace.diff", "agent/trajectory.json"} {
		must(os.Remove(at(name)))
	}
	must(os.Symlink(filepath.Join(dir, "secret.txt"), at("verifier/test-stdout.txt")))
	must(os.Symlink("../../../secret.txt", at("agent/more.log")))
	must(syscall.Mkfifo(at("agent/trajectory.json"), 0o644))
	must(syscall.Mkfifo(at("agent/pipe.log"), 0o644))
	must(os.Symlink("..", at("agent/loop")))
	hole, err := os.Create(at("agent/hole.log"))
	must(err)
	must(hole.Truncate(10 << 30))
	must(hole.Close())

	done := make(chan string, 1)
	go func() {
		_, page := report(t, j)
		done <- page
	}()
	select {
	case page := <-done:
		if strings.Contains(page, "hunter2") {
			t.Error("a link out of the job was followed")
		}
		text := checkPage(t, page)
		for _, want := range []string{"cannot be shown", "(binary)"} { // the link, the hole
			if !strings.Contains(text.text.String(), want) {
				t.Errorf("the page does not say %q", want)
			}
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the report hangs on a pipe")
	}
}

func TestReportIsWholeOrAbsent(t *testing.T) {
	j := fixtureJob(t, t.TempDir(), 80, 1, false)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("interrupted"))
	out := filepath.Join(t.TempDir(), "report.html")
	if _, err := Report(ctx, j, out); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("an interrupted report left a page")
	}
	missing := filepath.Join(t.TempDir(), "no", "such", "report.html")
	if _, err := Report(t.Context(), fixtureJob(t, "", 1, 1, false), missing); err == nil {
		t.Error("a report into a folder that is not there gave no error")
	}
}

func TestSlug(t *testing.T) {
	seen := map[string]string{}
	for _, name := range []string{"fix-it__Ab3", "a/b", "a.b", "a b", "ab", "..", ".", "", "ü", strings.Repeat("x", 300), strings.Repeat("x", 301), "<a>"} {
		s := slug(name)
		if s == "" || strings.HasPrefix(s, ".") || strings.ContainsAny(s, "/\\<>\" ") || len(s) > 120 {
			t.Errorf("slug(%q) = %q", name, s)
		}
		if other, ok := seen[s]; ok {
			t.Errorf("%q and %q have one slug %q", name, other, s)
		}
		seen[s] = name
	}
	if slug("fix-it__Ab3") != "fix-it__Ab3" {
		t.Error("a plain name was changed")
	}
}
