package repo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Range are lines of a file, from 1, both ends in it.
type Range struct{ From, To int }

// maxLine stands for "to the end".
const maxLine = 1 << 30

// ParseRanges reads "3-9,12,40-": an open end goes to the file's.
func ParseRanges(s string) ([]Range, error) {
	if s == "" {
		return nil, nil
	}
	var out []Range
	for part := range strings.SplitSeq(s, ",") {
		a, b, dash := strings.Cut(part, "-")
		from, err := strconv.Atoi(a)
		to := from
		if err == nil && dash {
			if to = maxLine; b != "" {
				to, err = strconv.Atoi(b)
			}
		}
		if err != nil || from < 1 || to < from {
			return nil, fmt.Errorf("%q are no lines (\"3-9,12\")", s)
		}
		out = append(out, Range{from, to})
	}
	return out, nil
}

// FormatRanges is the shortest form, sorted and merged.
func FormatRanges(rs []Range) string {
	var b strings.Builder
	for _, r := range merge(rs) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(r.From))
		switch {
		case r.To >= maxLine:
			b.WriteByte('-')
		case r.To > r.From:
			b.WriteString("-" + strconv.Itoa(r.To))
		}
	}
	return b.String()
}

// merge sorts ranges and joins those that touch.
func merge(rs []Range) []Range {
	rs = slices.Clone(rs)
	slices.SortFunc(rs, func(a, b Range) int { return a.From - b.From })
	var out []Range
	for _, r := range rs {
		if n := len(out); n > 0 && r.From <= out[n-1].To+1 {
			out[n-1].To = max(out[n-1].To, r.To)
			continue
		}
		out = append(out, r)
	}
	return out
}

// without are the lines that no range has, to the file's end.
func without(rs []Range) []Range {
	next := 1
	var out []Range
	for _, r := range merge(rs) {
		if r.From > next {
			out = append(out, Range{next, r.From - 1})
		}
		next = r.To + 1
	}
	if next <= maxLine {
		out = append(out, Range{next, maxLine})
	}
	return out
}

// has reports whether a line is in one of the sorted ranges.
func has(rs []Range, line int) bool {
	_, ok := slices.BinarySearchFunc(rs, line, func(r Range, n int) int {
		switch {
		case r.To < n:
			return -1
		case r.From > n:
			return 1
		}
		return 0
	})
	return ok
}
