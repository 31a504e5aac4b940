package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/trial"
)

// JobResult is a job's result.json. Times are local and without a zone, as
// Harbor writes them. Source: harbor/models/job/result.py.
type JobResult struct {
	ID         string
	StartedAt  time.Time
	UpdatedAt  time.Time
	FinishedAt *time.Time // nil while the job runs, and when it was cut off
	Total      int        // planned
	Stats      JobStats
}

func (r *JobResult) keys() []key {
	finished := any(nil)
	if r.FinishedAt != nil {
		finished = localTime(*r.FinishedAt)
	}
	return []key{
		{"id", &r.ID, nil, false}, {"started_at", localTime(r.StartedAt), nil, false}, {"updated_at", localTime(r.UpdatedAt), nil, false},
		{"finished_at", finished, nil, false}, {"n_total_trials", &r.Total, nil, false}, {"stats", &r.Stats, nil, false},
	}
}

func localTime(t time.Time) string { return t.Local().Format("2006-01-02T15:04:05.000000") }

// JobStats counts a job's trials.
type JobStats struct {
	Completed int // errored ones included
	Errored   int
	Running   int
	Pending   int
	Cancelled int
	Retries   int
	Evals     map[string]*EvalStats // by agent, model and task set; see EvalKey
	Usage     trial.Usage
}

func (s *JobStats) keys() []key {
	return []key{
		{"n_completed_trials", &s.Completed, nil, false}, {"n_errored_trials", &s.Errored, nil, false},
		{"n_running_trials", &s.Running, nil, false}, {"n_pending_trials", &s.Pending, nil, false},
		{"n_cancelled_trials", &s.Cancelled, nil, false}, {"n_retries", &s.Retries, nil, false}, {"evals", (*evalMap)(&s.Evals), nil, false},
		{"n_input_tokens", s.Usage.InputTokens, nil, false}, {"n_cache_tokens", s.Usage.CacheTokens, nil, false},
		{"n_output_tokens", s.Usage.OutputTokens, nil, false}, {"cost_usd", (*seconds)(s.Usage.CostUSD), nil, false},
	}
}

type evalMap map[string]*EvalStats

func (m *evalMap) keys() []key {
	var all []key
	for _, name := range slices.Sorted(maps.Keys(*m)) {
		all = append(all, key{name, (*m)[name], nil, false})
	}
	return all
}

// EvalStats are the numbers of one agent, model and task set.
type EvalStats struct {
	Trials     int                            // with rewards
	Errors     int                            // with an exception
	Metrics    []map[string]float64           // Harbor's mean
	PassAtK    map[int]float64                // by k
	Rewards    map[string]map[string][]string // trial names by reward key and value
	Exceptions map[string][]string            // trial names by exception name
}

func (s *EvalStats) keys() []key {
	metrics := make([]map[string]seconds, len(s.Metrics))
	for i, m := range s.Metrics {
		metrics[i] = map[string]seconds{}
		for k, v := range m {
			metrics[i][k] = seconds(v)
		}
	}
	passAtK := numbered{}
	for k, v := range s.PassAtK {
		passAtK[k] = seconds(v)
	}
	return []key{
		{"n_trials", &s.Trials, nil, false}, {"n_errors", &s.Errors, nil, false}, {"metrics", metrics, nil, false},
		{"pass_at_k", &passAtK, nil, false}, {"reward_stats", &s.Rewards, nil, false}, {"exception_stats", &s.Exceptions, nil, false},
	}
}

// numbered is written in the order of its numbers.
type numbered map[int]seconds

func (m *numbered) keys() []key {
	var all []key
	for _, k := range slices.Sorted(maps.Keys(*m)) {
		all = append(all, key{fmt.Sprint(k), (*m)[k], nil, false})
	}
	return all
}

// EvalKey is Harbor's key of a group: agent__model__set, or agent__set without
// a model; single tasks are of the set "adhoc".
func EvalKey(r *trial.Result) string {
	parts := []string{r.AgentInfo.Name}
	if m := r.AgentInfo.Model; m != nil && m.Name != "" {
		parts = append(parts, m.Name)
	}
	set := "adhoc"
	if r.Source != nil && *r.Source != "" {
		set = *r.Source
	}
	return strings.Join(append(parts, set), "__")
}

// PassAtK computes Harbor's pass@k of one group; nil leaves the table empty.
type PassAtK func(group []*trial.Result) map[int]float64

// Summarize counts results as Harbor does: step exceptions do not count as
// errors, a missing reward is 0 in the mean.
func Summarize(results []*trial.Result, passAtK PassAtK) JobStats {
	s := JobStats{Evals: map[string]*EvalStats{}}
	groups := map[string][]*trial.Result{}
	var usage []trial.Usage
	for _, r := range results {
		k := EvalKey(r)
		if s.Evals[k] == nil {
			s.Evals[k] = &EvalStats{Rewards: map[string]map[string][]string{}, Exceptions: map[string][]string{}}
		}
		groups[k] = append(groups[k], r)
		s.count(s.Evals[k], r)
		usage = append(usage, r.TotalUsage().Usage)
	}
	s.Usage = trial.SumUsage(usage...).Usage
	for k, group := range groups {
		s.Evals[k].Metrics = []map[string]float64{meanRewards(group)}
		if passAtK != nil {
			s.Evals[k].PassAtK = passAtK(group)
		}
	}
	return s
}

