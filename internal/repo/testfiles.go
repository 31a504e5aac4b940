package repo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/patternmatcher"
)

// WithTests adds the files that tests of the suite stand in to patterns that
// do not match them, whatever they are called: a test that is not known for
// one could be changed by those whom it judges. Sources that hold tests beside
// the product, as Rust's unit tests and Python's doctests are, are none.
func (s *Suite) WithTests(patterns []string) ([]string, error) {
	known, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, fmt.Errorf("patterns of test files: %w", err)
	}
	out := slices.Clone(patterns)
	for _, file := range s.ownFiles() {
		ok, err := known.MatchesOrParentMatches(file)
		if err != nil {
			return nil, fmt.Errorf("patterns of test files: %w", err)
		}
		if !ok {
			out = append(out, literal.Replace(file))
		}
	}
	return out, nil
}

// literal makes a pattern that matches one path.
var literal = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`)

// ownFiles are the files that hold tests and nothing of the product, sorted.
func (s *Suite) ownFiles() []string {
	format := map[string]string{}
	for _, c := range s.Commands {
		format[c.Name] = string(c.Report)
	}
	var out []string
	for _, t := range s.Tests {
		_, name, _ := strings.Cut(t.ID, "::")
		name, _, _ = strings.Cut(name, "[")
		switch kind := format[t.Command]; {
		case t.File == "", kind == "cargo-test", kind == "nextest":
		case strings.HasPrefix(kind, "pytest") && strings.Contains(name, "."): // a doctest: file::module.function
		default:
			out = append(out, t.File)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
