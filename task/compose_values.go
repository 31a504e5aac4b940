package task

import (
	"strconv"
	"strings"
	"time"
)

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

// plain is a scalar as text, before its variables are replaced.
func (r *composeReader) plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// text is a scalar with its variables replaced.
func (r *composeReader) text(k key, v any) string {
	switch v.(type) {
	case string, int64, float64, bool:
	case nil:
		return ""
	default:
		r.refuse(k, "must be text, not %s", kindOf(v))
		return ""
	}
	before := len(r.vars.unset)
	s, err := r.vars.expand(r.plain(v))
	if err != nil {
		r.refuse(k, "%v", err)
		return ""
	}
	if len(r.vars.unset) > before {
		r.note("variables %s are set nowhere and stand for nothing: variables of this machine are not read", strings.Join(sortedKeys(r.vars.unset), ", "))
	}
	if strings.ContainsRune(s, 0) {
		r.refuse(k, "holds a zero byte")
		return ""
	}
	return s
}

// strings is a list of scalars, or a single one.
func (r *composeReader) strings(k key, v any) []string {
	list, ok := v.([]any)
	if !ok {
		if v == nil {
			return nil
		}
		return []string{r.text(k, v)}
	}
	if len(list) > maxPerList {
		r.refuse(k, "%d entries are more than %d", len(list), maxPerList)
		return nil
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		out = append(out, r.text(k.at(i), e))
	}
	return out
}

// words is a command: a list, or a line that is split as a shell does, without
// one. No value means the image's.
func (r *composeReader) words(k key, v any) []string {
	if v == nil {
		return nil
	}
	if _, ok := v.([]any); ok {
		return r.strings(k, v)
	}
	out, ok := splitWords(r.text(k, v))
	if !ok {
		r.refuse(k, "a quotation is not closed")
	}
	return out
}

// splitWords splits at spaces outside of quotes. The result is never nil.
func splitWords(s string) ([]string, bool) {
	out := []string{}
	var b strings.Builder
	in, quote := false, byte(0)
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && i+1 < len(s):
			if i++; quote == '"' && s[i] != '"' && s[i] != '\\' {
				b.WriteByte('\\')
			}
			b.WriteByte(s[i])
			in = true
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote, in = c, true
		case c == ' ' || c == '\t' || c == '\n':
			if in {
				out = append(out, b.String())
			}
			b.Reset()
			in = false
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if in {
		out = append(out, b.String())
	}
	return out, quote == 0
}

// mapping reads both forms of a table: "KEY: value" and a list of "KEY=value".
// A key without a value is one of this machine's, and left out.
func (r *composeReader) mapping(k key, v any) map[string]string {
	out := map[string]string{}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		if len(v) > maxPerList {
			r.refuse(k, "%d entries are more than %d", len(v), maxPerList)
			return out
		}
		for _, name := range sortedKeys(v) {
			if v[name] != nil {
				out[name] = r.text(k.with(name), v[name])
			}
		}
	case []any:
		for i, e := range r.strings(k, v) {
			name, val, ok := strings.Cut(e, "=")
			if name == "" {
				r.refuse(k.at(i), "has no name")
			}
			if ok {
				out[name] = val
			}
		}
	default:
		r.refuse(k, "must be a mapping or a list, not %s", kindOf(v))
	}
	for _, name := range sortedKeys(out) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			r.refuse(k, "%s is no name of a variable", describe(name))
			delete(out, name)
		}
	}
	return out
}

func (r *composeReader) number(k key, v any) float64 {
	f, err := strconv.ParseFloat(strings.TrimSpace(r.text(k, v)), 64)
	if err != nil || f != f || f > 1e9 || f < -1 {
		r.refuse(k, "%s is no number that makes sense here", describe(r.plain(v)))
		return 0
	}
	return f
}

// bytes reads a size as Docker writes them: "512m", "1gb", a plain number.
func (r *composeReader) bytes(k key, v any) int64 {
	s := strings.ToLower(strings.TrimSpace(r.text(k, v)))
	num := strings.TrimRight(s, "bkmgti")
	shift, ok := map[string]int{"": 0, "b": 0, "k": 10, "kb": 10, "kib": 10, "m": 20, "mb": 20, "mib": 20, "g": 30, "gb": 30, "gib": 30, "t": 40, "tb": 40, "tib": 40}[s[len(num):]]
	f, err := strconv.ParseFloat(strings.TrimSpace(num), 64)
	if !ok || err != nil || !(f >= 0 && f < 1<<20 || shift == 0 && f >= 0 && f < 1<<50) {
		r.refuse(k, "%s is no size", describe(r.plain(v)))
		return 0
	}
	return int64(f * float64(int64(1)<<shift))
}

func (r *composeReader) duration(k key, v any) time.Duration {
	s := r.text(k, v)
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 24*time.Hour {
		r.refuse(k, "%s is no duration such as 1m30s", describe(s))
		return 0
	}
	return d
}
