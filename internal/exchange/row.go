package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Row is one instance of SWE-bench or of a set in its form. Raw is the record
// as it stood in its file.
type Row struct {
	ID         string // instance_id
	Repo       string // "owner/name"
	BaseCommit string
	Patch      string // the fix; of SWE-smith the bug
	TestPatch  string
	Problem    string // problem_statement
	Hints      string
	Version    string

	FailToPass []string
	PassToPass []string

	// Of SWE-bench 5.
	Image      string
	LogParser  string
	EvalType   string // "pass_and_fail" or "fail_only"
	EvalScript string

	Raw  json.RawMessage
	Keys []string // in the record's order
	Line int

	values map[string]json.RawMessage
}

// Value is a field's JSON as it stands in the record; nil: there is none.
func (r *Row) Value(key string) json.RawMessage { return r.values[key] }

// names that one field has in different sets.
var rowNames = map[string][]string{
	"FAIL_TO_PASS": {"FAIL_TO_PASS", "fail_to_pass"},
	"PASS_TO_PASS": {"PASS_TO_PASS", "pass_to_pass"},
	"image":        {"image", "image_name", "docker_image"},
}

// ParseRow reads one record. It asks for what no task can be made without.
func ParseRow(raw []byte, line int) (*Row, error) {
	r := &Row{Raw: slices.Clone(raw), Line: line, values: map[string]json.RawMessage{}}
	if err := r.fields(); err != nil {
		return nil, err
	}
	for _, f := range []struct {
		key  string
		into *string
		must bool
	}{
		{"instance_id", &r.ID, true}, {"repo", &r.Repo, true}, {"base_commit", &r.BaseCommit, false},
		{"patch", &r.Patch, true}, {"test_patch", &r.TestPatch, false}, {"problem_statement", &r.Problem, false},
		{"hints_text", &r.Hints, false}, {"version", &r.Version, false}, {"image", &r.Image, false},
		{"log_parser", &r.LogParser, false}, {"eval_type", &r.EvalType, false}, {"eval_script", &r.EvalScript, false},
	} {
		if err := r.text(f.key, f.into, f.must); err != nil {
			return nil, err
		}
	}
	var err error
	if r.FailToPass, err = r.list("FAIL_TO_PASS"); err != nil {
		return nil, err
	}
	if r.PassToPass, err = r.list("PASS_TO_PASS"); err != nil {
		return nil, err
	}
	return r, r.check()
}

// fields takes the record apart, key by key.
func (r *Row) fields() error {
	dec := json.NewDecoder(bytes.NewReader(r.Raw))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return errors.New("not a JSON object")
	}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return fmt.Errorf("not JSON: %w", err)
		}
		key, _ := tok.(string)
		var v json.RawMessage
		if err := dec.Decode(&v); err != nil {
			return fmt.Errorf("field %s: not JSON: %w", key, err)
		}
		if _, twice := r.values[key]; twice {
			return fmt.Errorf("field %s stands there twice: which one is meant cannot be told", key)
		}
		r.Keys = append(r.Keys, key)
		r.values[key] = bytes.TrimSpace(v)
	}
	return nil
}

func (r *Row) find(key string) json.RawMessage {
	for _, name := range append([]string{key}, rowNames[key]...) {
		if v, ok := r.values[name]; ok && string(v) != "null" {
			return v
		}
	}
	return nil
}

func (r *Row) text(key string, into *string, must bool) error {
	v := r.find(key)
	if v == nil {
		if must {
			return fmt.Errorf("field %s is missing; a row of SWE-bench has one", key)
		}
		return nil
	}
	if err := json.Unmarshal(v, into); err != nil {
		return fmt.Errorf("field %s is %s, and must be text", key, jsonKind(v))
	}
	if strings.ContainsRune(*into, 0) || !utf8.ValidString(*into) || bytes.Contains(v, []byte(`\ud`)) && strings.ContainsRune(*into, utf8.RuneError) {
		return fmt.Errorf("field %s is no text: it holds a NUL or half of a character", key)
	}
	return nil
}

// list reads a list of ids: a JSON list, or the text of one.
func (r *Row) list(key string) ([]string, error) {
	v := r.find(key)
	if v == nil {
		return nil, nil
	}
	if v[0] == '"' {
		var text string
		if err := json.Unmarshal(v, &text); err != nil {
			return nil, fmt.Errorf("field %s: %w", key, err)
		}
		if v = []byte(strings.TrimSpace(text)); len(v) == 0 {
			return nil, nil
		}
	}
	var ids []string
	if err := json.Unmarshal(v, &ids); err != nil {
		return nil, fmt.Errorf("field %s is %s, and must be a list of test ids, or one as text", key, jsonKind(v))
	}
	return ids, nil
}

func (r *Row) check() error {
	switch {
	case r.ID == "" || len(r.ID) > 200 || strings.ContainsAny(r.ID, "\x00\n\r\t "):
		return fmt.Errorf("instance_id %q is empty, too long or holds white space", r.ID)
	case len(r.FailToPass) == 0:
		return errors.New("FAIL_TO_PASS is empty: nothing would tell a solution from none")
	case r.EvalType != "" && r.EvalType != "pass_and_fail" && r.EvalType != "fail_only":
		return fmt.Errorf("eval_type %q is neither pass_and_fail nor fail_only", r.EvalType)
	}
	return nil
}

func jsonKind(v []byte) string {
	switch {
	case len(v) == 0:
		return "nothing"
	case v[0] == '{':
		return "an object"
	case v[0] == '[':
		return "a list"
	case v[0] == '"':
		return "text"
	}
	return string(v[:min(len(v), 20)])
}

// ReadRows reads a file of rows: .json (a list, a map, one row), .jsonl, or
// .parquet.
func ReadRows(path string) ([]*Row, Layout, error) {
	if strings.HasSuffix(path, ".parquet") {
		return readParquet(path)
	}
	data, err := readFile(path)
	if err != nil {
		return nil, Layout{}, err
	}
	return parseRows(data, path)
}

func parseRows(data []byte, path string) ([]*Row, Layout, error) {
	items, layout, err := split(data)
	if err != nil {
		return nil, layout, at(path, err)
	}
	first := map[string]int{}
	var rows []*Row
	for _, it := range items {
		r, err := ParseRow(it.raw, it.line)
		if err != nil {
			return nil, layout, at(path, &placed{it.line, err})
		}
		if line, twice := first[r.ID]; twice {
			return nil, layout, at(path, &placed{it.line, fmt.Errorf("instance_id %s stands there twice, first in line %d", r.ID, line)})
		}
		first[r.ID] = it.line
		rows = append(rows, r)
		layout.IDs = append(layout.IDs, r.ID)
	}
	return rows, layout, nil
}
