package web

import (
	"cmp"
	"slices"

	"assay/internal/stats"
	"assay/trial"
)

// Timing is where the time of a job's ended trials went.
type Timing struct {
	Phases   []PhaseRow   `json:"phases"`
	Overhead stats.Spread `json:"overhead_ms"` // assay's own, per trial: wall time minus agent and tests
	Wall     stats.Spread `json:"wall_ms"`     // per trial
	Untimed  int          `json:"untimed"`     // ended trials whose phases nobody measured; they are in no row
}

// PhaseRow is one phase over all trials that passed it; a multi-step trial
// counts once, with the sum of its steps.
type PhaseRow struct {
	Phase trial.Phase  `json:"phase"`
	Own   bool         `json:"overhead"` // the harness's own time, not the agent's nor the tests'
	Time  stats.Spread `json:"ms"`
}

// Whose time the phase is.
func (r PhaseRow) Whose() string {
	switch r.Phase {
	case trial.PhaseAgent:
		return "the agent"
	case trial.PhaseTests:
		return "the tests"
	}
	return "assay"
}

// own reports whether a phase is the harness's own time.
func own(p trial.Phase) bool { return p != trial.PhaseAgent && p != trial.PhaseTests }

// TimingOf adds up trials that have ended; kept attempts that were replaced are
// not among them.
func TimingOf(trials []*Trial) Timing {
	var t Timing
	each := map[trial.Phase][]float64{}
	var overhead, wall []float64
	for _, tr := range trials {
		if !tr.Ended() {
			continue
		}
		if !tr.Timed {
			t.Untimed++
			continue
		}
		sum := map[trial.Phase]float64{}
		for _, p := range tr.Phases {
			sum[p.Phase] += p.Millis
		}
		for p, ms := range sum {
			each[p] = append(each[p], ms)
		}
		overhead = append(overhead, tr.Overhead)
		wall = append(wall, tr.Wall)
	}
	for p, ms := range each {
		if s, ok := stats.SpreadOf(ms); ok {
			t.Phases = append(t.Phases, PhaseRow{Phase: p, Own: own(p), Time: s})
		}
	}
	slices.SortFunc(t.Phases, func(a, b PhaseRow) int {
		return cmp.Or(cmp.Compare(phaseRank(a.Phase), phaseRank(b.Phase)), cmp.Compare(a.Phase, b.Phase))
	})
	t.Overhead, _ = stats.SpreadOf(overhead)
	t.Wall, _ = stats.SpreadOf(wall)
	return t
}

func phaseRank(p trial.Phase) int {
	if i := slices.Index(trial.Phases(), p); i >= 0 {
		return i
	}
	return len(trial.Phases())
}
