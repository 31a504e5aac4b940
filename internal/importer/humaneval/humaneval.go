// Package humaneval imports HumanEval: 164 Python functions to be completed
// from their documentation (Chen et al. 2021, "Evaluating Large Language
// Models Trained on Code"; data set under the MIT licence), one JSON object a
// line with task_id, prompt, entry_point, canonical_solution and test.
//
// Each task carries a judge of its own (files/tests), plain Python that Harbor
// runs as well. The candidate runs in another process than the assertions;
// arguments and results cross as typed plain data; helpers that a test uses
// come from the original prompt. The package never runs Python itself and puts
// no text of the data set into a shell script or a TOML file but the checked
// entry point and number.
package humaneval

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/internal/importer"
)

//go:embed files
var files embed.FS // the parts that all tasks share, with @NAME@, @ENTRY_POINT@ and @TASK_ID@ to be filled in

// Importer implements [importer.Importer].
type Importer struct{}

// New returns the importer.
func New() Importer { return Importer{} }

// Name returns "humaneval".
func (Importer) Name() string { return "humaneval" }

// Import writes humaneval-000, humaneval-001, … below out from the JSON Lines
// file src, plain or gzip.
func (Importer) Import(ctx context.Context, src, out string, opts importer.Options) (importer.Summary, error) {
	var dirs []importer.Dir
	first := map[string]bool{}
	err := importer.Lines(src, func(line []byte) error {
		p, err := parse(line)
		if err != nil {
			return err
		}
		if first[p.ID] {
			return fmt.Errorf("task_id %q occurs twice", p.ID)
		}
		first[p.ID] = true
		d, err := p.dir()
		if err != nil {
			return err
		}
		dirs = append(dirs, d)
		return ctx.Err()
	})
	if err != nil {
		return importer.Summary{Dir: out}, fmt.Errorf("import humaneval: %w", err)
	}
	if len(dirs) == 0 {
		return importer.Summary{Dir: out}, fmt.Errorf("import humaneval: %s: holds no problem", src)
	}
	return importer.WriteAll(ctx, out, dirs, opts)
}

// problem is one line of the data set.
type problem struct {
	ID       string `json:"task_id"`
	Prompt   string `json:"prompt"`
	Entry    string `json:"entry_point"`
	Solution string `json:"canonical_solution"`
	Test     string `json:"test"`
}

// parse reads one line. It is strict: variants of the data set with further
// fields have other tests, and taking a part of them would be a quiet lie.
func parse(line []byte) (problem, error) {
	var p problem
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return p, fmt.Errorf("not a HumanEval problem: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return p, errors.New("more than one JSON value on the line")
	}
	if _, err := p.number(); err != nil {
		return p, err
	}
	if !regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,79}$`).MatchString(p.Entry) {
		return p, fmt.Errorf("entry_point %q is not a Python name", p.Entry)
	}
	for _, f := range []struct{ name, text, holds string }{
		{"prompt", p.Prompt, "def " + p.Entry + "("},
		{"canonical_solution", p.Solution, ""},
		{"test", p.Test, "def check("},
	} {
		if strings.TrimSpace(f.text) == "" {
			return p, fmt.Errorf("%s is missing or empty", f.name)
		}
		if strings.ContainsRune(f.text, 0) || !utf8.ValidString(f.text) {
			return p, fmt.Errorf("%s is not text", f.name)
		}
		if !strings.Contains(f.text, f.holds) {
			return p, fmt.Errorf("%s has no %q", f.name, f.holds)
		}
	}
	return p, nil
}

// number returns the n of "HumanEval/n".
func (p problem) number() (int, error) {
	digits, ok := strings.CutPrefix(p.ID, "HumanEval/")
	n, err := strconv.Atoi(digits)
	if !ok || err != nil || n < 0 || n > 9999 || strconv.Itoa(n) != digits {
		return 0, fmt.Errorf("task_id %q is not HumanEval/NUMBER", p.ID)
	}
	return n, nil
}

// dir lays the problem out as a task directory.
func (p problem) dir() (importer.Dir, error) {
	n, err := p.number()
	if err != nil {
		return importer.Dir{}, err
	}
	gold := []byte(p.Prompt + p.Solution)
	d := importer.Dir{Name: fmt.Sprintf("humaneval-%03d", n)}
	d.Files = []importer.File{
		{Path: "environment/solution.py", Data: []byte(p.Prompt)},
		{Path: "solution/solution.py", Data: gold},
		{Path: "tests/reference.py", Data: gold},
		{Path: "tests/check.py", Data: []byte(p.Test)},
	}
	fill := strings.NewReplacer("@NAME@", d.Name, "@ENTRY_POINT@", p.Entry, "@TASK_ID@", p.ID)
	err = fs.WalkDir(files, "files", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(path, ".py") {
			data = []byte(fill.Replace(string(data)))
		}
		d.Files = append(d.Files, importer.File{
			Path: strings.TrimPrefix(path, "files/"),
			Data: data,
			Exec: strings.HasSuffix(path, ".sh"),
		})
		return nil
	})
	return d, err
}
