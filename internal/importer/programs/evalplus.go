package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/grade/program"
	"assay/internal/importer"
)

// EvalPlus implements [importer.Importer] for HumanEval+ and MBPP+.
type EvalPlus struct{}

// Name returns "evalplus".
func (EvalPlus) Name() string { return "evalplus" }

// Import writes humanevalplus-000 or mbppplus-0002, … below out from
// HumanEvalPlus.jsonl or MbppPlus.jsonl, plain or gzip.
func (EvalPlus) Import(ctx context.Context, src, out string, opts importer.Options) (importer.Summary, error) {
	return importAll(ctx, "evalplus", src, out, opts, func(line []byte) (record, error) {
		p, err := parseEvalPlus(line)
		if err != nil {
			return record{}, err
		}
		return p.record()
	})
}

// evalPlus is one record. Inputs are lists of argument lists.
type evalPlus struct {
	ID       string          `json:"task_id"`
	Prompt   string          `json:"prompt"`
	Entry    string          `json:"entry_point"`
	Solution string          `json:"canonical_solution"`
	Atol     float64         `json:"atol"`
	Base     json.RawMessage `json:"base_input"`
	Plus     json.RawMessage `json:"plus_input"`
	Contract string          `json:"contract"`

	base, plus []program.Value
	number     int
	mbpp       bool
}

// tolerances of EvalPlus where a record has none: NumPy's assert_allclose.
const (
	floatTol = 1e-6
	relTol   = 1e-7
)

// perCase is how many further inputs one case has: a process for each of some
// thousands would cost more than it tells.
const perCase = 50

func parseEvalPlus(line []byte) (evalPlus, error) {
	var p evalPlus
	if err := json.Unmarshal(line, &p); err != nil { // releases differ in fields that nobody needs here
		return p, fmt.Errorf("not an EvalPlus problem: %w", err)
	}
	set, digits, _ := strings.Cut(p.ID, "/")
	n, err := strconv.Atoi(digits)
	if set != "HumanEval" && set != "Mbpp" || err != nil || n < 0 || n > 9999 || strconv.Itoa(n) != digits {
		return p, fmt.Errorf("task_id %q is neither HumanEval/NUMBER nor Mbpp/NUMBER", p.ID)
	}
	p.number, p.mbpp = n, set == "Mbpp"
	if !name.MatchString(p.Entry) {
		return p, fmt.Errorf("entry_point %q is not a Python name", p.Entry)
	}
	if p.Atol < 0 || math.IsNaN(p.Atol) {
		return p, fmt.Errorf("atol %v", p.Atol)
	}
	if err := clean(map[string]string{"prompt": p.Prompt, "code": p.gold(), "test": "x" + p.Contract}); err != nil {
		return p, err
	}
	if p.base, err = inputs(p.Base); err != nil {
		return p, fmt.Errorf("base_input: %w", err)
	}
	if p.plus, err = inputs(p.Plus); err != nil {
		return p, fmt.Errorf("plus_input: %w", err)
	}
	if len(p.base) == 0 {
		return p, errors.New("base_input is empty")
	}
	if p.mbpp {
		for _, all := range [][]program.Value{p.base, p.plus} {
			for i := range all {
				all[i] = revive(p.number, all[i])
			}
		}
	}
	return p, nil
}

