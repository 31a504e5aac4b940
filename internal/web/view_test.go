package web

import (
	"bufio"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// liveJob writes a job with the store: one trial that passed, one of two
// steps, one that is running after a retry, one planned.
func liveJob(t *testing.T, root string) *store.Job {
	t.Helper()
	j, err := store.Create(filepath.Join(root, "night", "demo"), store.Meta{Info: trial.JobInfo{Name: "demo", Trials: 4, Concurrent: 2, Version: "0.1.0"}}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.Close() })
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	plan := func(name string, p trial.Planned) { must(j.Announce(trial.TrialPlanned, name, 0, p)) }
	begin := func(name string, attempt int, p trial.Planned) string {
		dir, err := j.Begin(name, attempt, p)
		must(err)
		return dir
	}
	a, b := trial.Planned{Task: "mend", Agent: "oracle", Rep: 1}, trial.Planned{Task: "steps", Agent: "oracle", Rep: 1}
	c, d := trial.Planned{Task: "mend", Agent: "command:./solve", Model: "replay", Rep: 1}, trial.Planned{Task: "steps", Agent: "nop", Rep: 1}
	for name, p := range map[string]trial.Planned{"mend__a": a, "steps__b": b, "mend__c": c, "steps__d": d} {
		plan(name, p)
	}

	dir := begin("mend__a", 1, a)
	put(t, dir, store.TrajectoryFile, fixtureTrajectory(&Trial{Agent: "oracle"}, 2))
	put(t, dir, store.DiffFile, fixtureDiff)
	put(t, dir, store.TestOutputFile, fixtureTests)
	must(j.CommitResult("mend__a", 1, result(t, "mend__a", "mend", trial.CauseSolved, nil)))

	dir = begin("steps__b", 1, b)
	put(t, dir, "steps/one/"+store.TestOutputFile, "first step's tests\n")
	put(t, dir, "steps/two/"+store.TestOutputFile, "second step's tests\n")
	must(j.CommitResult("steps__b", 1, result(t, "steps__b", "steps", trial.CauseUnsolved, []string{"one", "two"})))

	begin("mend__c", 1, c)
	must(j.Replace("mend__c", 1, result(t, "mend__c", "mend", trial.CauseSandboxLost, nil), trial.Replaced{Cause: trial.CauseSandboxLost, Why: "retry"}))
	begin("mend__c", 2, c)
	must(j.Announce(trial.PhaseStarted, "mend__c", 2, trial.PhaseMark{Phase: trial.PhaseAgent}))
	must(j.Announce(trial.StepMade, "mend__c", 2, trial.StepMark{StepID: 1, Source: "agent", Text: "looking around", Tool: "shell"}))
	must(j.Announce(trial.Noted, "mend__c", 2, map[string]string{"text": "fallback image host is used"}))
	must(j.Announce(trial.Noted, "", 0, map[string]string{"text": "said of the whole job"}))
	return j
}

