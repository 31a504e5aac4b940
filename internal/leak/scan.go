package leak

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"assay/internal/image"
)

// Finding is a place that holds a solution, or most of it.
type Finding struct {
	Layer  image.LayerID `json:"layer"`
	Path   string        `json:"path"`             // in the layer
	Inside string        `json:"inside,omitempty"` // member of an archive, or name of a git object
	Lines  int           `json:"found"`            // lines, or words where Words is set
	Of     int           `json:"of"`               // that the solution has
	Words  bool          `json:"words,omitempty"`  // identifiers in byte code or data
	Sample string        `json:"sample"`           // the longest of them
	Sure   bool          `json:"sure"`             // too much to stand there by accident
}

func (f Finding) String() string {
	at, what := "/"+f.Path, "lines"
	if f.Inside != "" {
		at += " (" + f.Inside + ")"
	}
	if f.Words {
		what = "names"
	}
	return fmt.Sprintf("%s holds %d of %d %s of the solution, such as %q", at, f.Lines, f.Of, what, f.Sample)
}

// Caps of a scan: what is beyond them is not looked at, and named in Scan's notes.
const (
	maxFile     = 256 << 20
	maxUnpacked = 512 << 20 // of one archive
	maxMembers  = 20_000
	maxFindings = 100 // per solution
)

// Scanner looks through layers.
type Scanner struct {
	Store *image.Store
	// Cache keeps which lines a shared layer holds, so that it is read once for
	// all tasks; empty: nothing is kept.
	Cache image.HostPath
	// Git is the program that reads git's objects; empty: those in packs are
	// not looked at, which is a note.
	Git string
	// Shared says which layers many images stand on; nil: none.
	Shared func(image.LayerID) bool
}

// Result is what of one solution was found.
type Result struct {
	Findings []Finding
	Notes    []string // what was not looked at
}

// Scan looks for each solution in every layer of an image. Binds of the host
// are not looked at.
func (s *Scanner) Scan(ctx context.Context, im image.Image, golds []*Gold) ([]Result, error) {
	out := make([]Result, len(golds))
	for _, id := range im.Layers {
		look := golds
		if s.Shared != nil && s.Shared(id) {
			f, err := s.index(ctx, id)
			if err != nil {
				return nil, fmt.Errorf("look for solutions in layer %s: %w", id, err)
			}
			look = make([]*Gold, len(golds)) // nil: this layer holds too little of it
			for i, g := range golds {
				if f.holds(g) {
					look[i] = g
				}
			}
		}
		if !slices.ContainsFunc(look, func(g *Gold) bool { return g != nil && len(g.lines) > 0 }) {
			continue
		}
		w := &walk{s: s, layer: id, golds: look, out: out}
		if err := w.layerAll(ctx); err != nil {
			return nil, fmt.Errorf("look for solutions in layer %s: %w", id, err)
		}
	}
	for i := range out {
		slices.Sort(out[i].Notes)
		out[i].Notes = slices.Compact(out[i].Notes)
	}
	return out, nil
}

// walk goes through one layer. For an index, every line goes to each; else the
// lines of the solutions are gathered place by place.
type walk struct {
	s     *Scanner
	layer image.LayerID
	golds []*Gold
	out   []Result
	each  func(line uint64) // of an index; nil: golds are looked for
}

func (w *walk) note(format string, a ...any) {
	for i, g := range w.golds {
		if g != nil {
			w.out[i].Notes = append(w.out[i].Notes, fmt.Sprintf(format, a...))
		}
	}
}

func (w *walk) layerAll(ctx context.Context) error {
	v, err := w.s.Store.View([]image.LayerID{w.layer})
	if err != nil {
		return err
	}
	var repos []string
	err = v.Walk(".", func(e image.Entry) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		if e.IsDir() && path.Base(e.Path) == "objects" {
			repos = append(repos, e.Path) // of a bare repository too; what is none gives nothing
		}
		if e.Type != image.TypeFile || e.Size == 0 {
			return nil
		}
		if e.Size > maxFile {
			w.note("/%s: %d bytes, not looked at", e.Path, e.Size)
			return nil
		}
		f, err := v.Open(e.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		return w.file(e.Path, "", f, 0)
	})
	if err != nil {
		return err
	}
	for _, r := range repos {
		if err := w.repository(ctx, v, r); err != nil {
			return err
		}
	}
	return nil
}

