package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"assay/internal/agent"
)

// Limits bound what one agent may do with the host's tools. The zero value of
// each field is its default.
type Limits struct {
	Calls     int           // in all; 1,000
	Parallel  int           // at once, the others wait; 4
	Arguments int           // bytes of one call; 1 MiB
	Result    int           // bytes of one answer that are kept; 256 KiB
	Timeout   time.Duration // of one call; 60 s
}

func (l Limits) orDefault() Limits {
	set := func(n *int, d int) {
		if *n == 0 {
			*n = d
		}
	}
	set(&l.Calls, 1000)
	set(&l.Parallel, 4)
	set(&l.Arguments, 1<<20)
	set(&l.Result, 256<<10)
	if l.Timeout == 0 {
		l.Timeout = time.Minute
	}
	return l
}

// Entry is one call, a line of the book.
type Entry struct {
	Time      time.Time `json:"time"`
	Tool      string    `json:"tool"`
	Via       string    `json:"via"` // "mcp" or "native"
	Arguments int       `json:"argument_bytes"`
	Result    int       `json:"result_bytes"`
	Millis    float64   `json:"ms"`
	Error     string    `json:"error,omitempty"`
}

// Book bounds the calls of one run of an agent and writes each down when it
// ends, as a line of JSON.
type Book struct {
	tools  []agent.Tool
	limits Limits
	slots  chan struct{}

	mu    sync.Mutex
	w     io.Writer // nil: nowhere
	calls int
	err   error // of the first line that could not be written
}

// NewBook opens a book for tools. Their names are unique and they have schemas
// of objects, or it is an error.
func NewBook(w io.Writer, limits Limits, tools ...agent.Tool) (*Book, error) {
	limits = limits.orDefault()
	seen := map[string]bool{}
	for _, t := range tools {
		var schema struct{ Type string }
		switch err := json.Unmarshal(t.Schema, &schema); {
		case !name(t.Name):
			return nil, fmt.Errorf("tool %q: a name is made of letters, digits, - and _", t.Name)
		case seen[t.Name]:
			return nil, fmt.Errorf("two tools are named %q", t.Name)
		case err != nil || schema.Type != "object":
			return nil, fmt.Errorf("tool %q: its schema is not one of an object", t.Name)
		case t.Call == nil:
			return nil, fmt.Errorf("tool %q does nothing", t.Name)
		}
		seen[t.Name] = true
	}
	return &Book{tools: tools, limits: limits, slots: make(chan struct{}, limits.Parallel), w: w}, nil
}

func name(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) < 0
}

// Tools are the tools with the book's bounds; via says in the book which way
// they are called.
func (b *Book) Tools(via string) []agent.Tool {
	all := make([]agent.Tool, len(b.tools))
	for i, t := range b.tools {
		call := t.Call
		t.Call = func(ctx context.Context, a json.RawMessage) (string, error) { return b.call(ctx, via, t.Name, call, a) }
		all[i] = t
	}
	return all
}

// Err is the first error of writing the book.
func (b *Book) Err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

type callFunc = func(context.Context, json.RawMessage) (string, error)

func (b *Book) call(ctx context.Context, via, tool string, f callFunc, a json.RawMessage) (string, error) {
	e := Entry{Time: time.Now().UTC(), Tool: tool, Via: via, Arguments: len(a)}
	text, err := b.bounded(ctx, f, a)
	if err != nil {
		e.Error = cut(err.Error(), 1000)
		err = errors.New(e.Error)
	}
	text = cut(text, b.limits.Result)
	e.Result, e.Millis = len(text), float64(time.Since(e.Time).Microseconds())/1000
	b.write(e)
	return text, err
}

// bounded makes a call within the limits. One that does not obey its context is
// left behind; its slot stays taken until it ends, so that few can hang.
func (b *Book) bounded(ctx context.Context, f callFunc, a json.RawMessage) (string, error) {
	if len(a) > b.limits.Arguments {
		return "", fmt.Errorf("the arguments are larger than %d bytes", b.limits.Arguments)
	}
	b.mu.Lock()
	over := b.calls >= b.limits.Calls
	if !over {
		b.calls++
	}
	b.mu.Unlock()
	if over {
		return "", fmt.Errorf("no more calls: %d were made", b.limits.Calls)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, b.limits.Timeout, fmt.Errorf("the tool took longer than %v", b.limits.Timeout))
	defer cancel()
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-b.slots }()
		defer func() {
			if r := recover(); r != nil {
				done <- answer{"", fmt.Errorf("the tool failed: %v", r)}
			}
		}()
		text, err := f(ctx, a)
		done <- answer{text, err}
	}()
	select {
	case a := <-done:
		return a.text, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (b *Book) write(e Entry) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.w == nil || b.err != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = b.w.Write(append(line, '\n'))
	}
	b.err = err
}

// cut is at most n bytes of valid text.
func cut(s string, n int) string {
	if len(s) > n {
		kept := s[:n]
		for kept != "" && !utf8.RuneStart(s[len(kept)]) {
			kept = kept[:len(kept)-1]
		}
		s = kept + fmt.Sprintf("\n[%d bytes cut]", len(s)-len(kept))
	}
	return strings.ToValidUTF8(s, "\ufffd")
}
