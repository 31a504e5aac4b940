package programs

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/grade/program"
)

// kinds says, by number, what the inputs of MBPP+ were before they became JSON:
// EvalPlus's loader rebuilds them for these problems.
func kinds() map[string][]int {
	return map[string][]int{
		"each":     {2, 116, 132, 143, 222, 261, 273, 394, 399, 421, 424, 429, 470, 560, 579, 596, 616, 630, 726, 740, 744, 809},
		"items":    {63, 64, 70, 94, 120, 237, 272, 299, 400, 409, 417, 438, 473, 614, 780},
		"first's":  {75, 413, 444, 753},
		"second":   {106, 750},
		"sets":     {115},
		"complex":  {124, 252},
		"first":    {250, 405, 446, 617, 720, 763, 808, 307},
		"two deep": {259, 401, 445, 278},
		"values":   {722},
		"all":      {580, 615, 791},
	}
}

// revive rebuilds the arguments of one call.
func revive(number int, args program.Value) program.Value {
	how := ""
	for k, numbers := range kinds() {
		if slices.Contains(numbers, number) {
			how = k
		}
	}
	items := slices.Clone(args.Items)
	for i, x := range items {
		switch {
		case how == "each", how == "first" && i == 0, how == "second" && i == 1:
			items[i] = tuple(x)
		case how == "items", how == "first's" && i == 0:
			items[i] = within(x, tuple)
		case how == "two deep":
			items[i] = tuple(within(x, tuple))
		case how == "sets" && i == 0:
			items[i] = within(x, asSet)
		case how == "complex":
			items[i] = complexOf(x, number == 252 || i == 1)
		case how == "values" && i == 0:
			items[i] = values(x)
		case how == "all":
			items[i] = deep(x)
		}
	}
	args.Items = items
	return args
}

func tuple(v program.Value) program.Value {
	if v.Kind == program.List {
		v.Kind = program.Tuple
	}
	return v
}

func within(v program.Value, f func(program.Value) program.Value) program.Value {
	if v.Kind != program.List {
		return v
	}
	items := make([]program.Value, len(v.Items))
	for i, x := range v.Items {
		items[i] = f(x)
	}
	v.Items = items
	return v
}

func deep(v program.Value) program.Value { return tuple(within(v, deep)) }

// asSet: an empty list was an empty dict.
func asSet(v program.Value) program.Value {
	if v.Kind != program.List || len(v.Items) == 0 {
		return program.Value{Kind: program.Dict, Items: []program.Value{}}
	}
	return program.NewSet(v.Items)
}

func values(v program.Value) program.Value {
	if v.Kind != program.Dict {
		return v
	}
	items := slices.Clone(v.Items)
	for i := 1; i < len(items); i += 2 {
		items[i] = tuple(items[i])
	}
	v.Items = items
	return v
}

// complexOf reads "1+2j", "(1+2j)" and numbers.
func complexOf(v program.Value, whole bool) program.Value {
	var c complex128
	switch v.Kind {
	case program.String:
		n, err := strconv.ParseComplex(strings.NewReplacer("j", "i", " ", "").Replace(v.S), 128)
		if err != nil {
			return v
		}
		c = n
	case program.Int:
		f, _ := v.I.Float64()
		c = complex(f, 0)
	case program.Float:
		c = complex(v.F, 0)
	default:
		return v
	}
	if !whole && imag(c) == 0 {
		return program.Value{Kind: program.Float, F: real(c)}
	}
	if math.IsNaN(real(c)) {
		return v
	}
	return program.Value{Kind: program.Complex, Items: []program.Value{{Kind: program.Float, F: real(c)}, {Kind: program.Float, F: imag(c)}}}
}
