package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"assay/internal/model"
)

// Bodies are looked at without being decoded: the bytes between two offsets
// are kept, passed on or left out as they came, so that what the gateway does
// not touch reaches the provider byte for byte.

// span is a half-open range of a body.
type span struct{ from, to int }

func (s span) of(b []byte) []byte { return b[s.from:s.to] }

// member is one member of a JSON object. whole begins at the key's quote and
// ends with the value.
type member struct {
	key          string
	whole, value span
}

var errNotObject = errors.New("the body is not a JSON object")

// object lists the members of the JSON object that b is. Keys that differ in
// case alone are refused, and so are those that the gateway looks at in another
// case: providers disagree about what such keys mean, so what was checked might
// not be what is used.
func object(b []byte) ([]member, error) {
	if !json.Valid(b) {
		return nil, errNotObject
	}
	all, err := members(b, span{0, len(b)})
	if err != nil {
		return nil, err
	}
	seen, known := make(map[string]bool, len(all)), lookedAt()
	for _, m := range all {
		k := strings.ToLower(m.key)
		if seen[k] {
			return nil, fmt.Errorf("the body has the key %.40q twice", m.key)
		}
		seen[k] = true
		if want := known[k]; want != "" && want != m.key {
			return nil, fmt.Errorf("the key %.40q is spelled %q", m.key, want)
		}
	}
	return all, nil
}

// lookedAt are the top-level keys that decide what a request may do, by their
// lower-case form.
var lookedAt = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	add := func(keys ...string) {
		for _, k := range keys {
			k, _, _ = strings.Cut(k, ".")
			all[strings.ToLower(k)] = k
		}
	}
	add("model", "stream", "tools", "tool_choice", "stream_options", "logprobs", "return_token_ids")
	for _, d := range model.Dialects() {
		add(arrayOf(d))
		add(hostedFields(d)...)
		for _, paths := range paramPaths(d) {
			add(paths...)
		}
	}
	return all
})

// camel is a key of gemini's, which may be spelled either way.
func camel(key string) string {
	var b strings.Builder
	for i, part := range strings.Split(key, "_") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	return b.String()
}

// camels renames members for looking them up; their bytes stay. false: one is
// there in both spellings.
func camels(all []member) bool {
	seen := map[string]bool{}
	for i := range all {
		k := camel(all[i].key)
		if seen[k] {
			return false
		}
		seen[k], all[i].key = true, k
	}
	return true
}

// members lists those of the object within s, which is part of valid JSON.
func members(b []byte, s span) ([]member, error) {
	i := blank(b, s.from)
	if i >= s.to || b[i] != '{' {
		return nil, errNotObject
	}
	var all []member
	for i = blank(b, i+1); b[i] != '}'; i = blank(b, i) {
		if b[i] == ',' {
			i = blank(b, i+1)
		}
		end := skip(b, i)
		var key string
		if err := json.Unmarshal(b[i:end], &key); err != nil {
			return nil, fmt.Errorf("read key: %w", err)
		}
		from := blank(b, blank(b, end)+1) // past the colon
		to := skip(b, from)
		all = append(all, member{key: key, whole: span{i, to}, value: span{from, to}})
		i = to
	}
	return all, nil
}

// elements lists those of the array within s, which is part of valid JSON;
// false: it is something else.
func elements(b []byte, s span) ([]span, bool) {
	i := blank(b, s.from)
	if i >= s.to || b[i] != '[' {
		return nil, false
	}
	var all []span
	for i = blank(b, i+1); b[i] != ']'; i = blank(b, i) {
		if b[i] == ',' {
			i = blank(b, i+1)
		}
		to := skip(b, i)
		all = append(all, span{i, to})
		i = to
	}
	return all, true
}

func blank(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skip returns the end of the value that begins at i of valid JSON.
func skip(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for ; i < len(b); i++ {
			switch b[i] {
			case '"':
				i = skipString(b, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return len(b)
	}
	for i < len(b) && !strings.ContainsRune(",]} \t\r\n", rune(b[i])) {
		i++
	}
	return i
}

// skipString returns the end of the string that begins at i: its first quote
// with an even number of backslashes before it.
func skipString(b []byte, i int) int {
	for start := i + 1; ; {
		n := bytes.IndexByte(b[i+1:], '"')
		if n < 0 {
			return len(b)
		}
		i += 1 + n
		back := i
		for back > start && b[back-1] == '\\' {
			back--
		}
		if (i-back)%2 == 0 {
			return i + 1
		}
	}
}

// edit is a change of an object's members: nil removes one, anything else
// replaces it or is added at the end.
type edit map[string]json.RawMessage

// apply returns b with its top-level members changed. Everything else keeps
// its bytes and its order.
func (e edit) apply(b []byte, all []member) []byte {
	if len(e) == 0 {
		return b
	}
	out := append(make([]byte, 0, len(b)+256), '{')
	sep := func() {
		if len(out) > 1 {
			out = append(out, ',')
		}
	}
	done := map[string]bool{}
	for _, m := range all {
		v, changed := e[m.key]
		done[m.key] = true
		switch {
		case !changed:
			sep()
			out = append(out, m.whole.of(b)...)
		case v != nil:
			sep()
			out = append(out, b[m.whole.from:m.value.from]...)
			out = append(out, v...)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(e)) {
		if v := e[k]; v != nil && !done[k] {
			sep()
			key, _ := json.Marshal(k) // a string always can
			out = append(append(append(out, key...), ':'), v...)
		}
	}
	return append(out, '}')
}
