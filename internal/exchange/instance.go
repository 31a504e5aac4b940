package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// InstanceReport is SWE-bench's report.json of one prediction.
type InstanceReport struct {
	ID          string
	PatchIsNone bool
	PatchExists bool
	Applied     bool
	Resolved    bool
	Infra       bool
	InfraReason *string
	Tests       *TestsStatus // nil: not told
}

// TestsStatus are the four lists of a report.
type TestsStatus struct {
	FailToPass, PassToPass, FailToFail, PassToFail Split
}

// Split is one list, parted.
type Split struct {
	Success []string `json:"success"`
	Failure []string `json:"failure"`
}

func (s Split) object() object {
	return object{{"success", some(s.Success)}, {"failure", some(s.Failure)}}
}

// some is a list that is never null.
func some(ids []string) []string {
	if ids == nil {
		return []string{}
	}
	return ids
}

// Marshal writes the report as SWE-bench does: four spaces, no last line end.
func (r InstanceReport) Marshal() ([]byte, error) {
	o := object{
		{"patch_is_None", r.PatchIsNone}, {"patch_exists", r.PatchExists}, {"patch_successfully_applied", r.Applied},
		{"resolved", r.Resolved}, {"infra_failure", r.Infra},
	}
	if r.InfraReason != nil {
		o = append(o, member{"infra_failure_reason", *r.InfraReason})
	}
	if t := r.Tests; t != nil {
		o = append(o, member{"tests_status", object{
			{"FAIL_TO_PASS", t.FailToPass.object()}, {"PASS_TO_PASS", t.PassToPass.object()},
			{"FAIL_TO_FAIL", t.FailToFail.object()}, {"PASS_TO_FAIL", t.PassToFail.object()},
		}})
	}
	return dumps(object{{r.ID, o}}, 4)
}

// ParseInstanceReport reads a report.json. It refuses what it could not write
// back: unknown keys, and more than one instance.
func ParseInstanceReport(data []byte) (InstanceReport, error) {
	var all map[string]struct {
		PatchIsNone bool    `json:"patch_is_None"`
		PatchExists bool    `json:"patch_exists"`
		Applied     bool    `json:"patch_successfully_applied"`
		Resolved    bool    `json:"resolved"`
		Infra       bool    `json:"infra_failure"`
		Reason      *string `json:"infra_failure_reason"`
		Tests       *struct {
			F2P Split `json:"FAIL_TO_PASS"`
			P2P Split `json:"PASS_TO_PASS"`
			F2F Split `json:"FAIL_TO_FAIL"`
			P2F Split `json:"PASS_TO_FAIL"`
		} `json:"tests_status"`
	}
	if err := strictJSON(data, &all); err != nil {
		return InstanceReport{}, fmt.Errorf("report.json: %w", err)
	}
	if len(all) != 1 {
		return InstanceReport{}, fmt.Errorf("report.json: %d instances, want one", len(all))
	}
	var r InstanceReport
	for id, v := range all {
		r = InstanceReport{ID: id, PatchIsNone: v.PatchIsNone, PatchExists: v.PatchExists, Applied: v.Applied, Resolved: v.Resolved, Infra: v.Infra, InfraReason: v.Reason}
		if t := v.Tests; t != nil {
			r.Tests = &TestsStatus{t.F2P, t.P2P, t.F2F, t.P2F}
		}
	}
	return r, nil
}

// strictJSON decodes one value whose keys are all known.
func strictJSON(data []byte, into any) error {
	if len(data) > MaxItem {
		return fmt.Errorf("%d bytes (at most %d)", len(data), MaxItem)
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON value")
	}
	return nil
}
