package program

import (
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func decode(t testing.TB, s string) Value {
	t.Helper()
	v, err := Decode([]byte(s))
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return v
}

func TestValues(t *testing.T) {
	exact, python := Equality{}, Equality{Bools: true}
	close := Equality{Abs: 1e-6, Rel: 1e-7}
	for _, tt := range []struct {
		name      string
		e         Equality
		want, got string
		equal     bool
	}{
		{"integers", exact, `1`, `1`, true},
		{"an integer and a float", exact, `1`, `1.0`, true},
		{"a float and an integer", exact, `1e2`, `100`, true},
		{"numbers and texts", exact, `1`, `"1"`, false},
		{"big integers", exact, `{"$int":"0x123456789abcdef0123"}`, `{"$int":"0x123456789abcdef0123"}`, true},
		{"big integers that floats confuse", exact, `{"$int":"0x20000000000001"}`, `9007199254740992.0`, false},
		{"a big integer as a float", exact, `{"$int":"0x20000000000000"}`, `9007199254740992.0`, true},
		{"a negative one", exact, `{"$int":"-0x20000000000001"}`, `-9007199254740993`, true},
		{"true and 1", exact, `true`, `1`, false},
		{"true and 1 in Python", python, `[true, 0]`, `[1, false]`, true},
		{"true in a set in Python", python, `{"$set":[true]}`, `{"$set":[1.0]}`, true},
		{"null and false", python, `null`, `false`, false},
		{"NaN", exact, `{"$float":"nan"}`, `{"$float":"nan"}`, true},
		{"NaN and a number", close, `{"$float":"nan"}`, `0.0`, false},
		{"infinities", close, `{"$float":"inf"}`, `{"$float":"-inf"}`, false},
		{"infinity and the largest number", close, `{"$float":"inf"}`, `1.7976931348623157e308`, false},
		{"negative zero", exact, `0.0`, `-0.0`, true},
		{"floats", exact, `0.3`, `0.30000000000000004`, false},
		{"floats with a tolerance", close, `0.3`, `0.30000000000000004`, true},
		{"floats out of it", close, `0.3`, `0.300002`, false},
		{"integers have none", close, `10000000000`, `10000000001`, false},
		{"of a wanted integer only the absolute", close, `10000000000`, `10000000001.0`, false},
		{"of a wanted float both", close, `10000000000.0`, `10000000001`, true},
		{"nested floats", close, `{"a":[[0.1],{"$tuple":[1,0.2]}]}`, `{"a":[[0.1000001],{"$tuple":[1.0,0.2]}]}`, true},
		{"lists", exact, `[1,[2]]`, `[1,[2]]`, true},
		{"a shorter list", exact, `[1,2]`, `[1]`, false},
		{"a longer list", exact, `[1]`, `[1,2]`, false},
		{"another order", exact, `[1,2]`, `[2,1]`, false},
		{"any order", Equality{Unordered: true}, `[[1,2],[3]]`, `[[3],[2,1]]`, true},
		{"any order, other counts", Equality{Unordered: true}, `[1,1,2]`, `[1,2,2]`, false},
		{"a list and a tuple", exact, `[1]`, `{"$tuple":[1]}`, false},
		{"sets", exact, `{"$set":[1,2]}`, `{"$set":[2,1]}`, true},
		{"sets of floats", close, `{"$set":[1.0,2.0]}`, `{"$set":[2.0000001,1.0000001]}`, true},
		{"another set", exact, `{"$set":[1,2]}`, `{"$set":[1,3]}`, false},
		{"a set and a list", exact, `{"$set":[1]}`, `[1]`, false},
		{"objects", exact, `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"a missing key", exact, `{"a":1,"b":2}`, `{"a":1,"c":2}`, false},
		{"another key", exact, `{"a":1}`, `{"a":1,"b":2}`, false},
		{"keys that are no strings", exact, `{"$dict":[[1,"a"],[{"$tuple":[1,2]},"b"]]}`, `{"$dict":[[{"$tuple":[1,2]},"b"],[1.0,"a"]]}`, true},
		{"an object as a dict", exact, `{"$dict":[["a",1]]}`, `{"a":1}`, true},
		{"bytes and text", exact, `{"$bytes":"YQ=="}`, `"a"`, false},
		{"complex numbers", close, `{"$complex":[1.0,2.0]}`, `{"$complex":[1.0000001,2.0]}`, true},
		{"ranges with the same items", exact, `{"$range":[0,3,2]}`, `{"$range":[0,4,2]}`, true},
		{"other ranges", exact, `{"$range":[0,5,2]}`, `{"$range":[0,4,2]}`, false},
		{"empty ranges", exact, `{"$range":[5,0,1]}`, `{"$range":[0,0,3]}`, true},
		{"ranges down", exact, `{"$range":[5,0,-2]}`, `{"$range":[5,1,-2]}`, false},
		{"dates", exact, `{"$date":"2024-02-29"}`, `{"$date":"2024-02-29"}`, true},
		{"a date and a time", exact, `{"$date":"2024-02-29"}`, `{"$datetime":"2024-02-29"}`, false},
		{"undefined and null", exact, `{"$undefined":""}`, `null`, false},
		{"lone surrogates", exact, `"\ud800"`, `"\ufffd"`, false},
		{"a pair is one letter", exact, `"\ud83d\ude00"`, `"😀"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, got := decode(t, tt.want), decode(t, tt.got)
			if why := tt.e.Differ(want, got); (why == "") != tt.equal {
				t.Errorf("%v and %v: %q", want, got, why)
			}
			if same := tt.e.keyOf(want) == tt.e.keyOf(got); same && !tt.equal {
				t.Errorf("%v and %v have one key", want, got)
			}
		})
	}
}

