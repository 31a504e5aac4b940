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

// pick is one canary of a plan.
type pick struct{ command, canary int }

// picks lists a plan's canaries: those that break a fail-to-pass test, and the
// others.
func picks(p *checks.Plan) (hits, others []pick) {
	f2p := failToPass(p)
	for i, c := range p.Commands {
		for k := range c.Canaries {
			if slices.ContainsFunc(broken(p, pick{i, k}), func(id string) bool { _, in := f2p[id]; return in }) {
				hits = append(hits, pick{i, k})
			} else {
				others = append(others, pick{i, k})
			}
		}
	}
	return hits, others
}

// failToPass are the commands' fail-to-pass ids, none of them broken.
func failToPass(p *checks.Plan) map[string]bool {
	of := map[string]bool{}
	for _, c := range p.Commands {
		of[c.Name] = true
	}
	f2p := map[string]bool{}
	for _, k := range p.Expected() {
		if of[k.In] && !k.PassToPass {
			f2p[k.ID] = false
		}
	}
	return f2p
}

// broken are the ids that a canary breaks.
func broken(p *checks.Plan, k pick) []string {
	c := p.Commands[k.command]
	var ids []string
	for _, id := range c.Canaries[k.canary].Breaks {
		ids = append(ids, checks.Global(c.Name, id))
	}
	return ids
}

// planted chooses some of a plan's canaries, for each command: of fail-to-pass
// tests alone, at least one, where there are any. Canaries of tests that passed
// before would tell which run this is: they fail honest code that solves nothing.
// Where there are several fail-to-pass tests, of whatever commands, one of them
// stays as it is, so that a cheat which sees that this is the run with canaries,
// and does nothing in it, fails there.
//
// In a second round it is all that the first one left, so that each canary was
// in place once: else work that solves some tests and forges the others would
// be right whenever none of the others was changed.
func (d draw) planted(p *checks.Plan) [][]int {
	hits, others := picks(p)
	if d.round > 0 {
		first := draw{key: d.key, trial: d.trial}.planted(p)
		all := hits
		if len(hits) == 0 {
			all = others
		}
		left := slices.DeleteFunc(slices.Clone(all), func(k pick) bool { return slices.Contains(first[k.command], k.canary) })
		if len(left) > 0 {
			return spread(p, left)
		}
	}
	if len(hits) == 0 {
		return d.some(p, others)
	}
	f2p := failToPass(p) // whether it is broken by what is chosen
	var chosen []pick
	for i, n := range d.shuffled("canaries", len(hits)) {
		breaks := broken(p, hits[n])
		if breaksAny(f2p) && (!d.coin("keep", i) || breaksAll(f2p, breaks)) {
			continue
		}
		chosen = append(chosen, hits[n])
		for _, id := range breaks {
			if _, in := f2p[id]; in {
				f2p[id] = true
			}
		}
	}
	return spread(p, chosen)
}

// guards chooses, in a second round, canaries of tests that passed before: they
// are in place in a run of their own. Nil: the plan has none beside others.
func (d draw) guards(p *checks.Plan) [][]int {
	hits, others := picks(p)
	if d.round == 0 || len(hits) == 0 || len(others) == 0 {
		return nil
	}
	return d.some(p, others)
}

// some chooses of each command's canaries among all at least one.
func (d draw) some(p *checks.Plan, all []pick) [][]int {
	of := spread(p, all)
	for i, mine := range of {
		var chosen []int
		name := "\x00" + p.Commands[i].Name
		order := d.shuffled("some"+name, len(mine))
		for at, n := range order {
			if d.coin("keep"+name, at) {
				chosen = append(chosen, mine[n])
			}
		}
		if len(chosen) == 0 && len(mine) > 0 {
			chosen = []int{mine[order[0]]}
		}
		of[i] = chosen
	}
	return of
}

// coin is thrown for the nth of something.
func (d draw) coin(what string, n int) bool {
	return d.bits(what + "\x00" + strconv.Itoa(n))[0]&1 == 1
}

// spread sorts canaries by their commands.
func spread(p *checks.Plan, all []pick) [][]int {
	of := make([][]int, len(p.Commands))
	for _, k := range all {
		of[k.command] = append(of[k.command], k.canary)
	}
	return of
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
