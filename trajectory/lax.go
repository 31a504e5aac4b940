package trajectory

import (
	"bytes"
	"encoding/json"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// The reference reads numbers and booleans laxly ("5", 5.0 and true are the
// integer 5, 5 and 1), so reader and validator do too. The rules are those of
// pydantic 2.

// lax fills at from raw where the plain decoder refused. It reports whether
// it could.
func lax(raw json.RawMessage, at any) bool {
	v, err := decode(raw)
	if err != nil {
		return false
	}
	switch p := at.(type) {
	case *int64:
		n, ok := laxInt(v)
		*p = n
		return ok && n != math.MaxInt64 && n != math.MinInt64 // clipped: better kept as it stands
	case **int64:
		n, ok := laxInt(v)
		*p = &n
		return ok && n != math.MaxInt64 && n != math.MinInt64
	case **float64:
		f, ok := laxFloat(v)
		*p = &f
		return ok && !math.IsNaN(f) && !math.IsInf(f, 0) // JSON cannot hold those
	case **bool:
		b, ok := laxBool(v)
		*p = &b
		return ok
	}
	return false
}

// decode reads one JSON value, numbers kept as written.
func decode(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	err := d.Decode(&v)
	return v, err
}

// laxInt reads an integer. One beyond 64 bits is valid for the reference; it
// comes back clipped.
func laxInt(v any) (int64, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case json.Number:
		if !strings.ContainsAny(string(x), ".eE") {
			return clip(string(x))
		}
		f, err := x.Float64()
		if err != nil || f != math.Trunc(f) || math.Abs(f) >= 1<<63 {
			return 0, false
		}
		return int64(f), true
	case string:
		m := intText.FindStringSubmatch(strings.TrimSpace(x))
		if m == nil || len(x) > 4300 {
			return 0, false
		}
		return clip(strings.ReplaceAll(strings.TrimPrefix(m[1], "+"), "_", ""))
	}
	return 0, false
}

func clip(digits string) (int64, bool) {
	n, ok := new(big.Int).SetString(digits, 10)
	switch {
	case !ok:
		return 0, false
	case n.IsInt64():
		return n.Int64(), true
	case n.Sign() > 0:
		return math.MaxInt64, true
	}
	return math.MinInt64, true
}

func laxFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case bool:
		if x {
			return 1, true
		}
		return 0, true
	case json.Number:
		f, err := x.Float64()
		if err != nil && !strings.ContainsAny(string(x), ".eE") {
			return 0, false // an integer too large for a float
		}
		return f, true
	case string:
		s := strings.TrimSpace(x)
		if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") || strings.ContainsAny(s, "xXpP") {
			return 0, false
		}
		f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
		if err != nil && !math.IsInf(f, 0) {
			return 0, false
		}
		return f, true
	}
	return 0, false
}

func laxBool(v any) (value, ok bool) {
	switch x := v.(type) {
	case bool:
		return x, true
	case json.Number:
		f, err := x.Float64()
		return f == 1, err == nil && (f == 0 || f == 1)
	case string:
		switch strings.ToLower(x) {
		case "true", "t", "yes", "y", "on", "1":
			return true, true
		case "false", "f", "no", "n", "off", "0":
			return false, true
		}
	}
	return false, false
}

var intText = regexp.MustCompile(`^([+-]?[0-9]+(?:_[0-9]+)*)(?:\.0+)?$`)