func TestBags(t *testing.T) {
	e := Equality{Abs: 0.6}
	for _, tt := range []struct {
		m         Mode
		want, got string
		equal     bool
	}{
		{Unordered, `[1,2,2]`, `{"$tuple":[2,1,2]}`, true},
		{Unordered, `[1,2,2]`, `[2,1,1]`, false},
		{AsSet, `[1,2,2]`, `{"$iter":[2,1,1,1]}`, true},
		{AsSet, `[1,2]`, `[1]`, false},
		{AsSet, `[1]`, `[1,2]`, false},
		{Unordered, `{"a":1}`, `{"a":1}`, true},
		{Unordered, `[1]`, `1`, false},
		// 1.5 fits 1 and 2: who takes it first must give it back.
		{Unordered, `[1.0,2.0]`, `[1.5,0.5]`, true},
		{Unordered, `[2.0,1.0]`, `[1.5,0.5]`, true},
		{Unordered, `[2.0,1.0]`, `[0.5,0.5]`, false},
		{Truth, `true`, `[0]`, true},
		{Truth, `false`, `""`, true},
		{Truth, `true`, `0.0`, false},
		{Truth, `false`, `{"$range":[3,0,1]}`, true},
	} {
		if why := differValue(tt.m, e, decode(t, tt.want), decode(t, tt.got)); (why == "") != tt.equal {
			t.Errorf("%s %s %s: %q", tt.m, tt.want, tt.got, why)
		}
	}
}

func TestTexts(t *testing.T) {
	for _, tt := range []struct {
		m         Mode
		want, got string
		equal     bool
	}{
		{Exact, "a\n", "a", false},
		{Exact, "a\n", "a\n", true},
		{Text, "a\n", "a", true},
		{Text, "a \r\nb\n", "a\nb\n\n \n", true},
		{Text, "a b", "a  b", false},
		{Text, " a", "a", false},
		{Text, "", "\n", true},
		{Text, "a\n\nb", "a\nb", false},
		{Tokens, "a  b\nc", "a b c\n", true},
		{Tokens, "a b", "ab", false},
		{Tokens, "a b", "a b c", false},
		{Tokens, "1", "1.0", false},
		{Numbers, "x = 1.0", "x = 1.0000001", true},
		{Numbers, "x = 1.0", "x = 1.1", false},
		{Numbers, "x = 1.0", "y = 1.0", false},
		{Numbers, "1e3 +2", "1000.0 2", true},
		{Numbers, "nan inf -Infinity", "NaN INF -inf", true},
		{Numbers, "inf", "1e999", true},
		{Numbers, "0x10", "16", false},
		{Numbers, "1_000", "1000", false},
		{Numbers, "--1", "1", false},
		{Numbers, "1", "one", false},
		{Numbers, "100", "100", true},
		{JSON, `{"a":1}`, ` {"a" : 1.0 } `, true},
		{JSON, `{"a":1}`, `{"a":1,"a":1}`, false},
		{JSON, `{"a":1}`, `{"a":1} x`, false},
		{JSON, `[1,2]`, `[2,1]`, false},
		{JSONUnordered, `[1,[2,3]]`, `[[3,2],1]`, true},
		{JSON, `{"$set":[1,2]}`, `{"$set":[2,1]}`, false}, // a program's JSON has no tags
	} {
		e := Equality{Abs: 1e-6, Rel: 1e-6}
		if why := differText(tt.m, e, tt.want, tt.got); (why == "") != tt.equal {
			t.Errorf("%s %q %q: %q", tt.m, tt.want, tt.got, why)
		}
	}
}

