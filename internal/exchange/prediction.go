package exchange

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// PredictionKind says what a prediction holds.
type PredictionKind string

const (
	PredictsPatch      PredictionKind = "patch"      // a diff of the tree
	PredictsSolution   PredictionKind = "solution"   // a whole program
	PredictsCompletion PredictionKind = "completion" // what follows the prompt
)

// Prediction is one answer to one task, made elsewhere.
type Prediction struct {
	ID    string // instance_id or task_id
	Model string // model_name_or_path; "None" where a record has none
	Kind  PredictionKind
	Text  string
	Null  bool // model_patch is null, which SWE-bench tells from an empty one

	Raw  json.RawMessage
	Line int
}

// Empty reports whether there is nothing to be laid on a tree.
func (p Prediction) Empty() bool { return p.Text == "" }

// Digest tells predictions apart: the sha256 of kind and text.
func (p Prediction) Digest() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %t\n%s", p.Kind, p.Null, p.Text)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// NoModel is how SWE-bench calls the maker of a prediction that names none.
const NoModel = "None"

// ReadPredictions reads a file of predictions: SWE-bench's .json (a list or a
// map) and .jsonl, mini-swe-agent's preds.json, EvalPlus's and HumanEval's
// samples.jsonl. Of one model, only programs may have several for one task:
// which of two patches is meant cannot be told.
func ReadPredictions(path string) ([]Prediction, Layout, error) {
	data, err := readFile(path)
	if err != nil {
		return nil, Layout{}, err
	}
	return parsePredictions(data, path)
}

func parsePredictions(data []byte, path string) ([]Prediction, Layout, error) {
	items, layout, err := split(data)
	if err != nil {
		return nil, layout, at(path, err)
	}
	type maker struct{ id, model string }
	first := map[maker]int{}
	var all []Prediction
	for _, it := range items {
		p, err := parsePrediction(it)
		if err != nil {
			return nil, layout, at(path, &placed{it.line, err})
		}
		m := maker{p.ID, p.Model}
		if line, twice := first[m]; twice && p.Kind == PredictsPatch {
			return nil, layout, at(path, &placed{it.line, fmt.Errorf(
				"a second patch of %s for %s, first in line %d: which one is meant cannot be told; keep one, or give them different names of the model", p.Model, p.ID, line)})
		} else if !twice {
			first[m] = it.line
		}
		all = append(all, p)
		layout.IDs = append(layout.IDs, p.ID)
	}
	return all, layout, nil
}

func parsePrediction(it item) (Prediction, error) {
	p := Prediction{Raw: slices.Clone(it.raw), Line: it.line, Model: NoModel}
	var rec struct {
		Instance   *string         `json:"instance_id"`
		Task       *string         `json:"task_id"`
		Model      *string         `json:"model_name_or_path"`
		Patch      json.RawMessage `json:"model_patch"`
		Solution   *string         `json:"solution"`
		Completion *string         `json:"completion"`
	}
	if err := json.Unmarshal(it.raw, &rec); err != nil {
		return p, fmt.Errorf("not a prediction: %w", err)
	}
	switch {
	case rec.Instance != nil:
		p.ID = *rec.Instance
	case rec.Task != nil:
		p.ID = *rec.Task
	default:
		p.ID = it.key
	}
	if rec.Model != nil && *rec.Model != "" {
		p.Model = *rec.Model
	}
	var given []PredictionKind
	if rec.Patch != nil {
		given = append(given, PredictsPatch)
		p.Kind = PredictsPatch
		if p.Null = string(rec.Patch) == "null"; !p.Null {
			if err := json.Unmarshal(rec.Patch, &p.Text); err != nil {
				return p, fmt.Errorf("model_patch is %s, and must be text or null", jsonKind(rec.Patch))
			}
		}
	}
	if rec.Solution != nil {
		given = append(given, PredictsSolution)
		p.Kind, p.Text = PredictsSolution, *rec.Solution
	}
	if rec.Completion != nil {
		given = append(given, PredictsCompletion)
		p.Kind, p.Text = PredictsCompletion, *rec.Completion
	}
	switch {
	case p.ID == "":
		return p, errors.New("no instance_id and no task_id: which task it is for cannot be told")
	case len(p.ID) > 200 || strings.ContainsAny(p.ID, "\x00\n\r"):
		return p, fmt.Errorf("the id %.40q… is too long or holds a line end", p.ID)
	case len(p.Model) > 200 || strings.ContainsAny(p.Model, "\x00\n\r"):
		return p, fmt.Errorf("model_name_or_path %.40q… is too long or holds a line end", p.Model)
	case len(given) == 0:
		return p, errors.New("none of model_patch, solution and completion")
	case len(given) > 1:
		return p, fmt.Errorf("both %s and %s: which one is meant cannot be told", given[0], given[1])
	}
	if strings.ContainsRune(p.Text, 0) || !utf8.ValidString(p.Text) {
		return p, errors.New("the prediction is no text: it holds a NUL or half of a character")
	}
	return p, nil
}

// record is a prediction in SWE-bench's form and order.
func (p Prediction) record() object {
	o := object{{"model_name_or_path", p.Model}, {"instance_id", p.ID}}
	switch {
	case p.Kind == PredictsPatch && p.Null:
		return append(o, member{"model_patch", nil})
	case p.Kind == PredictsPatch:
		return append(o, member{"model_patch", p.Text})
	}
	return object{{"task_id", p.ID}, {string(p.Kind), p.Text}}
}

// WritePredictions writes predictions as a file of this kind: lines as
// SWE-bench writes them, a map as mini-swe-agent does.
func WritePredictions(all []Prediction, kind Kind) ([]byte, error) {
	switch kind {
	case KindLines:
		var b []byte
		for _, p := range all {
			line, err := dumps(p.record(), 0)
			if err != nil {
				return nil, err
			}
			b = append(append(b, line...), '\n')
		}
		return b, nil
	case KindList:
		list := make([]any, len(all))
		for i, p := range all {
			list[i] = p.record()
		}
		return dumps(list, 2)
	}
	m := object{}
	for _, p := range all {
		if slices.ContainsFunc(m, func(e member) bool { return e.key == p.ID }) {
			return nil, fmt.Errorf("two predictions for %s: a map holds one; write .jsonl, or one model alone", p.ID)
		}
		m = append(m, member{p.ID, p.record()})
	}
	return dumps(m, 2)
}
