// Package agenttest is what every agent must pass: a conformance suite that
// the built-in agents run, and that any new one is to be run through. It looks
// at an agent from outside, through the contract alone, in a sandbox that the
// caller opens; it holds no key and grades nothing.
package agenttest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
	"assay/trajectory"
	"assay/trial"
)

// Case is an agent and what it finds.
type Case struct {
	Agent    agent.Agent
	Solution string          // solve.sh, for an agent that asks for the solution
	Model    *agent.Endpoint // of an agent that asks for one
}

// Suite is one agent's conformance run.
type Suite struct {
	// Open makes a sandbox with a POSIX shell and a directory /project.
	Open func(t testing.TB) sandbox.Sandbox
	// Works ends by itself with status 0, having appended the line "worked" to
	// /project/out, unless it runs no program at all.
	Works Case
	// NoProgram says that Works runs no program: it has no exit status.
	NoProgram bool
	// Asks says that the agent works through a model instead of a program: it
	// has no exit status, and its turns count as a model's.
	Asks bool
	// Brief is the task, where any will not do; it is worked on in /project.
	Brief *task.Brief
	// Fails exits with status 3 after printing "failing". Nil for an agent
	// that cannot fail.
	Fails *Case
	// Hangs writes to /project/beat again and again and never ends. Nil for an
	// agent that cannot hang.
	Hangs *Case
}

// Run runs the suite.
func Run(t *testing.T, s Suite) {
	t.Run("info", s.info)
	t.Run("needs", s.needs)
	t.Run("works", s.works)
	t.Run("fails", s.fails)
	t.Run("deadline", s.deadline)
	t.Run("cancelled before", s.cancelledBefore)
	t.Run("cancelled", s.cancelled)
	t.Run("concurrent", s.concurrent)
}

func (s Suite) brief() task.Brief {
	if s.Brief != nil {
		return *s.Brief
	}
	return task.Brief{Task: "org/name", Step: "first", Instruction: "Write *42*.\n\x00\xff<&>\n", Workdir: "/project"}
}

// session prepares a sandbox as the job does, needs and all.
func (s Suite) session(t testing.TB, c Case) (agent.Session, *marks) {
	t.Helper()
	b := s.brief()
	needs, err := c.Agent.Needs(b)
	if err != nil {
		t.Fatalf("needs: %v", err)
	}
	sb := s.Open(t)
	files := needs.Files
	if needs.Solution {
		files = append(files, agent.File{Path: "/solution/solve.sh", Mode: 0o755, Data: []byte(c.Solution)})
	}
	for _, f := range files {
		if err := putFile(t.Context(), sb, f); err != nil {
			t.Fatalf("put %s: %v", f.Path, err)
		}
	}
	m := &marks{t: t}
	ses := agent.Session{
		Brief: b, Sandbox: sb, Workdir: "/project", Model: c.Model, Env: []string{"FROM_SESSION=yes"},
		Recorder: agent.NewRecorder(c.Agent.Info(), b, m.add),
		Logs:     image.HostPath(filepath.Join(t.TempDir(), "agent")),
	}
	for k, v := range needs.Env {
		ses.Env = append(ses.Env, k+"="+v)
	}
	return ses, m
}

// marks checks that steps are told of in order.
type marks struct {
	t    testing.TB
	mu   sync.Mutex
	last int
}

func (m *marks) add(s trial.StepMark) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if s.StepID <= m.last || len(s.Text) > 2000 || s.Source == "" {
		m.t.Errorf("step mark %+v after step %d", s, m.last)
	}
	m.last = s.StepID
}

func (s Suite) info(t *testing.T) {
	a := s.Works.Agent
	if i := a.Info(); i.Name == "" || i.Version == "" || i != a.Info() {
		t.Errorf("info %+v does not name the agent, or changes", i)
	}
}

