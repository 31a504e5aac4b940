package proof

import (
	"strings"
	"testing"
)

// Where a failing test takes others with it, it is named, and not its victims.
func TestUnstableNamesTheCulprit(t *testing.T) {
	ids := []string{"unit:A", "unit:B", "unit:C"}
	if s := unstable(ids, map[string]bool{"unit:B": true, "unit:Z": true}); !strings.Contains(s, "1 failed in some runs, unit:B first, and 2 were missing") {
		t.Error(s)
	}
	if s := unstable(ids, map[string]bool{"unit:A": true, "unit:B": true, "unit:C": true}); !strings.Contains(s, "3 checks are unstable, the first unit:A: put them into tests/quarantine.txt") {
		t.Error(s)
	}
}