func result(t *testing.T, name, task string, c trial.Cause, steps []string) *trial.Result {
	t.Helper()
	from, to := fixtureStart, fixtureStart.Add(1500*time.Millisecond)
	r := &trial.Result{
		ID: "5f0c7c1e-0000-4000-8000-000000000000", TaskName: task, TrialName: name, TaskID: json.RawMessage(`{"path":"` + task + `"}`),
		Config: json.RawMessage(`{}`), AgentInfo: trial.AgentInfo{Name: "oracle", Version: "1"}, StartedAt: &from, FinishedAt: &to,
	}
	e, err := c.Ending()
	if err != nil {
		t.Fatal(err)
	}
	if e.Counted && steps == nil {
		r.VerifierResult = &trial.VerifierResult{Rewards: map[string]json.Number{"reward": map[bool]json.Number{true: "1", false: "0"}[e.Outcome == trial.Pass], "style": "0.50"}}
	}
	for _, s := range steps {
		r.StepResults = append(r.StepResults, trial.StepResult{StepName: s, VerifierResult: &trial.VerifierResult{Rewards: map[string]json.Number{"reward": "0"}}})
	}
	rec := trial.Record{
		Outcome: e.Outcome, Fault: e.Fault, Cause: c, Attempt: 1, Rep: 1, Evidence: trial.SelfReported, Overhead: 12.5,
		Modes:  trial.Modes{Backend: "fake", Verifier: "live", Network: "none", VerifierNetwork: "none", Grade: "state"},
		Phases: []trial.PhaseTime{{Phase: trial.PhaseSetup, Millis: 12.5}, {Phase: trial.PhaseAgent, Millis: 1000}, {Phase: trial.PhaseTests, Millis: 487.5}},
		Notes:  []string{"said in the result"},
	}
	if err := r.SetAssay(rec); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFromView(t *testing.T) {
	root := t.TempDir()
	sj := liveJob(t, root)
	v, err := store.Read(sj.Dir())
	if err != nil {
		t.Fatal(err)
	}
	j := FromView(v)
	if j.Name != "demo" || j.State != StateRunning || j.Planned != 4 || len(j.Trials) != 4 || j.Concurrent != 2 || len(j.Problems) != 0 {
		t.Errorf("%+v", j)
	}
	if last := v.Events[len(v.Events)-1].Seq; j.Seq != last {
		t.Errorf("seq %d, the last event has %d", j.Seq, last)
	}
	solved := j.trial("mend__a")
	if solved.Word() != "pass" || solved.Wall != 1500 || solved.Overhead != 12.5 || len(solved.Rewards) != 2 || solved.Rewards[1] != (Reward{"style", "0.50"}) {
		t.Errorf("%+v", solved)
	}
	steps := j.trial("steps__b")
	if len(steps.Steps) != 2 || strings.Join(steps.Parts, " ") != "one two" {
		t.Errorf("%+v", steps)
	}
	run := j.trial("mend__c")
	if run.State != StateRunning || run.Attempt != 2 || run.Why() != "in agent" || run.Agent != "command:./solve · replay" || len(run.LiveSteps) != 1 || len(run.Marks) != 1 {
		t.Errorf("%+v", run)
	}
	if r := j.Replaced; len(r) != 1 || r[0].Trial != "mend__c" || r[0].Attempt != 1 || r[0].Cause != trial.CauseSandboxLost || r[0].Kept == "" {
		t.Errorf("replaced %+v", r)
	}
	var notes []string
	for _, g := range j.NoteGroups() {
		notes = append(notes, g.Text)
	}
	if got := strings.Join(notes, "|"); !strings.HasPrefix(got, "said of the whole job|") || !strings.Contains(got, "fallback image host is used") || len(notes) != 3 {
		t.Errorf("notes %q", got)
	}
	s := Summarize(j.Trials)
	if s.Tally.Pass != 1 || s.Tally.Fail != 1 || s.Tally.Planned != 4 || s.Timing.Overhead.P50 != 12.5 {
		t.Errorf("%+v", s.Tally)
	}
	out := table(t, j)
	for _, want := range []string{"self-reported, live verifier", "running", "planned", "replaced: attempt 1 of mend__c: retry, sandbox_lost"} {
		if !strings.Contains(out, want) {
			t.Errorf("the table does not say %q:\n%s", want, out)
		}
	}
	_, page := report(t, j)
	m := checkPage(t, page)
	for _, want := range []string{"first step's tests", "second step's tests", "looking around", "20 passed in 0.38s", "live verifier"} {
		if !strings.Contains(m.text.String(), want) {
			t.Errorf("the report does not say %q", want)
		}
	}
}

// A page, its events and the page after them, all from the disk.
func TestLivePagesFollowTheJob(t *testing.T) {
	root := t.TempDir()
	sj := liveJob(t, root)
	h, err := NewHandler(root)
	if err != nil {
		t.Fatal(err)
	}
	home := checkPage(t, get(t, h, "/").Body.String())
	if !strings.Contains(home.text.String(), "1 pass, 1 fail, 2 to come") {
		t.Errorf("the list says %q", home.text.String())
	}
	page := get(t, h, "/job/night%2Fdemo").Body.String()
	feed := between(page, `data-feed="`, `"`)
	if !strings.Contains(page, "in agent") || !strings.HasPrefix(feed, "/job/night%2Fdemo/events?since=") {
		t.Fatalf("feed %q", feed)
	}
	if p := get(t, h, "/job/night%2Fdemo/trial/mend__c").Body.String(); !strings.Contains(p, "looking around") || !strings.Contains(p, "data-feed") {
		t.Error("the running trial's page shows no steps or does not listen")
	}

	srv := httptest.NewServer(h)
	defer srv.Close()
	res, err := srv.Client().Get(srv.URL + feed)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	put(t, sj.TrialDir("mend__c"), store.TestOutputFile, "the verifier speaks\n")
	if err := sj.CommitResult("mend__c", 2, result(t, "mend__c", "mend", trial.CauseVoid, nil)); err != nil {
		t.Fatal(err)
	}
	for s := bufio.NewScanner(res.Body); ; {
		if !s.Scan() {
			t.Fatalf("the stream ended before the trial did: %v", s.Err())
		}
		if data, ok := strings.CutPrefix(s.Text(), "data: "); ok {
			var e trial.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				t.Fatal(err)
			}
			if e.Kind == trial.TrialFinished {
				break
			}
			t.Errorf("%s was on the page already", e.Kind)
		}
	}
	after := get(t, h, "/job/night%2Fdemo?fragment=1").Body.String()
	if !strings.Contains(after, ">inconclusive<") {
		t.Error("a page asked for after the event is older than the event")
	}
	if p := get(t, h, "/job/night%2Fdemo/trial/mend__c").Body.String(); !strings.Contains(p, "the verifier speaks") {
		t.Error("the trial's page has no test output")
	}
}

