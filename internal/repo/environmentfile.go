package repo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// EnvironmentFile is an environment's name in its directory.
const EnvironmentFile = "environment.json"

// EnvironmentVersion is the form that is written, and the only one read.
const EnvironmentVersion = 1

// maxEnvironment bounds the file: 200,000 tests with what they cover.
const maxEnvironment = 256 << 20

// ReadEnvironment reads a directory's environment.json. Every fault has its
// place in the file.
func ReadEnvironment(dir string) (*Environment, error) {
	name := filepath.Join(dir, EnvironmentFile)
	b, err := readPlain(name, maxEnvironment)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w (assay repo setup PATH -o %s makes it)", name, err, dir)
	}
	if err != nil {
		return nil, fmt.Errorf("read environment: %w", err)
	}
	return DecodeEnvironment(name, b)
}

// DecodeEnvironment is the environment in a file's bytes; name is for errors.
func DecodeEnvironment(name string, b []byte) (*Environment, error) {
	// The version first: the rest of another form would only be unknown keys.
	var v struct {
		Version int `json:"v"`
	}
	if err := json.Unmarshal(b, &v); err == nil && v.Version != EnvironmentVersion {
		return nil, fmt.Errorf("%s: version %d of the form (this assay reads %d; run assay repo setup again)", name, v.Version, EnvironmentVersion)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	e := &Environment{}
	if err := dec.Decode(e); err != nil {
		return nil, placed(name, b, dec.InputOffset(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, placed(name, b, dec.InputOffset(), errors.New("something follows the environment"))
	}
	if err := e.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// placed says where in a file the decoder stopped.
func placed(name string, b []byte, at int64, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &kind):
		at = kind.Offset
	case strings.HasPrefix(err.Error(), "json: unknown field "):
		// The decoder goes on to the end before it says so.
		if i := bytes.Index(b, []byte(strings.TrimPrefix(err.Error(), "json: unknown field "))); i >= 0 {
			at = int64(i)
		}
	}
	before := b[:min(max(at, 0), int64(len(b)))]
	line := bytes.Count(before, []byte("\n")) + 1
	col := len(before) - bytes.LastIndexByte(before, '\n')
	return fmt.Errorf("%s:%d:%d: %w", name, line, col, err)
}

// check holds the parts of an environment against each other, so that whoever
// uses one need not look at indices and paths again.
func (e *Environment) check() error {
	var all []error
	bad := func(format string, args ...any) { all = append(all, fmt.Errorf(format, args...)) }
	if e.Name == "" || strings.ContainsAny(e.Name, "/\\\x00\n") || e.Name == "." || e.Name == ".." {
		bad("name %q is no name of an environment", e.Name)
	}
	if !path.IsAbs(e.Workdir) || path.Clean(e.Workdir) != e.Workdir {
		bad("workdir %q is not a clean absolute path", e.Workdir)
	}
	if e.Subdir != "" && !local(e.Subdir) {
		bad("subdir %q leads out of the workdir", e.Subdir)
	}
	s := &e.Suite
	names := map[string]bool{}
	for i, c := range s.Commands {
		if c.Name == "" || names[c.Name] {
			bad("suite.commands[%d]: the name %q is empty or used twice", i, c.Name)
		}
		names[c.Name] = true
		if (c.Run == "") == (len(c.Args) == 0) {
			bad("suite.commands[%d]: one of run and args is needed", i)
		}
	}
	for i, f := range s.Files {
		if !local(f) {
			bad("suite.files[%d]: %q leads out of the workdir", i, f)
		}
	}
	if s.Static != nil && len(s.Static) != len(s.Files) {
		bad("suite.static has %d entries for %d files", len(s.Static), len(s.Files))
	}
	for i, r := range slices.Concat(s.Static, s.Ranges) {
		if _, err := ParseRanges(r); err != nil {
			bad("suite: static and ranges, entry %d: %v", i, err)
		}
	}
	for i, t := range s.Tests {
		switch {
		case !names[t.Command]:
			bad("suite.tests[%d]: no command is called %q", i, t.Command)
		case t.ID == "":
			bad("suite.tests[%d]: no id", i)
		case slices.ContainsFunc(t.Covers, func(f int) bool { return f < 0 || f >= len(s.Files) }):
			bad("suite.tests[%d] (%s): covers a file that is not in suite.files", i, t.ID)
		case t.Lines != nil && len(t.Lines) != len(t.Covers):
			bad("suite.tests[%d] (%s): %d lines for %d files", i, t.ID, len(t.Lines), len(t.Covers))
		case slices.ContainsFunc(t.Lines, func(r int) bool { return r < -1 || r >= len(s.Ranges) }):
			bad("suite.tests[%d] (%s): lines that are not in suite.ranges", i, t.ID)
		case !slices.Contains([]Stability{Stable, Flaky, Failing, Skipped}, t.Stability):
			bad("suite.tests[%d] (%s): %q is no stability", i, t.ID, t.Stability)
		}
		if len(all) > 20 {
			bad("and perhaps more")
			break
		}
	}
	return errors.Join(all...)
}

// local reports whether a relative path stays below where it begins.
func local(p string) bool {
	return p != "" && !path.IsAbs(p) && path.Clean(p) != ".." && !strings.HasPrefix(path.Clean(p), "../") && !strings.Contains(p, "\x00")
}

// WriteEnvironment writes a directory's environment.json, whole or not at all.
func WriteEnvironment(dir string, e *Environment) error {
	name := filepath.Join(dir, EnvironmentFile)
	e.Version = EnvironmentVersion
	if err := e.check(); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // ids of tests have <, > and &
	enc.SetIndent("", " ")
	if err := enc.Encode(e); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := renameio.WriteFile(name, compactInts(b.Bytes()), 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// compactInts puts lists of numbers on one line: what tests cover would else
// be most lines of the file.
func compactInts(b []byte) []byte {
	var out bytes.Buffer
	out.Grow(len(b))
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			break
		}
		line := b[:i+1]
		b = b[i+1:]
		out.Write(line)
		if !bytes.HasSuffix(line, []byte(": [\n")) || !numbers(b) {
			continue
		}
		out.Truncate(out.Len() - 1)
		end := bytes.IndexByte(b, ']')
		for f := range bytes.FieldsSeq(b[:end]) {
			out.Write(f)
		}
		b = b[end:]
	}
	out.Write(b)
	return out.Bytes()
}

// numbers reports whether the list that goes on here holds nothing else.
func numbers(b []byte) bool {
	end := bytes.IndexByte(b, ']')
	return end >= 0 && bytes.IndexFunc(b[:end], func(r rune) bool { return !strings.ContainsRune("-0123456789, \n", r) }) < 0
}
