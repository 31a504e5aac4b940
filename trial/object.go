package trial

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// slot is one key of a JSON object: its name and a pointer to its value. A
// list of slots gives an object Harbor's field order when written and exact,
// case-sensitive keys when read, neither of which struct tags alone can do.
type slot struct {
	name string
	at   any
}

// writeObject writes the slots in order, nulls included, then extra by name.
func writeObject(slots []slot, extra map[string]json.RawMessage) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for _, s := range slots {
		v, err := marshal(s.at)
		if err != nil {
			return nil, fmt.Errorf("write %q: %w", s.name, err)
		}
		writeKey(&b, s.name, v)
	}
	names := make([]string, 0, len(extra))
	for n := range extra {
		if !slices.ContainsFunc(slots, func(s slot) bool { return s.name == n }) {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		v, err := marshal(extra[n])
		if err != nil {
			return nil, fmt.Errorf("write %q: %w", n, err)
		}
		writeKey(&b, n, v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func writeKey(b *bytes.Buffer, name string, value []byte) {
	if b.Len() > 1 {
		b.WriteByte(',')
	}
	key, err := marshal(name)
	if err != nil {
		key = []byte(`""`) // a string always marshals
	}
	b.Write(key)
	b.WriteByte(':')
	b.Write(value)
}

// readObject fills the slots from a JSON object and returns the keys that no
// slot names. A missing or null key leaves its slot as it is.
func readObject(data []byte, slots []slot) (map[string]json.RawMessage, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, err
	}
	for _, s := range slots {
		raw, ok := all[s.name]
		if !ok {
			continue
		}
		delete(all, s.name)
		if bytes.Equal(raw, []byte("null")) {
			continue
		}
		if err := json.Unmarshal(raw, s.at); err != nil {
			return nil, fmt.Errorf("read %q: %w", s.name, err)
		}
	}
	if len(all) == 0 {
		return nil, nil
	}
	return all, nil
}

// marshal is json.Marshal without the escaping of <, > and &, which Harbor
// does not do.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// stamp is a time as pydantic writes it: UTC with Z, and either no fraction or
// exactly six digits. It reads times without a zone as UTC.
type stamp struct{ at *time.Time }

func (s stamp) MarshalJSON() ([]byte, error) {
	return []byte(`"` + formatTime(*s.at) + `"`), nil
}

func (s stamp) UnmarshalJSON(data []byte) error {
	t, err := parseTime(data)
	if err != nil {
		return err
	}
	*s.at = t
	return nil
}

// maybeStamp is a stamp that may be null.
type maybeStamp struct{ at **time.Time }

func (s maybeStamp) MarshalJSON() ([]byte, error) {
	if *s.at == nil {
		return []byte("null"), nil
	}
	return stamp{*s.at}.MarshalJSON()
}

func (s maybeStamp) UnmarshalJSON(data []byte) error {
	t, err := parseTime(data)
	if err != nil {
		return err
	}
	*s.at = &t
	return nil
}

func formatTime(t time.Time) string {
	t = t.UTC().Truncate(time.Microsecond)
	if t.Nanosecond() == 0 {
		return t.Format("2006-01-02T15:04:05Z")
	}
	return t.Format("2006-01-02T15:04:05.000000Z")
}

func parseTime(data []byte) (time.Time, error) {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return time.Time{}, err
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999"} {
		if t, err := time.Parse(layout, strings.Replace(s, " ", "T", 1)); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, fmt.Errorf("time %q is not ISO 8601 with date and time", s)
}

// maybeFloat writes a whole number as 3.0, as Harbor's floats are written, so
// that readers which tell floats from integers see no change of type.
type maybeFloat struct{ at **float64 }

func (f maybeFloat) MarshalJSON() ([]byte, error) {
	if *f.at == nil {
		return []byte("null"), nil
	}
	b, err := json.Marshal(**f.at)
	if err == nil && !bytes.ContainsAny(b, ".eE") {
		b = append(b, ".0"...)
	}
	return b, err
}

func (f maybeFloat) UnmarshalJSON(data []byte) error {
	var v float64
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*f.at = &v
	return nil
}
