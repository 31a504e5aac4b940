package job

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/model"
	"assay/task"
	"assay/trajectory"
	"assay/trial"
)

// wire is a line whose far end is a function of the test: it is told what the
// agent says, and what it returns is answered. The real one is the gateway's.
type wire struct {
	LineRequest
	answer func(w *wire, said string) string
	said   Said

	mu      sync.Mutex
	stopped bool
	heard   []string
}

func (w *wire) Endpoint() agent.Endpoint {
	return agent.Endpoint{URL: fmt.Sprintf("http://127.0.0.1:%d/s/%s", ModelPort, w.Trial), Dialect: string(w.Speaks[0]), Model: "m", Key: "key of " + w.Trial}
}

func (w *wire) Serve(_ context.Context, c net.Conn) {
	defer c.Close()
	said, err := bufio.NewReader(c).ReadString('\n')
	w.mu.Lock()
	late := w.stopped
	w.heard = append(w.heard, strings.TrimSpace(said))
	w.said.Calls++
	w.mu.Unlock()
	if err != nil || late {
		return
	}
	fmt.Fprintln(c, w.answer(w, strings.TrimSpace(said)))
}

func (w *wire) Stop(model.ErrorKind) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

func (w *wire) Said() (Said, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.said, nil
}

func (w *wire) Trajectory(info trial.AgentInfo, brief string) (*trajectory.Trajectory, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.heard) == 0 {
		return nil, nil
	}
	b := trajectory.NewBuilder(trajectory.Agent{Name: info.Name, ModelName: info.Model.Name}, "", brief, time.Time{})
	for _, h := range w.heard {
		if _, err := b.AddAgent(time.Time{}, trajectory.AgentStep{Message: h}); err != nil {
			return nil, err
		}
	}
	return b.Trajectory(), nil
}

func (w *wire) Close() error { return nil }

// asking is an arm whose agent runs a script that can ask its model: ask WORDS.
func asking(name, script string, answer func(w *wire, said string) string) (Arm, *[]*wire) {
	var mu sync.Mutex
	var all []*wire
	script = `ask() { exec 3<>/dev/tcp/127.0.0.1/4180; echo "$*" >&3; cat <&3; }; ` + script
	run := func(ctx context.Context, s agent.Session) (agent.Report, error) {
		ran, err := s.Exec(ctx, agent.Program{Args: []string{"bash", "-c", script}, Log: "shell.txt"})
		r := agent.Report{Exit: &ran.Exit}
		r.Add(ran)
		return r, err
	}
	arm := Arm{Spec: name}
	arm.Agent = acts{name: name, needs: func(task.Brief) (agent.Needs, error) { return agent.Needs{Dialect: "chat, messages"}, nil },
		run: func(ctx context.Context, s agent.Session) (agent.Report, error) {
			if s.Model == nil || s.Model.Dialect != "chat" {
				return agent.Report{}, errors.New("no model")
			}
			return run(ctx, s)
		}}
	arm.Model = &Model{Name: "m", Provider: "p", Open: func(_ context.Context, r LineRequest) (Line, error) {
		w := &wire{LineRequest: r, answer: answer}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, w)
		return w, nil
	}}
	return arm, &all
}

func used(tokens int64, usd float64) trial.Usage {
	return trial.Usage{InputTokens: &tokens, OutputTokens: new(int64), CostUSD: &usd}
}

func TestAgentTalksToItsModel(t *testing.T) {
	w := newWorld(t)
	arm, wires := asking("talker", "ask what now >/app/answer", func(w *wire, said string) string {
		w.said.Usage, w.said.ByModel = used(7, 0.5), map[string]trial.Usage{"m": used(7, 0.5)}
		return "done"
	})
	tr := w.one(arm, w.task("x", nil))
	w.want(tr, trial.CauseSolved, "")
	if tr.Model != "m" || *tr.Record.Calls != 1 || tr.Record.Times == nil || tr.Record.Times.Wall <= 0 {
		t.Errorf("model %q, record %+v", tr.Model, tr.Record)
	}
	res := w.text(tr, "result.json")
	for _, want := range []string{`"n_input_tokens": 7`, `"model_usage"`, `"name": "m"`} {
		if !strings.Contains(res, want) {
			t.Errorf("the result lacks %s: %s", want, res)
		}
	}
	if doc := w.text(tr, "agent/trajectory.json"); !strings.Contains(doc, "what now") {
		t.Errorf("the trajectory is not the traffic's: %s", doc)
	}
	if !(*wires)[0].stopped {
		t.Error("the key outlives its trial")
	}
}

