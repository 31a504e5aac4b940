package repo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"sort"

	"assay/internal/grade/report"
)

// covered is what a coverage run of one command found.
type covered struct {
	tests   map[string]map[string][]Range // by id: files, and the lines, nil where these are not known
	byFile  map[string]map[string][]Range // the same of all tests of a file, where no more is known
	unknown map[string]bool               // tests that ran what is not followed
	static  map[string][]Range
	lines   bool // lines are known
}

func newCovered() *covered {
	return &covered{tests: map[string]map[string][]Range{}, byFile: map[string]map[string][]Range{}, unknown: map[string]bool{}, static: map[string][]Range{}}
}

// Caps of what helpers in a sandbox may say.
const (
	maxCoverBytes = 256 << 20
	maxCoverLine  = 8 << 20
	maxCoverFiles = 20_000
)

// coverLine is a line of a helper's record.
type coverLine struct {
	Test    string              `json:"test"`
	File    string              `json:"file"` // instead of a test: all tests of this file
	Files   map[string][][2]int `json:"files"`
	Unknown bool                `json:"unknown"`
	Static  map[string][][2]int `json:"static"`
}

// read takes in a helper's record. What a process killed in the midst of a line
// left there is no fault.
func (c *covered) read(b []byte) error {
	n := 0
	for len(b) > 0 {
		n++
		line, rest, whole := bytes.Cut(b, []byte("\n"))
		b = rest
		if len(bytes.TrimSpace(line)) == 0 || !whole {
			continue
		}
		if len(line) > maxCoverLine {
			return fmt.Errorf("line %d of the coverage record has more than %d bytes", n, maxCoverLine)
		}
		var l coverLine
		if err := json.Unmarshal(line, &l); err != nil {
			return fmt.Errorf("line %d of the coverage record: %w", n, err)
		}
		switch {
		case l.Static != nil:
			for f, rs := range l.Static {
				c.addStatic(f, pairs(rs))
			}
		case l.Test != "" && len(l.Test) <= report.MaxID:
			c.add(c.tests, l.Test, l.Files)
			if l.Unknown {
				c.unknown[l.Test] = true
			}
		case l.File != "" && len(l.File) <= maxPath:
			c.add(c.byFile, l.File, l.Files)
		}
		if len(c.tests) > report.MaxTests || len(c.byFile) > maxCoverFiles || len(c.static) > maxCoverFiles {
			return fmt.Errorf("the coverage record names too many tests or files")
		}
	}
	return nil
}

func (c *covered) add(to map[string]map[string][]Range, id string, files map[string][][2]int) {
	have := to[id]
	if have == nil {
		have = map[string][]Range{}
		to[id] = have
	}
	for f, rs := range files {
		if !local(f) || path.Clean(f) != f {
			continue
		}
		if rs != nil {
			c.lines = true
		}
		have[f] = append(have[f], pairs(rs)...)
		if have[f] == nil && rs != nil {
			have[f] = []Range{}
		}
	}
}

func (c *covered) addStatic(f string, rs []Range) {
	if local(f) && path.Clean(f) == f {
		c.static[f] = append(c.static[f], rs...)
	}
}

// pairs makes ranges of a helper's; an end of 0 is the file's.
func pairs(in [][2]int) []Range {
	var out []Range
	for _, p := range in {
		if p[1] == 0 {
			p[1] = maxLine
		}
		if p[0] >= 1 && p[1] >= p[0] {
			out = append(out, Range{p[0], min(p[1], maxLine)})
		}
	}
	return out
}

// apply puts what was found into the suite.
func (r *suiteRun) apply(command string, c *covered) {
	files := map[string]int{}
	for i, f := range r.suite.Files {
		files[f] = i
	}
	sets := map[string]int{}
	for i, s := range r.suite.Ranges {
		sets[s] = i
	}
	index := func(m map[string]int, list *[]string, s string) int {
		i, ok := m[s]
		if !ok {
			i = len(*list)
			m[s] = i
			*list = append(*list, s)
		}
		return i
	}
	for i := range r.suite.Tests {
		t := &r.suite.Tests[i]
		if t.Command != command || c.unknown[t.ID] {
			continue
		}
		found, ok := c.tests[t.ID]
		if !ok {
			found, ok = c.byFile[t.File]
		}
		if !ok {
			continue
		}
		names := make([]string, 0, len(found))
		for f := range found {
			names = append(names, f)
		}
		sort.Strings(names)
		t.Covers, t.Lines = []int{}, nil
		for _, f := range names {
			t.Covers = append(t.Covers, index(files, &r.suite.Files, f))
			if !c.lines {
				continue
			}
			at := -1
			if found[f] != nil {
				at = index(sets, &r.suite.Ranges, FormatRanges(found[f]))
			}
			t.Lines = append(t.Lines, at)
		}
	}
	if !c.lines {
		return
	}
	for f := range c.static {
		index(files, &r.suite.Files, f)
	}
	r.suite.Static = append(r.suite.Static, make([]string, len(r.suite.Files)-len(r.suite.Static))...)
	for f, rs := range c.static {
		at := files[f]
		if was := r.suite.Static[at]; was != "" {
			old, _ := ParseRanges(was) // our own
			rs = slices.Concat(old, rs)
		}
		r.suite.Static[at] = FormatRanges(rs)
	}
}
