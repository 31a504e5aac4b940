package invert

import "testing"

// Of faults that stop everything as many come as of others, as far as the
// draws bring others; none is lost.
func TestTurns(t *testing.T) {
	for _, patience := range []int{0, 1, 2} {
		var x turns
		came := map[bool]int{}
		for i := range 60 {
			if f := x.next(&fault{stop: i%4 != 0}, patience); f != nil {
				came[f.stop]++
			}
		}
		if came[false] != 15 || came[true]+len(x.held) != 45 {
			t.Errorf("patience %d: %v came, %d wait", patience, came, len(x.held))
		}
		if patience == 2 && came[true] > 2*came[false] {
			t.Errorf("with patience %d of faults came, %v", came[true], came)
		}
		if patience == 0 && len(x.held) > 0 {
			t.Errorf("without patience %d wait", len(x.held))
		}
	}
}