// needs can be asked before there is anything, for any brief, with one answer.
func (s Suite) needs(t *testing.T) {
	for _, b := range []task.Brief{{}, s.brief(), {Instruction: strings.Repeat("long ", 1<<18)}} {
		n, err := s.Works.Agent.Needs(b)
		if err != nil && s.Brief != nil && b.Instruction != s.Brief.Instruction {
			continue // it may be particular, and says so
		}
		if err != nil {
			t.Fatalf("needs: %v", err)
		}
		for _, f := range n.Files {
			p := string(f.Path)
			if !strings.HasPrefix(p, "/") || strings.HasPrefix(p, "/project/") || strings.HasPrefix(p, "/tests/") || f.Mode == 0 {
				t.Errorf("file %q with mode %o: not absolute, within the workspace, or not readable", p, f.Mode)
			}
		}
		for _, m := range n.Mounts {
			if !m.ReadOnly {
				t.Errorf("mount %+v: the host, or a layer, could be written", m)
			}
		}
	}
}

func (s Suite) works(t *testing.T) {
	ses, m := s.session(t, s.Works)
	stop := watch(t, ses.Recorder)
	r, err := s.Works.Agent.Run(t.Context(), ses)
	stop()
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case s.Asks:
		if r.Exit != nil || r.TimedOut || r.CPU == nil || r.Cause != "" || read(t, ses, "cat /project/out") != "worked\n" {
			t.Errorf("report %+v; it left %q", r, read(t, ses, "cat /project/out"))
		}
	case s.NoProgram:
		if r.Exit != nil || r.TimedOut || r.CPU != nil {
			t.Errorf("report %+v of an agent that runs no program", r)
		}
	default:
		if r.Exit == nil || *r.Exit != 0 || r.TimedOut || r.CPU == nil || r.MaxRSS == nil {
			t.Errorf("report %+v", r)
		}
		if got := read(t, ses, "cat /project/out"); got != "worked\n" {
			t.Errorf("it left %q", got)
		}
		if logs, err := filepath.Glob(filepath.Join(string(ses.Logs), "*.txt")); err != nil || len(logs) != 1 {
			t.Errorf("logs %v, %v; want the program's output alone", logs, err)
		}
	}
	u := r.Usage
	if u.InputTokens != nil || u.OutputTokens != nil || u.CostUSD != nil {
		t.Errorf("usage %+v of an agent that asked no model", u)
	}
	doc := valid(t, ses.Recorder)
	if len(doc.Steps) < 2 || m.last != int(doc.Steps[len(doc.Steps)-1].ID) {
		t.Errorf("%d steps, the last one told of is %d", len(doc.Steps), m.last)
	}
	for _, st := range doc.Steps[1:] {
		if st.Source == trajectory.Agents && !s.Asks && (st.LLMCalls == nil || *st.LLMCalls != 0 || st.Metrics != nil) {
			t.Errorf("step %d of an agent without a model: %+v", st.ID, st)
		}
	}
}

// A program that fails is a report, not an error.
func (s Suite) fails(t *testing.T) {
	if s.Fails == nil {
		t.Skip("this agent cannot fail")
	}
	ses, _ := s.session(t, *s.Fails)
	r, err := s.Fails.Agent.Run(t.Context(), ses)
	if err != nil {
		t.Fatalf("a program that fails made an error: %v", err)
	}
	if r.Exit == nil || *r.Exit != 3 {
		t.Errorf("report %+v, want exit status 3", r)
	}
	if b, err := os.ReadFile(filepath.Join(string(ses.Logs), "exit-code.txt")); err != nil || string(b) != "3" {
		t.Errorf("exit-code.txt: %q, %v", b, err)
	}
	if text := observations(valid(t, ses.Recorder)); !strings.Contains(text, "failing") || !strings.Contains(text, "status 3") {
		t.Errorf("the trajectory does not show how it failed: %q", text)
	}
}

