package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"assay/trial"
)

// progress narrates a running job from its events: a redrawn line on a
// terminal, a line per ended trial otherwise.
type progress struct {
	a     *app
	quiet bool

	mu      sync.Mutex // guards all below
	total   int
	ended   int
	running map[string]string // trial -> phase
	names   map[string]trial.Planned
	said    map[string]bool // notes
	counts  map[trial.Outcome]int
	images  imagesShown
	paused  string // why; empty: it is not
	drawn   bool
	last    time.Time
	began   time.Time
}

func (a *app) progress(quiet bool) *progress {
	return &progress{a: a, quiet: quiet, running: map[string]string{}, names: map[string]trial.Planned{}, said: map[string]bool{}, counts: map[trial.Outcome]int{}, began: time.Now()}
}

// event is a job's OnEvent.
func (p *progress) event(e trial.Event) {
	if p.quiet {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e.Kind {
	case trial.TrialPlanned:
		p.total++
	case trial.JobPaused, trial.JobContinued, trial.ImageStarted, trial.ImageMoved, trial.ImageReady:
		p.before(e)
	case trial.TrialStarted:
		var m trial.Planned
		if json.Unmarshal(e.Data, &m) == nil {
			p.names[e.Trial] = m
		}
		p.running[e.Trial] = "start"
	case trial.PhaseStarted:
		var m trial.PhaseMark
		if json.Unmarshal(e.Data, &m) == nil {
			p.running[e.Trial] = string(m.Phase)
		}
	case trial.Noted:
		var m struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(e.Data, &m) == nil && !p.said[m.Text] {
			p.said[m.Text] = true                // once a job: a fallback image would be said by every trial
			p.line("note      " + shown(m.Text)) // it may hold what a program of the sandbox printed
		}
	case trial.TrialRetried:
		var m trial.Replaced
		if json.Unmarshal(e.Data, &m) == nil {
			p.line(fmt.Sprintf("again     %s (%s)", p.name(e.Trial), m.Cause))
		}
	case trial.TrialDropped:
		delete(p.running, e.Trial)
	case trial.TrialFinished:
		delete(p.running, e.Trial)
		var m trial.Finished
		if json.Unmarshal(e.Data, &m) == nil {
			p.ended++
			p.counts[m.Outcome]++
			if !p.a.Terminal || m.Outcome == trial.Infra || m.Outcome == trial.Invalid {
				p.line(fmt.Sprintf("%-12s %s (%s, %.0f ms)", m.Outcome, p.name(e.Trial), m.Cause, m.Millis))
			}
		}
	}
	p.draw(false)
}

func (p *progress) name(trialName string) string {
	if m, ok := p.names[trialName]; ok {
		return printable(fmt.Sprintf("%s × %s #%d", m.Task, m.Agent, m.Rep)) // a prediction's file names its model
	}
	return trialName
}

// line prints above the status line.
func (p *progress) line(s string) {
	p.clear()
	p.a.say("%s", s)
}

func (p *progress) clear() {
	if p.drawn {
		fmt.Fprint(p.a.Stderr, "\r\x1b[K")
		p.drawn = false
	}
}

func (p *progress) draw(force bool) {
	if !p.a.Terminal || (!force && time.Since(p.last) < 50*time.Millisecond) {
		return
	}
	p.last = time.Now()
	s := fmt.Sprintf("%d/%d  ", p.ended, max(p.total, p.ended))
	for _, o := range trial.Outcomes() {
		if n := p.counts[o]; n > 0 {
			s += fmt.Sprintf("%d %s  ", n, o)
		}
	}
	phases := map[string]int{}
	for _, ph := range p.running {
		phases[ph]++
	}
	var now []string
	for _, ph := range trial.Phases() {
		if n := phases[string(ph)]; n > 0 {
			now = append(now, fmt.Sprintf("%d %s", n, ph))
		}
	}
	now = append(p.images.now(), now...)
	if p.paused != "" {
		now = []string{p.paused}
	}
	s += "[" + strings.Join(now, ", ") + "]  " + time.Since(p.began).Round(time.Second).String()
	if w := p.a.Columns; w > 1 && len(s) >= w {
		s = s[:w-1]
	}
	p.clear()
	fmt.Fprint(p.a.Stderr, s)
	p.drawn = true
}

// done removes the status line.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}
