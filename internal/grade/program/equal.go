package program

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// Equality says when an answer is what was expected. The zero value is exact:
// the same kinds and contents, where 1 and 1.0 are one number, NaN is NaN, -0
// is 0, a set has no order, a dict neither, and a list is no tuple.
type Equality struct {
	// Abs and Rel: floats are equal when |got-want| <= Abs + Rel*|want|, as
	// NumPy's allclose has it. Where an integer is wanted and a float came, only
	// Abs counts; two integers are always compared exactly.
	Abs, Rel float64
	// Bools: true is 1 and false is 0, as Python has it.
	Bools bool
	// Unordered: the items of a list may come in any order, at every depth.
	Unordered bool
}

// Differ says in one line where got is not want; empty: it is.
func (e Equality) Differ(want, got Value) string {
	return e.differ("", want, got)
}

// Anyorder compares two sequences or sets as bags; why not, in one line.
func (e Equality) Anyorder(want, got Value) string {
	if !bag(want.Kind) || !bag(got.Kind) {
		return e.Differ(want, got)
	}
	return e.match("", want.Items, got.Items)
}

// AsSets compares two sequences or sets as sets.
func (e Equality) AsSets(want, got Value) string {
	if !bag(want.Kind) || !bag(got.Kind) {
		return e.Differ(want, got)
	}
	return e.match("", e.distinct(want.Items), e.distinct(got.Items))
}

func bag(k Kind) bool { return k.sequence() || k == Set }

func (e Equality) distinct(items []Value) []Value {
	seen := map[string]bool{}
	var out []Value
	for _, x := range items {
		if k := e.keyOf(x); !seen[k] {
			seen[k] = true
			out = append(out, x)
		}
	}
	return out
}

func (e Equality) differ(at string, want, got Value) string {
	if e.Bools && want.Kind != got.Kind { // Python's 1+0j == 1
		want, got = onReal(want), onReal(got)
	}
	if e.number(want) && e.number(got) {
		if e.numbers(want, got) {
			return ""
		}
		return wrong(at, want, got)
	}
	if want.Kind != got.Kind || want.Kind == Invalid {
		return wrong(at, want, got)
	}
	switch want.Kind {
	case Null:
		return ""
	case Bool:
		if want.B == got.B {
			return ""
		}
	case String, Bytes:
		if want.S == got.S {
			return ""
		}
	case Named:
		if want.Tag == got.Tag && want.S == got.S {
			return ""
		}
	case Complex:
		if e.numbers(want.Items[0], got.Items[0]) && e.numbers(want.Items[1], got.Items[1]) {
			return ""
		}
	case Range:
		if want.key() == got.key() {
			return ""
		}
	case Set:
		return e.match(at, want.Items, got.Items)
	case Dict:
		return e.dicts(at, want, got)
	case List, Tuple, Iter:
		if e.Unordered && want.Kind == List {
			return e.match(at, want.Items, got.Items)
		}
		return e.sequences(at, want.Items, got.Items)
	}
	return wrong(at, want, got)
}

func wrong(at string, want, got Value) string {
	if want.Kind != got.Kind {
		return fmt.Sprintf("%swant %s %v, got %s %v", where(at), want.Kind, want, got.Kind, got)
	}
	return fmt.Sprintf("%swant %v, got %v", where(at), want, got)
}

func where(at string) string {
	if at == "" {
		return ""
	}
	return "at " + shorten(at, 120) + ": "
}

func (e Equality) sequences(at string, want, got []Value) string {
	for i := range min(len(want), len(got)) {
		if why := e.differ(fmt.Sprintf("%s[%d]", at, i), want[i], got[i]); why != "" {
			return why
		}
	}
	if len(want) != len(got) {
		return fmt.Sprintf("%swant %d items, got %d", where(at), len(want), len(got))
	}
	return ""
}

func (e Equality) dicts(at string, want, got Value) string {
	have := map[string]Value{}
	for i := 0; i < len(got.Items); i += 2 {
		have[e.keyOf(got.Items[i])] = got.Items[i+1]
	}
	for i := 0; i < len(want.Items); i += 2 {
		k := want.Items[i]
		x, ok := have[e.keyOf(k)]
		if !ok {
			return fmt.Sprintf("%sthe key %v is missing", where(at), k)
		}
		if why := e.differ(fmt.Sprintf("%s[%v]", at, k), want.Items[i+1], x); why != "" {
			return why
		}
	}
	if len(want.Items) != len(got.Items) {
		return fmt.Sprintf("%swant %d keys, got %d", where(at), len(want.Items)/2, len(got.Items)/2)
	}
	return ""
}

// onReal is a complex number without an imaginary part as the real one.
func onReal(v Value) Value {
	if v.Kind == Complex && v.Items[1].F == 0 {
		return v.Items[0]
	}
	return v
}

// number reports whether v takes part in comparisons of numbers.
func (e Equality) number(v Value) bool {
	return v.Kind == Int || v.Kind == Float || v.Kind == Bool && e.Bools
}

func (e Equality) numbers(want, got Value) bool {
	if e.keyOf(want) == e.keyOf(got) {
		return true
	}
	if want.Kind != Float && got.Kind != Float {
		return false
	}
	w, g := real64(want), real64(got)
	if math.IsNaN(w) || math.IsNaN(g) || math.IsInf(w, 0) || math.IsInf(g, 0) {
		return false
	}
	limit := e.Abs
	if want.Kind == Float {
		limit += e.Rel * math.Abs(w)
	}
	return limit > 0 && math.Abs(g-w) <= limit
}

