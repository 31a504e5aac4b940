package task

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
)

func laxFloat(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int64:
		return float64(v), true
	case bool:
		return float64(btoi(v)), true
	case string:
		return parseFloat(v)
	}
	return 0, false
}

func laxInt(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case float64:
		if v != math.Trunc(v) || math.Abs(v) >= 1<<63 {
			return 0, false
		}
		return int64(v), true
	case bool:
		return btoi(v), true
	case string:
		return parseInt(v)
	}
	return 0, false
}

// laxBool follows pydantic: 0 and 1 as numbers, the usual words as text.
func laxBool(v any) (value, ok bool) {
	switch v := v.(type) {
	case bool:
		return v, true
	case int64:
		return v == 1, v == 0 || v == 1
	case float64:
		return v == 1, v == 0 || v == 1
	case string:
		switch strings.ToLower(v) {
		case "1", "on", "t", "true", "y", "yes":
			return true, true
		case "0", "off", "f", "false", "n", "no":
			return false, true
		}
	}
	return false, false
}

// parseInt reads an integer as pydantic does: surrounding space, a sign,
// single underscores between digits, and a fraction of zeros.
func parseInt(s string) (int64, bool) {
	s = strings.TrimSpace(s)
	if whole, frac, ok := strings.Cut(s, "."); ok && strings.Trim(frac, "0") == "" && frac != "" {
		s = whole
	}
	s, ok := stripUnderscores(s)
	if !ok || !digits(strings.TrimLeft(s, "+-")) {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

func parseFloat(s string) (float64, bool) {
	s, ok := stripUnderscores(strings.TrimSpace(s))
	if !ok || strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// stripUnderscores allows single underscores between characters.
func stripUnderscores(s string) (string, bool) {
	if strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return "", false
	}
	return strings.ReplaceAll(s, "_", ""), true
}

func digits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

func describe(v any) string {
	if s, ok := v.(string); ok {
		return strconv.Quote(clip(s, 60))
	}
	return kindOf(v)
}

func kindOf(v any) string {
	switch v := v.(type) {
	case string:
		return "text " + strconv.Quote(clip(v, 40))
	case bool:
		return strconv.FormatBool(v)
	case int64:
		return "the number " + strconv.FormatInt(v, 10)
	case float64:
		return "the number " + strconv.FormatFloat(v, 'g', -1, 64)
	case []any:
		return "a list"
	case map[string]any:
		return "a table"
	case time.Time, toml.LocalDate, toml.LocalDateTime, toml.LocalTime:
		return "a date or time"
	case nil:
		return "nothing"
	}
	return fmt.Sprintf("%T", v)
}

// clip cuts text for a message.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// nearest finds the known word that a misspelt one most likely means.
func nearest(word string, known []string) string {
	best, at := "", max(2, len(word)/3)+1
	for _, k := range known {
		if strings.HasPrefix(k, word+"_") {
			return k
		}
		if n := editDistance(strings.ToLower(word), k, at); n < at {
			best, at = k, n
		}
	}
	return best
}

// editDistance counts insertions, deletions and replacements, up to limit.
func editDistance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = min(diagonal, row[j], row[j+1]) + 1
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
