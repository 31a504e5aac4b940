package forge

import (
	"slices"
	"time"
)

// Funnel is what became of one generator's candidates, of all runs in the
// directory together.
type Funnel struct {
	Wanted   int            `json:"wanted"` // 0: all
	Proposed int            `json:"proposed"`
	Built    int            `json:"built"`  // the broken state was made and graded
	Bitten   int            `json:"bitten"` // stable tests fail in it
	Proved   int            `json:"proved"`
	Standing int            `json:"standing"`           // of these, the directories that are there
	Rejected map[string]int `json:"rejected"`           // by reason
	Repeated int            `json:"repeated,omitempty"` // in this run, candidates equal to another
	Ended    bool           `json:"ended"`              // it has no more
	Seconds  float64        `json:"seconds"`            // that its candidates took, of all runs
	// Sifting is of the last run in which it proposed: what was lost before it
	// was a candidate.
	Sifting *Sifting `json:"sifting,omitempty"`
}

// Report is forge.json.
type Report struct {
	V           int               `json:"v"` // 1
	Environment string            `json:"environment"`
	Seed        uint64            `json:"seed"`
	TestBudget  int               `json:"test_budget"`
	Generators  map[string]Funnel `json:"generators"`
	Tasks       []Record          `json:"tasks"` // that stand
	Lost        int               `json:"lost"`  // in this run: no verdict, the machine failed
	SuiteMillis float64           `json:"suite_ms"`
	Seconds     float64           `json:"seconds"`     // of this run
	AllSeconds  float64           `json:"all_seconds"` // of all runs
	PerHour     float64           `json:"tasks_per_hour"`
	MedianBytes int64             `json:"median_bytes"`
	MaxBytes    int64             `json:"max_bytes"`
}

func (f *forge) report(o *outcome, took time.Duration) *Report {
	r := &Report{V: 1, Environment: f.cfg.Env.Image, Seed: f.cfg.Seed, TestBudget: f.cfg.TestBudget, Generators: map[string]Funnel{}, Tasks: []Record{},
		SuiteMillis: f.cfg.Env.Suite.Millis, Seconds: took.Seconds()}
	last := map[string]int{} // of records with one key the last one counts
	for i, rec := range f.ledger.all {
		if rec.Key != "" {
			last[rec.Key] = i
		}
	}
	for i, rec := range f.ledger.all {
		if rec.Stage == StageRun {
			if rec.Generator != "" {
				g := r.Generators[rec.Generator]
				g.Seconds += rec.Seconds
				r.Generators[rec.Generator] = g
				continue
			}
			r.AllSeconds += rec.Seconds
			for name, s := range rec.Sifted {
				g := r.Generators[name]
				g.Sifting = &s
				r.Generators[name] = g
			}
			continue
		}
		if rec.Key != "" && last[rec.Key] != i {
			continue
		}
		g := r.Generators[rec.Generator]
		g.add(rec)
		if rec.Stage == StageAdmitted && f.dirs[rec.Task] == rec.Key {
			g.Standing++
			r.Tasks = append(r.Tasks, rec)
		}
		r.Generators[rec.Generator] = g
	}
	if o != nil {
		r.Lost = o.lost
		for _, d := range o.feeds {
			g := r.Generators[d.gen.Name()]
			g.Wanted, g.Ended, g.Repeated = d.want, d.ended && !(d.want > 0 && d.admitted >= d.want), d.dups
			if g.Rejected == nil {
				g.Rejected = map[string]int{}
			}
			r.Generators[d.gen.Name()] = g
		}
	}
	if r.AllSeconds > 0 {
		r.PerHour = float64(len(r.Tasks)) * 3600 / r.AllSeconds
	}
	var sizes []int64
	for _, t := range r.Tasks {
		sizes = append(sizes, t.Bytes)
	}
	if slices.Sort(sizes); len(sizes) > 0 {
		r.MedianBytes, r.MaxBytes = sizes[len(sizes)/2], sizes[len(sizes)-1]
	}
	return r
}

func (g *Funnel) add(rec Record) {
	g.Proposed++
	if g.Rejected == nil {
		g.Rejected = map[string]int{}
	}
	if rec.Built {
		g.Built++
	}
	if rec.Bitten {
		g.Bitten++
	}
	if rec.Stage == StageAdmitted {
		g.Proved++
	} else {
		g.Rejected[rec.Why]++
	}
}