func ordered() map[string]bool {
	return map[string]bool{
		"SELECT 1":                                     false,
		"select a from t order\n by a;":                true,
		"SELECT * FROM (SELECT 1 ORDER BY 1)":          false,
		"SELECT 'ORDER BY'":                            false,
		"SELECT 1 -- ORDER BY 1":                       false,
		"SELECT 1 /* ORDER BY */":                      false,
		"SELECT 1 /* ; */ ORDER /**/ BY 1 -- ;\n;":     true,
		"SELECT row_number() OVER (ORDER BY a) FROM t": false,
		"SELECT 1 ORDER BY 1; SELECT 2":                false,
		"SELECT 1; SELECT 2 ORDER BY 1; -- x":          true,
		`SELECT "order" by`:                            false,
		"SELECT 'it''s' ORDER BY 1":                    true,
		"SELECT order_by":                              false,
		"'":                                            false,
	}
}

func queries() []string { return slices.Sorted(maps.Keys(ordered())) }

func TestOrders(t *testing.T) {
	for sql, want := range ordered() {
		if got := Orders(sql); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
}

// random makes values of all kinds; scalars and small, so that some are equal.
func random(r *rand.Rand, depth int) Value {
	k := Kind(1 + r.IntN(int(Named)))
	if depth <= 0 {
		k = []Kind{Null, Bool, Int, Float, String, Bytes}[r.IntN(6)]
	}
	v := Value{Kind: k}
	switch k {
	case Bool:
		v.B = r.IntN(2) == 0
	case Int:
		v.I = big.NewInt(int64(r.IntN(4)) - 1)
		if r.IntN(8) == 0 {
			v.I.Lsh(v.I, uint(r.IntN(200)))
		}
	case Float:
		v.F = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), 5e-324}[r.IntN(10)]
	case Complex:
		v.Items = []Value{{Kind: Float, F: float64(r.IntN(2))}, {Kind: Float, F: float64(r.IntN(2))}}
	case String, Bytes:
		v.S = []string{"", "a", "é\n", "\xed\xa0\x80", "$x", "a\x00\u2028\U0001F600"}[r.IntN(6)]
	case Named:
		v.Tag, v.S = tagged[r.IntN(len(tagged))], "x"
	case Range:
		v.Items = []Value{intValue(int64(r.IntN(3))), intValue(int64(r.IntN(4))), intValue(int64(1 + r.IntN(2)))}
	case List, Tuple, Iter:
		v.Items = []Value{}
		for range r.IntN(4) {
			v.Items = append(v.Items, random(r, depth-1))
		}
	case Set, Dict:
		v.Items = []Value{}
		seen := map[string]bool{}
		for range r.IntN(4) {
			x := random(r, depth-1)
			if seen[x.key()] {
				continue
			}
			seen[x.key()] = true
			v.Items = append(v.Items, x)
			if k == Dict {
				v.Items = append(v.Items, random(r, depth-1))
			}
		}
	}
	return v
}

