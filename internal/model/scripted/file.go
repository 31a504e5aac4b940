package scripted

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"assay/internal/model"
)

const (
	maxFile  = 8 << 20
	maxTurns = 100_000 // of one script, repeats included

	maxRepeats = 64 << 20 // bytes of one turn's texts, repeats included
)

// File is what a scripted server does. The zero value answers every request
// by submitting at once.
type File struct {
	// Key is the only credential that is accepted; empty: any, or none.
	Key string `yaml:"key"`
	// Models that exist; empty: any name.
	Models []string `yaml:"models"`
	// Dialects that are spoken; empty: all.
	Dialects []model.Dialect `yaml:"dialects"`
	// Lenient servers take conversations that a provider refuses: calls without
	// results and results without calls.
	Lenient bool `yaml:"lenient"`

	Latency time.Duration `yaml:"latency"` // before the first byte
	Pace    time.Duration `yaml:"pace"`    // before every later event of a stream
	Chunk   int           `yaml:"chunk"`   // bytes of text or arguments in an event; 0: 24

	Faults  []Fault  `yaml:"faults"` // of all requests, tried in order before those of scripts and turns
	Scripts []Script `yaml:"scripts"`
	Turns   []Turn   `yaml:"turns"` // short for one script that is meant for every request
}

// Script is one conversation. The first whose When matches a request answers
// it.
type Script struct {
	Name   string  `yaml:"name"`
	When   When    `yaml:"when"`
	Faults []Fault `yaml:"faults"`
	Turns  []Turn  `yaml:"turns"` // when they are used up, the model submits
}

// When says which requests are meant: all that is set must hold. Texts are
// regular expressions (RE2) looked for anywhere.
type When struct {
	Model  string `yaml:"model"`  // the name asked for
	System string `yaml:"system"` // the instructions
	Task   string `yaml:"task"`   // what users said, tool results excluded
	Last   string `yaml:"last"`   // the last message: a user's or a tool result
	Tools  *bool  `yaml:"tools"`  // whether any tool is offered

	model, system, task, last *regexp.Regexp
}

// Turn is one answer.
type Turn struct {
	Reasoning string      `yaml:"reasoning"`
	Text      string      `yaml:"text"`
	Refusal   string      `yaml:"refusal"`
	Calls     []Intention `yaml:"calls"`
	Stop      string      `yaml:"stop"`  // "" (by itself), "length" or "filter"
	Times     int         `yaml:"times"` // repeats; {n} in its texts counts them from 1

	Usage   *Usage         `yaml:"usage"`    // nil: estimated from the bytes
	NoUsage bool           `yaml:"no_usage"` // says nothing of usage
	Latency *time.Duration `yaml:"latency"`
	Pace    *time.Duration `yaml:"pace"`
	Chunk   int            `yaml:"chunk"`
	Fault   *Fault         `yaml:"fault"`
	// Again is what the same conversation gets when it is asked again after it
	// was answered whole: samples of one prompt. The last one stays.
	Again []Turn `yaml:"again"`
}

// Intention is something that the model does. Exactly one of Bash, Write,
// Read, Edit, Submit and Tool is set.
type Intention struct {
	Bash   *string `yaml:"bash"`   // a command of the shell
	Write  *Write  `yaml:"write"`  // a whole file
	Read   *string `yaml:"read"`   // a path
	Edit   *Edit   `yaml:"edit"`   // replaces text in a file
	Submit *string `yaml:"submit"` // ends the work, with these words
	// Tool is called as it is said, offered or not, with Args, or with Arguments
	// as the literal text.
	Tool      string         `yaml:"tool"`
	Args      map[string]any `yaml:"args"`
	Arguments *string        `yaml:"arguments"`
}

// Write is a file to be written.
type Write struct {
	Path    string `yaml:"path"`
	Content string `yaml:"content"`
}

// Edit replaces Old, which occurs once, by New.
type Edit struct {
	Path string `yaml:"path"`
	Old  string `yaml:"old"`
	New  string `yaml:"new"`
}

// Usage is what the server says that an answer cost, in tokens.
type Usage struct {
	Input     int64 `yaml:"input"` // cached ones included
	Output    int64 `yaml:"output"`
	Cached    int64 `yaml:"cached"`
	Reasoning int64 `yaml:"reasoning"` // of the output
}

