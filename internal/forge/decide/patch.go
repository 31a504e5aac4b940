package decide

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/image"
)

// maxFile is the largest source that is changed here.
const maxFile = 8 << 20

// olds reads what a change replaces from the healthy tree; new files are
// missing.
func (d *Decider) olds(ch Change) (map[string][]byte, error) {
	old := map[string][]byte{}
	for p := range ch.Files {
		if clean := path.Clean(p); clean != p || path.IsAbs(p) || p == "." || strings.HasPrefix(p, "../") || p == ".." || strings.ContainsRune(p, 0) {
			return nil, fmt.Errorf("%q is no path below the working directory", p)
		}
		at := path.Join(d.c.Env.Workdir, p)
		e, err := d.tree.Lstat(at)
		if err != nil {
			continue
		}
		if e.Type != image.TypeFile {
			return nil, fmt.Errorf("%s is a %s, and only files are changed", p, e.Type)
		}
		if old[p], err = d.tree.ReadFile(at, maxFile); err != nil {
			return nil, err
		}
	}
	return old, nil
}

// Patch is the unified diff that leads from old to files, as git apply takes
// it; a path that old lacks is new. Equal content gives none.
func Patch(old, files map[string][]byte) (string, error) {
	var names []string
	for p := range files {
		names = append(names, p)
	}
	slices.Sort(names)
	var out strings.Builder
	for _, p := range names {
		was, had := old[p]
		if had && bytes.Equal(was, files[p]) {
			continue
		}
		if bytes.IndexByte(was, 0) >= 0 || bytes.IndexByte(files[p], 0) >= 0 {
			return "", fmt.Errorf("%s is binary", p)
		}
		from, to := quoted("a/"+p), quoted("b/"+p)
		fmt.Fprintf(&out, "diff --git %s %s\n", from, to)
		if !had {
			from = "/dev/null"
			out.WriteString("new file mode 100644\n")
		}
		if len(was) == 0 && len(files[p]) == 0 {
			continue // an empty file that is new has no hunk
		}
		edits := udiff.Lines(string(was), string(files[p]))
		u, err := udiff.ToUnified(tabbed(from), tabbed(to), string(was), edits, 3)
		if err != nil {
			return "", fmt.Errorf("diff %s: %w", p, err)
		}
		out.WriteString(u)
	}
	return out.String(), nil
}

// quoted is a path as git writes it: in C's quotes where it holds anything but
// printable ASCII, so that a line break in it forges no line.
func quoted(p string) string {
	if !strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
		return p
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(p) {
		switch c := p[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// tabbed ends a name that holds a space with a tab, so that no reader takes
// what follows the space for a date.
func tabbed(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}
