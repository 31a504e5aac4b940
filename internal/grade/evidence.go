package grade

import (
	"time"

	"assay/internal/grade/checks"
	"assay/internal/grade/report"
)

// Names below a step's verifier/ of a task with a check plan.
const (
	// VerdictFile is the same, byte for byte, whenever the same work is graded.
	VerdictFile = checks.VerdictFile
	// EvidenceFile holds what differs from run to run: times, and the words of
	// failures.
	EvidenceFile = "evidence.json"
)

// Caps of the evidence.
const (
	maxEvidencePaths = 1000
	maxEvidenceTests = 1000
	maxPassed        = 50_000 // ids
)

// evidence is what a verdict was made of, for people.
type evidence struct {
	V         int               `json:"v"` // 1
	Mode      string            `json:"verifier"`
	Seconds   float64           `json:"seconds"`
	Attempted bool              `json:"attempted"`
	Untouched bool              `json:"untouched"`
	Changed   []string          `json:"changed"` // by the end state; at most 1,000
	Changes   int               `json:"changes"` // in all
	Commands  []commandEvidence `json:"commands"`
	Canary    []commandEvidence `json:"canary,omitempty"`
	First     string            `json:"first,omitempty"` // which run came first: "real", "canary"
	Planted   map[string][]int  `json:"planted,omitempty"`
	Cases     []casesEvidence   `json:"cases,omitempty"`
	State     []stateEvidence   `json:"state,omitempty"`
	Tampered  []string          `json:"tampered,omitempty"`

	real, canary []ran
}

// commandEvidence is how one command's run went.
type commandEvidence struct {
	Name       string          `json:"name"`
	NotStarted string          `json:"not_started,omitempty"`
	Exit       int             `json:"exit"`
	Signal     int             `json:"signal,omitempty"`
	TimedOut   bool            `json:"timed_out,omitempty"`
	Memory     bool            `json:"out_of_memory,omitempty"`
	Seconds    float64         `json:"seconds"`
	CPUSeconds float64         `json:"cpu_seconds"`
	MaxRSS     int64           `json:"max_rss_bytes"`
	Dropped    int64           `json:"dropped_bytes,omitempty"`
	Report     string          `json:"report,omitempty"`
	ReportErr  string          `json:"report_error,omitempty"`
	Tests      int             `json:"tests"`
	NotPassed  []testEvidence  `json:"not_passed,omitempty"` // at most 1,000
	Passed     []string        `json:"passed,omitempty"`     // ids; at most 50,000
	Flags      []report.Flag   `json:"flags,omitempty"`
	Counts     map[string]*int `json:"counts,omitempty"`
}

type testEvidence struct {
	ID      string  `json:"id"`
	Status  string  `json:"status"`
	Kind    string  `json:"kind,omitempty"`
	Message string  `json:"message,omitempty"`
	Seconds float64 `json:"seconds,omitempty"`
}

// casesEvidence is what became of one group of cases.
type casesEvidence struct {
	Name      string         `json:"name"`
	Err       string         `json:"error,omitempty"`
	Tests     int            `json:"tests"`
	NotPassed []testEvidence `json:"not_passed,omitempty"` // at most 1,000
}

type stateEvidence struct {
	Name string `json:"name"`
	Held bool   `json:"held"`
	Why  string `json:"why,omitempty"`
}

func (o *observer) evidence(obs checks.Observation, real, canary *sighting) *evidence {
	ev := &evidence{
		V: 1, Mode: string(o.Mode), Attempted: obs.Attempted, Untouched: obs.Untouched,
		Changed: obs.Changed[:min(len(obs.Changed), maxEvidencePaths)], Changes: len(obs.Changed),
		Commands: commandsEvidence(o.plan, real.ran), Planted: obs.Planted, Tampered: obs.Tampered, real: real.ran,
	}
	for _, c := range obs.Cases {
		ev.Cases = append(ev.Cases, casesEvidence{c.Name, c.Err, len(c.Tests), notPassed(c.Tests)})
	}
	for _, s := range obs.State {
		ev.State = append(ev.State, stateEvidence{s.Name, s.Held, s.Why})
	}
	if canary != nil {
		ev.Canary, ev.canary, ev.First = commandsEvidence(o.plan, canary.ran), canary.ran, "real"
		if o.Beside == nil && o.draw.canaryFirst() {
			ev.First = "canary"
		}
	}
	return ev
}

func commandsEvidence(p *checks.Plan, all []ran) []commandEvidence {
	out := []commandEvidence{}
	for i, c := range all {
		e := commandEvidence{
			Name: c.Name, NotStarted: c.NotStarted, Exit: c.Exit, Signal: int(c.Signal), TimedOut: c.TimedOut, Memory: c.OutOfMemory,
			Seconds: c.wall.Seconds(), CPUSeconds: c.cpu.Seconds(), MaxRSS: c.rss, Dropped: c.dropped,
			Report: string(p.Commands[i].Report), ReportErr: c.ReportErr,
		}
		if c.Report != nil {
			e.report(c.Report)
		}
		out = append(out, e)
	}
	return out
}

func (e *commandEvidence) report(r *report.Report) {
	e.Tests, e.Flags = len(r.Tests), r.Flags
	e.Counts = map[string]*int{}
	for name, n := range map[string]*int{"total": r.Counts.Total, "passed": r.Counts.Passed, "failed": r.Counts.Failed, "errors": r.Counts.Errors, "skipped": r.Counts.Skipped} {
		if n != nil {
			e.Counts[name] = n
		}
	}
	e.NotPassed = notPassed(r.Tests)
	for _, t := range r.Tests {
		if t.Status == report.Passed && len(e.Passed) < maxPassed {
			e.Passed = append(e.Passed, t.ID)
		}
	}
}

func notPassed(all []report.Test) []testEvidence {
	var out []testEvidence
	for _, t := range all {
		if t.Status != report.Passed && len(out) < maxEvidenceTests {
			out = append(out, testEvidence{t.ID, string(t.Status), string(t.Kind), t.Message, t.Took.Round(time.Microsecond).Seconds()})
		}
	}
	return out
}
