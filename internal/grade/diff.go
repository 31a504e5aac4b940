package grade

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"assay/internal/image"
)

// DiffCaps bound a workspace diff. Zero means the default.
type DiffCaps struct {
	Bytes int64 // of the whole text; default 4 MiB
	File  int64 // of one file on either side; a larger one is only named; default 1 MiB
	Files int   // default 5,000
}

func (c DiffCaps) orDefaults() DiffCaps {
	if c.Bytes == 0 {
		c.Bytes = 4 << 20
	}
	if c.File == 0 {
		c.File = 1 << 20
	}
	if c.Files == 0 {
		c.Files = 5000
	}
	return c
}

// DiffStat counts what changed in a workspace.
type DiffStat struct {
	Files, Added, Removed int // changed files; lines of text
	Binary                int // files that are only named, for their content or size
	Cut                   bool
}

// WorkspaceDiff says what an agent whose layer it is has changed below workdir,
// as git would: unified text with names relative to workdir, sorted, without
// .git and without what it was given. The same layers give the same bytes.
func WorkspaceDiff(store *image.Store, base image.Image, layer image.LayerID, workdir image.Path, given Given, caps DiffCaps) ([]byte, DiffStat, error) {
	if layer == "" {
		return nil, DiffStat{}, nil
	}
	dir, err := resolveDir(store, base.Layers, workdir)
	if err != nil {
		return nil, DiffStat{}, fmt.Errorf("workspace diff: %w", err)
	}
	d := &differ{caps: caps.orDefaults(), dir: dir, given: given}
	if d.base, err = store.View(base.Layers); err == nil {
		d.over, err = store.View([]image.LayerID{layer})
	}
	if err != nil {
		return nil, DiffStat{}, fmt.Errorf("workspace diff: %w", err)
	}
	if err := errors.Join(d.changed(store, layer), d.lay()); err != nil {
		return nil, DiffStat{}, fmt.Errorf("workspace diff: %w", err)
	}
	all := maps.Clone(d.paths)
	for p := range d.laid {
		all[p] = true
	}
	for _, p := range sortedKeys(all) {
		if d.ours(p) {
			continue
		}
		if err := d.file(p); err != nil {
			return nil, DiffStat{}, fmt.Errorf("workspace diff: %w", err)
		}
		if d.stat.Cut {
			fmt.Fprintf(&d.out, "# cut: more than %d bytes or %d files\n", d.caps.Bytes, d.caps.Files)
			break
		}
	}
	return d.out.Bytes(), d.stat, nil
}

type differ struct {
	caps       DiffCaps
	dir        string // relative to the root
	base, over *image.View
	given      Given
	paths      map[string]bool   // that may differ
	laid       map[string]string // files that were given, and the host's directory that they are from
	out        bytes.Buffer
	stat       DiffStat
}

// changed lists every name below the workdir that the layer holds or hides.
func (d *differ) changed(store *image.Store, layer image.LayerID) error {
	d.paths = map[string]bool{}
	for e, err := range store.Entries(layer) {
		if err != nil {
			return err
		}
		inside, parent := within(e.Path, d.dir), within(d.dir, e.Path)
		if inside && !inGit(d.name(e.Path)) {
			d.paths[e.Path] = true
		}
		if !inside && !parent || !hides(e) {
			continue
		}
		from := e.Path
		if !inside {
			from = d.dir
		}
		err := d.base.Walk(from, func(b image.Entry) error {
			if !inGit(d.name(b.Path)) {
				d.paths[b.Path] = true
			}
			return nil
		})
		if err != nil && !isMissing(err) {
			return err
		}
	}
	return nil
}

// name is p relative to the workdir.
func (d *differ) name(p string) string {
	if d.dir == "." {
		return p
	}
	return strings.TrimPrefix(strings.TrimPrefix(p, d.dir), "/")
}

func inGit(name string) bool { return slices.Contains(strings.Split(name, "/"), ".git") }

