package mutate

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/internal/syntax"
)

// site is one place where one mistake can be made.
type site struct {
	operator string
	weight   int
	file     *file
	edits    []edit // in the order of the text, none into another
	function string
	line     int // from 1, of the first edit
}

func (s *site) key() string {
	return fmt.Sprint(s.file.path, s.edits)
}

// name is what a site is drawn by: equal wherever it is found.
func (s *site) name() string {
	h := sha256.Sum256([]byte(s.operator + "\x00" + s.key()))
	return hex.EncodeToString(h[:])
}

// newFile parses a source; nil: it has errors already, or no shape.
func newFile(ctx context.Context, p *syntax.Parser, path string, src []byte) (*file, error) {
	lang, ok := syntax.ByPath(path)
	if !ok || shapeOf(lang) == nil {
		return nil, nil
	}
	tree, err := p.Parse(ctx, lang, src)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if tree.Root.Error && lang != syntax.C && lang != syntax.CPP { // macros are no faults
		return nil, nil
	}
	f := &file{path: path, tree: tree, src: src, shape: shapeOf(lang), members: map[string][]string{}, fields: map[*syntax.Node][]string{}, locals: map[*syntax.Node]map[string]variable{}}
	if tree.Root.Error {
		f.wrong = faults(tree.Root)
	}
	tree.Root.Walk(func(n *syntax.Node) bool {
		if f.is(n, member) || n.Kind == "scoped_identifier" {
			if owner, own, ok := f.constant(n); ok && !slices.Contains(f.members[owner], own) {
				f.members[owner] = append(f.members[owner], own)
			}
		}
		return true
	})
	return f, nil
}

// sites finds every place of every mistake in a file. Of two mistakes that make
// the same text the likelier one stays.
func (f *file) sites(table []operator) []*site {
	best := map[string]*site{}
	f.tree.Root.Walk(func(n *syntax.Node) bool {
		if n.Kind == "ERROR" || f.untouched(n) {
			return false
		}
		if n.Error { // a macro somewhere below it: what stands beside that is whole
			return true
		}
		if !n.Named && n.Kind != "optional_chain" {
			return true
		}
		for _, o := range table {
			o.at(f, n, func(edits ...edit) {
				slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
				s := &site{o.name, o.weight, f, edits, f.functionOf(n), n.Row + 1}
				if !f.changes(edits) || f.idle(n, edits) {
					return
				}
				if old := best[s.key()]; old == nil || old.weight < s.weight {
					best[s.key()] = s
				}
			})
		}
		return true
	})
	out := make([]*site, 0, len(best))
	for _, s := range best {
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *site) int { return strings.Compare(a.name(), b.name()) })
	return out
}

// changes reports whether edits lie one after the other and change anything.
func (f *file) changes(edits []edit) bool {
	for i, e := range edits {
		if e.start < 0 || e.end < e.start || e.end > len(f.src) || i > 0 && e.start < edits[i-1].end {
			return false
		}
	}
	return len(edits) > 0 && string(apply(f.src, edits)) != string(f.src)
}

// idle reports whether edits leave an assignment of something to itself, which
// nobody writes.
func (f *file) idle(n *syntax.Node, edits []edit) bool {
	for ; n != nil && !f.is(n, block); n = n.Parent {
		left, right, ok := f.assignment(n)
		if !ok || edits[0].start < right.Start || edits[len(edits)-1].end > right.End {
			continue
		}
		var in []edit
		for _, e := range edits {
			in = append(in, edit{e.start - right.Start, e.end - right.Start, e.text})
		}
		return string(apply([]byte(f.text(right)), in)) == f.text(left)
	}
	return false
}

// untouched is what people do not break by mistake, or what no test sees:
// imports, types, documentation, tests inside a source file.
func (f *file) untouched(n *syntax.Node) bool {
	switch {
	case f.is(n, skipped, comment), n.Field == "condition" && strings.HasPrefix(n.Parent.Kind, "preproc"):
		return true
	case f.is(n, expression):
		in := f.named(n)
		if len(in) == 1 && f.is(in[0], text) && f.shape.indented {
			return true
		}
		if len(in) == 1 && f.is(in[0], call) {
			_, last := f.callee(in[0])
			return slices.Contains(f.shape.quiet, f.text(last))
		}
	case n.Kind == "mod_item" || n.Kind == "function_item":
		for i, c := range n.Parent.Children {
			if c == n && i > 0 {
				before := n.Parent.Children[i-1]
				return before.Kind == "attribute_item" && strings.Contains(f.text(before), "test")
			}
		}
	case f.is(n, ifBranch) && f.version(n):
		return true
	case f.is(n, function):
		id := f.nameOf(n)
		return id == "__repr__" || id == "toString" && f.tree.Language == syntax.Java
	}
	return false
}

func apply(src []byte, edits []edit) []byte {
	var out []byte
	at := 0
	for _, e := range edits {
		out = append(append(out, src[at:e.start]...), e.text...)
		at = e.end
	}
	return append(out, src[at:]...)
}

// ordered draws sites so that every beginning of the row is varied: an operator
// by its weight, then of its sites one in a function and a file that had few
// so far. Equal seeds draw equally.
func ordered(all []*site, table []operator, seed uint64) []*site {
	r := rand.New(rand.NewPCG(seed, 0x6d7574617465))
	by := map[string][]*site{}
	for _, s := range all {
		by[s.operator] = append(by[s.operator], s)
	}
	for _, o := range table {
		r.Shuffle(len(by[o.name]), func(i, j int) { by[o.name][i], by[o.name][j] = by[o.name][j], by[o.name][i] })
	}
	functions, files, drawn := map[string]int{}, map[string]int{}, map[string]int{}
	var out []*site
	for len(out) < len(all) {
		// Of the operators with sites left the one that is most behind its share.
		var o *operator
		least := 0.0
		for i := range table {
			t := &table[i]
			if len(by[t.name]) == 0 {
				continue
			}
			share := (float64(drawn[t.name]) + r.Float64()) / (float64(t.weight) + 0.1)
			if o == nil || share < least {
				o, least = t, share
			}
		}
		list := by[o.name]
		pick := 0
		cost := func(s *site) int { return 4*functions[s.file.path+":"+s.function] + files[s.file.path] }
		for i := range min(len(list), 40) {
			if cmp.Compare(cost(list[i]), cost(list[pick])) < 0 {
				pick = i
			}
		}
		s := list[pick]
		by[o.name] = slices.Delete(list, pick, pick+1)
		functions[s.file.path+":"+s.function]++
		files[s.file.path]++
		drawn[o.name]++
		out = append(out, s)
	}
	return out
}
