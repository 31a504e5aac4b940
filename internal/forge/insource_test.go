package forge

import "testing"

func TestModuleFile(t *testing.T) {
	there := map[string]bool{"src/lib.rs": true, "src/date.rs": true, "src/wire/mod.rs": true, "src/wire/read/tests.rs": true, "core/src/main.rs": true}
	for id, want := range map[string]string{
		"src/lib.rs[humantime] date::test::leap":       "src/date.rs",
		"src/lib.rs[humantime] wire::test::one":        "src/wire/mod.rs",
		"src/lib.rs[humantime] wire::read::tests::two": "src/wire/read/tests.rs",
		"src/lib.rs[humantime] tests::three":           "src/lib.rs",
		"src/lib.rs[humantime] four":                   "src/lib.rs",
		"core/src/main.rs[core] date::five":            "core/src/main.rs",
		"src/bin/x.rs[x] date::six":                    "",
		"doc[humantime] src/lib.rs - leap (line 3)":    "",
		"tests/test_calc.py::test_total":               "",
		"TestUnit/[a] b":                               "",
	} {
		if got := moduleFile(id, func(rel string) bool { return there[rel] }); got != want {
			t.Errorf("%s: %q, want %q", id, got, want)
		}
	}
}
