package model

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Object is a JSON object that is read field by field: what is taken out is
// known, the rest is kept. null is the same as nothing. The first field of a
// wrong type is remembered by Err, with its place.
type Object struct {
	in     *Object // that holds it; nil: at names it
	at     string  // the field of it
	index  int     // in the list there; -1: it is no list
	fields map[string]json.RawMessage
	err    *error // shared with the objects inside
}

// ParseObject reads the JSON object b; at names it in errors.
func ParseObject(at string, b []byte) (*Object, error) {
	o := &Object{at: at, index: -1, err: new(error)}
	o.read(b)
	return o, *o.err
}

func (o *Object) read(b []byte) {
	err := json.Unmarshal(b, &o.fields)
	if k := kindOf(b); k != "an object" && (err == nil || json.Valid(b)) {
		err = fmt.Errorf("want an object, got %s", k)
	}
	if err != nil && *o.err == nil {
		if at := o.path(); at != "" {
			err = fmt.Errorf("%s: %w", at, err)
		}
		*o.err = err
	}
}

// path is where the object stands, for errors.
func (o *Object) path() string {
	if o.in == nil {
		return o.at
	}
	p := o.in.place(o.at)
	if o.index >= 0 {
		p = fmt.Sprintf("%s[%d]", p, o.index)
	}
	return p
}

// Err is the first field that could not be read, here or in an object inside.
func (o *Object) Err() error { return *o.err }

// Fail records an error at this object.
func (o *Object) Fail(format string, args ...any) {
	if *o.err == nil {
		err := fmt.Errorf(format, args...)
		if at := o.path(); at != "" {
			err = fmt.Errorf("%s: %w", at, err)
		}
		*o.err = err
	}
}

func (o *Object) wrong(key, want string, got json.RawMessage) {
	if *o.err == nil {
		*o.err = fmt.Errorf("%s: want %s, got %s", o.place(key), want, kindOf(got))
	}
}

func (o *Object) place(key string) string {
	at := o.path()
	if at == "" {
		return key
	}
	return at + "." + key
}

// Raw takes a field as it came; nil if there is none.
func (o *Object) Raw(key string) json.RawMessage {
	v, ok := o.fields[key]
	if !ok {
		return nil
	}
	delete(o.fields, key)
	if isNull(v) {
		return nil
	}
	return v
}

// Has reports whether a field is there and not taken yet.
func (o *Object) Has(key string) bool {
	v, ok := o.fields[key]
	return ok && !isNull(v)
}

// Str takes a string.
func (o *Object) Str(key string) string {
	v := o.Raw(key)
	var s string
	if v != nil && json.Unmarshal(v, &s) != nil {
		o.wrong(key, "a string", v)
	}
	return s
}

// Peek reads a string that stays; empty if there is none.
func (o *Object) Peek(key string) string {
	s, _ := StringOf(o.fields[key])
	return s
}

// PeekRaw is a field as it came, which stays.
func (o *Object) PeekRaw(key string) json.RawMessage { return o.fields[key] }

// Put sets a field.
func (o *Object) Put(key string, v json.RawMessage) { o.fields[key] = v }

// Bool takes a boolean.
func (o *Object) Bool(key string) *bool {
	v := o.Raw(key)
	if v == nil {
		return nil
	}
	var b bool
	if json.Unmarshal(v, &b) != nil {
		o.wrong(key, "true or false", v)
		return nil
	}
	return &b
}

// True takes a boolean that is false when it is not said.
func (o *Object) True(key string) bool {
	b := o.Bool(key)
	return b != nil && *b
}

// Float takes a number.
func (o *Object) Float(key string) *float64 {
	v := o.Raw(key)
	if v == nil {
		return nil
	}
	var f float64
	if json.Unmarshal(v, &f) != nil {
		o.wrong(key, "a number", v)
		return nil
	}
	return &f
}

// Int takes a whole number; 32000.0 and 3.2e4 are whole too.
func (o *Object) Int(key string) *int64 {
	v := o.Raw(key)
	if v == nil {
		return nil
	}
	if n, err := strconv.ParseInt(string(v), 10, 64); err == nil {
		return &n
	}
	var f float64
	if json.Unmarshal(v, &f) != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<53 {
		o.wrong(key, "a whole number", v)
		return nil
	}
	n := int64(f)
	return &n
}

// Obj takes an object; nil if there is none.
func (o *Object) Obj(key string) *Object {
	v := o.Raw(key)
	if v == nil {
		return nil
	}
	in := &Object{in: o, at: key, index: -1, err: o.err}
	in.read(v)
	return in
}

// List takes a list's elements as they came.
func (o *Object) List(key string) []json.RawMessage {
	v := o.Raw(key)
	var l []json.RawMessage
	if v != nil && json.Unmarshal(v, &l) != nil {
		o.wrong(key, "a list", v)
	}
	return l
}

// Objs takes a list of objects.
func (o *Object) Objs(key string) []*Object {
	return o.each(key, o.List(key))
}

// Strs takes a list of strings; a single string is a list of one.
func (o *Object) Strs(key string) []string {
	if s, ok := StringOf(o.fields[key]); ok {
		o.Raw(key)
		return []string{s}
	}
	v := o.Raw(key)
	var l []string
	if v != nil && json.Unmarshal(v, &l) != nil {
		o.wrong(key, "a list of strings", v)
	}
	return l
}

// Drop forgets fields that carry nothing.
func (o *Object) Drop(keys ...string) {
	for _, k := range keys {
		delete(o.fields, k)
	}
}

// Rest is what was not taken; nil if nothing is left.
func (o *Object) Rest() map[string]json.RawMessage {
	for k, v := range o.fields {
		if isNull(v) {
			delete(o.fields, k)
		}
	}
	if len(o.fields) == 0 {
		return nil
	}
	return o.fields
}

// StringOf decodes b if it is a JSON string.
func StringOf(b []byte) (string, bool) {
	if kindOf(b) != "a string" {
		return "", false
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err == nil
}

// Encode writes v as JSON on one line, without the escapes that only HTML
// needs. It fails for raw JSON of a caller that is none.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), err
}

// JSON is Encode for values that were parsed or made of strings and numbers
// and so cannot fail; what fails all the same becomes null.
func JSON(v any) json.RawMessage {
	b, err := Encode(v)
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

func isNull(b []byte) bool { return len(b) == 4 && string(b) == "null" }

func kindOf(b []byte) string {
	b = bytes.TrimLeft(b, " \t\r\n")
	if len(b) == 0 {
		return "nothing"
	}
	switch b[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Elements reads raw, which was taken from the field key, as a list of
// objects.
func (o *Object) Elements(key string, raw json.RawMessage) []*Object {
	var l []json.RawMessage
	if raw != nil && json.Unmarshal(raw, &l) != nil {
		o.wrong(key, "a string or a list", raw)
	}
	return o.each(key, l)
}

func (o *Object) each(key string, l []json.RawMessage) []*Object {
	all := make([]*Object, 0, len(l))
	for i, v := range l {
		in := &Object{in: o, at: key, index: i, err: o.err}
		in.read(v)
		all = append(all, in)
	}
	return all
}

// JSON is the object as it is now, without what was taken out.
func (o *Object) JSON() json.RawMessage { return JSON(o.fields) }
