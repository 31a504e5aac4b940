package setup

import "testing"

// A table that cannot be read, and a runner or toolchain that it lacks, would
// show only in the repository that needs it.
func TestTables(t *testing.T) {
	all, shared, err := ecosystems()
	if err != nil {
		t.Fatal(err)
	}
	if shared == nil || len(all) < 6 {
		t.Fatalf("%d tables", len(all))
	}
	for _, e := range all {
		if len(e.Marks) == 0 || len(e.Extensions) == 0 || len(e.Toolchains) == 0 || len(e.Systems) == 0 || len(e.Runners) == 0 {
			t.Errorf("table %s lacks marks, extensions, toolchains, systems or runners", e.Name)
		}
		for _, r := range e.Runners {
			p := &plan{eco: e, shared: shared, runner: r, vars: map[string]string{}, env: map[string]string{}, name: "x", timeout: 60}
			rec, err := p.recipe()
			if err != nil {
				t.Errorf("table %s: runner %s%s: %v", e.Name, r.Use, r.Name, err)
				continue
			}
			rec.Install = append(rec.Install, "true")
			b, err := rec.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := DecodeRecipe("recipe.toml", b); err != nil {
				t.Errorf("table %s: its recipe is none: %v\n%s", e.Name, err, b)
			}
		}
	}
}
