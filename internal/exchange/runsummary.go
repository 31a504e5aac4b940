package exchange

import (
	"fmt"
	"maps"
	"slices"
)

// RunSummary is SWE-bench's summary of a run, schema version 2. Ids are
// sorted when it is written; the counts are those of the lists, but for Total
// and Submitted.
type RunSummary struct {
	Model string // of the file's name
	RunID string

	Total     int // instances of the data set
	Submitted []string
	// Completed have a report; Resolved and Unresolved are theirs.
	Completed, Incomplete, EmptyPatch, Resolved, Unresolved, Error []string
	// Infra and Ambiguous are for people: the same ids stand in Unresolved or Error.
	Infra, Ambiguous []string
	Reasons          map[string]string
	// Engine is what a run with a container engine adds; nil: nothing.
	Engine *Leftovers
}

// Leftovers are what a run left in a container engine.
type Leftovers struct{ Containers, Images []string }

// FileName is how SWE-bench names the file.
func (s RunSummary) FileName() string {
	return fileName(s.Model) + "." + s.RunID + ".json"
}

func sorted(ids []string) []string {
	out := append([]string{}, ids...)
	slices.Sort(out)
	return slices.Compact(out)
}

// Marshal writes the file as SWE-bench does: four spaces and a line end.
func (s RunSummary) Marshal() ([]byte, error) {
	reasons := object{}
	for _, id := range slices.Sorted(maps.Keys(s.Reasons)) {
		reasons = append(reasons, member{id, s.Reasons[id]})
	}
	o := object{
		{"total_instances", s.Total},
		{"submitted_instances", len(sorted(s.Submitted))},
		{"completed_instances", len(sorted(s.Completed))},
		{"resolved_instances", len(sorted(s.Resolved))},
		{"unresolved_instances", len(sorted(s.Unresolved))},
		{"infra_failure_instances", len(sorted(s.Infra))},
		{"ambiguous_failure_instances", len(sorted(s.Ambiguous))},
		{"empty_patch_instances", len(sorted(s.EmptyPatch))},
		{"error_instances", len(sorted(s.Error))},
		{"completed_ids", sorted(s.Completed)},
		{"incomplete_ids", sorted(s.Incomplete)},
		{"empty_patch_ids", sorted(s.EmptyPatch)},
		{"submitted_ids", sorted(s.Submitted)},
		{"resolved_ids", sorted(s.Resolved)},
		{"unresolved_ids", sorted(s.Unresolved)},
		{"infra_failure_ids", sorted(s.Infra)},
		{"ambiguous_failure_ids", sorted(s.Ambiguous)},
		{"failure_reasons", reasons},
		{"error_ids", sorted(s.Error)},
		{"schema_version", 2},
	}
	if e := s.Engine; e != nil {
		o = append(o,
			member{"unstopped_instances", len(sorted(e.Containers))},
			member{"unstopped_containers", sorted(e.Containers)},
			member{"unremoved_images", sorted(e.Images)})
	}
	b, err := dumps(o, 4)
	return append(b, '\n'), err
}

// ParseRunSummary reads a summary of schema version 2, that of earlier
// releases without the infrastructure fields too. It does not know model and
// run: they are the file's name.
func ParseRunSummary(data []byte) (RunSummary, error) {
	var f struct {
		Total      int               `json:"total_instances"`
		NSubmitted int               `json:"submitted_instances"`
		NCompleted int               `json:"completed_instances"`
		NResolved  int               `json:"resolved_instances"`
		NUn        int               `json:"unresolved_instances"`
		NInfra     int               `json:"infra_failure_instances"`
		NAmbiguous int               `json:"ambiguous_failure_instances"`
		NEmpty     int               `json:"empty_patch_instances"`
		NError     int               `json:"error_instances"`
		Completed  []string          `json:"completed_ids"`
		Incomplete []string          `json:"incomplete_ids"`
		Empty      []string          `json:"empty_patch_ids"`
		Submitted  []string          `json:"submitted_ids"`
		Resolved   []string          `json:"resolved_ids"`
		Unresolved []string          `json:"unresolved_ids"`
		Infra      []string          `json:"infra_failure_ids"`
		Ambiguous  []string          `json:"ambiguous_failure_ids"`
		Reasons    map[string]string `json:"failure_reasons"`
		Error      []string          `json:"error_ids"`
		Schema     int               `json:"schema_version"`
		Unstopped  *int              `json:"unstopped_instances"`
		Containers []string          `json:"unstopped_containers"`
		Images     []string          `json:"unremoved_images"`
	}
	if err := strictJSON(data, &f); err != nil {
		return RunSummary{}, fmt.Errorf("run summary: %w", err)
	}
	if f.Schema != 2 {
		return RunSummary{}, fmt.Errorf("run summary: schema_version %d, and only 2 is known", f.Schema)
	}
	for _, c := range []struct {
		name string
		said int
		ids  []string
	}{
		{"submitted", f.NSubmitted, f.Submitted}, {"completed", f.NCompleted, f.Completed}, {"resolved", f.NResolved, f.Resolved},
		{"unresolved", f.NUn, f.Unresolved}, {"empty_patch", f.NEmpty, f.Empty}, {"error", f.NError, f.Error},
		{"infra_failure", f.NInfra, f.Infra}, {"ambiguous_failure", f.NAmbiguous, f.Ambiguous},
	} {
		if c.said != len(c.ids) {
			return RunSummary{}, fmt.Errorf("run summary: %s_instances is %d, and %s_ids are %d", c.name, c.said, c.name, len(c.ids))
		}
	}
	s := RunSummary{
		Total: f.Total, Submitted: f.Submitted, Completed: f.Completed, Incomplete: f.Incomplete, EmptyPatch: f.Empty,
		Resolved: f.Resolved, Unresolved: f.Unresolved, Error: f.Error, Infra: f.Infra, Ambiguous: f.Ambiguous, Reasons: f.Reasons,
	}
	if f.Unstopped != nil {
		s.Engine = &Leftovers{f.Containers, f.Images}
	}
	return s, nil
}
