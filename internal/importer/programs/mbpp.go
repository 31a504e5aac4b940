package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"assay/internal/grade/program"
	"assay/internal/importer"
)

// MBPP implements [importer.Importer].
type MBPP struct{}

// Name returns "mbpp".
func (MBPP) Name() string { return "mbpp" }

// Import writes mbpp-0001, … below out from src: mbpp.jsonl, or
// sanitized-mbpp.json, which is one JSON list.
func (MBPP) Import(ctx context.Context, src, out string, opts importer.Options) (importer.Summary, error) {
	return importAll(ctx, "mbpp", src, out, opts, func(line []byte) (record, error) {
		p, err := parseMBPP(line)
		if err != nil {
			return record{}, err
		}
		return p.record()
	})
}

// importAll reads records and writes one task each.
func importAll(ctx context.Context, set, src, out string, opts importer.Options, read func([]byte) (record, error)) (importer.Summary, error) {
	var dirs []importer.Dir
	first := map[string]bool{}
	err := each(src, func(line []byte) error {
		r, err := read(line)
		if err != nil {
			return err
		}
		if first[r.name] {
			return fmt.Errorf("task_id %q occurs twice", r.id)
		}
		first[r.name] = true
		d, err := r.dir()
		if err != nil {
			return err
		}
		dirs = append(dirs, d)
		return ctx.Err()
	})
	if err == nil && len(dirs) == 0 {
		err = fmt.Errorf("%s: %w", src, errNone)
	}
	if err != nil {
		return importer.Summary{Dir: out}, fmt.Errorf("import %s: %w", set, err)
	}
	return importer.WriteAll(ctx, out, dirs, opts)
}

// each calls f for every record of a JSON Lines file, or of a file that is one
// JSON list; errors name the line, of a list the record.
func each(src string, f func([]byte) error) error {
	list, err := isList(src)
	if err != nil {
		return err
	}
	if !list {
		return importer.Lines(src, f)
	}
	data, err := os.ReadFile(src)
	if err != nil {
		return err
	}
	var all []json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return fmt.Errorf("%s: %w", src, err)
	}
	for i, r := range all {
		if err := f(r); err != nil {
			return fmt.Errorf("%s: record %d: %w", src, i+1, err)
		}
	}
	return nil
}

func isList(src string) (bool, error) {
	f, err := os.Open(src)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > importer.MaxTotal {
		return false, err // the reader of lines says what is wrong
	}
	b, err := io.ReadAll(io.LimitReader(f, 4<<10))
	b = bytes.TrimSpace(b)
	return len(b) > 0 && b[0] == '[', err
}

// mbpp is one record of either layout.
type mbpp struct {
	ID        int      `json:"task_id"`
	Text      string   `json:"text"`
	Prompt    string   `json:"prompt"` // sanitized
	Code      string   `json:"code"`
	Tests     []string `json:"test_list"`
	Setup     string   `json:"test_setup_code"`
	Imports   []string `json:"test_imports"` // sanitized
	Source    string   `json:"source_file"`  // sanitized
	Challenge []string `json:"challenge_test_list"`
}

func parseMBPP(line []byte) (mbpp, error) {
	var p mbpp
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return p, fmt.Errorf("not an MBPP problem: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("more than one JSON value on the line")
	}
	if p.Text == "" {
		p.Text = p.Prompt
	}
	p.Code = strings.ReplaceAll(p.Code, "\r\n", "\n")
	if p.ID < 0 || p.ID > 99999 {
		return p, fmt.Errorf("task_id %d is not a number of a problem", p.ID)
	}
	if len(p.Tests) == 0 {
		return p, errors.New("test_list is missing or empty")
	}
	tests := strings.Join(slices.Concat(p.Tests, p.Challenge), "\n")
	return p, clean(map[string]string{"prompt": p.Text, "code": p.Code, "test": tests})
}

var word = regexp.MustCompile(`[A-Za-z_][A-Za-z0-9_]*`)

// entry is the function that the tests call: the last one of the code whose
// name stands in the first test.
func (p mbpp) entry() (string, []string, error) {
	funcs, classes := defined(p.Code)
	used := word.FindAllString(p.Tests[0], -1)
	for _, f := range slices.Backward(funcs) {
		if slices.Contains(used, f) && name.MatchString(f) {
			return f, append(funcs, classes...), nil
		}
	}
	return "", nil, errors.New("the first test calls no function that the code defines")
}

func (p mbpp) record() (record, error) {
	entry, names, err := p.entry()
	if err != nil {
		return record{}, err
	}
	r := record{
		set: "mbpp", name: fmt.Sprintf("mbpp-%04d", p.ID), id: fmt.Sprintf("MBPP/%d", p.ID), license: "CC-BY-4.0", entry: entry,
		statement: p.Text + "\n\nOne of the tests:\n\n```python\n" + strings.TrimSpace(p.Tests[0]) + "\n```",
		stub:      "# Write the function " + entry + " here.\n", gold: p.Code + "\n",
	}
	setup := strings.Join(append(slices.Clone(p.Imports), p.Setup), "\n")
	funcs, classes := defined(p.Code)
	for i, test := range slices.Concat(p.Tests, p.Challenge) {
		id := fmt.Sprintf("test-%d", i+1)
		if i >= len(p.Tests) {
			id = fmt.Sprintf("challenge-%d", i+1-len(p.Tests))
		}
		if a, ok := readAssertion(test, funcs); ok {
			r.cases = append(r.cases, a.asCase(id))
			continue
		}
		var called []string
		for _, w := range word.FindAllString(test+"\n"+setup, -1) {
			if slices.Contains(names, w) && !slices.Contains(called, w) {
				called = append(called, w)
			}
		}
		if slices.ContainsFunc(called, func(n string) bool { return slices.Contains(classes, n) }) || len(called) == 0 {
			// Objects of the candidate's own classes do not cross: such a test
			// runs beside it, and says so by its evidence.
			r.script += test + "\n"
			continue
		}
		r.cases = append(r.cases, map[string]any{"id": id, "script": setup + "\n" + test + "\n", "funcs": called})
	}
	if r.script != "" {
		r.script = "from solution import *\n" + setup + "\n" + r.script
	}
	return r, nil
}

// asCase is the assertion as a line of a cases file.
func (a assertion) asCase(id string) map[string]any {
	c := map[string]any{"id": id, "func": a.fn, "args": raw(program.Value{Kind: program.List, Items: a.args}), "want": raw(a.want)}
	if a.kwargs.Kind != program.Invalid {
		c["kwargs"] = raw(a.kwargs)
	}
	if a.mode != "" {
		c["compare"] = a.mode
	}
	if a.tolered {
		c["abs_tol"], c["rel_tol"] = a.absTol, a.relTol
	}
	return c
}
