package program

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Kind says what a Value is.
type Kind uint8

const (
	Invalid Kind = iota
	Null
	Bool
	Int
	Float
	Complex // Items: real and imaginary part, both Float
	String  // S, UTF-8, with lone surrogates in three bytes each
	Bytes   // S
	List
	Tuple
	Set
	Dict  // Items: key, value, key, value, …
	Range // Items: start, stop, step
	Iter  // what can only be iterated
	Named // Tag and S: "datetime", "date", "time", "timedelta", "decimal", "fraction", "undefined", "error", "object"
)

var kindNames = [...]string{"nothing", "null", "bool", "int", "float", "complex", "string", "bytes", "list", "tuple", "set", "dict", "range", "iterator", "named"}

func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "unknown"
}

// Value is plain data of any of the languages: a tree without methods, links
// or cycles.
type Value struct {
	Kind  Kind
	B     bool
	I     *big.Int
	F     float64
	S     string
	Tag   string
	Items []Value
}

// Caps of what crosses between a sandbox and this process.
const (
	MaxFrame = 8 << 20 // bytes of one message
	MaxDepth = 100
	MaxItems = 500_000 // values in one message
	MaxInt   = 1 << 18 // bits of one integer
)

// tagged are the words of {"$WORD": …} whose content is a text.
var tagged = []string{"datetime", "date", "time", "timedelta", "decimal", "fraction", "undefined", "error", "object"}

func intValue(n int64) Value { return Value{Kind: Int, I: big.NewInt(n)} }
func text(s string) Value    { return Value{Kind: String, S: s} }
func list(v ...Value) Value  { return Value{Kind: List, Items: v} }

// NewSet is a set of the distinct ones of items.
func NewSet(items []Value) Value {
	return Value{Kind: Set, Items: Equality{Bools: true}.distinct(items)}
}

// NewInt and NewString are what they say.
func NewInt(n *big.Int) Value  { return Value{Kind: Int, I: n} }
func NewString(s string) Value { return text(s) }

// sequence reports kinds whose Items are elements in an order.
func (k Kind) sequence() bool { return k == List || k == Tuple || k == Iter }

// String shows a value for people, in at most some hundred characters.
func (v Value) String() string {
	var b strings.Builder
	v.show(&b)
	return shorten(b.String(), shown)
}

const shown = 300 // bytes of a value in a message

func shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

func (v Value) show(b *strings.Builder) {
	if b.Len() > shown {
		return
	}
	switch v.Kind {
	case Null:
		b.WriteString("null")
	case Bool:
		b.WriteString(strconv.FormatBool(v.B))
	case Int:
		if v.I.BitLen() > 1024 {
			fmt.Fprintf(b, "an integer of %d bits", v.I.BitLen())
			return
		}
		b.WriteString(v.I.String())
	case Float:
		b.WriteString(floatText(v.F))
	case String:
		b.WriteString(strconv.Quote(shorten(v.S, shown)))
	case Bytes:
		b.WriteString("bytes " + strconv.Quote(shorten(v.S, shown)))
	case Named:
		b.WriteString(v.Tag + " " + shorten(v.S, shown))
	case List:
		v.showItems(b, "[", "]")
	case Tuple:
		v.showItems(b, "(", ")")
	case Set:
		v.showItems(b, "set{", "}")
	case Dict:
		v.showItems(b, "{", "}")
	default:
		v.showItems(b, v.Kind.String()+"(", ")")
	}
}

func (v Value) showItems(b *strings.Builder, open, end string) {
	b.WriteString(open)
	for i, x := range v.Items {
		if b.Len() > shown {
			break
		}
		if v.Kind == Dict && i%2 == 1 {
			b.WriteString(": ")
		} else if i > 0 {
			b.WriteString(", ")
		}
		x.show(b)
	}
	b.WriteString(end)
}

// floatText is the shortest text that reads back as f, and never that of an integer.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	}
	s := strconv.FormatFloat(f, 'g', -1, 64)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// Encode writes v as JSON, in the form that a case file has.
func (v Value) Encode() []byte { return v.append(nil) }

func (v Value) append(b []byte) []byte {
	switch v.Kind {
	case Null, Invalid:
		return append(b, "null"...)
	case Bool:
		return strconv.AppendBool(b, v.B)
	case Int:
		if v.I.BitLen() > 53 { // what every language's numbers hold
			return append(append(append(b, `{"$int":"`...), hexadecimal(v.I)...), `"}`...)
		}
		return v.I.Append(b, 10)
	case Float:
		if math.IsNaN(v.F) || math.IsInf(v.F, 0) {
			return append(append(append(b, `{"$float":"`...), floatText(v.F)...), `"}`...)
		}
		return append(b, floatText(v.F)...)
	case String:
		return quote(b, v.S)
	case Bytes:
		return append(append(append(b, `{"$bytes":"`...), base64.StdEncoding.EncodeToString([]byte(v.S))...), `"}`...)
	case List:
		return v.appendItems(b)
	case Dict:
		return v.appendDict(b)
	case Named:
		b = append(append(append(b, `{"$`...), v.Tag...), `":`...)
		return append(quote(b, v.S), '}')
	}
	b = append(append(append(b, `{"$`...), tagOf[v.Kind]...), `":`...)
	return append(v.appendItems(b), '}')
}

var tagOf = map[Kind]string{Tuple: "tuple", Set: "set", Range: "range", Iter: "iter", Complex: "complex"}

func hexadecimal(n *big.Int) string {
	if n.Sign() < 0 {
		return "-0x" + new(big.Int).Neg(n).Text(16)
	}
	return "0x" + n.Text(16)
}

func (v Value) appendItems(b []byte) []byte {
	b = append(b, '[')
	for i, x := range v.Items {
		if i > 0 {
			b = append(b, ',')
		}
		b = x.append(b)
	}
	return append(b, ']')
}

func (v Value) appendDict(b []byte) []byte {
	plain := true
	for i := 0; i < len(v.Items); i += 2 {
		plain = plain && v.Items[i].Kind == String && !strings.HasPrefix(v.Items[i].S, "$")
	}
	if !plain {
		b = append(b, `{"$dict":[`...)
		for i := 0; i < len(v.Items); i += 2 {
			if i > 0 {
				b = append(b, ',')
			}
			b = list(v.Items[i : i+2]...).append(b)
		}
		return append(b, "]}"...)
	}
	b = append(b, '{')
	for i := 0; i < len(v.Items); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(v.Items[i].append(b), ':')
		b = v.Items[i+1].append(b)
	}
	return append(b, '}')
}
