package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/forge"
	"assay/internal/forge/history"
	"assay/internal/forge/invert"
	"assay/internal/repo"
)

// forgeOptions are what single generators are told.
type forgeOptions struct {
	issues, since string
	cache         string // DIR/.forge
	concurrent    int
	hideTests     bool
	mix           map[string]int // as it was asked for; nil: one generator alone
}

// forging is what a generator is made with.
type forging struct {
	a   *app
	g   *grammar
	r   *rooms
	env *repo.Environment
	o   forgeOptions
}

// generator makes one by its name; done closes what it opened and may be nil.
type generator struct {
	name string
	make func(ctx context.Context, f forging) (gen forge.Generator, done func() error, err error)
}

// generators is the table of all; a further one is a row.
func generators() []generator {
	return []generator{
		{"history", newHistory},
		{"mutate", newMutate},
		{"invert", func(context.Context, forging) (forge.Generator, func() error, error) {
			return &invert.Generator{}, nil, nil
		}},
	}
}

// generators makes those that are asked for, in the table's order.
func (a *app) generators(ctx context.Context, g *grammar, r *rooms, env *repo.Environment, want map[string]int, o forgeOptions) (all []forge.Generator, done func(), err error) {
	var closers []func() error
	done = func() {
		for _, c := range closers {
			if err := c(); err != nil {
				a.say("warning: %v", err)
			}
		}
	}
	var names []string
	for _, k := range generators() {
		names = append(names, k.name)
		n, asked := want[k.name]
		if !asked || n == 0 && len(want) > 1 {
			continue
		}
		gen, c, err := k.make(ctx, forging{a, g, r, env, o})
		if err != nil {
			done()
			return nil, nil, fmt.Errorf("%s: %w", k.name, err)
		}
		if c != nil {
			closers = append(closers, c)
		}
		all = append(all, gen)
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !slices.Contains(names, name) {
			done()
			return nil, nil, usagef("no generator is called %q (there are %s)", name, strings.Join(names, ", "))
		}
	}
	return all, done, nil
}

func newHistory(ctx context.Context, f forging) (forge.Generator, func() error, error) {
	h := &history.Generator{}
	if f.o.since != "" {
		t, err := time.Parse(time.DateOnly, f.o.since)
		if err != nil {
			return nil, nil, usagef("--since %q: a date like 2026-01-31", f.o.since)
		}
		h.Since = t
	}
	if err := f.issues(h); err != nil {
		return nil, nil, err
	}
	p, err := f.a.syntaxParser(ctx, f.g)
	if err != nil { // what a commit changes is then told by the shape of its lines
		f.a.say("history: without syntax trees: %v", err)
		return h, nil, nil
	}
	h.Parser = p
	return h, p.Close, nil
}

// issues reads the export that statements are made of, if there is one.
func (f forging) issues(h *history.Generator) error {
	if f.o.issues == "" {
		return nil
	}
	file, err := os.Open(filepath.Clean(f.o.issues))
	if err != nil {
		return usage(err)
	}
	h.Issues, err = history.ReadIssues(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return usage(fmt.Errorf("%s: %w", f.o.issues, err))
	}
	return nil
}
