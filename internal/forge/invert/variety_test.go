package invert

import (
	"math/rand/v2"
	"testing"
)

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

// A family whose few operators were met already gives way to others.
func TestFreshness(t *testing.T) {
	d := &draft{rng: rand.New(rand.NewPCG(5, 5))}
	d.pool = append(d.pool, pool{op: Operator{Name: "met", Family: Dependency, Realism: 5}, bit: 2, drawn: 2})
	for range 6 {
		d.pool = append(d.pool, pool{op: Operator{Name: "new", Family: FileState, Realism: 3}})
	}
	met := 0
	for range 2000 {
		if d.pool[d.choose()].bit > 0 {
			met++
		}
	}
	// 30 / 9 beside 15.
	if met < 250 || met > 480 {
		t.Errorf("%d of 2000 draws are of an operator that was met twice", met)
	}
}
