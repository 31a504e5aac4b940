package mutate

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"strings"

	"assay/internal/syntax"
)

// parses reports whether a changed file is still right to its grammar, and, of
// Go, whether it uses all that it declares, which its compiler wants.
func parses(ctx context.Context, p *syntax.Parser, f *file, changed []byte) (bool, error) {
	tree, err := p.Parse(ctx, f.tree.Language, changed)
	if err != nil {
		return false, err
	}
	if tree.Root.Error && faults(tree.Root) > f.wrong {
		return false, nil
	}
	if f.tree.Language == syntax.Go {
		return unused(changed) == 0 || unused(changed) <= unused(f.src), nil
	}
	return true, nil
}

func faults(root *syntax.Node) int {
	n := 0
	root.Walk(func(c *syntax.Node) bool {
		if c.Error && len(c.Children) == 0 || c.Kind == "ERROR" {
			n++
		}
		return c.Error
	})
	return n
}

// unused counts what a Go file declares or imports and does not use; a file
// that does not parse has very many. It looks at this file alone, so that what
// other files declare is unknown to it and all else it finds says nothing.
func unused(src []byte) int {
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, "x.go", src, parser.SkipObjectResolution)
	if err != nil {
		return 1 << 20
	}
	n := 0
	names := regexp.MustCompile(`declared and not used|imported and not used|missing return|label .* defined and not used`)
	conf := types.Config{Importer: nothing{}, Error: func(err error) {
		if names.MatchString(err.Error()) {
			n++
		}
	}}
	conf.Check("x", fset, []*ast.File{parsed}, nil)
	return n
}

// nothing imports packages of which nothing is known.
type nothing struct{}

func (nothing) Import(path string) (*types.Package, error) {
	name := path[strings.LastIndex(path, "/")+1:]
	p := types.NewPackage(path, name)
	p.MarkComplete()
	return p, nil
}
