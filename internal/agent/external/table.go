package external

import (
	"embed"
	"fmt"
	"path"
)

//go:embed recipes/*.toml
var recipes embed.FS

// Table returns the recipes that assay comes with, in order of names.
func Table() ([]Recipe, error) {
	files, err := recipes.ReadDir("recipes")
	if err != nil {
		return nil, err
	}
	var all []Recipe
	for _, f := range files {
		b, err := recipes.ReadFile(path.Join("recipes", f.Name()))
		if err != nil {
			return nil, err
		}
		r, err := Parse(f.Name(), b)
		if err != nil {
			return nil, fmt.Errorf("table of agents: %w", err)
		}
		all = append(all, r)
	}
	return all, nil
}
