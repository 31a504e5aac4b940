package forge

import (
	"bytes"
	"fmt"
	"strings"

	"assay/internal/image"
	"assay/internal/repo"
)

// maxSplice is the longest text that a splice writes, in bytes.
const maxSplice = 2 << 10

// splice is a file that becomes what it is but for one place: head bytes of it,
// a text, and what stands from tail on. A large file with a small change is a
// line of the shell so, where its content would be most of a task.
type splice struct {
	path       string
	head, tail int // tail: where the end that stays begins in the old content
	size       int // of the old content
	text       []byte
	edit       Edit // with its time
}

// spliceOf finds the one place; false: the file is small, or more than its
// content or much of that changes.
func spliceOf(e Edit, from, healthy *image.View) (splice, bool, error) {
	old, err := from.Lstat(e.Path)
	if err != nil || e.Type != image.TypeFile || old.Type != e.Type || old.Size < smallCopy || old.Size > maxData {
		return splice{}, false, nil // a new path, or not worth it
	}
	was, err := Was(from, e.Path)
	if err != nil {
		return splice{}, false, err
	}
	if was.Mode != e.Mode || was.UID != e.UID || was.GID != e.GID || len(was.Xattrs)+len(e.Xattrs) > 0 {
		return splice{}, false, nil
	}
	now, err := e.Content(healthy)
	if err != nil {
		return splice{}, false, err
	}
	before, err := from.ReadFile(e.Path, maxData)
	if err != nil {
		return splice{}, false, err
	}
	s := splice{path: e.Path, size: len(before), edit: e}
	for s.head < min(len(before), len(now)) && before[s.head] == now[s.head] {
		s.head++
	}
	same := 0
	for same < min(len(before), len(now))-s.head && before[len(before)-1-same] == now[len(now)-1-same] {
		same++
	}
	s.tail, s.text = len(before)-same, now[s.head:len(now)-same]
	return s, len(s.text) <= maxSplice && bytes.IndexByte(s.text, 0) < 0, nil
}

// line does it, so that a program which is running keeps what it has: beside the
// file, then by a rename. timed also gives it its time.
func (s splice) line(timed bool) string {
	at, new := repo.Quote(s.path), repo.Quote(s.path+".assay-new")
	var parts []string
	if s.head > 0 {
		parts = append(parts, fmt.Sprintf("head -c %d -- %s", s.head, at))
	}
	if len(s.text) > 0 {
		parts = append(parts, "printf "+printed(s.text))
	}
	if s.tail < s.size {
		parts = append(parts, fmt.Sprintf("tail -c +%d -- %s", s.tail+1, at))
	}
	if len(parts) == 0 {
		parts = []string{":"}
	}
	line := fmt.Sprintf("cp -p -- %s %s && { %s; } > %s && ", at, new, strings.Join(parts, " && "), new)
	if timed {
		line += fmt.Sprintf("touch -d @%d.%09d -- %s && ", s.edit.Time, s.edit.Nanos, new)
	}
	return line + fmt.Sprintf("mv -f -- %s %s", new, at)
}

// printed is a text as a word of the shell that printf writes as it is, in one
// line of plain characters.
func printed(text []byte) string {
	var b strings.Builder
	for i, c := range text {
		switch {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '%':
			b.WriteString("%%")
		case c == '\\':
			b.WriteString(`\\`)
		case c < ' ' || c > '~' || c == '-' && i == 0:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return repo.Quote(b.String())
}
