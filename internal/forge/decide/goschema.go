package decide

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Many changes of one package share a build: each changed function holds all of
// its bodies, and a variable that is read once says which one runs. Only what
// is inside of one function can be done so; the rest is built alone.

// goVariant is a change as another body of one function.
type goVariant struct {
	file       string
	start, end int // of the function's body in the old file, with its braces
	body       []byte
	number     int // from 1
}

// switchName is the variable that chooses; switchVar what it is read from.
const (
	switchName = "assayMutant"
	switchVar  = "ASSAY_MUTANT"
)

// goVariantOf says how a change is another body of one function; an error says
// why it is not.
func goVariantOf(old, files map[string][]byte) (v goVariant, err error) {
	if len(files) != 1 {
		return v, errors.New("several files")
	}
	for f, now := range files {
		was, ok := old[f]
		if !ok || path.Ext(f) != ".go" || strings.HasSuffix(f, "_test.go") {
			return v, errors.New("no source of Go")
		}
		v.file = f
		a, err := goBodies(was)
		if err != nil {
			return v, err
		}
		b, err := goBodies(now)
		if err != nil {
			return v, err
		}
		if len(a) != len(b) {
			return v, errors.New("other functions")
		}
		at := -1
		for i := range a {
			if !bytes.Equal(was[a[i].start:a[i].end], now[b[i].start:b[i].end]) {
				if at >= 0 {
					return v, errors.New("several functions")
				}
				at = i
			}
		}
		if at < 0 || !bytes.Equal(was[:a[at].start], now[:b[at].start]) || !bytes.Equal(was[a[at].end:], now[b[at].end:]) {
			return v, errors.New("outside of functions")
		}
		if a[at].labels || b[at].labels {
			return v, errors.New("a function with labels")
		}
		v.start, v.end = a[at].start, a[at].end
		v.body = now[b[at].start:b[at].end]
	}
	return v, nil
}

type goBody struct {
	start, end int
	labels     bool
}

// goBodies are the bodies of a file's functions, in their order.
func goBodies(src []byte) (out []goBody, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return nil, err
	}
	for _, im := range f.Imports {
		if im.Path.Value == `"C"` {
			return nil, errors.New("cgo")
		}
	}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		b := goBody{start: fset.Position(fn.Body.Lbrace).Offset, end: fset.Position(fn.Body.Rbrace).Offset + 1}
		ast.Inspect(fn.Body, func(n ast.Node) bool {
			if _, ok := n.(*ast.LabeledStmt); ok {
				b.labels = true
			}
			return true
		})
		out = append(out, b)
	}
	return out, nil
}

// goSpan is where a variant came to stand, in lines from 1.
type goSpan struct {
	file       string
	first, end int
	number     int // 0: the function around its variants
	numbers    []int
}

// goSchema writes each file with all of its variants. The bodies stand in the
// branches of one if: labels aside, a body means there what it means alone.
func goSchema(old map[string][]byte, variants []goVariant) (files map[string][]byte, spans []goSpan) {
	return schema(old, variants, "if "+switchName+" == %d ")
}

// schema writes the bodies behind a condition that takes their numbers.
func schema(old map[string][]byte, variants []goVariant, condition string) (files map[string][]byte, spans []goSpan) {
	files = map[string][]byte{}
	byFile := map[string][]goVariant{}
	for _, v := range variants {
		byFile[v.file] = append(byFile[v.file], v)
	}
	for f, list := range byFile {
		slices.SortFunc(list, func(a, b goVariant) int {
			if a.start != b.start {
				return a.start - b.start
			}
			return a.number - b.number
		})
		var out bytes.Buffer
		line := func() int { return 1 + bytes.Count(out.Bytes(), []byte("\n")) }
		src, at := old[f], 0
		for i := 0; i < len(list); {
			start, end := list[i].start, list[i].end
			out.Write(src[at:start])
			around := goSpan{file: f, first: line()}
			out.WriteString("{ ")
			for ; i < len(list) && list[i].start == start; i++ {
				v := list[i]
				fmt.Fprintf(&out, condition, v.number)
				span := goSpan{file: f, first: line(), number: v.number}
				out.Write(v.body)
				span.end = line()
				spans = append(spans, span)
				around.numbers = append(around.numbers, v.number)
				out.WriteString(" else\n")
			}
			out.Write(src[start:end])
			out.WriteString(" }")
			around.end = line()
			spans = append(spans, around)
			at = end
		}
		out.Write(src[at:])
		files[f] = out.Bytes()
	}
	return files, spans
}

// goSwitch is the file that reads which variant runs.
func goSwitch(src []byte) ([]byte, error) {
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", src, parser.PackageClauseOnly)
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, `package %s

import (
	assayOS "os"
	assayConv "strconv"
)

var %s = func() int { n, _ := assayConv.Atoi(assayOS.Getenv(%q)); return n }()
`, f.Name.Name, switchName, switchVar), nil
}

var goErrorLine = regexp.MustCompile(`(?m)^(?:\./)?([^\s:]+\.go):(\d+):(?:\d+:)? `)

// blamed reads a compiler's errors: the variants that hold one do not build.
// alone are those whose function is at fault, nobody knows by which.
func blamed(line *regexp.Regexp, out []byte, spans []goSpan) (bad, alone map[int]bool) {
	bad, alone = map[int]bool{}, map[int]bool{}
	for _, m := range line.FindAllSubmatch(out, -1) {
		file := string(m[1])
		at, err := strconv.Atoi(string(m[2]))
		if err != nil {
			continue
		}
		found := false
		var around []int
		for _, s := range spans {
			if path.Base(s.file) != path.Base(file) || at < s.first || at > s.end {
				continue
			}
			if s.number == 0 {
				around = s.numbers
			} else {
				bad[s.number], found = true, true
			}
		}
		for _, n := range around {
			if !found {
				alone[n] = true
			}
		}
	}
	for n := range bad {
		delete(alone, n)
	}
	return bad, alone
}

// goUnfit says why a changed file cannot be built whatever it imports: a
// variable or an import that is not used, a return that is missing. The other
// bodies beside it would hide the second and mislead about the third.
func goUnfit(was, now []byte) string {
	before := goFaults(was)
	for _, f := range goFaults(now) {
		if !slices.Contains(before, f) {
			return f
		}
	}
	return ""
}

func goFaults(src []byte) (out []string) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", src, 0)
	if err != nil {
		return []string{err.Error()}
	}
	c := types.Config{Importer: nowhere{}, Error: func(err error) {
		var e types.Error
		if !errors.As(err, &e) {
			return
		}
		for _, w := range []string{"missing return", "imported and not used", "declared and not used"} {
			if strings.Contains(e.Msg, w) {
				out = append(out, e.Msg)
			}
		}
	}}
	_, _ = c.Check("x", fset, []*ast.File{f}, nil) // its errors came one by one
	return out
}

// nowhere imports nothing: names of other packages stay unknown.
type nowhere struct{}

func (nowhere) Import(p string) (*types.Package, error) {
	name := path.Base(p)
	if name = strings.TrimPrefix(name, "go-"); len(name) > 1 && name[0] == 'v' && name[1] >= '0' && name[1] <= '9' {
		name = path.Base(path.Dir(p))
	}
	pkg := types.NewPackage(p, name)
	pkg.MarkComplete()
	return pkg, nil
}
