package builtin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	maxMatches = 100
	maxLine    = 300 // bytes of a line that search shows
	maxListed  = 500
)

// told turns a tool's own failure into an observation; any other error ends
// the run.
func told(err error) (observation, error) {
	var say toolError
	if errors.As(err, &say) {
		return observation{text: string(say), bad: true}, nil
	}
	return observation{}, err
}

func readFile(ctx context.Context, r *run, a arguments) (observation, error) {
	path, from, count := a.text["path"], max(1, a.num["from"]), a.num["lines"]
	if count <= 0 {
		count = 400
	}
	out, cut, err := r.box.sh(ctx, int64(r.strategy.Output), nil, regular+`wc -l <"$1" | tr -d ' ' && tail -n "+$2" -- "$1" | head -n "$3"`,
		path, strconv.Itoa(from), strconv.Itoa(count))
	if err != nil {
		return told(err)
	}
	total, text, _ := bytes.Cut(out, []byte("\n"))
	n, err := strconv.Atoi(string(total))
	if err != nil {
		return failure("%s: it could not be read", path), nil
	}
	switch head := text[:min(len(text), 1024)]; {
	case bytes.IndexByte(head, 0) >= 0 || !utf8.Valid(head[:len(head)-min(len(head), utf8.UTFMax)]):
		return failure("%s is not text", path), nil
	case len(text) == 0 && from == 1:
		return observation{text: "[the file is empty]"}, nil
	case len(text) == 0:
		return failure("%s has %d lines only", path, n), nil
	}
	shown := bytes.Count(text, []byte("\n"))
	if text[len(text)-1] != '\n' {
		shown++
	}
	note := ""
	if cut || from > 1 || from+shown-1 < n {
		note = fmt.Sprintf("\n[lines %d to %d of %d]", from, from+shown-1, max(n, from+shown-1))
	}
	return observation{text: strings.ToValidUTF8(string(text), "\ufffd") + note}, nil
}

func writeFile(ctx context.Context, r *run, a arguments) (observation, error) {
	path, text := a.text["path"], a.text["content"]
	if err := r.box.write(ctx, path, []byte(text)); err != nil {
		return told(err)
	}
	return observation{text: fmt.Sprintf("[%d bytes written to %s]", len(text), path)}, nil
}

func editFile(ctx context.Context, r *run, a arguments) (observation, error) {
	path, old, new := a.text["path"], a.text["old"], a.text["new"]
	if old == "" {
		return failure("the old piece is empty; use write for a whole file"), nil
	}
	if old == new {
		return failure("the old piece and the new one are the same"), nil
	}
	text, err := r.box.read(ctx, path)
	if err != nil {
		return told(err)
	}
	switch n := bytes.Count(text, []byte(old)); {
	case n == 0:
		return failure("%s does not hold that piece, compared byte for byte%s. Nothing was changed.", path, nearly(string(text), old)), nil
	case n > 1:
		return failure("%s holds that piece %d times. Nothing was changed: take more of the lines around it.", path, n), nil
	}
	line := 1 + bytes.Count(text[:bytes.Index(text, []byte(old))], []byte("\n"))
	if err := r.box.write(ctx, path, bytes.Replace(text, []byte(old), []byte(new), 1)); err != nil {
		return told(err)
	}
	return observation{text: fmt.Sprintf("[%s changed from line %d on]", path, line)}, nil
}

// nearly says where a piece would stand if blanks did not count.
func nearly(text, piece string) string {
	first := strings.TrimSpace(strings.SplitN(strings.TrimSpace(piece), "\n", 2)[0])
	if first == "" {
		return ""
	}
	n := 0
	for line := range strings.Lines(text) {
		if n++; strings.TrimSpace(line) == first {
			return fmt.Sprintf(" (line %d has its first line, but not the same around it)", n)
		}
	}
	return ""
}

func search(ctx context.Context, r *run, a arguments) (observation, error) {
	path := a.text["path"]
	if path == "" {
		path = "."
	}
	// The pattern is tried on nothing first, so that a wrong one is said.
	out, cut, err := r.box.sh(ctx, 1<<20, nil, `[ -e "$2" ] || { echo "$2: there is no such file" >&2; exit 1; }
grep -E -e "$1" </dev/null >/dev/null; [ $? -lt 2 ] || exit 1
find "$2" -name .git -prune -o -type f -exec grep -nE -e "$1" /dev/null {} + 2>/dev/null; exit 0`, a.text["pattern"], dashed(path))
	if err != nil {
		return told(err)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "Binary file ") && strings.HasSuffix(line, " matches") || strings.HasSuffix(line, ": binary file matches") {
			continue
		}
		if len(line) > maxLine {
			line = line[:maxLine] + " …"
		}
		found = append(found, strings.ToValidUTF8(strings.TrimPrefix(line, "./"), "\ufffd"))
	}
	if len(found) == 0 {
		return observation{text: "[nothing found]"}, nil
	}
	slices.Sort(found) // find's order is the disk's
	return observation{text: some(found, maxMatches, "matches", cut)}, nil
}

func list(ctx context.Context, r *run, a arguments) (observation, error) {
	path, depth := a.text["path"], a.num["depth"]
	if path == "" {
		path = "."
	}
	if depth <= 0 {
		depth = 2
	}
	out, cut, err := r.box.sh(ctx, 1<<20, nil, `[ -e "$1" ] || { echo "$1: there is no such file" >&2; exit 1; }
find "$1" -maxdepth "$2" -name .git -prune -o -type d -exec sh -c 'for d; do printf "%s/\n" "$d"; done' sh {} + -o -print 2>/dev/null; exit 0`,
		dashed(path), strconv.Itoa(min(depth, 20)))
	if err != nil {
		return told(err)
	}
	var names []string
	for line := range strings.Lines(strings.ToValidUTF8(string(out), "\ufffd")) {
		if line = strings.TrimPrefix(strings.TrimSuffix(line, "\n"), "./"); line != "" {
			names = append(names, line)
		}
	}
	slices.Sort(names)
	return observation{text: some(names, maxListed, "files", cut)}, nil
}

// dashed keeps find from taking a path for an option.
func dashed(path string) string {
	if strings.HasPrefix(path, "-") || strings.HasPrefix(path, "!") || strings.HasPrefix(path, "(") {
		return "./" + path
	}
	return path
}

// some is at most so many lines, with a last one that says how many there are.
func some(lines []string, most int, what string, cut bool) string {
	if len(lines) <= most && !cut {
		return strings.Join(lines, "\n")
	}
	more := fmt.Sprintf("[%d of %d %s; narrow it down]", min(most, len(lines)), len(lines), what)
	if cut {
		more = fmt.Sprintf("[%d of more than %d %s; narrow it down]", min(most, len(lines)), len(lines), what)
	}
	return strings.Join(append(lines[:min(most, len(lines)):min(most, len(lines))], more), "\n")
}
