package checks

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// quarantine takes the checks of tests/quarantine.txt out of the closed lists:
// those that the gold solution does not always pass. Their results are still
// read, and canaries of other checks stay.
func (in *inspector) quarantine() {
	b, err := readFile(in.tests, QuarantineFile, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		in.fault(nil, "tests/%s: %w", QuarantineFile, err)
		return
	}
	fmt.Fprintf(in.sum, "%s %d\n%s", QuarantineFile, len(b), b)
	ids, err := idLines(b)
	if err != nil {
		in.fault(nil, "tests/%s: %w", QuarantineFile, err)
		return
	}
	known := map[string]bool{}
	for _, c := range in.plan.Expected() {
		known[c.ID] = true
	}
	out := map[string]bool{}
	for _, id := range ids {
		if !known[id] {
			in.fault(nil, "tests/%s: %.200q is none of the plan's checks (write COMMAND:ID)", QuarantineFile, id)
			continue
		}
		out[id] = true
	}
	in.plan.out = out
	if len(out) > 0 && !slices.ContainsFunc(in.plan.Expected(), func(c Check) bool { return !c.PassToPass }) {
		in.fault(nil, "tests/%s takes out the last fail-to-pass check: nothing is left that a solution must change", QuarantineFile)
	}
}

// Quarantine lists the ids that are taken out, sorted.
func (p *Plan) Quarantine() []string {
	var ids []string
	for id, is := range p.out {
		if is {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// QuarantineText is a quarantine.txt with these ids.
func QuarantineText(ids []string) []byte {
	return []byte("# Checks that the gold solution does not always pass, one a line; they are in no closed list.\n" + strings.Join(ids, "\n") + "\n")
}
