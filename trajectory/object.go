package trajectory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
)

// slot is one key of an object: its name, a pointer to its value, and whether
// it is written even when empty.
type slot struct {
	name string
	at   any
	must bool
}

// writeObject writes the slots in order, empty optional ones left out, then
// the unknown keys by name. A known key whose foreign value is in unknown is
// written from there.
func writeObject(slots []slot, unknown Unknown) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	put := func(name string, v any) error {
		if list := reflect.ValueOf(v).Elem(); list.Kind() == reflect.Slice && list.IsNil() {
			v = empty(v) // a required list or object that nobody filled
		}
		value, err := marshal(v)
		if err != nil {
			return fmt.Errorf("write %q: %w", name, err)
		}
		key, err := marshal(name)
		if err != nil {
			return fmt.Errorf("write %q: %w", name, err)
		}
		if b.Len() > 1 {
			b.WriteByte(',')
		}
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
		return nil
	}
	for _, s := range slots {
		if _, foreign := unknown[s.name]; foreign || !s.must && reflect.ValueOf(s.at).Elem().IsZero() {
			continue
		}
		if err := put(s.name, s.at); err != nil {
			return nil, err
		}
	}
	names := make([]string, 0, len(unknown))
	for n := range unknown {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, n := range names {
		raw := unknown[n]
		if err := put(n, &raw); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// readObject fills the slots and returns what no slot could take. Null reads
// as absent.
func readObject(data []byte, slots []slot) (Unknown, error) {
	var all Unknown
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	if all == nil {
		return nil, fmt.Errorf("null is not an object")
	}
	for _, s := range slots {
		raw, ok := all[s.name]
		if !ok {
			continue
		}
		if bytes.Equal(raw, []byte("null")) || json.Unmarshal(raw, s.at) == nil || lax(raw, s.at) {
			delete(all, s.name)
			continue
		}
		reflect.ValueOf(s.at).Elem().SetZero() // else a partly filled value would be written twice
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// empty is the shortest valid value in place of a nil list or raw object.
func empty(v any) any {
	if _, raw := v.(*json.RawMessage); raw {
		return json.RawMessage("{}")
	}
	return json.RawMessage("[]")
}

// marshal is json.Marshal without the escaping of <, > and &.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}
