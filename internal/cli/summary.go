package cli

import (
	"assay/internal/stats"
	"assay/internal/store"
	"assay/internal/web"
	"assay/trial"
)

// jobSummary is a job's result table as one JSON object.
type jobSummary struct {
	Name     string         `json:"name"`
	Dir      string         `json:"dir"`
	State    store.JobState `json:"state"`
	Foreign  bool           `json:"foreign"`
	Rate     stats.Rate     `json:"rate"`
	Tally    stats.Tally    `json:"tally"`
	Agents   []agentSummary `json:"agents"`
	Causes   []causeCount   `json:"causes"`
	Overhead stats.Spread   `json:"overhead_ms"`
}

type agentSummary struct {
	Agent    string       `json:"agent"`
	Rate     stats.Rate   `json:"rate"`
	Tally    stats.Tally  `json:"tally"`
	PassAtK  []stats.AtK  `json:"pass_at_k"`
	Evidence []string     `json:"evidence"`
	Wall     stats.Spread `json:"wall_ms"`
	Overhead stats.Spread `json:"overhead_ms"`
}

type causeCount struct {
	Outcome trial.Outcome `json:"outcome"`
	Fault   trial.Fault   `json:"fault"`
	Cause   trial.Cause   `json:"cause"`
	Trials  int           `json:"trials"`
}

func summaryOf(v *store.View) jobSummary {
	s := web.Summarize(web.FromView(v).Trials)
	out := jobSummary{Name: v.Name, Dir: v.Dir, State: v.State, Foreign: v.Foreign, Rate: s.Rate, Tally: s.Tally, Overhead: s.Timing.Overhead, Agents: []agentSummary{}, Causes: []causeCount{}}
	for _, a := range s.Agents {
		row := agentSummary{Agent: a.Agent, Rate: a.Rate, Tally: a.Tally, Evidence: a.Evidence, Wall: a.Wall, Overhead: a.Overhead, PassAtK: []stats.AtK{}}
		for _, k := range a.AtK {
			if k.Known {
				row.PassAtK = append(row.PassAtK, k.AtK)
			}
		}
		out.Agents = append(out.Agents, row)
	}
	for _, c := range s.Causes {
		out.Causes = append(out.Causes, causeCount{c.Outcome, c.Fault, c.Cause, c.N})
	}
	return out
}
