package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// assayKey is where [Record] stands in agent_result.metadata.
const assayKey = "assay"

// Parse reads a result.json, assay's or Harbor's. Keys it does not know are
// kept in Extra; missing ones stay zero. The error names the key at fault.
func Parse(data []byte) (*Result, error) {
	r := &Result{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("parse result: %w", err)
	}
	return r, nil
}

// Format writes r as Harbor does: all fields in Harbor's order, null where
// nothing is known, indent 4, no final newline.
func (r *Result) Format() ([]byte, error) {
	flat, err := marshal(r)
	if err != nil {
		return nil, fmt.Errorf("format result %q: %w", r.TrialName, err)
	}
	var b bytes.Buffer
	if err := json.Indent(&b, flat, "", "    "); err != nil {
		return nil, fmt.Errorf("format result %q: %w", r.TrialName, err)
	}
	return b.Bytes(), nil
}

func (r *Result) slots() []slot {
	return []slot{
		{"id", &r.ID}, {"task_name", &r.TaskName}, {"trial_name", &r.TrialName}, {"trial_uri", &r.TrialURI},
		{"task_id", &r.TaskID}, {"source", &r.Source}, {"task_checksum", &r.TaskChecksum}, {"config", &r.Config},
		{"agent_info", &r.AgentInfo}, {"agent_result", &r.AgentResult}, {"verifier_result", &r.VerifierResult},
		{"verifier_environment_mode", &r.VerifierEnvironmentMode}, {"exception_info", &r.Exception},
		{"started_at", &maybeStamp{&r.StartedAt}}, {"finished_at", &maybeStamp{&r.FinishedAt}},
		{"environment_setup", &r.EnvironmentSetup}, {"agent_setup", &r.AgentSetup},
		{"agent_execution", &r.AgentExecution}, {"verifier", &r.Verifier}, {"step_results", &r.StepResults},
	}
}

// MarshalJSON writes Harbor's field order and Extra after it.
func (r Result) MarshalJSON() ([]byte, error) { return writeObject(r.slots(), r.Extra) }

// UnmarshalJSON keeps unknown keys in Extra.
func (r *Result) UnmarshalJSON(data []byte) error {
	*r = Result{}
	var flat bytes.Buffer // raw parts are kept without the file's indentation
	if err := json.Compact(&flat, data); err != nil {
		return err
	}
	extra, err := readObject(flat.Bytes(), r.slots())
	r.Extra = extra
	return err
}

func (a *AgentResult) slots() []slot {
	return []slot{
		{"n_input_tokens", &a.InputTokens}, {"n_cache_tokens", &a.CacheTokens}, {"n_output_tokens", &a.OutputTokens},
		{"cost_usd", &maybeFloat{&a.CostUSD}}, {"model_usage", &modelUsage{&a.ModelUsage}},
		{"rollout_details", &a.RolloutDetails}, {"metadata", &a.Metadata},
	}
}

// MarshalJSON writes Harbor's AgentContext.
func (a AgentResult) MarshalJSON() ([]byte, error) { return writeObject(a.slots(), nil) }

// UnmarshalJSON reads Harbor's AgentContext.
func (a *AgentResult) UnmarshalJSON(data []byte) error {
	*a = AgentResult{}
	_, err := readObject(data, a.slots())
	return err
}

// modelUsage writes usage by model. Harbor refuses a null token count here and
// reads a missing one as 0, so an unknown count is left out.
type modelUsage struct{ at *map[string]Usage }

func (m modelUsage) MarshalJSON() ([]byte, error) {
	if *m.at == nil {
		return []byte("null"), nil
	}
	var models []slot
	for _, name := range slices.Sorted(maps.Keys(*m.at)) {
		u := (*m.at)[name]
		var s []slot
		for _, n := range []struct {
			name string
			at   *int64
		}{{"n_input_tokens", u.InputTokens}, {"n_cache_tokens", u.CacheTokens}, {"n_output_tokens", u.OutputTokens}} {
			if n.at != nil {
				s = append(s, slot{n.name, n.at})
			}
		}
		b, err := writeObject(append(s, slot{"cost_usd", &maybeFloat{&u.CostUSD}}), nil)
		if err != nil {
			return nil, err
		}
		models = append(models, slot{name, json.RawMessage(b)})
	}
	return writeObject(models, nil)
}

func (m modelUsage) UnmarshalJSON(data []byte) error { return json.Unmarshal(data, m.at) }

func (e *Exception) slots() []slot {
	return []slot{
		{"exception_type", &e.Type}, {"exception_message", &e.Message},
		{"exception_traceback", &e.Traceback}, {"occurred_at", &stamp{&e.At}},
	}
}

// MarshalJSON writes Harbor's ExceptionInfo.
func (e Exception) MarshalJSON() ([]byte, error) { return writeObject(e.slots(), nil) }

