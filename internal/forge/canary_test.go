package forge

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/grade/checks"
)

// A suite without canaries is said to be one before its candidates are turned
// away, with the remedy; else each test counts once.
func TestTellHunt(t *testing.T) {
	for _, c := range []struct {
		found map[string][]checks.Canary
		want  string
	}{
		{nil, "canaries: no test has one, in 2 test files; "},
		{map[string][]checks.Canary{"unit": nil}, "take them as self-reported (--canaries 0)"},
		{map[string][]checks.Canary{"unit": {{Breaks: []string{"a", "b"}}, {Breaks: []string{"a"}}}, "more": {{Breaks: []string{"a"}}}}, "canaries: of 3 of 4 tests"},
	} {
		var said string
		f := &forge{cfg: Config{Say: func(format string, a ...any) { said += fmt.Sprintf(format, a...) }}, canaries: c.found, testFiles: []string{"x", "y"},
			steady: map[string]bool{"unit:a": true, "unit:b": true, "unit:c": true, "more:a": true}}
		f.tellHunt()
		if !strings.Contains(said, c.want) {
			t.Errorf("it says %q, want %q", said, c.want)
		}
	}
}
