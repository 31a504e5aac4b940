package grade

import (
	"crypto/hmac"
	"crypto/sha256"
	"slices"
	"strconv"

	"assay/internal/grade/checks"
)

// draw is a secret choice that a second grading makes again: of the plan, which
// no agent sees, and of the trial, whose id no agent is told.
type draw struct {
	key   []byte
	trial string
	round int // of one grading, from 0
}

func (r Request) draws(p *checks.Plan) draw {
	return draw{key: []byte(p.Digest()), trial: r.Trial + "\x00" + r.Key.Step}
}

// bits are 256 of them for one question.
func (d draw) bits(what string) [sha256.Size]byte {
	m := hmac.New(sha256.New, d.key)
	if d.round > 0 {
		what += "\x00" + strconv.Itoa(d.round)
	}
	m.Write([]byte(d.trial + "\x00" + what)) // never fails
	return [sha256.Size]byte(m.Sum(nil))
}

// canaryFirst says which of the two runs comes first.
func (d draw) canaryFirst() bool { return d.bits("order")[0]&1 == 1 }

// planted chooses some of a command's canaries: at least one, and one of a
// fail-to-pass test where there is any, since an agent may know the other tests
// and see that one of them was changed. Where there are several fail-to-pass
// tests one of them stays as it is, so that a cheat which sees that this is the
// run with canaries, and does nothing in it, fails there. Where this cannot be
// had none but fail-to-pass tests are changed.
//
// In a second round it is all that the first one left, so that each canary was
// in place once: else work that solves some tests and forges the others would
// be right whenever none of the others was changed.
func (d draw) planted(p *checks.Plan, c checks.Command) (chosen []int) {
	n := len(c.Canaries)
	if n == 0 {
		return nil
	}
	if d.round > 0 {
		first := draw{key: d.key, trial: d.trial}.planted(p, c)
		for i := range n {
			if !slices.Contains(first, i) {
				chosen = append(chosen, i)
			}
		}
		if len(chosen) > 0 && hitsAny(p, c, chosen) {
			return chosen
		}
		chosen = nil
	}
	f2p := map[string]bool{} // whether it is broken by what is chosen
	for _, k := range p.Expected() {
		if k.In == c.Name && !k.PassToPass {
			f2p[k.Local] = false
		}
	}
	order := d.shuffled("canaries\x00"+c.Name, n)
	keep := func(i int) bool { return d.bits("keep\x00" + c.Name + "\x00" + strconv.Itoa(i))[0]&1 == 1 }
	hits := func(k int) bool {
		for _, id := range c.Canaries[k].Breaks {
			if _, in := f2p[id]; in {
				return true
			}
		}
		return false
	}
	for i, k := range order {
		if !hits(k) || breaksAny(f2p) && (!keep(i) || breaksAll(f2p, c.Canaries[k].Breaks)) {
			continue
		}
		chosen = append(chosen, k)
		for _, id := range c.Canaries[k].Breaks {
			if _, in := f2p[id]; in {
				f2p[id] = true
			}
		}
	}
	weak := breaksAny(f2p) && breaksAll(f2p, nil)
	for i, k := range order { // tests that an agent may know would tell it which run this is
		if !weak && !hits(k) && keep(i) {
			chosen = append(chosen, k)
		}
	}
	if len(chosen) == 0 {
		chosen = order[:1]
	}
	return chosen
}

// hitsAny reports whether canaries break a fail-to-pass test, or no canary does.
func hitsAny(p *checks.Plan, c checks.Command, chosen []int) bool {
	f2p := map[string]bool{}
	for _, k := range p.Expected() {
		f2p[k.Local] = f2p[k.Local] || k.In == c.Name && !k.PassToPass
	}
	hits := func(i int) bool {
		return slices.ContainsFunc(c.Canaries[i].Breaks, func(id string) bool { return f2p[id] })
	}
	all := every(len(c.Canaries))
	return slices.ContainsFunc(chosen, hits) || !slices.ContainsFunc(all, hits)
}

// breaksAny reports whether a fail-to-pass test is broken.
func breaksAny(f2p map[string]bool) bool {
	for _, broken := range f2p {
		if broken {
			return true
		}
	}
	return false
}

// breaksAll reports whether with more of them all fail-to-pass tests are broken.
func breaksAll(f2p map[string]bool, more []string) bool {
	all := map[string]bool{}
	for _, id := range more {
		all[id] = true
	}
	for id, broken := range f2p {
		if !broken && !all[id] {
			return false
		}
	}
	return true
}

// shuffled is a drawn order of n things.
func (d draw) shuffled(what string, n int) []int {
	order := every(n)
	for i := n - 1; i > 0; i-- {
		b := d.bits(what + "\x00" + strconv.Itoa(i))
		j := (int(b[0])<<16 | int(b[1])<<8 | int(b[2])) % (i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}