func TestRootThatIsAJob(t *testing.T) {
	root := t.TempDir()
	sj := liveJob(t, root)
	h, err := NewHandler(sj.Dir())
	if err != nil {
		t.Fatal(err)
	}
	w := get(t, h, "/?agent=nop")
	to := w.Header().Get("Location")
	if w.Code != 303 {
		t.Fatalf("%d %q", w.Code, to)
	}
	m := checkPage(t, get(t, h, to).Body.String())
	if !strings.Contains(m.text.String(), "1 of 4 trials") {
		t.Errorf("%s does not show the filtered job", to)
	}
	if _, err := NewHandler(filepath.Join(root, "missing")); err == nil {
		t.Error("a folder that is not there can be viewed")
	}
}

// A job directory that Harbor wrote opens too.
func TestForeignJob(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "theirs")
	put(t, dir, store.ConfigFile, `{"n_concurrent_trials": 2}`)
	put(t, dir, store.ResultFile, `{"id":"x","started_at":"2026-03-14T09:26:53","finished_at":"2026-03-14T09:28:00","n_total_trials":3,"stats":{"n_completed_trials":3}}`)
	put(t, dir, store.LogFile, "")
	for name, file := range map[string]string{"a__1": "harbor-nop.json", "b__2": "harbor-steps.json", "c__3": "harbor-timeout.json"} {
		b, err := os.ReadFile(filepath.Join("..", "..", "trial", "testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name), store.ResultFile, string(b))
	}
	h, err := NewHandler(root)
	if err != nil {
		t.Fatal(err)
	}
	page := get(t, h, "/job/theirs").Body.String()
	m := checkPage(t, page)
	for _, want := range []string{"written by another harness", "self-reported", "agent_timeout"} {
		if !strings.Contains(m.text.String(), want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "data-feed") {
		t.Error("the page listens for events that nobody will write")
	}
	for _, name := range []string{"a__1", "b__2", "c__3"} {
		w := get(t, h, "/job/theirs/trial/"+name)
		if w.Code != 200 {
			t.Errorf("%s: %d", name, w.Code)
			continue
		}
		checkPage(t, w.Body.String())
	}
}

func between(s, from, to string) string {
	_, s, _ = strings.Cut(s, from)
	s, _, _ = strings.Cut(s, to)
	return s
}
