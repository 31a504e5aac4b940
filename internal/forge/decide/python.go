package decide

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/report"
)

// pytest is a warm server of a suite's pytest. The process has imported what is
// not the project's, and is forked for every run; a fork of it has collected the
// healthy suite, and is forked for changes of functions that nothing has called
// by then: these are made in its memory, and the tests that enter them are run.
type pytest struct {
	d  *Decider
	c  *command
	s  *server
	no bool // preloading does not do

	cpu int // seconds of processor time that a run may use
}

func takesPytest(c *command) bool {
	return c.Build == "" && (c.Driver == "pytest" || c.Driver == "" && (c.Report == "pytest" || c.Report == "pytest-log"))
}

// sentinel stands where ids or files of tests go.
const sentinel = "assay--tests"

// ownPath is where a command sets Python's path itself.
var ownPath = regexp.MustCompile(`\bPYTHONPATH=(["']?)`)

// answer is what the server says.
type answer struct {
	Ready   string      `json:"ready"`
	Single  bool        `json:"single"`
	Fault   string      `json:"fault"`
	Results [][3]string `json:"results"`
	Running string      `json:"running"`
	Collect [][2]string `json:"collect"`
	Ended   bool        `json:"ended"`
	Modules []string    `json:"modules"`
	Exit    *int        `json:"exit"`
	Text    string      `json:"text"`
	Timed   bool        `json:"timed"`
	Signal  int         `json:"signal"`
	Dirty   bool        `json:"dirty"`
	Millis  float64     `json:"ms"`
	Own     []string    `json:"own"`     // files of the project that the server itself has imported
	Swapped bool        `json:"swapped"` // the change was made in a collected session's memory
	Chosen  []string    `json:"chosen"`  // then: the tests of those asked for that enter a changed function
}

// pytestRun is what it is asked.
type pytestRun struct {
	Op      string            `json:"op"`
	Want    []string          `json:"want"`
	Files   []string          `json:"files,omitempty"`
	Changed map[string]string `json:"files_b64,omitempty"`
	Root    string            `json:"root"`
	Stop    bool              `json:"stop,omitempty"`
	Last    string            `json:"last,omitempty"`
	Limit   float64           `json:"limit,omitempty"` // seconds
	CPU     int               `json:"cpu,omitempty"`   // seconds of the processor's time
	Modules bool              `json:"modules,omitempty"`
	Names   []string          `json:"names,omitempty"`
}

