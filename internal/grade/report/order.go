package report

import (
	_ "embed"
	"strconv"
	"strings"
)

//go:embed support/assay_order.py
var supportOrder []byte

// OrderDir is where the files of [Order] are put, in the sandbox.
const OrderDir = "/opt/assay-order"

// Order is what makes a format's runner take its tests in another order, drawn
// by seed: variables of its environment, and files below [OrderDir]. get tells
// a variable's value so far. ok is false where the runner has no such means;
// the seed of Python's hashes is changed all the same.
func Order(f Format, seed uint64, get func(name string) string) (env []string, files map[string][]byte, ok bool) {
	number := strconv.FormatUint(seed, 10)
	env = []string{"PYTHONHASHSEED=" + strconv.FormatUint(seed%(1<<32-1)+1, 10), "ASSAY_ORDER_SEED=" + number}
	switch f {
	case "pytest", "pytest-log":
		env = append(env, "PYTEST_ADDOPTS="+joined(get("PYTEST_ADDOPTS"), " ", "-p assay_order"), "PYTHONPATH="+joined(get("PYTHONPATH"), ":", OrderDir))
		return env, map[string][]byte{"assay_order.py": supportOrder}, true
	case "unittest", "django":
		return env, nil, true // our runner obeys the variable
	case "go-test":
		return append(env, "GOFLAGS="+joined(get("GOFLAGS"), " ", "-shuffle="+strconv.FormatUint(seed%(1<<62), 10))), nil, true
	}
	return env, nil, false
}

func joined(was, sep, add string) string {
	if was == "" {
		return add
	}
	return strings.Join([]string{was, add}, sep)
}