// A limit at the wire ends an agent that takes no notice.
func TestLimitStopsTheAgent(t *testing.T) {
	w := newWorld(t)
	arm, _ := asking("deaf", "ask; sleep 600", func(w *wire, _ string) string {
		w.said.Stopped, w.said.Detail = trial.CauseBudget, "all used up"
		w.OnStop(trial.CauseBudget, "all used up")
		return "no"
	})
	tr := w.one(arm, w.task("x", nil))
	w.want(tr, trial.CauseBudget, "all used up")
}

// An agent that is cut off while it only repeats what its provider refuses is
// not to blame; one that got answers is.
func TestDeadlineWhileTheProviderFails(t *testing.T) {
	w := newWorld(t)
	limited := w.task("x", files{"task.toml": taskTOML + "[agent]\ntimeout_sec = 1.0\n"})
	for _, c := range []struct {
		name   string
		failed *model.Error
		want   trial.Cause
	}{
		{"overloaded", &model.Error{Kind: model.ErrOverload, Status: 529}, trial.CauseOverload},
		{"too-long", &model.Error{Kind: model.ErrContext, Status: 400}, trial.CauseContextLimit},
		{"slow", nil, trial.CauseAgentTimeout},
	} {
		arm, _ := asking(c.name, "ask; sleep 600", func(w *wire, _ string) string {
			w.said.Failed = c.failed
			return "no"
		})
		conf := w.config("late-"+c.name, []Arm{arm}, limited)
		conf.Retries = -1
		_, v := w.run(conf)
		w.want(v.Trials[0], c.want, "")
	}
}

func TestFailingArmsArePaused(t *testing.T) {
	w := newWorld(t)
	x := w.task("x", nil)
	for _, c := range []struct {
		kind      model.ErrorKind
		ran, left int
	}{{model.ErrRate, 3, 3}, {model.ErrAuth, 1, 5}} {
		arm, _ := asking("talker", "ask; true", func(w *wire, _ string) string {
			w.said.Failed = &model.Error{Kind: c.kind, Status: 400}
			return "no"
		})
		conf := w.config("pause-"+string(c.kind), []Arm{arm, idle()}, x)
		conf.Attempts, conf.Concurrent, conf.Retries = 6, 1, -1
		sum, v := w.run(conf)
		if len(sum.Paused) != 1 || sum.Paused[0].Pending != c.left || sum.Counts[trial.Infra] != c.ran || sum.Counts[trial.Fail] != 6 {
			t.Errorf("%s: %+v", c.kind, sum)
		}
		if n := len(v.Trials); n != 12 {
			t.Errorf("%d trials planned", n)
		}
		healthy, _ := asking("talker", "ask >/app/answer", func(*wire, string) string { return "done" })
		conf.Arms[0] = healthy
		if sum, _ = w.run(conf); sum.Counts[trial.Pass] != c.left || len(sum.Paused) != 0 {
			t.Errorf("%s, resumed: %+v", c.kind, sum)
		}
	}
}

func TestJobBudgetEndsTheJob(t *testing.T) {
	w := newWorld(t)
	arm, wires := asking("spender", "ask >/app/answer", func(w *wire, _ string) string {
		w.OnUse(used(10, 1), 0)
		return "done"
	})
	conf := w.config("budget", []Arm{arm}, w.task("x", nil))
	conf.Attempts, conf.Concurrent, conf.JobBudget = 6, 1, Budget{Tokens: 25}
	sum, _ := w.run(conf)
	if sum.Exhausted == "" || sum.Counts[trial.Pass] != 2 {
		t.Fatalf("%+v", sum)
	}
	begun := len(*wires)
	if sum, _ = w.run(conf); sum.Ran != 0 || sum.Exhausted == "" || len(*wires) != begun {
		t.Errorf("resumed without more: %+v, %d trials begun", sum, len(*wires)-begun)
	}
	conf.JobBudget = Budget{USD: 100}
	if sum, _ = w.run(conf); sum.Ran != 4 || sum.Exhausted != "" {
		t.Errorf("resumed with more: %+v", sum)
	}
}

