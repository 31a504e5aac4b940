package grade

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"assay/trial"
)

// Names below /logs/verifier. reward.json wins over reward.txt even when it is
// empty or broken: there is no fallback, as in Harbor's verifier/verifier.py.
const (
	RewardJSON = "reward.json"
	RewardText = "reward.txt"
	Details    = "reward-details.json"
	TestStdout = "test-stdout.txt"
)

// pythonDigits is CPython's limit on the digits of an integer literal
// (sys.int_info.default_max_str_digits); json.loads refuses a longer one.
const pythonDigits = 4300

// RewardError says why a reward file gives no rewards.
type RewardError struct {
	Cause  trial.Cause // reward_missing, reward_empty or reward_malformed
	File   string
	Detail string
}

func (e *RewardError) Error() string { return e.File + ": " + e.Detail }

func malformed(file, format string, a ...any) *RewardError {
	return &RewardError{trial.CauseRewardMalformed, file, fmt.Sprintf(format, a...)}
}

// ParseRewardText reads a reward.txt: one finite number in the grammar of
// Python's float(), white space around it. The value stands under "reward",
// spelled as Python spells a float. Errors are *RewardError.
func ParseRewardText(b []byte) (map[string]json.Number, error) {
	if len(b) == 0 {
		return nil, &RewardError{trial.CauseRewardEmpty, RewardText, "the file is empty"}
	}
	if !utf8.Valid(b) {
		return nil, malformed(RewardText, "not UTF-8")
	}
	f, ok := pythonFloat(string(b))
	if !ok {
		return nil, malformed(RewardText, "%q is not a number", clip(string(b)))
	}
	if math.IsInf(f, 0) || math.IsNaN(f) {
		return nil, malformed(RewardText, "%q is not finite", clip(string(b)))
	}
	return map[string]json.Number{"reward": spell(f)}, nil
}

// ParseRewardJSON reads a reward.json: a flat object of finite numbers, which
// keep their spelling; true and false count as 1.0 and 0.0; of a repeated key
// the last counts. Errors are *RewardError.
func ParseRewardJSON(b []byte) (map[string]json.Number, error) {
	if len(b) == 0 {
		return nil, &RewardError{trial.CauseRewardEmpty, RewardJSON, "the file is empty"}
	}
	if !utf8.Valid(b) {
		return nil, malformed(RewardJSON, "not UTF-8")
	}
	if loneSurrogate(b) {
		return nil, malformed(RewardJSON, "a \\u escape is half of a surrogate pair")
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(nullConstants(b), &raw); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return nil, malformed(RewardJSON, "the top level is a %s, not an object", kind.Value)
		}
		return nil, malformed(RewardJSON, "not JSON: %v", err)
	}
	if raw == nil {
		return nil, malformed(RewardJSON, "the top level is null, not an object")
	}
	rewards := make(map[string]json.Number, len(raw))
	for _, key := range sortedKeys(raw) {
		n, why := jsonReward(string(raw[key]))
		if why != "" {
			return nil, malformed(RewardJSON, "reward %q is %s", clip(key), why)
		}
		rewards[key] = n
	}
	return rewards, nil
}

// jsonReward checks one value of a reward object; why is empty when it is fine.
func jsonReward(s string) (n json.Number, why string) {
	switch s[0] {
	case 't':
		return "1.0", ""
	case 'f':
		return "0.0", ""
	case 'n':
		return "", "null, NaN or infinite"
	case '"':
		return "", "text, not a number"
	case '{':
		return "", "an object, not a number"
	case '[':
		return "", "a list, not a number"
	}
	if !strings.ContainsAny(s, ".eE") {
		if len(strings.TrimPrefix(s, "-")) > pythonDigits {
			return "", fmt.Sprintf("an integer of more than %d digits", pythonDigits)
		}
		if s == "-0" {
			return "0", "" // an integer has no negative zero
		}
		return json.Number(s), ""
	}
	if f, err := strconv.ParseFloat(s, 64); err != nil || math.IsInf(f, 0) {
		return "", "not finite"
	}
	return json.Number(s), ""
}