// At the deadline the program is dead, and what it did until then is told.
func (s Suite) deadline(t *testing.T) {
	if s.Hangs == nil {
		t.Skip("this agent cannot hang")
	}
	ses, _ := s.session(t, *s.Hangs)
	ses.Deadline = time.Now().Add(500 * time.Millisecond)
	ctx, cancel := context.WithDeadlineCause(t.Context(), ses.Deadline, agent.ErrDeadline)
	defer cancel()
	stop := watch(t, ses.Recorder)
	r, err := s.Hangs.Agent.Run(ctx, ses)
	late := time.Since(ses.Deadline)
	stop()
	if err != nil || !r.TimedOut {
		t.Errorf("report %+v, %v; want a timeout and no error", r, err)
	}
	if late < 0 || late > 3*time.Second {
		t.Errorf("it returned %v after the deadline", late)
	}
	dead(t, ses)
	doc := valid(t, ses.Recorder)
	if !strings.Contains(observations(doc), "deadline") {
		t.Errorf("the trajectory does not tell of the deadline: %q", observations(doc))
	}
}

// A run that is cancelled before it began starts nothing.
func (s Suite) cancelledBefore(t *testing.T) {
	c := s.Works
	ses, _ := s.session(t, c)
	stop := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	if _, err := c.Agent.Run(ctx, ses); !s.NoProgram && !errors.Is(err, stop) {
		t.Errorf("error %v, want the cause", err)
	}
	if got := read(t, ses, "ls /project"); got != "" {
		t.Errorf("it left %q", got)
	}
	valid(t, ses.Recorder)
}

func (s Suite) cancelled(t *testing.T) {
	if s.Hangs == nil {
		t.Skip("this agent cannot hang")
	}
	ses, _ := s.session(t, *s.Hangs)
	stop := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	begin := time.Now()
	time.AfterFunc(300*time.Millisecond, func() { cancel(stop) })
	r, err := s.Hangs.Agent.Run(ctx, ses)
	if !errors.Is(err, stop) || r.TimedOut || time.Since(begin) > 4*time.Second {
		t.Errorf("after %v: %+v, %v; want the cause", time.Since(begin), r, err)
	}
	dead(t, ses)
	valid(t, ses.Recorder)
}

// One agent works for many trials at once.
func (s Suite) concurrent(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		ses, _ := s.session(t, s.Works)
		wg.Go(func() {
			if r, err := s.Works.Agent.Run(t.Context(), ses); err != nil || !s.NoProgram && !s.Asks && *r.Exit != 0 {
				t.Errorf("%+v, %v", r, err)
				return
			}
			if !s.NoProgram && read(t, ses, "cat /project/out") != "worked\n" {
				t.Error("one run saw another's")
			}
			valid(t, ses.Recorder)
		})
	}
	wg.Wait()
}

// dead checks that the program of Hangs writes no more.
func dead(t *testing.T, ses agent.Session) {
	t.Helper()
	if got := read(t, ses, `a=$(cat /project/beat); sleep 0.3; [ -n "$a" ] && [ "$a" = "$(cat /project/beat)" ] && echo dead`); got != "dead\n" {
		t.Errorf("the program lives on, or never began: %q", got)
	}
}

// watch validates the document again and again while an agent works.
func watch(t testing.TB, r *agent.Recorder) (stop func()) {
	end, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-end:
				return
			case <-time.After(20 * time.Millisecond):
				valid(t, r)
			}
		}
	}()
	return func() { close(end); <-done }
}

func valid(t testing.TB, r *agent.Recorder) *trajectory.Trajectory {
	t.Helper()
	doc := r.Document()
	b, err := trajectory.Marshal(doc)
	if err != nil {
		t.Errorf("trajectory: %v", err)
	}
	for _, f := range trajectory.Validate(b) {
		t.Errorf("trajectory: %s", f)
	}
	return doc
}

func observations(doc *trajectory.Trajectory) string {
	var b strings.Builder
	for _, st := range doc.Steps {
		if st.Observation == nil {
			continue
		}
		for _, r := range st.Observation.Results {
			if r.Content != nil {
				b.WriteString(r.Content.String())
			}
		}
	}
	return b.String()
}

func read(t testing.TB, ses agent.Session, script string) string {
	t.Helper()
	res, err := sandbox.Exec(context.WithoutCancel(t.Context()), ses.Sandbox, sandbox.Command{Args: []string{"/bin/sh", "-c", script}, Dir: "/project"},
		sandbox.ExecOptions{Timeout: 10 * time.Second})
	if err != nil {
		t.Error(err)
	}
	return string(res.Stdout)
}