// A provider that does not say what it used is held to an estimate, across the
// steps of a task and the runs of a job.
func TestBudgetCountsWhatIsNotSaid(t *testing.T) {
	var l lines
	l.spent.add(trial.Usage{}, 30)
	l.spent.add(used(20, 0.25), 1000)
	if got := l.rest(Budget{Tokens: 80, USD: 1}); got != (Budget{Tokens: 30, USD: 0.75}) {
		t.Errorf("%+v are left", got)
	}
	if got := l.rest(Budget{Tokens: 10}); got != (Budget{Tokens: 1}) {
		t.Errorf("of a budget that is used up, %+v are left", got)
	}
	if got := l.rest(Budget{}); got != (Budget{}) {
		t.Errorf("no bound became %+v", got)
	}
	book := ledger{path: filepath.Join(t.TempDir(), "states", "spent.ndjson")}
	for _, e := range []entry{{Estimate: 30}, {Usage: used(20, 0.25)}} {
		if err := book.add(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := book.close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(book.path, append(must(os.ReadFile(book.path)), `{"n_input`...), 0o644); err != nil {
		t.Fatal(err)
	}
	var again Budget
	if err := book.before(func(e entry) { again.add(e.Usage, e.Estimate) }); err != nil || again != (Budget{Tokens: 50, USD: 0.25}) {
		t.Errorf("%+v, %v", again, err)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestClockStandsStill(t *testing.T) {
	ctx, d := clocked(t.Context(), 100*time.Millisecond)
	d.hold(true)
	d.hold(true)
	time.Sleep(300 * time.Millisecond)
	if ctx.Err() != nil {
		t.Fatal("time that was waited counted")
	}
	d.hold(false)
	time.Sleep(50 * time.Millisecond)
	if ctx.Err() != nil {
		t.Fatal("one of two waits is still on")
	}
	d.hold(false)
	<-ctx.Done()
	if context.Cause(ctx) != agent.ErrDeadline || d.stoodStill() < 300*time.Millisecond {
		t.Errorf("%v, stood still for %v", context.Cause(ctx), d.stoodStill())
	}
}

// What the traffic tells never turns a verdict into a better one for the agent,
// and a provider's failure is nobody's verdict.
func TestMergeWithTraffic(t *testing.T) {
	one := 1
	rate, long := &model.Error{Kind: model.ErrRate}, &model.Error{Kind: model.ErrContext}
	bad, unknown := &model.Error{Kind: model.ErrBadRequest}, &model.Error{Kind: model.ErrUnknownModel}
	for _, c := range []struct {
		graded trial.Cause
		end    agentEnd
		want   trial.Cause
	}{
		{trial.CauseSolved, agentEnd{said: &Said{Failed: rate}}, trial.CauseSolved},
		{trial.CauseUnsolved, agentEnd{said: &Said{Failed: rate}, exit: &one}, trial.CauseRateLimit},
		{trial.CauseUnsolved, agentEnd{said: &Said{Failed: rate, Stopped: trial.CauseBudget}}, trial.CauseRateLimit},
		{trial.CauseUnsolved, agentEnd{said: &Said{Failed: long}, timedOut: true}, trial.CauseContextLimit},
		{trial.CauseUnsolved, agentEnd{said: &Said{Failed: &model.Error{Kind: model.ErrAborted}}, timedOut: true}, trial.CauseAgentTimeout},
		{trial.CauseUnsolved, agentEnd{said: &Said{Failed: bad}}, trial.CauseModelSetup},
		{trial.CauseUnsolved, agentEnd{said: &Said{Failed: bad, Answered: true}}, trial.CauseUnsolved},
		{trial.CauseVoid, agentEnd{said: &Said{Failed: unknown, Answered: true}}, trial.CauseVoid},
		{trial.CauseUnsolved, agentEnd{said: &Said{Failed: rate, Answered: true}}, trial.CauseRateLimit},
		{trial.CauseUnsolved, agentEnd{said: &Said{Stopped: trial.CauseLoop}}, trial.CauseLoop},
		{trial.CauseUnsolved, agentEnd{said: &Said{Last: model.StopRefusal}, exit: &one}, trial.CauseAgentRefused},
		{trial.CauseUnsolved, agentEnd{said: &Said{Malformed: true}}, trial.CauseMalformedCall},
		{trial.CauseUnsolved, agentEnd{said: &Said{}, cause: trial.CauseNoSubmission}, trial.CauseNoSubmission},
		{trial.CauseUnsolved, agentEnd{said: &Said{}, cause: trial.CauseHarness}, trial.CauseUnsolved},
		{trial.CauseUnsolved, agentEnd{said: &Said{}, signal: 11, exit: &one}, trial.CauseAgentCrash},
		{trial.CauseRewardMissing, agentEnd{said: &Said{Failed: rate}}, trial.CauseRateLimit},
		{trial.CauseVoid, agentEnd{said: &Said{Failed: long}}, trial.CauseVoid},
		{trial.CauseTaskMalformed, agentEnd{said: &Said{Failed: rate}}, trial.CauseTaskMalformed},
	} {
		if got, _ := merge(c.graded, "", c.end); got != c.want {
			t.Errorf("%s after %+v: %s, want %s", c.graded, c.end, got, c.want)
		}
	}
}
