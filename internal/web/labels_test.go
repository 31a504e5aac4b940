package web

import (
	"slices"
	"testing"

	"assay/trial"
)

// What ran with other user ids than the usual one says so.
func TestUIDLabel(t *testing.T) {
	for uid, want := range map[string][]string{"": nil, "single": nil, "root": {"uid root"}, "subid": {"uid subid"}} {
		if got := (&Trial{Modes: trial.Modes{UID: uid, Verifier: "sealed"}}).Labels(); !slices.Equal(got, want) {
			t.Errorf("%q: %q", uid, got)
		}
	}
}