// constant is what Python's JSON writes and JSON does not know.
var constant = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\bInfinity\b|\bNaN\b`)

// inputs reads a list of lists. MBPP+ has {} for "none".
func inputs(data json.RawMessage) ([]program.Value, error) {
	if s := strings.TrimSpace(string(data)); s == "" || s == "{}" || s == "null" {
		return nil, nil
	}
	data = constant.ReplaceAllFunc(data, func(w []byte) []byte {
		if w[0] == '"' {
			return w
		}
		return []byte(map[string]string{"Infinity": `{"$float":"inf"}`, "-Infinity": `{"$float":"-inf"}`, "NaN": `{"$float":"nan"}`}[string(w)])
	})
	v, err := program.Decode(data)
	if err != nil {
		return nil, err
	}
	if v.Kind != program.List || slices.ContainsFunc(v.Items, func(x program.Value) bool { return x.Kind != program.List }) {
		return nil, errors.New("not a list of lists")
	}
	return v.Items, nil
}

// gold is the reference: MBPP+ has it whole, HumanEval+ after the prompt.
func (p evalPlus) gold() string {
	if strings.Contains("\n"+p.Solution, "\ndef "+p.Entry+"(") || strings.Contains("\n"+p.Solution, "\ndef "+p.Entry+" (") {
		return p.Solution
	}
	return p.Prompt + p.Solution
}

func (p evalPlus) record() (record, error) {
	r := record{
		set: "humanevalplus", name: fmt.Sprintf("humanevalplus-%03d", p.number), id: p.ID, license: "Apache-2.0", entry: p.Entry, gold: p.gold() + "\n",
		statement: "Complete the Python function `" + p.Entry + "`. `/app/solution.py` holds its signature and its documentation.", stub: p.Prompt,
		reference: true, absTol: p.Atol, relTol: relTol,
	}
	if p.Atol == 0 { // EvalPlus compares floats with a tolerance even so
		r.absTol = floatTol
	}
	if p.mbpp {
		r.set, r.name = "mbppplus", fmt.Sprintf("mbppplus-%04d", p.number)
		r.stub = "# Write the function " + p.Entry + " here.\n"
		r.statement = strings.Trim(strings.TrimSpace(p.Prompt), `"`)
	}
	if p.Entry == "find_zero" && !p.mbpp {
		r.cases, r.reference = p.roots(), false
		return r, nil
	}
	for i, in := range p.base {
		r.cases = append(r.cases, p.asCase(fmt.Sprintf("base-%d", i+1), []program.Value{in}))
	}
	for i := 0; i < len(p.plus); i += perCase {
		part := p.plus[i:min(i+perCase, len(p.plus))]
		r.cases = append(r.cases, p.asCase(fmt.Sprintf("plus-%d-%d", i+1, i+len(part)), part))
	}
	return r, nil
}

// mode is how EvalPlus compares what a few functions of MBPP return: by the
// set of the items, or by whether there is anything.
func (p evalPlus) mode() program.Mode {
	switch p.Entry {
	case "similar_elements", "find_char_long", "common_in_nested_lists", "extract_singly", "larg_nnum", "intersection_array", "find_dissimilar", "Diff":
		if p.mbpp {
			return program.AsSet
		}
	case "check_str", "text_match_three", "text_starta_endb":
		if p.mbpp {
			return program.Truth
		}
	}
	return ""
}

func (p evalPlus) asCase(id string, in []program.Value) map[string]any {
	c := map[string]any{"id": id, "func": p.Entry}
	if m := p.mode(); m != "" {
		c["compare"] = m
	}
	if len(in) == 1 {
		c["args"] = raw(in[0])
		return c
	}
	var calls []any
	for _, x := range in {
		calls = append(calls, map[string]any{"args": raw(x)})
	}
	c["calls"], c["timeout_sec"] = calls, 60
	return c
}

// roots checks find_zero (HumanEval/32) by what its answer is for: any root of
// the polynomial is right, not the reference's alone.
func (p evalPlus) roots() []map[string]any {
	tol := p.Atol
	if tol == 0 {
		tol = 1e-4
	}
	var cases []map[string]any
	all := slices.Concat(p.base, p.plus)
	for i := 0; i < len(all); i += perCase {
		var b strings.Builder
		b.WriteString("import math\n")
		for _, in := range all[i:min(i+perCase, len(all))] {
			if len(in.Items) != 1 || in.Items[0].Kind != program.List {
				continue
			}
			fmt.Fprintf(&b, "xs = %s\nx = find_zero(list(xs))\nassert abs(sum(c * math.pow(x, n) for n, c in enumerate(xs))) <= %v\n", in.Items[0].Encode(), tol)
		}
		cases = append(cases, map[string]any{"id": fmt.Sprintf("roots-%d", i/perCase+1), "script": b.String(), "funcs": []string{"find_zero"}})
	}
	return cases
}
