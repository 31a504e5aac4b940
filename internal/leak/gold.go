// Package leak looks for a solution where an agent could read it: in files of
// an image's layers, also in those that a later layer hides, in git objects
// that no branch reaches, in archives, in byte code and caches.
//
// It compares lines and words, so it finds copies, not paraphrases. It never
// runs anything of an image: git reads a copy of the objects alone, in a
// repository of ours without their configuration.
package leak

import (
	"bytes"
	"hash/fnv"
	"regexp"
	"strings"
)

// Thresholds of a finding. A short line is in many programs by accident, so
// one alone says nothing; most of a solution in one place is no accident.
const (
	minLine    = 8       // bytes of a line that is looked for, without white space at its ends
	share      = 0.6     // of the solution's lines in one place
	sureBytes  = 40      // in the lines found: more is no accident
	minWords   = 3       // of the solution's own words, for places without lines
	wordShare  = 0.8     // of them in one place
	maxLines   = 20_000  // of a solution
	maxGoldLen = 4 << 20 // bytes of text that a solution is read from
)

// Gold is what of a solution can be recognised.
type Gold struct {
	lines map[uint64]string // hash of a normalised line to the line
	words map[string]bool
}

var word = regexp.MustCompile(`[\pL_][\pL\pN_]{4,}`)

// NewGold takes the lines that a solution adds, without those that were there
// before: known are the lines around them and the ones it takes away.
func NewGold(added, known []string) *Gold {
	old, oldWords := map[string]bool{}, map[string]bool{}
	for _, l := range known {
		old[normal(l)] = true
		for _, w := range word.FindAllString(l, -1) {
			oldWords[w] = true
		}
	}
	g := &Gold{lines: map[uint64]string{}, words: map[string]bool{}}
	for _, l := range added {
		n := normal(l)
		if len(n) < minLine || old[n] || len(g.lines) == maxLines {
			continue
		}
		g.lines[hash(n)] = n
		for _, w := range word.FindAllString(n, -1) {
			if !oldWords[w] {
				g.words[w] = true
			}
		}
	}
	return g
}

// Small reports whether there is too little of the solution to look for it.
func (g *Gold) Small() bool {
	n := 0
	for _, l := range g.lines {
		n += len(l)
	}
	return n < sureBytes
}

// FromDiff splits a unified diff into what it adds and what was there.
func FromDiff(diff []byte) (added, known []string) {
	if len(diff) > maxGoldLen {
		diff = diff[:maxGoldLen]
	}
	for l := range strings.Lines(string(diff)) {
		l = strings.TrimRight(l, "\r\n")
		switch {
		case strings.HasPrefix(l, "+++ "), strings.HasPrefix(l, "--- "), l == "":
		case l[0] == '+':
			added = append(added, l[1:])
		case l[0] == '-', l[0] == ' ':
			known = append(known, l[1:])
		}
	}
	return added, known
}

// normal makes copies equal that differ in indentation alone.
func normal(l string) string { return strings.Join(strings.Fields(l), " ") }

func hash(l string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(l)) // never fails
	return h.Sum64()
}

// place gathers what of a solution stands in one file or object.
type place struct {
	lines map[uint64]bool
	words map[string]bool
}

// match says how much of g a place holds; ok is false for too little.
func (g *Gold) match(p place) (f Finding, ok bool) {
	found := 0
	for h := range p.lines {
		found += len(g.lines[h])
		if len(g.lines[h]) > len(f.Sample) {
			f.Sample = g.lines[h]
		}
	}
	f.Lines, f.Of = len(p.lines), len(g.lines)
	if f.Of > 0 && float64(f.Lines) >= share*float64(f.Of) {
		f.Sure = found >= sureBytes
		return f, true
	}
	if n := len(p.words); n >= minWords && float64(n) >= wordShare*float64(len(g.words)) {
		f.Lines, f.Of, f.Words, f.Sure = n, len(g.words), true, n > minWords
		for w := range p.words {
			if len(w) > len(f.Sample) || len(w) == len(f.Sample) && w < f.Sample {
				f.Sample = w
			}
		}
		return f, true
	}
	return f, false
}

// isText reports whether a file's beginning is text: of a file without NULs
// lines are compared, of any other words.
func isText(head []byte) bool { return !bytes.ContainsRune(head, 0) }
