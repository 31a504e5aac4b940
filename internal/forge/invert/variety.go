package invert

import (
	"hash/fnv"

	"assay/internal/repo"
)

// turns decides in which order faults come as tasks of their own. Most faults
// stop everything, and one stop looks much like another; those under which some
// tests still pass are rarer and tell more. So a fault that stops everything
// waits, while more of them came than of the others, for a few draws to bring
// one that does not.
type turns struct {
	held           []*fault
	stops, partial int // faults that had their turn
	waited         int // draws since one was held
}

// next is the fault whose turn it is after f was drawn; nil: wait for another.
func (t *turns) next(f *fault, patience int) *fault {
	if !f.stop {
		t.partial++
		t.waited = 0
		return f
	}
	t.held = append(t.held, f)
	if t.stops > t.partial && t.waited < patience {
		t.waited++
		return nil
	}
	t.stops++
	t.waited = 0
	f, t.held = t.held[0], t.held[1:]
	return f
}

// patienceFor is how many draws more a fault may cost: each is a run of the
// suite. What waits is not lost, combinations are made of it.
func patienceFor(env *repo.Environment) int {
	switch {
	case env.Suite.Millis < 4_000:
		return 2
	case env.Suite.Millis < 12_000:
		return 1
	}
	return 0
}

// stable counts the tests that a fault can fail.
func stable(env *repo.Environment) (n int) {
	for _, t := range env.Suite.Tests {
		if t.Stability == repo.Stable {
			n++
		}
	}
	return n
}

// lot makes equal seeds draw different faults in different projects: sets of
// several projects would hold the same faults again and again.
func lot(project string) uint64 {
	h := fnv.New64a()
	h.Write([]byte("invert " + project))
	return h.Sum64()
}