func newPytest(ctx context.Context, d *Decider, c *command) (driver, error) {
	p := &pytest{d: d, c: c}
	if err := p.start(ctx); err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// start brings the server to where it has run the healthy suite and gives for
// every stable test what the suite gives: first with the packages of others
// imported once, then without.
func (p *pytest) start(ctx context.Context) error {
	for _, p.no = range []bool{p.no, true} {
		why, err := p.warm(ctx)
		if err != nil {
			return err
		}
		if why == "" {
			return nil
		}
		p.d.c.Say("%s: %q warm: %s", p.d.c.Env.Name, p.c.Name, why)
		p.close()
		if p.no {
			return errors.New(why)
		}
	}
	return nil
}

func (p *pytest) warm(ctx context.Context) (why string, err error) {
	run := p.c.Run
	if p.c.Select != "" {
		run = strings.NewReplacer("{tests}", sentinel, "{files}", sentinel).Replace(p.c.Select)
	}
	run = ownPath.ReplaceAllString(run, "PYTHONPATH=${1}"+inside+":")
	run = exported(run, `PYTHONPATH="`+inside+`${PYTHONPATH:+:$PYTHONPATH}"`, `PYTEST_ADDOPTS="-p pytest_probe ${PYTEST_ADDOPTS-}"`)
	if p.s, err = startServer(ctx, p.d, p.c, run, "pytest_probe.py", "pytest_server.py", "pytest_session.py", "pytest_swap.py"); err != nil {
		return "", err
	}
	if !p.no {
		a, err := p.ask(ctx, pytestRun{Op: "run", Want: ids(p.c.tests), Files: places(p.c.tests), Modules: true}, false)
		if err != nil {
			return "", err
		}
		pre, err := p.ask(ctx, pytestRun{Op: "preload", Names: a.Modules}, false)
		if err != nil {
			return "", err
		}
		if !pre.Single {
			return "an imported package starts threads", nil
		}
	}
	r := &request{tests: p.c.tests}
	a, err := p.ask(ctx, pytestRun{Op: "watch", Want: ids(p.c.tests), Files: places(p.c.tests)}, false)
	if err != nil {
		return "", err
	}
	if len(a.Own) > 0 {
		return "", fmt.Errorf("its test runner itself imports the project: %s", a.Own[0])
	}
	if bad := p.unhealthy(r, a); bad != "" {
		return bad, nil
	}
	// A loop that burns time is one on a busy machine as well.
	p.cpu = int(max(p.d.c.Floor.Seconds()/2, 3*a.Millis/1000)) + 1
	return "", p.collect(ctx)
}

func (p *pytest) unhealthy(r *request, a answer) string {
	o := p.outcome(r, a)
	failed, _, _ := failures(r, o)
	if o.broken != "" || o.timedOut || len(failed) > 0 {
		return fmt.Sprintf("%d of %d stable tests do not pass%s %s", len(failed), len(r.tests), example(failed), clip(o.broken, 300))
	}
	return ""
}

// collect has a session wait with the healthy suite collected. Without one every
// run collects by itself.
func (p *pytest) collect(ctx context.Context) error {
	a, err := p.ask(ctx, pytestRun{Op: "collect", Want: ids(p.c.tests), Files: places(p.c.tests)}, false)
	if err != nil {
		return err
	}
	if bad := p.unhealthy(&request{tests: p.c.tests}, a); bad != "" {
		p.d.c.Say("%s: %q collected once: %s", p.d.c.Env.Name, p.c.Name, bad)
		_, err = p.ask(ctx, pytestRun{Op: "forget"}, false)
	}
	return err
}

func example(failed map[string]report.Status) string {
	for id, st := range failed {
		return fmt.Sprintf(" (%s: %s)", id, st)
	}
	return ""
}

// ask sends a run and gives the answer; the server keeps the limit, and is
// given up when it does not.
func (p *pytest) ask(ctx context.Context, q pytestRun, alone bool) (a answer, err error) {
	limit := p.d.limit(p.c)
	if q.Op == "collect" { // everything is watched while it runs
		limit *= 4
	}
	q.Root, q.Limit, q.CPU = p.d.c.Env.Workdir, limit.Seconds(), p.cpu
	if q.Op != "run" {
		q.CPU = 0
	}
	release := p.d.turn(alone)
	defer release()
	if err := p.s.ask(ctx, q, &a, 2*limit+20*time.Second); err != nil {
		return a, err
	}
	if a.Fault != "" {
		return a, errors.New(a.Fault)
	}
	return a, nil
}

func (p *pytest) run(ctx context.Context, rs []*request, tell func(*request, outcome)) error {
	for _, r := range rs {
		if p.s == nil {
			if err := p.start(ctx); err != nil {
				return err
			}
		}
		q := pytestRun{Op: "run", Want: ids(r.tests), Files: places(r.tests), Stop: r.stop, Last: r.last, Changed: map[string]string{}}
		for f, data := range r.files {
			q.Changed[f] = base64.StdEncoding.EncodeToString(data)
		}
		a, err := p.ask(ctx, q, r.alone)
		if err != nil {
			return err
		}
		if a.Dirty { // what it left in the tree would be seen by the next
			p.close()
		}
		if a.Swapped {
			r.tests = chosen(r.tests, a.Chosen)
		}
		tell(r, p.outcome(r, a))
	}
	return nil
}

// outcome reads an answer. It stands for a run of processes that hold the
// candidate's code, and is taken as far as it goes.
func (p *pytest) outcome(r *request, a answer) outcome {
	o := outcome{status: map[string]report.Status{}, running: a.Running, timedOut: a.Timed,
		took: time.Duration(a.Millis * float64(time.Millisecond))}
	for _, x := range a.Results {
		o.status[x[0]] = report.Status(x[1])
		if report.Status(x[1]) != report.Passed && o.output == "" && p.c.byID[x[0]] != nil {
			o.output = x[2]
		}
	}
	if !a.Timed && !a.Ended {
		o.crashed = fmt.Sprintf("the process ended by signal %d", a.Signal)
	}
	if a.Swapped && len(a.Chosen) == 0 {
		return o
	}
	if len(a.Results) == 0 && len(a.Collect) > 0 && !a.Timed {
		o.broken = "no test could be collected: " + a.Collect[0][0] + "\n" + a.Collect[0][1]
	} else if len(a.Results) == 0 && a.Ended && a.Running == "" && !a.Timed {
		o.broken = "no test was collected"
		if a.Exit != nil {
			o.broken += fmt.Sprintf(" (pytest ended with %d) %s", *a.Exit, a.Text)
		}
	}
	return o
}

func (p *pytest) close() error {
	if p.s == nil {
		return nil
	}
	err := p.s.close()
	p.s = nil
	return err
}

// chosen are those of tests whose ids are named.
func chosen(tests []*test, ids []string) (out []*test) {
	named := map[string]bool{}
	for _, id := range ids {
		named[id] = true
	}
	for _, t := range tests {
		if named[t.ID] {
			out = append(out, t)
		}
	}
	return out
}

func ids(tests []*test) (out []string) {
	for _, t := range tests {
		out = append(out, t.ID)
	}
	return out
}

// places are the files of tests; none where one of them is not known: then
// everything is collected.
func places(tests []*test) (out []string) {
	for _, t := range tests {
		f := t.place()
		if !strings.HasSuffix(f, ".py") {
			return nil
		}
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	return out
}
