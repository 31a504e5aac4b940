package decide

import (
	"cmp"
	"slices"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/repo"
)

// covering are the tests that a change can reach, by command, in the order in
// which they are run: first those that run a changed line, then those of which
// it is not known. Tests that run only other lines of a changed file count
// where no test is known to run the line.
func (s *suite) covering(old map[string][]byte, ch Change) (tests [][]*test, any bool) {
	lines := map[string][]int{}
	for f, now := range ch.Files {
		if lines[f] = ch.Lines[f]; lines[f] == nil {
			lines[f] = changedLines(string(old[f]), string(now))
		}
	}
	reach := s.cover.Covering(lines)
	runs := false
	for _, c := range s.commands {
		for _, t := range c.tests {
			runs = runs || reach[t.index] == repo.Runs
		}
	}
	for _, c := range s.commands {
		var list []*test
		for _, t := range c.tests {
			if r := reach[t.index]; r == repo.Runs || r == repo.Perhaps || r == repo.Beside && !runs {
				list = append(list, t)
			}
		}
		slices.SortStableFunc(list, func(a, b *test) int { return cmp.Compare(reach[b.index], reach[a.index]) })
		tests = append(tests, list)
		any = any || len(list) > 0
	}
	return tests, any
}

// changedLines are the lines of old that differ, from 1. Where lines are only
// added it is the one before and the one behind; nil: there is no old line.
func changedLines(old, now string) (out []int) {
	line := func(offset int) int {
		n := 1
		for _, c := range []byte(old[:offset]) {
			if c == '\n' {
				n++
			}
		}
		return n
	}
	for _, e := range udiff.Lines(old, now) {
		first, last := line(e.Start), line(max(e.Start, e.End-1))
		if e.Start == e.End {
			first = max(1, first-1)
		}
		for n := first; n <= last; n++ {
			if !slices.Contains(out, n) {
				out = append(out, n)
			}
		}
	}
	return out
}
