package cli

import (
	"errors"
	"slices"
	"testing"
	"time"

	"assay/internal/forge"
	"assay/internal/repo"
)

// What is asked for and not there is told of every generator, and a time that
// is over is not called the end of what there is.
func TestWhatAForgeLacks(t *testing.T) {
	rep := func(invert, mutate forge.Funnel) *forge.Report {
		return &forge.Report{Generators: map[string]forge.Funnel{"invert": invert, "mutate": mutate}}
	}
	few, none, dry := forge.Funnel{Standing: 3}, forge.Funnel{}, forge.Funnel{Standing: 4, Ended: true}
	for _, c := range []struct {
		name  string
		flags forgeFlags
		rep   *forge.Report
		want  map[string]int
		text  string
		code  int
	}{
		{"all there", forgeFlags{}, rep(few, dry), map[string]int{"invert": 3, "mutate": 2}, "", 0},
		{"no more", forgeFlags{}, rep(few, dry), map[string]int{"invert": 3, "mutate": 5}, "mutate: 4 tasks, wanted 5, and it has no more", exitGate},
		{"no more before the time was over", forgeFlags{For: time.Hour}, rep(few, dry), map[string]int{"mutate": 5},
			"mutate: 4 tasks, wanted 5, and it has no more", exitGate},
		{"time is over, and no more", forgeFlags{For: 90 * time.Second}, rep(few, dry), map[string]int{"mutate": 5, "invert": 9},
			"invert: 3 tasks, wanted 9, and the time of 1m30s is over: run it again and it goes on; mutate: 4 tasks, wanted 5, and it has no more", exitGate},
		{"any number is wanted, and one is too much", forgeFlags{}, rep(none, dry), map[string]int{"invert": 0, "mutate": 0},
			"invert: 0 tasks, wanted 1, and it has no more", exitGate},
		{"a plan asks for nothing", forgeFlags{Plan: true}, rep(none, none), map[string]int{"invert": 9}, "", 0},
		{"lost", forgeFlags{}, &forge.Report{Lost: 2}, map[string]int{"invert": 9}, "2 candidates were lost to infrastructure; run it again", exitPartial},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.flags.judge(c.rep, c.want)
			var got *exitError
			switch {
			case c.code == 0 && err != nil:
				t.Fatalf("got %v", err)
			case c.code == 0:
			case !errors.As(err, &got) || got.code != c.code || got.Error() != c.text:
				t.Fatalf("got %v, want status %d, %s", err, c.code, c.text)
			}
		})
	}
}

// A suite measured again keeps what people wrote of its test files, and has
// those that its tests are found in besides.
func TestSuiteAgain(t *testing.T) {
	now := repo.Suite{Tests: []repo.Test{{ID: "test.py::test_a", File: "test.py"}, {ID: "mine/a.py::test_b", File: "mine/a.py"}}, TestFiles: []string{"guessed"}}
	for _, c := range []struct{ before, want []string }{
		{[]string{"mine"}, []string{"mine", "test.py"}},
		{nil, []string{"guessed"}},
	} {
		got, err := suiteAgain(repo.Suite{TestFiles: c.before}, now)
		if err != nil || !slices.Equal(got.TestFiles, c.want) {
			t.Errorf("of %q: %q, %v; want %q", c.before, got.TestFiles, err, c.want)
		}
	}
}
