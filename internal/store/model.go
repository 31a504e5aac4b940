package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
)

// The files config.json, lock.json and result.json are dumps of Harbor's
// models in three ways: complete, without default values, and without nulls.
// A model lists its keys in Harbor's order; keys that assay never sets stand
// there with their default, so that a complete dump is complete.

// dumpMode says which keys of a model are written.
type dumpMode int

const (
	full    dumpMode = iota + 1 // every key; trial result.json's config
	sparse                      // keys that differ from their default: config.json
	noNulls                     // keys that are not null: lock.json
)

// model is an object of Harbor's. A pointer receiver lets the keys point at
// the values.
type model interface{ keys() []key }

// key is one key of a model.
type key struct {
	name string
	at   any  // pointer to the value, or the constant value of a key that assay never sets
	def  any  // default; nil is null
	hide bool // left out of every dump when empty, as Harbor does for env and log filters
}

// formatModel writes a model as a file: indent 4, no final newline.
func formatModel(m model, mode dumpMode) ([]byte, error) {
	flat, err := dump(m, mode)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, flat, "", "    "); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// dump writes a model, a list of models or any other value.
func dump(v any, mode dumpMode) ([]byte, error) {
	if m, ok := v.(model); ok {
		return dumpModel(m, mode)
	}
	rv := reflect.ValueOf(v)
	if rv.Kind() == reflect.Pointer {
		if rv.IsNil() {
			return []byte("null"), nil
		}
		return dump(rv.Elem().Interface(), mode)
	}
	if rv.Kind() == reflect.Slice && reflect.PointerTo(rv.Type().Elem()).Implements(reflect.TypeFor[model]()) {
		return dumpList(rv, mode)
	}
	if rv.Kind() == reflect.Slice && rv.IsNil() && rv.Type() != reflect.TypeFor[json.RawMessage]() {
		return []byte("[]"), nil
	}
	if rv.Kind() == reflect.Map && rv.IsNil() {
		return []byte("{}"), nil
	}
	return encode(v)
}

func dumpList(rv reflect.Value, mode dumpMode) ([]byte, error) {
	b := []byte{'['}
	for i := range rv.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		e, err := dumpModel(rv.Index(i).Addr().Interface().(model), mode)
		if err != nil {
			return nil, err
		}
		b = append(b, e...)
	}
	return append(b, ']'), nil
}

func dumpModel(m model, mode dumpMode) ([]byte, error) {
	b := []byte{'{'}
	for _, k := range m.keys() {
		v, err := dump(deref(k.at), mode)
		if err != nil {
			return nil, fmt.Errorf("write %q: %w", k.name, err)
		}
		skip, err := k.skip(v, mode)
		if err != nil {
			return nil, err
		}
		if skip {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		name, err := encode(k.name)
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, name...), ':'), v...)
	}
	return append(b, '}'), nil
}

// deref turns a pointer to a value into the value, but leaves models and
// optional values as they are.
func deref(at any) any {
	if _, ok := at.(model); ok || at == nil {
		return at
	}
	rv := reflect.ValueOf(at)
	if rv.Kind() != reflect.Pointer {
		return at
	}
	if rv.IsNil() {
		return nil
	}
	return rv.Elem().Interface()
}

func (k key) skip(v []byte, mode dumpMode) (bool, error) {
	null := string(v) == "null"
	empty := null || string(v) == "[]" || string(v) == "{}" || string(v) == `""`
	switch {
	case k.hide && empty:
		return true, nil
	case mode == noNulls:
		return null, nil
	case mode == full:
		return false, nil
	}
	def, err := dump(k.def, sparse)
	return bytes.Equal(v, def), err
}

// encode is json.Marshal without the escaping of <, > and &.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// seconds is a number that is written as a float: 60.0.
type seconds float64

func (s seconds) MarshalJSON() ([]byte, error) {
	b, err := json.Marshal(float64(s))
	if err == nil && !bytes.ContainsAny(b, ".eE") {
		b = append(b, ".0"...)
	}
	return b, err
}
