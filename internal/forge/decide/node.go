package decide

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
)

// node is a warm server of a suite's Mocha or Jest: a process that keeps the
// modules of others loaded, and loads the project's and the tests' anew for every
// run. It knows which test files enter a function or, of Jest, a statement.
type node struct {
	d   *Decider
	c   *command
	s   *server
	cpu float64 // seconds of the processor's time that a run may use
}

func takesMocha(c *command) bool {
	return c.Build == "" && (c.Driver == "mocha" || c.Driver == "") && (c.Report == "mocha" || c.Report == "mocha-log")
}

func takesJest(c *command) bool {
	return c.Build == "" && (c.Driver == "jest" || c.Driver == "") && c.Report == "jest"
}

// nodeRun is what it is asked.
type nodeRun struct {
	Op      string            `json:"op"`
	Want    []string          `json:"want"`
	Places  []string          `json:"places"`
	Changed map[string][]byte `json:"files_b64,omitempty"`
	Root    string            `json:"root"`
	Stop    bool              `json:"stop,omitempty"`
	Last    string            `json:"last,omitempty"`
	Limit   float64           `json:"limit"` // seconds
	CPU     float64           `json:"cpu,omitempty"`
}

// nodeAnswer is what it says. Chosen are the test files of those asked for that
// enter a changed function; missing: it is not known.
type nodeAnswer struct {
	Fault   string      `json:"fault"`
	Results [][3]string `json:"results"`
	Running string      `json:"running"`
	Ended   bool        `json:"ended"`
	Timed   bool        `json:"timed"`
	Broken  string      `json:"broken"`
	Signal  string      `json:"signal"`
	Chosen  *[]string   `json:"chosen"`
	Millis  float64     `json:"ms"`
}

func newNode(ctx context.Context, d *Decider, c *command) (driver, error) {
	m := &node{d: d, c: c}
	if err := m.start(ctx); err != nil {
		m.close()
		return nil, err
	}
	return m, nil
}

// start has the healthy suite run twice: with an eye on what is called, and as
// changes are decided.
func (m *node) start(ctx context.Context) (err error) {
	run := exported(m.c.Run, `NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }--require `+inside+`/node_probe.cjs"`)
	if m.s, err = startServer(ctx, m.d, m.c, run, "node_probe.cjs", "node_server.cjs", "node_world.cjs", "mocha_worker.cjs", "jest_worker.cjs"); err != nil {
		return err
	}
	r := &request{tests: m.c.tests}
	for _, op := range []string{"learn", "run"} {
		a, err := m.ask(ctx, op, r)
		if err != nil {
			return err
		}
		o := m.outcome(a)
		if failed, _, _ := failures(r, o); o.broken != "" || o.timedOut || len(failed) > 0 {
			return fmt.Errorf("warm (%s): %d of %d stable tests do not pass%s %s", op, len(failed), len(r.tests), example(failed), clip(o.broken, 500))
		}
		m.cpu = max(m.d.c.Floor.Seconds()/2, 3*a.Millis/1000)
	}
	return nil
}

func (m *node) ask(ctx context.Context, op string, r *request) (a nodeAnswer, err error) {
	limit := m.d.limit(m.c)
	q := nodeRun{Op: op, Want: ids(r.tests), Places: nodeFiles(r.tests), Root: m.d.c.Env.Workdir, Stop: r.stop, Last: r.last, CPU: m.cpu, Changed: r.changed()}
	if op == "learn" {
		limit *= 4
	}
	q.Limit = limit.Seconds()
	release := m.d.turn(r.alone)
	defer release()
	if err := m.s.ask(ctx, q, &a, 2*limit+20*time.Second); err != nil { // of at most two stages
		return a, err
	}
	if a.Fault != "" {
		return a, errors.New(a.Fault)
	}
	return a, nil
}

func (m *node) run(ctx context.Context, rs []*request, tell func(*request, outcome)) error {
	for _, r := range rs {
		a, err := m.ask(ctx, "run", r)
		if err != nil {
			return err
		}
		if a.Chosen != nil {
			r.tests = slices.DeleteFunc(slices.Clone(r.tests), func(t *test) bool { return !slices.Contains(*a.Chosen, nodeFile(t)) })
		}
		tell(r, m.outcome(a))
	}
	return nil
}

// outcome reads an answer, which stands for a process that holds the candidate's
// code.
func (m *node) outcome(a nodeAnswer) outcome {
	o := outcome{status: map[string]report.Status{}, running: a.Running, timedOut: a.Timed, took: time.Duration(a.Millis * float64(time.Millisecond))}
	for _, x := range a.Results {
		if was, ok := o.status[x[0]]; ok && was != report.Passed {
			continue // of two results the worse
		}
		o.status[x[0]] = report.Status(x[1])
		if report.Status(x[1]) != report.Passed && o.output == "" && m.c.byID[x[0]] != nil {
			o.output = x[2]
		}
	}
	if !a.Timed && !a.Ended {
		o.crashed = "the process ended with " + clip(a.Signal, 100)
	}
	if a.Broken != "" && len(a.Results) == 0 {
		o.broken = "the tests cannot be loaded: " + a.Broken
	} else if a.Broken != "" {
		o.crashed = a.Broken
	}
	return o
}

func (m *node) close() error {
	if m.s == nil {
		return nil
	}
	err := m.s.close()
	m.s = nil
	return err
}

var nodeSource = regexp.MustCompile(`\.[cm]?[jt]sx?$`)

// nodeFile is the file of a test.
func nodeFile(t *test) string {
	file, _, ok := strings.Cut(t.ID, " > ")
	if !ok || !nodeSource.MatchString(file) {
		return t.File
	}
	return file
}

func nodeFiles(tests []*test) (out []string) {
	seen := map[string]bool{}
	for _, t := range tests {
		if f := nodeFile(t); !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}