// side is one state of a name.
type side struct {
	mode string // git's: 100644, 100755, 120000; empty: not there or not a file
	id   string // equal for equal content
	text string
	big  bool // binary, or larger than the cap
}

func (d *differ) side(v *image.View, p string) (side, error) {
	e, err := v.Lstat(p)
	if err != nil {
		return side{}, nil // not there
	}
	switch {
	case e.Type == image.TypeSymlink:
		return side{mode: "120000", id: "link " + e.Link, text: e.Link}, nil
	case e.Type != image.TypeFile:
		return side{}, nil
	}
	s := side{mode: "100644", id: e.Digest}
	if e.Mode&0o111 != 0 {
		s.mode = "100755"
	}
	if e.Size > d.caps.File {
		s.big = true
		return s, nil
	}
	b, err := v.ReadFile(p, d.caps.File)
	if err != nil {
		return s, err
	}
	s.fill(b)
	return s, nil
}

// fill takes the content of a file.
func (s *side) fill(b []byte) {
	s.big = bytes.IndexByte(b[:min(len(b), 8000)], 0) >= 0 // git's test for binary content
	s.text = string(b)
}

// file writes how one name differs.
func (d *differ) file(p string) error {
	old, err := d.before(p)
	if err != nil {
		return err
	}
	now, err := d.after(p)
	if err != nil {
		return err
	}
	if old.mode == now.mode && old.id == now.id {
		return nil
	}
	if d.stat.Files >= d.caps.Files {
		d.stat.Cut = true
		return nil
	}
	name := d.name(p)
	var b bytes.Buffer
	if old.mode != "" && now.mode != "" && old.mode[:3] != now.mode[:3] {
		// A file that became a link, or the reverse, is two changes to git.
		d.write(&b, name, old, side{})
		d.write(&b, name, side{}, now)
	} else {
		d.write(&b, name, old, now)
	}
	if int64(d.out.Len()+b.Len()) > d.caps.Bytes {
		d.stat.Cut = true
		return nil
	}
	d.stat.Files++
	d.out.Write(b.Bytes())
	return nil
}

func (d *differ) write(b *bytes.Buffer, name string, old, now side) {
	from, to := quote("a/"+name), quote("b/"+name)
	fmt.Fprintf(b, "diff --git %s %s\n", from, to)
	switch {
	case old.mode == "":
		fmt.Fprintf(b, "new file mode %s\n", now.mode)
		from = "/dev/null"
	case now.mode == "":
		fmt.Fprintf(b, "deleted file mode %s\n", old.mode)
		to = "/dev/null"
	case old.mode != now.mode:
		fmt.Fprintf(b, "old mode %s\nnew mode %s\n", old.mode, now.mode)
	}
	if old.id == now.id {
		return
	}
	if old.big || now.big {
		d.stat.Binary++
		fmt.Fprintf(b, "Binary files %s and %s differ\n", from, to)
		return
	}
	text := udiff.Unified(tabbed(from), tabbed(to), old.text, now.text)
	n := 0
	for line := range strings.Lines(text) {
		if n++; n <= 2 {
			continue // the names
		}
		switch line[0] {
		case '+':
			d.stat.Added++
		case '-':
			d.stat.Removed++
		}
	}
	b.WriteString(text)
}

// tabbed ends a name that holds a space with a tab, so that no reader takes
// what follows the space for a date.
func tabbed(name string) string {
	if strings.Contains(name, " ") && !strings.HasPrefix(name, `"`) {
		return name + "\t"
	}
	return name
}

// quote writes a name as git does: in quotes with C escapes where it holds
// anything but printable ASCII, so that a line break in a name forges no line.
func quote(s string) string {
	plain := true
	for i := range len(s) {
		if c := s[i]; c < 0x20 || c >= 0x7f || c == '"' || c == '\\' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < 0x20 || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
