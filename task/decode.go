package task

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// decoder turns the generic form of a document into typed values with the
// lax rules of Harbor's models (pydantic's default mode): "60" is a number,
// 2048.0 an integer, true is 1; text is never made from a number.
//
// It never stops at a fault: it notes all of them, so that lint can list them.
type decoder struct {
	doc      *document
	problems []problem
}

// problem is one remark about a key. Faults make the document invalid.
type problem struct {
	rule    string
	key     key
	message string
	remedy  string
}

const ruleInvalidConfig = "invalid-task-config"

// fault notes what Harbor refuses.
func (d *decoder) fault(k key, format string, args ...any) {
	d.problems = append(d.problems, problem{rule: ruleInvalidConfig, key: k, message: fmt.Sprintf(format, args...)})
}

// remark notes what Harbor accepts and lint reports.
func (d *decoder) remark(rule string, k key, remedy, format string, args ...any) {
	d.problems = append(d.problems, problem{rule: rule, key: k, message: fmt.Sprintf(format, args...), remedy: remedy})
}

// err is the first fault, or nil.
func (d *decoder) err() error {
	for _, p := range d.problems {
		if p.rule == ruleInvalidConfig {
			return &ConfigError{File: d.doc.file, Key: p.key.String(), Position: d.doc.place(p.key), Message: p.message}
		}
	}
	return nil
}

// table is one table being read; keys that nobody asks for are unknown.
type table struct {
	d     *decoder
	key   key
	m     map[string]any
	known []string
}

func (d *decoder) table(k key, v any) (*table, bool) {
	m, ok := v.(map[string]any)
	if !ok {
		d.fault(k, "must be a table, not %s", kindOf(v))
		return nil, false
	}
	return &table{d: d, key: k, m: m}, true
}

// done reports the keys that were not asked for.
func (t *table) done() {
	for _, name := range sortedKeys(t.m) {
		if slices.Contains(t.known, name) {
			continue
		}
		remedy := "remove it, or move data of your own under [metadata]"
		if near := nearest(name, t.known); near != "" {
			remedy = fmt.Sprintf("did you mean %q?", near)
		}
		t.d.remark("unknown-config-field", t.key.with(name), remedy, "unknown field, ignored when the task runs")
	}
}

// get takes a key; ok is false when the document does not have it.
func (t *table) get(name string) (any, bool) {
	t.known = append(t.known, name)
	v, ok := t.m[name]
	return v, ok
}

func (t *table) sub(name string) (*table, bool) {
	v, ok := t.get(name)
	if !ok {
		return nil, false
	}
	return t.d.table(t.key.with(name), v)
}

func (t *table) fault(name, format string, args ...any) {
	t.d.fault(t.key.with(name), format, args...)
}

func (t *table) text(name string) string {
	v, ok := t.get(name)
	if !ok {
		return ""
	}
	return t.d.text(t.key.with(name), v)
}

// required is text that must be there.
func (t *table) required(name string) string {
	if _, ok := t.m[name]; !ok {
		t.known = append(t.known, name)
		t.d.fault(t.key.with(name), "missing")
		return ""
	}
	return t.text(name)
}

func (d *decoder) text(k key, v any) string {
	s, ok := v.(string)
	if !ok {
		d.fault(k, "must be text, not %s", kindOf(v))
	}
	return s
}

func (t *table) texts(name string) []string {
	v, ok := t.get(name)
	if !ok {
		return nil
	}
	k := t.key.with(name)
	list, ok := v.([]any)
	if !ok {
		t.d.fault(k, "must be a list of texts, not %s", kindOf(v))
		return nil
	}
	out := make([]string, 0, len(list))
	for i, item := range list {
		out = append(out, t.d.text(k.at(i), item))
	}
	return out
}

func (t *table) textMap(name string) map[string]string {
	sub, ok := t.sub(name)
	if !ok || len(sub.m) == 0 {
		return nil
	}
	out := make(map[string]string, len(sub.m))
	for _, k := range sortedKeys(sub.m) {
		out[k] = t.d.text(sub.key.with(k), sub.m[k])
	}
	return out
}

// list calls each for the entries of a list of tables.
func (t *table) list(name string, each func(k key, v any)) {
	v, ok := t.get(name)
	if !ok {
		return
	}
	k := t.key.with(name)
	items, ok := v.([]any)
	if !ok {
		t.d.fault(k, "must be a list, not %s", kindOf(v))
		return
	}
	for i, item := range items {
		each(k.at(i), item)
	}
}

func (t *table) float(name string) *float64 {
	v, ok := t.get(name)
	if !ok {
		return nil
	}
	return t.d.float(t.key.with(name), v)
}

func (d *decoder) float(k key, v any) *float64 {
	f, ok := laxFloat(v)
	if !ok {
		d.fault(k, "must be a number, not %s", kindOf(v))
		return nil
	}
	switch v.(type) {
	case string, bool:
		d.laxly(k, v, "a number")
	}
	return &f
}

func (t *table) integer(name string) *int64 {
	v, ok := t.get(name)
	if !ok {
		return nil
	}
	k := t.key.with(name)
	n, ok := laxInt(v)
	if !ok {
		t.d.fault(k, "must be a whole number, not %s", kindOf(v))
		return nil
	}
	if _, exact := v.(int64); !exact {
		t.d.laxly(k, v, "a whole number")
	}
	return &n
}

func (d *decoder) laxly(k key, v any, want string) {
	d.remark("lax-type", k, "write "+want, "%s is read as %s; other tools may refuse it", kindOf(v), want)
}

// user is a name or a uid; a uid is kept as its decimal text.
func (t *table) user() string {
	v, ok := t.get("user")
	if !ok {
		return ""
	}
	if s, ok := v.(string); ok {
		return s
	}
	n, ok := laxInt(v)
	if !ok {
		t.fault("user", "must be a user name or number, not %s", kindOf(v))
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// word is text out of a closed set.
func word[T ~string](t *table, name string, fold bool, allowed ...T) T {
	v, ok := t.get(name)
	if !ok {
		return ""
	}
	s, ok := v.(string)
	if fold {
		s = strings.ToLower(s)
	}
	if !ok || !slices.Contains(allowed, T(s)) {
		t.fault(name, "must be one of %s, not %s", quoteAll(allowed), describe(v))
		return ""
	}
	return T(s)
}

func quoteAll[T ~string](words []T) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = strconv.Quote(string(w))
	}
	return strings.Join(q, ", ")
}
