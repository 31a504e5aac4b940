package grade

import (
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/trial"
)

type rewards = map[string]json.Number

func one(s string) rewards { return rewards{"reward": json.Number(s)} }

// textCases is Harbor's reward.txt: content, rewards, or the cause of none.
var textCases = []struct {
	name, in string
	want     rewards
	cause    trial.Cause
}{
	{"one", "1", one("1.0"), ""},
	{"one line", "1\n", one("1.0"), ""},
	{"zero", "0", one("0.0"), ""},
	{"underscore and exponent", " 1_0.5e0 ", one("10.5"), ""},
	{"negative", "-2.5", one("-2.5"), ""},
	{"plus", "+3", one("3.0"), ""},
	{"point first", ".5", one("0.5"), ""},
	{"point last", "5.", one("5.0"), ""},
	{"tiny", "1e-7", one("1e-07"), ""},
	{"large", "1e16", one("1e+16"), ""},
	{"below the exponent form", "123456789012345", one("123456789012345.0"), ""},
	{"underflow", "1e-400", one("0.0"), ""},
	{"negative zero", "-0", one("-0.0"), ""},
	{"arabic digits", "\u0661.\u0665", one("1.5"), ""},
	{"mathematical digits", "\U0001d7d9", one("1.0"), ""},
	{"unicode space", "\u00a0\u20031\u3000", one("1.0"), ""},
	{"vertical tab", "\v1\f", one("1.0"), ""},
	{"exponent underscore", "1e1_0", one("10000000000.0"), ""},

	{"empty", "", nil, trial.CauseRewardEmpty},
	{"nan", "nan", nil, trial.CauseRewardMalformed},
	{"NaN signed", "-NaN", nil, trial.CauseRewardMalformed},
	{"inf", "inf", nil, trial.CauseRewardMalformed},
	{"infinity", "-Infinity", nil, trial.CauseRewardMalformed},
	{"overflow", "1e309", nil, trial.CauseRewardMalformed},
	{"two lines", "1\n0", nil, trial.CauseRewardMalformed},
	{"white space", " \n", nil, trial.CauseRewardMalformed},
	{"word", "pass", nil, trial.CauseRewardMalformed},
	{"double underscore", "1__0", nil, trial.CauseRewardMalformed},
	{"underscore last", "1_", nil, trial.CauseRewardMalformed},
	{"underscore first", "_1", nil, trial.CauseRewardMalformed},
	{"underscore by the point", "1_.5", nil, trial.CauseRewardMalformed},
	{"hex", "0x1p4", nil, trial.CauseRewardMalformed},
	{"hex int", "0x10", nil, trial.CauseRewardMalformed},
	{"file separator", "\x1c1", nil, trial.CauseRewardMalformed},
	{"byte order mark", "\ufeff1", nil, trial.CauseRewardMalformed},
	{"not utf-8", "1\xff", nil, trial.CauseRewardMalformed},
	{"nul", "1\x00", nil, trial.CauseRewardMalformed},
	{"point alone", ".", nil, trial.CauseRewardMalformed},
	{"exponent alone", "e5", nil, trial.CauseRewardMalformed},
	{"comma", "1,5", nil, trial.CauseRewardMalformed},
	{"sign twice", "+-1", nil, trial.CauseRewardMalformed},
	{"sign then space", "- 1", nil, trial.CauseRewardMalformed},
	{"percent", "100%", nil, trial.CauseRewardMalformed},
}

