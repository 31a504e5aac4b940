package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// maxArguments bounds what one call may carry, in bytes.
const maxArguments = 4 << 20

// arguments are those of one call, checked against the tool's parameters.
type arguments struct {
	text map[string]string
	num  map[string]int
	raw  json.RawMessage // a JSON object
}

// parse reads the arguments of a call to t. What is wrong is said in words that
// a model can act on.
func (t tool) parse(raw string) (arguments, error) {
	a := arguments{text: map[string]string{}, num: map[string]int{}, raw: json.RawMessage(raw)}
	if len(raw) > maxArguments {
		return a, fmt.Errorf("the arguments are larger than %d bytes", maxArguments)
	}
	if strings.TrimSpace(raw) == "" {
		a.raw = json.RawMessage("{}")
	}
	var values map[string]any
	dec := json.NewDecoder(bytes.NewReader(a.raw))
	dec.UseNumber()
	if err := dec.Decode(&values); err != nil || values == nil || dec.More() {
		return a, fmt.Errorf("the arguments are not a JSON object%s: %s", because(err), clip(raw, 200))
	}
	if t.schema != nil {
		return a, nil
	}
	for name, v := range values {
		p := t.param(name)
		if p == nil {
			return a, fmt.Errorf("%s has no argument %q; it has %s", t.Name, name, t.arguments())
		}
		if err := a.take(*p, v); err != nil {
			return a, err
		}
	}
	for _, p := range t.params {
		if _, ok := values[p.name]; p.required && !ok {
			return a, fmt.Errorf("the argument %q of %s is missing", p.name, t.Name)
		}
	}
	return a, nil
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return " (" + err.Error() + ")"
}

// take reads one argument. A number in quotes is a number: models write that.
func (a arguments) take(p param, v any) error {
	switch x := v.(type) {
	case nil:
		if !p.required {
			return nil
		}
	case string:
		if p.kind == "string" {
			a.text[p.name] = x
			return nil
		}
		if n, err := strconv.Atoi(strings.TrimSpace(x)); err == nil {
			a.num[p.name] = n
			return nil
		}
	case json.Number:
		if p.kind == "string" {
			a.text[p.name] = x.String()
			return nil
		}
		if f, err := x.Float64(); err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<31 {
			a.num[p.name] = int(f)
			return nil
		}
	}
	kind := "a string"
	if p.kind == "integer" {
		kind = "a whole number"
	}
	return fmt.Errorf("the argument %q has to be %s", p.name, kind)
}

func (t tool) arguments() string {
	var names []string
	for _, p := range t.params {
		names = append(names, p.name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// The three lines around the two pieces of an edit in the text protocol.
const (
	editOld    = "<<<<<<< OLD"
	editMiddle = "======="
	editNew    = ">>>>>>> NEW"
)

var errEdit = errors.New("an edit is written as " + editOld + ", the old piece, " + editMiddle + ", the new piece, " + editNew + ", each mark on a line of its own")

// pieces takes an edit's body apart.
func pieces(body string) (old, new string, err error) {
	if !strings.HasPrefix(body, editOld+"\n") || !strings.HasSuffix(strings.TrimRight(body, "\n"), editNew) {
		return "", "", errEdit
	}
	body = strings.TrimPrefix(body, editOld)
	body = strings.TrimSuffix(strings.TrimRight(body, "\n"), editNew)
	old, new, ok := strings.Cut(body, "\n"+editMiddle+"\n")
	if !ok || strings.Contains(new, "\n"+editMiddle+"\n") {
		return "", "", errEdit
	}
	return strings.TrimPrefix(old, "\n"), strings.TrimSuffix(new, "\n"), nil
}