// Read reads a file. Errors name file and line.
func Read(path string) (*File, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("read script of a model: %w", err)
	}
	if fi.Size() > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", path, maxFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read script of a model: %w", err)
	}
	return Parse(path, b)
}

// Parse reads the text of a file; name stands in errors.
func Parse(name string, text []byte) (*File, error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("%s: larger than %d bytes", name, maxFile)
	}
	tree, f, err := decodeYAML(text)
	if err != nil {
		return nil, located(name, err)
	}
	if len(tree.Docs) > 1 {
		return nil, fmt.Errorf("%s: holds %d documents, not one", name, len(tree.Docs))
	}
	if n := reference(tree); n != nil {
		return nil, fmt.Errorf("%s:%d: anchors, aliases and tags are not taken: write it out", name, n.GetToken().Position.Line)
	}
	if where, err := f.prepare(); err != nil {
		return nil, fmt.Errorf("%s:%s%w", name, line(tree, where), err)
	}
	return f, nil
}

// decodeYAML reads a tree and, unless it holds what is not taken, a file. The
// library panics on some texts that are not YAML; they become an error.
func decodeYAML(text []byte) (tree *ast.File, f *File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("not YAML: %v", p)
		}
	}()
	if tree, err = parser.ParseBytes(text, 0); err != nil || reference(tree) != nil {
		return tree, nil, err
	}
	f = &File{}
	if err = yaml.NewDecoder(bytes.NewReader(text), yaml.DisallowUnknownField()).Decode(f); errors.Is(err, io.EOF) {
		err = nil
	}
	return tree, f, err
}

// reference finds the first anchor or alias, which make much of little, or
// tag, which makes a type of another.
func reference(tree *ast.File) (found ast.Node) {
	for _, d := range tree.Docs {
		if d.Body == nil {
			continue
		}
		for _, t := range []ast.NodeType{ast.AnchorType, ast.AliasType, ast.TagType} {
			if all := ast.Filter(t, d.Body); len(all) > 0 && found == nil {
				found = all[0]
			}
		}
	}
	return found
}

// located puts file and line before an error of the YAML library, whose own
// text quotes the source over several lines.
func located(name string, err error) error {
	var at yaml.Error
	if errors.As(err, &at) && at.GetToken() != nil {
		return fmt.Errorf("%s:%d: %s", name, at.GetToken().Position.Line, at.GetMessage())
	}
	return fmt.Errorf("%s: %w", name, err)
}

func line(tree *ast.File, where string) string {
	if p, err := yaml.PathString(where); err == nil {
		if n, err := p.FilterFile(tree); err == nil && n != nil && n.GetToken() != nil {
			return fmt.Sprintf("%d: ", n.GetToken().Position.Line)
		}
	}
	return " " + where + ": "
}

// prepare checks f, compiles its patterns and writes out repeats. It returns
// the place of what is wrong, as a YAML path.
func (f *File) prepare() (where string, err error) {
	for i, d := range f.Dialects {
		if !slices.Contains(model.Dialects(), d) {
			return fmt.Sprintf("$.dialects[%d]", i), fmt.Errorf("no dialect %q: they are %v", d, model.Dialects())
		}
	}
	if f.Latency < 0 || f.Pace < 0 || f.Chunk < 0 {
		return "$", errors.New("latency, pace and chunk are not negative")
	}
	if where, err := prepareFaults("$", f.Faults); err != nil {
		return where, err
	}
	if len(f.Turns) > 0 {
		if len(f.Scripts) > 0 {
			return "$.turns", errors.New("turns beside scripts: make them a script of their own, without when, as the last one")
		}
		turns, where, err := prepareTurns("$", f.Turns)
		if err != nil {
			return where, err
		}
		f.Scripts, f.Turns = []Script{{Turns: turns}}, nil
		return "", nil
	}
	for i := range f.Scripts {
		s, at := &f.Scripts[i], fmt.Sprintf("$.scripts[%d]", i)
		if err := s.When.compile(); err != nil {
			return at + ".when", err
		}
		if where, err := prepareFaults(at, s.Faults); err != nil {
			return where, err
		}
		if s.Turns, where, err = prepareTurns(at, s.Turns); err != nil {
			return where, err
		}
	}
	return "", nil
}

func prepareFaults(at string, all []Fault) (string, error) {
	for i := range all {
		if err := all[i].prepare(); err != nil {
			return fmt.Sprintf("%s.faults[%d]", at, i), err
		}
	}
	return "", nil
}

