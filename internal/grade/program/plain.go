package program

import (
	"encoding/base64"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"
)

// Decode reads typed plain data: JSON in which an object with a single key
// that begins with "$" stands for what JSON has no form for.
func Decode(data []byte) (Value, error) {
	raw, err := ParseJSON(data)
	if err != nil {
		return Value{}, err
	}
	return Plain(raw)
}

// Plain gives the "$…" objects of parsed JSON their meaning.
func Plain(v Value) (Value, error) {
	switch v.Kind {
	case List:
		return plainItems(List, v.Items)
	case Dict:
		if len(v.Items) > 0 && strings.HasPrefix(v.Items[0].S, "$") {
			if len(v.Items) != 2 {
				return Value{}, fmt.Errorf("an object with %q has no other key", shorten(v.Items[0].S, 80))
			}
			return plainTag(v.Items[0].S[1:], v.Items[1])
		}
		for i := 2; i < len(v.Items); i += 2 {
			if strings.HasPrefix(v.Items[i].S, "$") {
				return Value{}, fmt.Errorf("an object with %q has no other key", shorten(v.Items[i].S, 80))
			}
		}
		return plainItems(Dict, v.Items)
	}
	return v, nil
}

func plainItems(k Kind, items []Value) (Value, error) {
	out := Value{Kind: k, Items: make([]Value, len(items))}
	for i, x := range items {
		var err error
		if out.Items[i], err = Plain(x); err != nil {
			return Value{}, err
		}
	}
	return out, nil
}

func plainTag(tag string, v Value) (Value, error) {
	switch tag {
	case "tuple", "set", "iter", "range", "complex", "dict":
		if v.Kind != List {
			return Value{}, fmt.Errorf("$%s wants a list", tag)
		}
		return plainList(tag, v.Items)
	}
	if v.Kind != String {
		return Value{}, fmt.Errorf("$%s wants a string", shorten(tag, 40))
	}
	switch tag {
	case "float":
		switch v.S {
		case "nan":
			return Value{Kind: Float, F: math.NaN()}, nil
		case "inf":
			return Value{Kind: Float, F: math.Inf(1)}, nil
		case "-inf":
			return Value{Kind: Float, F: math.Inf(-1)}, nil
		}
		return Value{}, fmt.Errorf(`$float is "nan", "inf" or "-inf", not %q`, shorten(v.S, 40))
	case "int":
		if len(v.S) > MaxInt/4+3 {
			return Value{}, fmt.Errorf("an integer of %d digits", len(v.S))
		}
		n, ok := new(big.Int).SetString(v.S, 0)
		if !ok || !strings.HasPrefix(strings.TrimPrefix(v.S, "-"), "0x") {
			return Value{}, fmt.Errorf("$int wants hexadecimal digits after 0x, not %q", shorten(v.S, 40))
		}
		return Value{Kind: Int, I: n}, nil
	case "bytes":
		b, err := base64.StdEncoding.DecodeString(v.S)
		if err != nil {
			return Value{}, fmt.Errorf("$bytes: %w", err)
		}
		return Value{Kind: Bytes, S: string(b)}, nil
	}
	if slices.Contains(tagged, tag) {
		return Value{Kind: Named, Tag: tag, S: v.S}, nil
	}
	return Value{}, fmt.Errorf("no plain data is called %q", "$"+shorten(tag, 40))
}

func plainList(tag string, items []Value) (Value, error) {
	if tag == "dict" {
		return plainPairs(items)
	}
	kind := map[string]Kind{"tuple": Tuple, "set": Set, "iter": Iter, "range": Range, "complex": Complex}[tag]
	v, err := plainItems(kind, items)
	if err != nil {
		return v, err
	}
	switch kind {
	case Set:
		seen := map[string]bool{}
		for _, x := range v.Items {
			seen[x.key()] = true
		}
		if len(seen) != len(v.Items) {
			return v, fmt.Errorf("a set with an element twice")
		}
	case Range:
		if len(v.Items) != 3 || slices.ContainsFunc(v.Items, func(x Value) bool { return x.Kind != Int }) || v.Items[2].I.Sign() == 0 {
			return v, fmt.Errorf("$range wants three integers, and a step that is not 0")
		}
	case Complex:
		if len(v.Items) != 2 || slices.ContainsFunc(v.Items, func(x Value) bool { return x.Kind != Float }) {
			return v, fmt.Errorf("$complex wants two floats")
		}
	}
	return v, nil
}

func plainPairs(pairs []Value) (Value, error) {
	out := Value{Kind: Dict, Items: make([]Value, 0, 2*len(pairs))}
	seen := map[string]bool{}
	for _, p := range pairs {
		if p.Kind != List || len(p.Items) != 2 {
			return Value{}, fmt.Errorf("$dict wants pairs of key and value")
		}
		kv, err := plainItems(List, p.Items)
		if err != nil {
			return Value{}, err
		}
		if k := kv.Items[0].key(); seen[k] {
			return Value{}, fmt.Errorf("a dict with the key %v twice", kv.Items[0])
		} else {
			seen[k] = true
		}
		out.Items = append(out.Items, kv.Items...)
	}
	return out, nil
}
