package repo

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"
)

// Budget chooses, of a suite's stable tests, those of which a candidate's runs
// consist: all that are covering, by their global id "COMMAND:ID", and a sample
// of the others so that there are limit tests in all (0: every stable test). A
// test's place in the sample depends on seed and its own id alone, so that
// suites which differ in a few tests have nearly the same sample.
func Budget(s *Suite, covering []string, limit int, seed uint64) []Test {
	want := make(map[string]bool, len(covering))
	for _, id := range covering {
		want[id] = true
	}
	var out, others []Test
	for _, t := range s.Tests {
		switch {
		case t.Stability != Stable:
		case want[t.Global()]:
			out = append(out, t)
		default:
			others = append(others, t)
		}
	}
	if limit > 0 && len(out)+len(others) > limit {
		slices.SortStableFunc(others, func(a, b Test) int {
			return strings.Compare(draw(seed, a.Global()), draw(seed, b.Global()))
		})
		others = others[:max(0, limit-len(out))]
	}
	out = append(out, others...)
	slices.SortFunc(out, func(a, b Test) int { return strings.Compare(a.Global(), b.Global()) })
	return out
}

// Global is a test's id in a check plan's terms, "COMMAND:ID".
func (t Test) Global() string { return t.Command + ":" + t.ID }

func draw(seed uint64, id string) string {
	h := sha256.Sum256(append(binary.BigEndian.AppendUint64(nil, seed), id...))
	return string(h[:8])
}
