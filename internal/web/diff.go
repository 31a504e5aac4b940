package web

import (
	"strconv"
	"strings"
)

// FileDiff is one file of a unified diff.
type FileDiff struct {
	Name    string
	Added   int
	Removed int
	Runs    []DiffRun
}

// DiffRun is neighbouring lines of one kind, with their line ends.
type DiffRun struct {
	Kind string // "add", "del", "hunk", "meta" or "same"
	Text string
}

// parseDiff splits a unified or git diff into files. It is for showing only:
// whatever it cannot place becomes a line of the file before it, and no line
// is lost. Line counts of hunk headers decide what is a header, so that a
// removed line "-- x" is not taken for one.
func parseDiff(s string) []FileDiff {
	d := differ{all: s}
	old, now := 0, 0 // lines that the current hunk still has
	for l := range strings.Lines(s) {
		inHunk := old > 0 || now > 0
		switch {
		case inHunk && strings.HasPrefix(l, "+"):
			now--
			d.add("add", l)
		case inHunk && strings.HasPrefix(l, "-"):
			old--
			d.add("del", l)
		case inHunk && (strings.HasPrefix(l, " ") || l == "\n"):
			old, now = old-1, now-1
			d.add("same", l)
		case strings.HasPrefix(l, "@@ "):
			old, now = hunkSizes(l)
			d.add("hunk", l)
		case strings.HasPrefix(l, `\`):
			d.add("meta", l)
		default:
			old, now = 0, 0
			d.header(l)
		}
	}
	return d.files
}

// differ walks the lines of one diff; a run is a stretch of it, not a copy.
type differ struct {
	all   string
	at    int // where the next line starts
	from  int // where the last run starts
	files []FileDiff
}

// header takes a line outside of any hunk: the start of a file or a note on it.
func (d *differ) header(l string) {
	text := strings.TrimRight(l, "\r\n")
	n := len(d.files)
	begun := n > 0 && !d.files[n-1].hasHunks()
	switch {
	case strings.HasPrefix(l, "diff --git "):
		d.files = append(d.files, FileDiff{Name: gitName(text)})
	case strings.HasPrefix(l, "--- ") && !begun:
		d.files = append(d.files, FileDiff{Name: sideName(text[4:])})
	case strings.HasPrefix(l, "+++ ") && begun:
		if name := sideName(text[4:]); name != "/dev/null" {
			d.files[n-1].Name = name
		}
	}
	d.add("meta", l)
}

func (f *FileDiff) hasHunks() bool {
	return len(f.Runs) > 1 || len(f.Runs) == 1 && f.Runs[0].Kind != "meta"
}

func (d *differ) add(kind, l string) {
	if len(d.files) == 0 {
		d.files = append(d.files, FileDiff{})
	}
	f := &d.files[len(d.files)-1]
	switch kind {
	case "add":
		f.Added++
	case "del":
		f.Removed++
	}
	end := d.at + len(l)
	if n := len(f.Runs); n > 0 && f.Runs[n-1].Kind == kind {
		f.Runs[n-1].Text = d.all[d.from:end]
	} else {
		f.Runs = append(f.Runs, DiffRun{Kind: kind, Text: l})
		d.from = d.at
	}
	d.at = end
}

// hunkSizes reads "@@ -a,b +c,d @@"; a missing size is 1.
func hunkSizes(l string) (old, now int) {
	f := strings.Fields(l)
	if len(f) < 3 {
		return 0, 0
	}
	size := func(s string) int {
		_, n, found := strings.Cut(s, ",")
		if !found {
			return 1
		}
		v, err := strconv.Atoi(n)
		if err != nil || v < 0 {
			return 0
		}
		return v
	}
	return size(f[1]), size(f[2])
}

// gitName is the new name in "diff --git a/x b/x".
func gitName(l string) string {
	if i := strings.LastIndex(l, " b/"); i >= 0 {
		return l[i+3:]
	}
	return strings.TrimPrefix(l, "diff --git ")
}

// sideName is the path of a "---" or "+++" line without prefix and time.
func sideName(s string) string {
	s, _, _ = strings.Cut(s, "\t")
	if len(s) > 2 && (s[:2] == "a/" || s[:2] == "b/") {
		return s[2:]
	}
	return s
}