// What is written is read as the same; equality is reflexive and symmetric, and
// agrees with keys; a tolerance only ever adds to it.
func TestPropertiesOfEquality(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	exact, python, loose := Equality{}, Equality{Bools: true}, Equality{Abs: 0.1, Rel: 0.1}
	equal := 0
	for range 20_000 {
		a, b := random(r, 2), random(r, 2)
		if r.IntN(3) == 0 {
			b = a
		}
		again, err := Decode(a.Encode())
		if err != nil || exact.Differ(a, again) != "" || string(again.Encode()) != string(a.Encode()) {
			t.Fatalf("%s is read as %v: %v", a.Encode(), again, err)
		}
		for _, e := range []Equality{exact, python} {
			same := e.Differ(a, b) == ""
			if same != (e.Differ(b, a) == "") {
				t.Fatalf("%v and %v: not symmetric", a, b)
			}
			if same != (e.keyOf(a) == e.keyOf(b)) {
				t.Fatalf("%v and %v: equal %v, keys %q and %q", a, b, same, e.keyOf(a), e.keyOf(b))
			}
			if same {
				equal++
			}
		}
		if exact.Differ(a, b) == "" && loose.Differ(a, b) != "" {
			t.Fatalf("%v and %v: a tolerance makes them differ", a, b)
		}
		if a.Kind == List && (exact.Anyorder(a, b) != "") != (exact.Anyorder(b, a) != "") {
			t.Fatalf("%v and %v: bags are not symmetric", a, b)
		}
	}
	if equal < 500 {
		t.Errorf("only %d pairs were equal", equal)
	}
}

func TestRefusedData(t *testing.T) {
	for _, s := range []string{
		"", "nul", "01", "1.", ".5", "+1", "1e", "[1,]", "[1", "{", `{"a"}`, `{"a":1,}`, `{a:1}`, `"`, `"\x"`, `"\u12"`, "\"\x01\"", "\"\xff\"", "1 2",
		`{"a":1,"a":2}`, `{"$what":1}`, `{"$set":1}`, `{"$set":[1,1.0]}`, `{"$dict":[[1,2],[true,3]]}`, `{"$dict":[[1]]}`, `{"$int":"12"}`, `{"$int":"0xg"}`,
		`{"$float":"1"}`, `{"$bytes":"?"}`, `{"$range":[1,2,0]}`, `{"$range":[1,2]}`, `{"$complex":[1,2]}`, `{"$tuple":[],"a":1}`, `{"a":1,"$tuple":[]}`, "1e999",
		strings.Repeat("[", MaxDepth+2) + strings.Repeat("]", MaxDepth+2), "[" + strings.Repeat("0,", MaxItems) + "0]", strings.Repeat("9", 6000),
		`{"$int":"0x` + strings.Repeat("f", MaxInt) + `"}`,
	} {
		if v, err := Decode([]byte(s)); err == nil {
			t.Errorf("%.60q is read as %.60v", s, v)
		}
	}
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add(random(r, 3).Encode())
	}
	f.Add([]byte(`{"$dict":[[{"$range":[1,5,-2]},"\ud800\udc00"]]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := Decode(data)
		if err != nil {
			return
		}
		again, err := Decode(v.Encode())
		if err != nil || v.key() != again.key() {
			t.Errorf("%q: %v", v.Encode(), err)
		}
		if why := (Equality{}).Differ(v, v); why != "" {
			t.Errorf("%q is not itself: %s", data, why)
		}
		_, _ = tableOf(v)
		_, _ = outcomeOf(data)
	})
}

func FuzzText(f *testing.F) {
	f.Add("1 2.5 x", "1 2.50 x")
	f.Add(`{"a":[1,2]}`, `{"a":[2,1]}`)
	f.Fuzz(func(t *testing.T, a, b string) {
		e := Equality{Abs: 1e-6}
		for _, m := range Modes(false) {
			valid := m != JSON && m != JSONUnordered
			if _, err := ParseJSON([]byte(a)); err == nil {
				valid = true
			}
			if why := differText(m, e, a, a); why != "" && valid {
				t.Errorf("%s: %q is not itself: %s", m, a, why)
			}
			if (differText(m, Equality{}, a, b) == "") != (differText(m, Equality{}, b, a) == "") {
				t.Errorf("%s: %q and %q: not symmetric", m, a, b)
			}
		}
		Orders(a)
	})
}

func FuzzCases(f *testing.F) {
	f.Add([]byte(`{"id":"a","func":"f","args":[1],"want":2}`))
	f.Add([]byte(`{"id":"a","args":["x"],"files":{"a":"b"},"want":{"stdout":"y","exit":null}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, g := range groups() {
			_, _ = Parse(data, g)
		}
	})
}