func prepareTurns(at string, in []Turn) (out []Turn, where string, err error) {
	for i := range in {
		t, at := &in[i], fmt.Sprintf("%s.turns[%d]", at, i)
		if where, err := t.prepare(at); err != nil {
			return nil, where, err
		}
		if t.Times > maxTurns || len(out)+max(t.Times, 1) > maxTurns {
			return nil, at, fmt.Errorf("more than %d turns", maxTurns)
		}
		if t.Times < 2 {
			out = append(out, *t)
			continue
		}
		if t.Times*t.bytes() > maxRepeats {
			return nil, at, fmt.Errorf("repeated %d times its texts are more than %d bytes", t.Times, maxRepeats)
		}
		for n := range t.Times {
			out = append(out, t.numbered(n+1))
		}
	}
	return out, "", nil
}

func (t *Turn) prepare(at string) (string, error) {
	switch {
	case t.Times < 0 || t.Chunk < 0:
		return at, errors.New("times and chunk are not negative")
	case !slices.Contains([]string{"", "length", "filter"}, t.Stop):
		return at + ".stop", fmt.Errorf("stop %q: it is length, filter or left out", t.Stop)
	case t.Usage != nil && t.NoUsage:
		return at, errors.New("usage and no_usage at once")
	}
	for i := range t.Calls {
		if err := t.Calls[i].prepare(); err != nil {
			return fmt.Sprintf("%s.calls[%d]", at, i), err
		}
	}
	if t.Fault != nil {
		if err := t.Fault.prepare(); err != nil {
			return at + ".fault", err
		}
	}
	for i := range t.Again {
		at := fmt.Sprintf("%s.again[%d]", at, i)
		if len(t.Again[i].Again) > 0 || t.Again[i].Times > 1 {
			return at, errors.New("again and times do not go within again")
		}
		if where, err := t.Again[i].prepare(at); err != nil {
			return where, err
		}
	}
	return "", nil
}

func (in *Intention) prepare() error {
	n := 0
	for _, set := range []bool{in.Bash != nil, in.Write != nil, in.Read != nil, in.Edit != nil, in.Submit != nil, in.Tool != ""} {
		if set {
			n++
		}
	}
	switch {
	case n != 1:
		return errors.New("a call is exactly one of bash, write, read, edit, submit and tool")
	case in.Tool == "" && (in.Args != nil || in.Arguments != nil):
		return errors.New("args and arguments belong to tool")
	case in.Args != nil && in.Arguments != nil:
		return errors.New("args and arguments at once")
	case in.Write != nil && in.Write.Path == "", in.Edit != nil && (in.Edit.Path == "" || in.Edit.Old == ""):
		return errors.New("write needs a path; edit needs path and old")
	}
	if _, err := json.Marshal(in.Args); err != nil {
		return fmt.Errorf("args: %w", err)
	}
	return nil
}

// bytes is about what a repeat of t takes.
func (t *Turn) bytes() int {
	n := len(t.Reasoning) + len(t.Text)
	for _, in := range t.Calls {
		for _, p := range []*string{in.Bash, in.Read, in.Submit, in.Arguments} {
			if p != nil {
				n += len(*p)
			}
		}
		if in.Write != nil {
			n += len(in.Write.Path) + len(in.Write.Content)
		}
	}
	return n
}

// numbered is the n-th repeat of t.
func (t *Turn) numbered(n int) Turn {
	c, count := *t, fmt.Sprint(n)
	put := func(s string) string { return strings.ReplaceAll(s, "{n}", count) }
	c.Reasoning, c.Text = put(t.Reasoning), put(t.Text)
	c.Calls = slices.Clone(t.Calls)
	for i := range c.Calls {
		in := &c.Calls[i]
		for _, p := range []**string{&in.Bash, &in.Read, &in.Submit, &in.Arguments} {
			if *p != nil {
				s := put(**p)
				*p = &s
			}
		}
		if in.Write != nil {
			in.Write = &Write{put(in.Write.Path), put(in.Write.Content)}
		}
	}
	return c
}

func (w *When) compile() (err error) {
	for _, p := range []struct {
		text string
		to   **regexp.Regexp
	}{{w.Model, &w.model}, {w.System, &w.system}, {w.Task, &w.task}, {w.Last, &w.last}} {
		if p.text == "" {
			continue
		}
		if *p.to, err = regexp.Compile(p.text); err != nil {
			return err
		}
	}
	return nil
}