// file looks at one file, or at the members of an archive, two deep.
func (w *walk) file(p, inside string, r io.Reader, depth int) error {
	br := bufio.NewReaderSize(r, 64<<10)
	head, err := br.Peek(8 << 10)
	// A member of an archive that breaks off holds what could be read of it.
	if err != nil && depth == 0 && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return err
	}
	if depth < 2 {
		switch {
		case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
			return w.gzip(p, inside, br, depth)
		case bytes.HasPrefix(head, []byte("PK\x03\x04")):
			return w.zip(p, inside, br, depth)
		}
	}
	w.text(p, inside, br, isText(head))
	return nil
}

// gzip looks at what a compressed file holds; one that is none is left alone.
func (w *walk) gzip(p, inside string, r io.Reader, depth int) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return nil
	}
	defer z.Close()
	return w.file(p, join(inside, "gz"), io.LimitReader(z, maxUnpacked), depth+1)
}

func (w *walk) zip(p, inside string, r io.Reader, depth int) error {
	b, err := io.ReadAll(io.LimitReader(r, maxFile))
	if err != nil {
		return err
	}
	z, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil
	}
	left := int64(maxUnpacked)
	for i, m := range z.File {
		if i == maxMembers || left <= 0 {
			w.note("/%s: only %d members were looked at", p, i)
			return nil
		}
		f, err := m.Open()
		if err != nil {
			continue
		}
		c := &counted{r: io.LimitReader(f, left)}
		err = w.file(p, join(inside, m.Name), c, depth+1)
		left -= c.n
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + " in " + b
}

// text looks at the lines, or at the words, of one place. An error of reading
// ends the place: a broken archive member holds what could be read of it.
func (w *walk) text(p, inside string, r io.Reader, lines bool) {
	found := make([]place, len(w.golds))
	sc := bufio.NewScanner(r)
	sc.Buffer(make([]byte, 64<<10), 2*longLine)
	sc.Split(pieces)
	if !lines {
		sc.Split(printable)
	}
	for sc.Scan() {
		if !lines {
			w.word(found, sc.Text())
			continue
		}
		n := normal(sc.Text())
		if len(n) < minLine {
			continue
		}
		h := hash(n)
		if w.each != nil {
			w.each(h)
			continue
		}
		for i, g := range w.golds {
			if g != nil && g.lines[h] != "" {
				if found[i].lines == nil {
					found[i].lines = map[uint64]bool{}
				}
				found[i].lines[h] = true
			}
		}
	}
	for i, g := range w.golds {
		if g == nil || len(w.out[i].Findings) == maxFindings {
			continue
		}
		if f, ok := g.match(found[i]); ok {
			f.Layer, f.Path, f.Inside = w.layer, p, inside
			w.out[i].Findings = append(w.out[i].Findings, f)
		}
	}
}

func (w *walk) word(found []place, run string) {
	for i, g := range w.golds {
		if g == nil || len(g.words) < minWords {
			continue
		}
		for _, x := range word.FindAllString(run, -1) {
			if !g.words[x] {
				continue
			}
			if found[i].words == nil {
				found[i].words = map[string]bool{}
			}
			found[i].words[x] = true
		}
	}
}

// longLine is where a line without an end is cut, so that it hides nothing
// behind it.
const longLine = 512 << 10

// pieces splits text into lines, and endless ones into pieces.
func pieces(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if len(data) >= longLine && bytes.IndexByte(data, '\n') < 0 {
		return len(data), data, nil
	}
	return bufio.ScanLines(data, atEOF)
}

// printable splits data into runs of letters, digits and underscores, as
// strings(1) does; the rest is passed over.
func printable(data []byte, atEOF bool) (advance int, token []byte, err error) {
	is := func(b byte) bool {
		return b == '_' || b >= '0' && b <= '9' || b >= 'A' && b <= 'Z' || b >= 'a' && b <= 'z' || b >= 0x80
	}
	i := 0
	for i < len(data) && !is(data[i]) {
		i++
	}
	j := i
	for j < len(data) && is(data[j]) {
		j++
	}
	switch {
	case j < len(data), atEOF && j > i, j-i > 4096:
		return j, data[i:j], nil
	case atEOF:
		return len(data), nil, nil
	}
	return i, nil, nil // more of this run may follow
}

// trimmed is a path's part that a repository's objects stand below.
func trimmed(p, dir string) string { return strings.TrimPrefix(p, dir+"/") }