// UnmarshalJSON reads Harbor's ExceptionInfo.
func (e *Exception) UnmarshalJSON(data []byte) error {
	*e = Exception{}
	_, err := readObject(data, e.slots())
	return err
}

func (s *Span) slots() []slot {
	return []slot{{"started_at", &maybeStamp{&s.StartedAt}}, {"finished_at", &maybeStamp{&s.FinishedAt}}}
}

// MarshalJSON writes Harbor's TimingInfo.
func (s Span) MarshalJSON() ([]byte, error) { return writeObject(s.slots(), nil) }

// UnmarshalJSON reads Harbor's TimingInfo.
func (s *Span) UnmarshalJSON(data []byte) error {
	*s = Span{}
	_, err := readObject(data, s.slots())
	return err
}

// MarshalJSON writes rewards by name; nil is null, as for a trial that nobody
// graded.
func (v VerifierResult) MarshalJSON() ([]byte, error) {
	return writeObject([]slot{{"rewards", v.Rewards}}, nil)
}

// UnmarshalJSON refuses a reward that is not a number.
func (v *VerifierResult) UnmarshalJSON(data []byte) error {
	var wire struct {
		Rewards map[string]*json.Number `json:"rewards"`
	}
	if err := json.Unmarshal(data, &wire); err != nil {
		return err
	}
	v.Rewards = nil
	if wire.Rewards == nil {
		return nil
	}
	v.Rewards = make(map[string]json.Number, len(wire.Rewards))
	for k, n := range wire.Rewards {
		if n == nil || *n == "" {
			return fmt.Errorf("reward %q is not a number", k)
		}
		v.Rewards[k] = *n
	}
	return nil
}

// Assay returns what assay recorded in r. The bool is false for a result that
// assay did not write; see [Derive] for those.
func (r *Result) Assay() (Record, bool, error) {
	if r.AgentResult == nil {
		return Record{}, false, nil
	}
	raw, ok := r.AgentResult.Metadata[assayKey]
	if !ok {
		return Record{}, false, nil
	}
	var rec Record
	if err := json.Unmarshal(raw, &rec); err != nil {
		return Record{}, false, fmt.Errorf("read agent_result.metadata.%s of %q: %w", assayKey, r.TrialName, err)
	}
	if rec.V > RecordVersion {
		return Record{}, false, fmt.Errorf("read agent_result.metadata.%s of %q: version %d is newer than %d; use a newer assay", assayKey, r.TrialName, rec.V, RecordVersion)
	}
	if _, err := rec.Cause.Ending(); err != nil {
		return Record{}, false, fmt.Errorf("read agent_result.metadata.%s of %q: %w", assayKey, r.TrialName, err)
	}
	return rec, true, nil
}

// SetAssay stores rec in r. It refuses a record whose outcome and fault are
// not those of its cause.
//
// Harbor leaves the root's agent_result null for a multi-step trial and takes
// a present one for the trial's whole usage. So where SetAssay has to make
// one, its usage is the sum over the steps: call it when they are complete.
func (r *Result) SetAssay(rec Record) error {
	if rec.V == 0 {
		rec.V = RecordVersion
	}
	e, err := rec.Cause.Ending()
	if err != nil {
		return fmt.Errorf("record trial %q: %w", r.TrialName, err)
	}
	if rec.Outcome != e.Outcome || rec.Fault != e.Fault {
		return fmt.Errorf("record trial %q: cause %q means %s by %s, not %s by %s", r.TrialName, rec.Cause, e.Outcome, e.Fault, rec.Outcome, rec.Fault)
	}
	raw, err := marshal(rec)
	if err != nil {
		return fmt.Errorf("record trial %q: %w", r.TrialName, err)
	}
	if r.AgentResult == nil {
		r.AgentResult = &AgentResult{Usage: r.stepUsage()}
	}
	if r.AgentResult.Metadata == nil {
		r.AgentResult.Metadata = map[string]json.RawMessage{}
	}
	r.AgentResult.Metadata[assayKey] = raw
	return nil
}

// stepUsage adds the usage of the steps that had an agent.
func (r *Result) stepUsage() Usage {
	var all []Usage
	for _, s := range r.StepResults {
		if s.AgentResult != nil {
			all = append(all, s.AgentResult.Usage)
		}
	}
	return SumUsage(all...).Usage
}

// TotalUsage is what the whole trial used: the root's numbers, or the sum over
// the steps where the root has none.
func (r *Result) TotalUsage() Sum {
	if r.AgentResult != nil && (len(r.StepResults) == 0 || r.AgentResult.Usage != (Usage{})) {
		return SumUsage(r.AgentResult.Usage)
	}
	var all []Usage
	for _, s := range r.StepResults {
		if s.AgentResult != nil {
			all = append(all, s.AgentResult.Usage)
		}
	}
	return SumUsage(all...)
}
