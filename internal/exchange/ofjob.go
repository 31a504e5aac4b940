package exchange

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"assay/internal/grade/checks"
	"assay/internal/store"
	"assay/trial"
)

// Files of a trial that exports read beside result.json.
const (
	// PredictionFile is the record that a prediction was made of, in agent/.
	PredictionFile = "prediction.json"
	verdictFile    = "verifier/verdict.json"
	maxRead        = MaxItem
)

// PredictionArm begins the name of an arm of predictions; the model's follows.
const PredictionArm = "prediction:"

// Arm is one column of a job, as other people's formats have it: what one
// model, or one agent without a model, made of each task.
type Arm struct {
	Model  string // model_name_or_path
	Agent  string
	Trials []*store.Trial // of one attempt each
}

// Arms parts a job's trials of attempt rep (from 1) into arms, in the job's
// order.
func Arms(v *store.View, rep int) []*Arm {
	var all []*Arm
	at := map[[2]string]*Arm{} // by agent and model
	for _, t := range v.Trials {
		if t.Rep != rep {
			continue
		}
		key := [2]string{t.Agent, t.Model}
		if at[key] == nil {
			at[key] = &Arm{Model: ArmName(t.Agent, t.Model), Agent: t.Agent}
			if slices.ContainsFunc(all, func(a *Arm) bool { return a.FileName() == at[key].FileName() }) {
				at[key].Model += "-" + digest8(t.Agent+"\n"+t.Model) // a/b and a__b are one name to SWE-bench
			}
			all = append(all, at[key])
		}
		at[key].Trials = append(at[key].Trials, t)
	}
	return all
}

// FileName is the arm as a directory or the beginning of a file's name.
func (a *Arm) FileName() string { return fileName(a.Model) }

// read reads a small file of a trial; nil: it is not there.
func read(t *store.Trial, name string) ([]byte, error) {
	f, err := t.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRead+1))
	if err == nil && len(b) > maxRead {
		err = fmt.Errorf("%s of %s: larger than %d bytes", name, t.Name, maxRead)
	}
	return b, err
}

// OfTrial is the prediction that a trial stands for: the record that was
// graded, else the work that an agent left.
func OfTrial(t *store.Trial, model string) (Prediction, error) {
	var raw []byte
	var err error
	if strings.HasPrefix(t.Agent, PredictionArm) { // of any other arm it is the agent's word
		raw, err = read(t, "agent/"+PredictionFile)
	}
	if err != nil {
		return Prediction{}, err
	}
	if raw != nil {
		p, err := parsePrediction(item{raw: raw, line: 1})
		if err != nil {
			return p, fmt.Errorf("%s: %s: %w", t.Name, PredictionFile, err)
		}
		return p, nil
	}
	p := Prediction{ID: instance(t), Model: model, Kind: PredictsPatch, Line: 1}
	for _, s := range t.Steps {
		if s.Diff == "" {
			continue
		}
		b, err := read(t, s.Diff)
		if err != nil {
			return p, err
		}
		p.Text = string(b)
	}
	return p, nil
}

// instance is a trial's id in SWE-bench's files: the task's, without the
// name of its set.
func instance(t *store.Trial) string { return t.Task[strings.LastIndexByte(t.Task, '/')+1:] }

// verdict reads what the checks came to; nil: the task has no check plan.
func verdict(t *store.Trial) (*checks.Verdict, error) {
	if t.Record.Checks == nil {
		return nil, nil
	}
	b, err := read(t, verdictFile)
	if b == nil || err != nil {
		return nil, err
	}
	var v checks.Verdict
	if err := json.Unmarshal(b, &v); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", t.Name, verdictFile, err)
	}
	return &v, nil
}

// Report is SWE-bench's report of a finished trial; ok is false where it would
// have none: no patch, one that does not apply, no verdict.
func Report(t *store.Trial, model string) (r InstanceReport, ok bool, err error) {
	p, err := OfTrial(t, model)
	if err != nil {
		return r, false, err
	}
	r = InstanceReport{ID: p.ID, PatchIsNone: p.Null, PatchExists: !p.Null}
	if t.Status != store.TrialFinished || p.Empty() || t.Cause == trial.CausePatchFailed || !judged(t.Outcome) {
		return r, false, nil
	}
	r.Applied, r.Resolved = t.Outcome != trial.Inconclusive, t.Outcome == trial.Pass
	v, err := verdict(t)
	if v == nil || err != nil || !r.Applied {
		return r, err == nil, err
	}
	r.Tests = &TestsStatus{FailToPass: parted(v, v.FailToPass), PassToPass: parted(v, v.PassToPass)}
	return r, true, nil
}

func judged(o trial.Outcome) bool {
	return o == trial.Pass || o == trial.Fail || o == trial.Inconclusive
}

// parted is a list of a verdict with the ids as their runner spells them.
func parted(v *checks.Verdict, l checks.List) Split {
	bare := func(id string) string {
		for _, c := range v.Commands {
			if rest, ok := strings.CutPrefix(id, c.Name+":"); ok {
				return rest
			}
		}
		return id
	}
	var s Split
	for _, id := range l.Passed {
		s.Success = append(s.Success, bare(id))
	}
	for id := range l.Failed {
		s.Failure = append(s.Failure, bare(id))
	}
	slices.Sort(s.Success)
	slices.Sort(s.Failure)
	return s
}

// Summary is SWE-bench's summary of an arm. all are the ids of the data set;
// nil: those of the arm.
func (a *Arm) Summary(run string, all []string) (RunSummary, error) {
	s := RunSummary{Model: a.Model, RunID: run, Reasons: map[string]string{}}
	for _, t := range a.Trials {
		p, err := OfTrial(t, a.Model)
		if err != nil {
			return s, err
		}
		if t.Status != store.TrialFinished {
			s.Incomplete = append(s.Incomplete, p.ID)
			continue
		}
		s.Submitted = append(s.Submitted, p.ID)
		_, ok, err := Report(t, a.Model)
		switch {
		case err != nil:
			return s, err
		case p.Empty():
			s.EmptyPatch = append(s.EmptyPatch, p.ID)
			continue
		case !ok:
			s.Error = append(s.Error, p.ID)
		case t.Outcome == trial.Pass:
			s.Completed, s.Resolved = append(s.Completed, p.ID), append(s.Resolved, p.ID)
		default:
			s.Completed, s.Unresolved = append(s.Completed, p.ID), append(s.Unresolved, p.ID)
		}
		if t.Fault == trial.FaultInfra {
			s.Infra = append(s.Infra, p.ID)
			s.Reasons[p.ID] = string(t.Cause)
		}
	}
	known := append(slices.Clone(s.Submitted), s.Incomplete...)
	for _, id := range all {
		if !slices.Contains(known, id) {
			s.Incomplete = append(s.Incomplete, id)
		}
	}
	s.Total = len(sorted(append(known, s.Incomplete...)))
	return s, nil
}