func (s *JobStats) count(e *EvalStats, r *trial.Result) {
	s.Completed++
	if v := r.VerifierResult; v != nil && v.Rewards != nil {
		e.Trials++
		for name, value := range v.Rewards {
			if e.Rewards[name] == nil {
				e.Rewards[name] = map[string][]string{}
			}
			at := rewardKey(value, e.Rewards[name])
			e.Rewards[name][at] = append(e.Rewards[name][at], r.TrialName)
		}
	}
	if x := r.Exception; x != nil {
		e.Errors++
		s.Errored++
		e.Exceptions[x.Type] = append(e.Exceptions[x.Type], r.TrialName)
		if x.Type == "CancelledError" {
			s.Cancelled++
		}
	}
}

// rewardKey is the key of a value: equal numbers share one, whatever their
// spelling, as they do in Python.
func rewardKey(n json.Number, have map[string][]string) string {
	f, err := n.Float64()
	if err != nil {
		return n.String()
	}
	for k := range have {
		if g, err := json.Number(k).Float64(); err == nil && f == g {
			return k
		}
	}
	return n.String()
}

// meanRewards is Harbor's mean metric: one number called mean where all trials
// have at most one and the same key, else one per key.
// Source: harbor/metrics/base.py.
func meanRewards(group []*trial.Result) map[string]float64 {
	sums := map[string]float64{}
	for _, r := range group {
		if r.VerifierResult == nil {
			continue
		}
		for k, v := range r.VerifierResult.Rewards {
			f, err := v.Float64()
			if err != nil {
				f = 0
			}
			sums[k] += f
		}
	}
	n := float64(len(group))
	if len(sums) <= 1 {
		mean := 0.0
		for _, sum := range sums {
			mean = sum / n
		}
		return map[string]float64{"mean": mean}
	}
	for k := range sums {
		sums[k] /= n
	}
	return sums
}

// WriteSummary writes the job's result.json from the results on disk. Running
// is the number of trials that run now; finished says that the job is done.
func (j *Job) WriteSummary(started time.Time, running int, finished bool, passAtK PassAtK) error {
	var results []*trial.Result
	retries, planned := 0, 0
	for _, t := range j.Trials() {
		planned++
		for _, r := range t.Replaced {
			if r.Why == "retry" {
				retries++
			}
		}
		if t.Finished == nil {
			continue
		}
		r, err := j.Result(t.Name)
		if err != nil {
			return fmt.Errorf("summarize job %q: %w", j.dir, err)
		}
		results = append(results, r)
	}
	now := j.log.now()
	r := JobResult{ID: j.ID(), StartedAt: started, UpdatedAt: now, Total: planned, Stats: Summarize(results, passAtK)}
	r.Stats.Running, r.Stats.Retries = running, retries
	r.Stats.Pending = max(planned-r.Stats.Completed-running, 0)
	if finished {
		r.FinishedAt = &now
	}
	return j.WriteResult(r)
}

// WriteResult writes the job's result.json.
func (j *Job) WriteResult(r JobResult) error { return j.writeModel(ResultFile, "summary", &r, full) }

// readJobResult reads the few numbers of a job's result.json that a view needs.
func readJobResult(dir string) (jobNumbers, error) {
	var n jobNumbers
	b, err := readRegular(filepath.Join(dir, ResultFile), maxSmall)
	if err == nil {
		err = json.Unmarshal(b, &n)
	}
	if err != nil {
		return jobNumbers{}, fmt.Errorf("read the job's result.json: %w", err)
	}
	return n, nil
}

type jobNumbers struct {
	ID         string       `json:"id"`
	StartedAt  looseTime    `json:"started_at"`
	UpdatedAt  looseTime    `json:"updated_at"`
	FinishedAt looseTime    `json:"finished_at"`
	Total      *json.Number `json:"n_total_trials"`
	Stats      struct {
		Completed json.Number `json:"n_completed_trials"`
	} `json:"stats"`
}

// looseTime reads a time with or without a zone; without one it is local. What
// it cannot read is zero.
type looseTime struct{ time.Time }

func (t *looseTime) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		return nil
	}
	if at, err := time.Parse(time.RFC3339Nano, s); err == nil {
		t.Time = at
	} else if at, err := time.ParseInLocation("2006-01-02T15:04:05.999999999", s, time.Local); err == nil {
		t.Time = at
	}
	return nil
}

func (n jobNumbers) total() int {
	if n.Total == nil {
		return 0
	}
	v, err := n.Total.Int64()
	if err != nil || v < 0 || v > 1<<31 {
		return 0
	}
	return int(v)
}
