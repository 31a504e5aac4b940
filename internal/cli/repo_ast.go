package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"assay/internal/mirrors"
	"assay/internal/syntax"
)

type repoASTCmd struct {
	File string `arg:"" help:"Source file."`
	Lang string `placeholder:"LANGUAGE" help:"Its language. Default: by the name's ending."`
	All  bool   `help:"Anonymous nodes too: brackets, operators, keywords."`
}

func (repoASTCmd) Help() string {
	return `Prints a file's syntax tree: kind, field, place, and the text of leaves. With --json one object a node, parents first.

Examples:
  assay repo ast src/app.py
  assay repo ast --lang tsx --all page.js

Exit status: 0, 1 when the tree has errors or there is no grammar, 2 usage.`
}

func (c *repoASTCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	lang, known := syntax.ByPath(c.File)
	if c.Lang != "" {
		lang, known = syntax.Language(c.Lang), slices.Contains(syntax.Languages(), syntax.Language(c.Lang))
	}
	if !known {
		return usagef("%s: no language of %v; name it with --lang", c.File, syntax.Languages())
	}
	f, err := os.Open(c.File)
	if err != nil {
		return usage(err)
	}
	defer f.Close()
	const most = 2 << 20
	src, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return err
	}
	p, err := a.syntaxParser(ctx, g)
	if err != nil {
		return err
	}
	defer p.Close()
	tree, err := p.Parse(ctx, lang, src)
	if err != nil {
		return fmt.Errorf("%s: %w", c.File, err)
	}
	if err := a.printTree(g, tree, c.All); err != nil {
		return err
	}
	if tree.Root.Error {
		return fmt.Errorf("%s: the text has errors, see ERROR above", c.File)
	}
	return nil
}

type astNode struct {
	Depth int    `json:"depth"`
	Kind  string `json:"kind"`
	Field string `json:"field,omitempty"`
	Start int    `json:"start"`
	End   int    `json:"end"`
	Line  int    `json:"line"`   // from 1
	Col   int    `json:"column"` // bytes, from 1
	Error bool   `json:"error,omitempty"`
	Text  string `json:"text,omitempty"` // of a leaf
}

func (a *app) printTree(g *grammar, tree *syntax.Tree, all bool) (err error) {
	var print func(n *syntax.Node, depth int)
	print = func(n *syntax.Node, depth int) {
		if err != nil || !n.Named && !all {
			return
		}
		v := astNode{depth, n.Kind, n.Field, n.Start, n.End, n.Row + 1, n.Col + 1, n.Error, ""}
		if len(n.Children) == 0 {
			v.Text = tree.Text(n)
		}
		if g.JSON {
			err = a.emit("node", v)
		} else {
			field, text := "", ""
			if v.Field != "" {
				field = v.Field + ": "
			}
			if v.Text != "" {
				text = fmt.Sprintf("  %.60q", v.Text)
			}
			if v.Error && len(n.Children) == 0 {
				text += "  (missing)"
			}
			_, err = fmt.Fprintf(a.Stdout, "%s%s%s  %d:%d%s\n", strings.Repeat("  ", depth), field, v.Kind, v.Line, v.Col, text)
		}
		for _, c := range n.Children {
			print(c, depth+1)
		}
	}
	print(tree.Root, 0)
	return err
}

type repoGrammarsCmd struct {
	Fetch bool `help:"Fetch what is missing, and compile it."`
}

func (repoGrammarsCmd) Help() string {
	return `Lists the languages whose syntax assay reads, and whether their grammars are on this machine. They are packages of
npm, pinned by version and integrity; npm's registry settings, proxy and certificates of this machine are used.

Examples:
  assay repo grammars
  assay repo grammars --fetch

Exit status: 0, 1 when one is missing or cannot be fetched.`
}

func (c *repoGrammarsCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	config, err := a.grammarConfig(g)
	if err != nil {
		return err
	}
	if !c.Fetch {
		config.Client = nil
	}
	p, err := syntax.New(ctx, config)
	if err != nil {
		return err
	}
	defer p.Close()
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	var failed error
	for _, l := range syntax.Languages() {
		state := "ready"
		if err := p.Ready(ctx, l); err != nil {
			state, failed = "missing", err
		}
		if g.JSON {
			if err := a.emit("grammar", map[string]string{"language": string(l), "state": state}); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", l, state)
	}
	w.Flush()
	return failed
}

// syntaxParser reads sources; what its cache lacks is fetched unless --offline.
func (a *app) syntaxParser(ctx context.Context, g *grammar) (*syntax.Parser, error) {
	c, err := a.grammarConfig(g)
	if err != nil {
		return nil, err
	}
	return syntax.New(ctx, c)
}

// grammarConfig says where grammars lie and come from: ASSAY_GRAMMARS, else
// below the user's cache; npm's registry as this machine has it configured.
func (a *app) grammarConfig(g *grammar) (syntax.Config, error) {
	c := syntax.Config{Cache: a.env("ASSAY_GRAMMARS")}
	if c.Cache == "" {
		dir := a.env("XDG_CACHE_HOME")
		if home := a.env("HOME"); dir == "" && home != "" {
			dir = filepath.Join(home, ".cache")
		}
		if dir == "" {
			return c, usagef("neither HOME nor XDG_CACHE_HOME is set: say where grammars are kept with ASSAY_GRAMMARS")
		}
		c.Cache = filepath.Join(dir, "assay", "grammars")
	}
	if g.Offline {
		return c, nil
	}
	known, err := mirrors.Read(a.machine())
	if err != nil {
		return c, err
	}
	for _, m := range known.Mirrors {
		if m.Manager == "npm" && m.From != mirrors.Default {
			c.Registry = m.URL
		}
	}
	t := http.DefaultTransport.(*http.Transport).Clone() // which goes through this machine's proxy
	t.TLSClientConfig = &tls.Config{RootCAs: known.Roots()}
	c.Client = &http.Client{Transport: t, Timeout: 2 * time.Minute}
	return c, nil
}