// nullConstants writes null for the NaN and Infinity that Python's decoder
// reads though JSON has none: they are refused as values, but not where a later
// duplicate of their key replaces them.
func nullConstants(b []byte) []byte {
	if !bytes.Contains(b, []byte("NaN")) && !bytes.Contains(b, []byte("Infinity")) {
		return b
	}
	out := make([]byte, 0, len(b))
	quoted := false
	for i := 0; i < len(b); {
		rest := b[i:]
		n := 1
		switch {
		case quoted && b[i] == '\\' && len(rest) > 1:
			n = 2
		case b[i] == '"':
			quoted = !quoted
		case quoted:
		case bytes.HasPrefix(rest, []byte("NaN")):
			out, i = append(out, "null"...), i+len("NaN")
			continue
		case bytes.HasPrefix(rest, []byte("Infinity")):
			out, i = append(out, "null"...), i+len("Infinity")
			continue
		case bytes.HasPrefix(rest, []byte("-Infinity")):
			out, i = append(out, "null"...), i+len("-Infinity")
			continue
		}
		out, i = append(out, rest[:n]...), i+n
	}
	return out
}

// loneSurrogate finds a \uD800–\uDFFF escape that is not one of a pair. Go's
// decoder would silently replace it, and two different keys could become one;
// Harbor writes it as U+FFFD, assay refuses it.
func loneSurrogate(b []byte) bool {
	high := false // the escape just before was a high surrogate
	for i := 0; i < len(b); {
		if b[i] != '\\' || i+1 >= len(b) {
			if high {
				return true
			}
			i++
			continue
		}
		if b[i+1] != 'u' || i+6 > len(b) {
			if high {
				return true
			}
			i += 2
			continue
		}
		v, err := strconv.ParseUint(string(b[i+2:i+6]), 16, 32)
		low := err == nil && v >= 0xDC00 && v <= 0xDFFF
		if low != high {
			return true
		}
		high = err == nil && v >= 0xD800 && v <= 0xDBFF
		i += 6
	}
	return high
}

// pythonFloat is Python's float(str): Unicode white space and decimal digits,
// single underscores between digits, inf, infinity and nan in any case. An
// overflow is an infinity.
func pythonFloat(s string) (float64, bool) {
	s = strings.Trim(asciiDecimal(s), " \t\n\v\f\r")
	sign, body := "", s
	if body != "" && (body[0] == '+' || body[0] == '-') {
		sign, body = body[:1], body[1:]
	}
	switch strings.ToLower(body) {
	case "inf", "infinity":
		if sign == "-" {
			return math.Inf(-1), true
		}
		return math.Inf(1), true
	case "nan":
		return math.NaN(), true
	}
	if !pythonDecimal(body) {
		return 0, false
	}
	f, err := strconv.ParseFloat(sign+strings.ReplaceAll(body, "_", ""), 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	return f, true
}

// asciiDecimal maps Unicode decimal digits and spaces to ASCII, as CPython
// does before it reads a number. Pure ASCII text is left as it is.
func asciiDecimal(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < utf8.RuneSelf:
			return r
		case unicode.IsSpace(r):
			return ' '
		case unicode.Is(unicode.Nd, r):
			return '0' + digitValue(r)
		}
		return '?'
	}, s)
}

// digitValue is the value of a decimal digit: Unicode lays them out in runs of
// ten that begin with zero.
func digitValue(r rune) rune {
	for _, t := range unicode.Nd.R16 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	for _, t := range unicode.Nd.R32 {
		if rune(t.Lo) <= r && r <= rune(t.Hi) {
			return (r - rune(t.Lo)) % 10
		}
	}
	return 0
}

// pythonDecimal: [digits] ["." [digits]] [("e"|"E") [sign] digits], with a
// digit before or after the point, and "_" only between two digits.
func pythonDecimal(s string) bool {
	digits := func() bool {
		end := byte('_') // an underscore may not come first
		for s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] == '_' && end != '_' && len(s) > 1 && s[1] >= '0' && s[1] <= '9') {
			end, s = s[0], s[1:]
		}
		return end != '_'
	}
	whole := digits()
	frac := false
	if strings.HasPrefix(s, ".") {
		s = s[1:]
		frac = digits()
	}
	if !whole && !frac {
		return false
	}
	if s != "" && (s[0] == 'e' || s[0] == 'E') {
		s = s[1:]
		if s != "" && (s[0] == '+' || s[0] == '-') {
			s = s[1:]
		}
		if !digits() {
			return false
		}
	}
	return s == ""
}

// spell writes f as Python's repr does: always recognisable as a float.
func spell(f float64) json.Number {
	if f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16) {
		return json.Number(strconv.FormatFloat(f, 'e', -1, 64))
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return json.Number(s)
}

// integer returns n as an integer when it is spelled as one.
func integer(n json.Number) (*big.Int, bool) {
	if strings.ContainsAny(string(n), ".eE") {
		return nil, false
	}
	return new(big.Int).SetString(string(n), 10)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// clip shortens hostile text for an error message.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}