// jsonCases is Harbor's reward.json.
var jsonCases = []struct {
	name, in string
	want     rewards
	cause    trial.Cause
}{
	{"int stays int", `{"reward": 1}`, one("1"), ""},
	{"float keeps its spelling", `{"reward": 0.50}`, one("0.50"), ""},
	{"thirty digits", `{"reward": 123456789012345678901234567890}`, one("123456789012345678901234567890"), ""},
	{"most digits", `{"a": ` + strings.Repeat("9", 4300) + `}`, rewards{"a": json.Number(strings.Repeat("9", 4300))}, ""},
	{"negative zero int", `{"reward": -0}`, one("0"), ""},
	{"negative", `{"a": -1, "b": 2.5e1}`, rewards{"a": "-1", "b": "2.5e1"}, ""},
	{"true", `{"reward": true}`, one("1.0"), ""},
	{"false", `{"reward": false}`, one("0.0"), ""},
	{"no keys", `{}`, rewards{}, ""},
	{"duplicate key", `{"reward": 0, "reward": 1}`, one("1"), ""},
	{"bad duplicate first", `{"reward": "x", "reward": 1}`, one("1"), ""},
	{"NaN replaced", `{"reward": NaN, "reward": 1}`, one("1"), ""},
	{"NaN is a name", `{"NaN\\": -Infinity, "NaN\\": 1}`, rewards{`NaN\`: "1"}, ""},
	{"spaces", " \r\n{\t\"reward\" : 1 } \n", one("1"), ""},
	{"escaped key", `{"rew\u0061rd": 1}`, one("1"), ""},
	{"surrogate pair", `{"\ud83d\ude00": 1}`, rewards{"😀": "1"}, ""},
	{"escaped backslash u", `{"\\ud800": 1}`, rewards{`\ud800`: "1"}, ""},
	{"underflow", `{"reward": 1e-400}`, one("1e-400"), ""},
	{"empty key", `{"": 1}`, rewards{"": "1"}, ""},

	{"empty", "", nil, trial.CauseRewardEmpty},
	{"NaN", `{"reward": NaN}`, nil, trial.CauseRewardMalformed},
	{"Infinity", `{"reward": Infinity}`, nil, trial.CauseRewardMalformed},
	{"minus NaN", `{"reward": -NaN, "reward": 1}`, nil, trial.CauseRewardMalformed},
	{"overflow", `{"reward": 1e309}`, nil, trial.CauseRewardMalformed},
	{"null value", `{"reward": null}`, nil, trial.CauseRewardMalformed},
	{"text", `{"reward": "1"}`, nil, trial.CauseRewardMalformed},
	{"nested", `{"reward": {"a": 1}}`, nil, trial.CauseRewardMalformed},
	{"list value", `{"reward": [1]}`, nil, trial.CauseRewardMalformed},
	{"bad duplicate last", `{"reward": 1, "reward": "x"}`, nil, trial.CauseRewardMalformed},
	{"list", `[1]`, nil, trial.CauseRewardMalformed},
	{"bare number", `1`, nil, trial.CauseRewardMalformed},
	{"bare true", `true`, nil, trial.CauseRewardMalformed},
	{"bare null", `null`, nil, trial.CauseRewardMalformed},
	{"byte order mark", "\ufeff{\"reward\": 1}", nil, trial.CauseRewardMalformed},
	{"trailing data", `{"reward": 1} x`, nil, trial.CauseRewardMalformed},
	{"two objects", `{"reward": 1}{"reward": 1}`, nil, trial.CauseRewardMalformed},
	{"trailing comma", `{"reward": 1,}`, nil, trial.CauseRewardMalformed},
	{"single quotes", `{'reward': 1}`, nil, trial.CauseRewardMalformed},
	{"leading zero", `{"reward": 01}`, nil, trial.CauseRewardMalformed},
	{"plus", `{"reward": +1}`, nil, trial.CauseRewardMalformed},
	{"point last", `{"reward": 1.}`, nil, trial.CauseRewardMalformed},
	{"control character", "{\"re\nward\": 1}", nil, trial.CauseRewardMalformed},
	{"not utf-8", "{\"\xff\": 1}", nil, trial.CauseRewardMalformed},
	{"half a surrogate", `{"\ud800": 1}`, nil, trial.CauseRewardMalformed},
	{"low surrogate", `{"\udc00": 1}`, nil, trial.CauseRewardMalformed},
	{"too many digits", `{"reward": ` + strings.Repeat("9", 4301) + `}`, nil, trial.CauseRewardMalformed},
	{"white space", " ", nil, trial.CauseRewardMalformed},
	{"cut off", `{"reward": 1`, nil, trial.CauseRewardMalformed},
	{"deep", strings.Repeat("[", 100000), nil, trial.CauseRewardMalformed},
}

func TestParseRewardText(t *testing.T) {
	for _, c := range textCases {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseRewardText([]byte(c.in))
			checkReward(t, got, err, c.want, c.cause)
		})
	}
}

func TestParseRewardJSON(t *testing.T) {
	for _, c := range jsonCases {
		t.Run(c.name, func(t *testing.T) {
			got, err := ParseRewardJSON([]byte(c.in))
			checkReward(t, got, err, c.want, c.cause)
		})
	}
}

func checkReward(t *testing.T, got rewards, err error, want rewards, cause trial.Cause) {
	t.Helper()
	if cause == "" {
		if err != nil {
			t.Fatalf("refused: %v", err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("rewards (-want +got):\n%s", d)
		}
		return
	}
	var re *RewardError
	if !errors.As(err, &re) {
		t.Fatalf("got %v, %v; want cause %s", got, err, cause)
	}
	if re.Cause != cause || re.Detail == "" || re.File == "" {
		t.Fatalf("got %+v, want cause %s with file and detail", re, cause)
	}
}

// Whatever is accepted is a flat object of finite numbers that JSON can hold
// and that reads back as the same numbers.
func FuzzParseRewardJSON(f *testing.F) {
	for _, c := range jsonCases {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseRewardJSON(b)
		checkParsed(t, got, err)
		if err != nil {
			return
		}
		again, err := json.Marshal(got)
		if err != nil {
			t.Fatalf("accepted %q, but it cannot be written: %v", b, err)
		}
		back, err := ParseRewardJSON(again)
		if err != nil {
			t.Fatalf("wrote %s and refused it: %v", again, err)
		}
		if d := cmp.Diff(got, back); d != "" {
			t.Fatalf("round trip of %q (-first +second):\n%s", b, d)
		}
	})
}

func FuzzParseRewardText(f *testing.F) {
	for _, c := range textCases {
		f.Add([]byte(c.in))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := ParseRewardText(b)
		checkParsed(t, got, err)
		if err != nil {
			return
		}
		back, err := ParseRewardText([]byte(got["reward"]))
		if err != nil || back["reward"] != got["reward"] {
			t.Fatalf("%q gave %q, which reads back as %q, %v", b, got["reward"], back["reward"], err)
		}
	})
}

func checkParsed(t *testing.T, got rewards, err error) {
	if err != nil {
		var re *RewardError
		if !errors.As(err, &re) || got != nil {
			t.Fatalf("an error of another kind, or rewards beside it: %v, %v", got, err)
		}
		if len(re.Detail) > 400 {
			t.Fatalf("an error of %d bytes quotes hostile text", len(re.Detail))
		}
		return
	}
	for k, n := range got {
		f, err := strconv.ParseFloat(string(n), 64)
		if math.IsNaN(f) || (math.IsInf(f, 0) && strings.ContainsAny(string(n), ".eE")) {
			t.Fatalf("%q = %q is not finite (%v)", k, n, err)
		}
	}
}