// real64 is a number as the nearest float.
func real64(v Value) float64 {
	switch v.Kind {
	case Bool:
		if v.B {
			return 1
		}
		return 0
	case Int:
		f, _ := new(big.Float).SetInt(v.I).Float64()
		return f
	}
	return v.F
}

// fewEnough is how many items without an exact partner are paired one by one
// within tolerances; more are paired in the order of their keys.
const fewEnough = 400

// match pairs every wanted item with another one that came.
func (e Equality) match(at string, want, got []Value) string {
	if len(want) != len(got) {
		return fmt.Sprintf("%swant %d items, got %d", where(at), len(want), len(got))
	}
	want, got = e.unpaired(want, got)
	if len(want) == 0 {
		return ""
	}
	exact := e.Abs == 0 && e.Rel == 0 && !e.Unordered
	if exact || len(want) > fewEnough {
		return fmt.Sprintf("%s%v is missing among %d items, %v is too much", where(at), want[0], len(want), got[0])
	}
	partner := make([]int, len(got)) // index in want, from 1
	for i := range want {
		if !e.pair(want, got, i, partner, make([]bool, len(got))) {
			return fmt.Sprintf("%s%v is missing", where(at), want[i])
		}
	}
	return ""
}

// pair finds a partner for want[i], and others for those who lose theirs
// (Kuhn's augmenting paths).
func (e Equality) pair(want, got []Value, i int, partner []int, tried []bool) bool {
	for j := range got {
		if tried[j] || e.differ("", want[i], got[j]) != "" {
			continue
		}
		tried[j] = true
		if partner[j] == 0 || e.pair(want, got, partner[j]-1, partner, tried) {
			partner[j] = i + 1
			return true
		}
	}
	return false
}

// unpaired are the items that have no exact partner.
func (e Equality) unpaired(want, got []Value) (w, g []Value) {
	have := map[string]int{}
	for _, x := range got {
		have[e.keyOf(x)]++
	}
	for _, x := range want {
		if k := e.keyOf(x); have[k] > 0 {
			have[k]--
		} else {
			w = append(w, x)
		}
	}
	for _, x := range got {
		if k := e.keyOf(x); have[k] > 0 {
			have[k]--
			g = append(g, x)
		}
	}
	return w, g
}

// key is the same for two values if and only if they are exactly equal, with
// Python's notion of bools.
func (v Value) key() string { return Equality{Bools: true}.keyOf(v) }

func (e Equality) keyOf(v Value) string { return string(e.appendKey(nil, v)) }

func (e Equality) appendKey(b []byte, v Value) []byte {
	switch v.Kind {
	case Bool:
		n := int64(0)
		if v.B {
			n = 1
		}
		if e.Bools {
			return appendInt(b, big.NewInt(n))
		}
		return append(b, 'b', byte('0'+n))
	case Int:
		return appendInt(b, v.I)
	case Float:
		return appendFloat(b, v.F)
	case Complex:
		if v.Items[1].F == 0 && e.Bools {
			return appendFloat(b, v.Items[0].F)
		}
		return appendFloat(appendFloat(append(b, 'c'), v.Items[0].F), v.Items[1].F)
	case String, Bytes, Named:
		b = append(b, "sBN"[slices.Index([]Kind{String, Bytes, Named}, v.Kind)])
		b = binary.AppendUvarint(b, uint64(len(v.Tag)))
		b = binary.AppendUvarint(append(b, v.Tag...), uint64(len(v.S)))
		return append(b, v.S...)
	case Range:
		return append(b, rangeKey(v.Items[0].I, v.Items[1].I, v.Items[2].I)...)
	case Set, Dict:
		return e.appendUnordered(b, v)
	}
	b = append(b, 'k', byte(v.Kind))
	b = binary.AppendUvarint(b, uint64(len(v.Items)))
	for _, x := range v.Items {
		b = e.appendKey(b, x)
	}
	return b
}

func (e Equality) appendUnordered(b []byte, v Value) []byte {
	step := 1
	if v.Kind == Dict {
		step = 2
	}
	var keys []string
	for i := 0; i < len(v.Items); i += step {
		var k []byte
		for _, x := range v.Items[i : i+step] {
			k = e.appendKey(k, x)
		}
		keys = append(keys, string(k))
	}
	slices.Sort(keys)
	b = binary.AppendUvarint(append(b, 'k', byte(v.Kind)), uint64(len(keys)))
	return append(b, strings.Join(keys, "")...)
}

func appendInt(b []byte, n *big.Int) []byte {
	return append(append(append(b, 'i'), n.Text(62)...), ';')
}

// appendFloat gives a whole number the key of that integer.
func appendFloat(b []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(b, 'F')
	case !math.IsInf(f, 0) && f == math.Trunc(f):
		n, _ := big.NewFloat(f).Int(nil)
		return appendInt(b, n)
	}
	return binary.BigEndian.AppendUint64(append(b, 'f'), math.Float64bits(f))
}

// rangeKey: two ranges are equal if they have the same items.
func rangeKey(start, stop, step *big.Int) string {
	n := new(big.Int).Sub(stop, start)
	one := big.NewInt(int64(-step.Sign()))
	n.Add(n, step).Add(n, one) // ceil((stop-start)/step)
	n.Quo(n, step)
	switch {
	case n.Sign() <= 0:
		return "r;"
	case n.IsInt64() && n.Int64() == 1:
		return "r" + start.Text(62) + ";"
	}
	return "r" + start.Text(62) + "," + step.Text(62) + "," + n.Text(62) + ";"
}
