package cli

import (
	"context"

	"assay/internal/forge"
	"assay/internal/forge/mutate"
)

type forgeMutateCmd struct {
	forgeFlags
	HideTests bool `help:"Keep the files of the tests that fail from the agent; they come at grading. Tasks are larger by these files."`
}

func (forgeMutateCmd) Help() string {
	return `Makes the mistakes that people make (off by one, a forgotten check, a value that is not copied, an argument that is not handed
on) in Python, JavaScript, TypeScript, Go, Rust, Java, C and C++, keeps those that stable tests find, and describes what
users would see of them. Grammars are fetched once, see 'assay repo grammars'.

Example:
  assay forge mutate ../my-project -o tasks/m --limit 40 --hints 1
` + forgeExit
}

func (c *forgeMutateCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	return c.forge(ctx, a, g, map[string]int{"mutate": c.Limit}, forgeOptions{hideTests: c.HideTests})
}

// newMutate makes the generator of bugs; it decides by the environment's suite.
func newMutate(ctx context.Context, f forging) (forge.Generator, func() error, error) {
	p, err := f.a.syntaxParser(ctx, f.g)
	if err != nil {
		return nil, nil, err
	}
	return mutate.New(mutate.Config{Parser: p, Decide: mutate.Decided(max(1, f.o.concurrent))}), p.Close, nil
}
