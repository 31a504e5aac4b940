package repo

import (
	"path"
	"slices"
)

// Coverage looks up which tests a change can reach.
type Coverage struct {
	suite  *Suite
	files  map[string]int
	ranges [][]Range
	static [][]Range
}

// Coverage prepares looking up; the suite must not change while it is used.
func (s *Suite) Coverage() *Coverage {
	c := &Coverage{suite: s, files: make(map[string]int, len(s.Files))}
	for i, f := range s.Files {
		c.files[path.Clean(f)] = i
	}
	parse := func(list []string) (out [][]Range) {
		for _, r := range list {
			p, _ := ParseRanges(r) // ReadEnvironment has looked at them
			out = append(out, merge(p))
		}
		return out
	}
	c.ranges, c.static = parse(s.Ranges), parse(s.Static)
	return c
}

// Reach is how a test stands to a change.
type Reach int

const (
	Apart   Reach = iota // it runs nothing of what changes, as far as known
	Perhaps              // it is not known what it runs, or what changes counts for all tests
	Beside               // it runs other lines of a changed file
	Runs                 // it runs a changed line, or the file where no lines are known
)

// Covering says of every test of the suite, by its index, how it stands to a
// change of files: lines from 1 of the old files, nil for all of a file's.
// Tests that are Apart need not be run. Where a changed line belongs to no
// function, all tests that run its file are Runs and all others Perhaps. A file
// that no test is known to run leaves all tests Perhaps if it is not code that
// coverage would show: fixtures, templates, configuration.
func (c *Coverage) Covering(change map[string][]int) []Reach {
	out := make([]Reach, len(c.suite.Tests))
	for file, lines := range change {
		at, known := c.files[path.Clean(file)]
		everybody := !known || c.common(at, lines)
		for i := range c.suite.Tests {
			out[i] = max(out[i], c.reach(&c.suite.Tests[i], at, known, lines, everybody))
		}
	}
	return out
}

// common reports whether one of the lines counts for every test.
func (c *Coverage) common(file int, lines []int) bool {
	if c.static == nil {
		return false
	}
	return lines == nil || slices.ContainsFunc(lines, func(n int) bool { return has(c.static[file], n) })
}

func (c *Coverage) reach(t *Test, file int, known bool, lines []int, everybody bool) Reach {
	if t.Covers == nil || !known {
		return Perhaps
	}
	k := slices.Index(t.Covers, file)
	switch {
	case k < 0 && everybody:
		return Perhaps
	case k < 0:
		return Apart
	case everybody, lines == nil, t.Lines == nil, t.Lines[k] < 0:
		return Runs
	}
	rs := c.ranges[t.Lines[k]]
	if slices.ContainsFunc(lines, func(n int) bool { return has(rs, n) }) {
		return Runs
	}
	return Beside
}
