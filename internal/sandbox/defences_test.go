package sandbox

import (
	"math/bits"
	"testing"
)

func TestEveryDefenceHasAName(t *testing.T) {
	names := map[string]bool{}
	for d := Defences(1); d < defEnd; d <<= 1 {
		if n := d.String(); n == "" || names[n] {
			t.Errorf("defence %d is called %q", bits.TrailingZeros64(uint64(d)), n)
		} else {
			names[n] = true
		}
	}
	if len(defenceNames()) != bits.OnesCount64(uint64(AllDefences)) {
		t.Errorf("%d names for %d defences", len(defenceNames()), bits.OnesCount64(uint64(AllDefences)))
	}
}
