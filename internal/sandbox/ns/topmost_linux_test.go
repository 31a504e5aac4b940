package ns

import (
	"slices"
	"testing"

	"assay/internal/image"
)

// Two layers of the same content have one id, and the kernel refuses to lay one
// directory twice.
func TestTopmost(t *testing.T) {
	ids := func(s string) (all []image.LayerID) {
		for _, c := range s {
			all = append(all, image.LayerID(c))
		}
		return all
	}
	for in, want := range map[string]string{"": "", "abc": "abc", "aba": "ba", "aab": "ab", "abcacb": "acb"} {
		if got := topmost(ids(in)); !slices.Equal(got, ids(want)) {
			t.Errorf("%s: %v, want %s", in, got, want)
		}
	}
}
