package invert

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"path"
	"slices"
	"strconv"
	"strings"

	"assay/internal/forge"
)

// Generator proposes broken environments: single faults that bite, and out of
// these several at once, chains of them, and harmless changes beside them.
type Generator struct {
	// Operators are those to draw from; nil: All.
	Operators []Operator
	// Most is how many faults a candidate has at most; 0: 4.
	Most int
	// Probe runs the suite on the healthy image with a delta; nil: Suite.
	Probe func(ctx context.Context, w *forge.World, d forge.Delta) (Bite, error)
}

// Bite is what a delta does to a suite.
type Bite struct {
	Failed []string // stable tests that did not pass, "COMMAND:ID", sorted
}

// Name is "invert".
func (*Generator) Name() string { return "invert" }

// maxLayer bounds what a fault adds to a task, in bytes before compression.
const maxLayer = 512 << 10

// fault is a single one that bites.
type fault struct {
	Fault
	op   Operator
	site Site
	bite Bite
	stop bool // no test passes any more
	used int  // in combinations
}

// draft is one Propose.
type draft struct {
	x      *Generator
	w      *forge.World
	g      *Ground
	rng    *rand.Rand
	pool   []pool
	faults []*fault
	turns  turns
	decoys []forge.Delta // that no test minds
	seen   map[string]bool
	mute   int
	yield  func(forge.Candidate) error
}

// pool are the sites of one operator that were not drawn yet.
type pool struct {
	op    Operator
	sites []Site
	drawn int
	bit   int // of those drawn
}

// Propose draws faults by the weights of their families and operators, keeps
// those that bite when tried alone, and combines them. What does not bite is
// never proposed: tools fall back in silence more often than one thinks.
func (x *Generator) Propose(ctx context.Context, w *forge.World, yield func(forge.Candidate) error) error {
	d := &draft{x: x, w: w, g: NewGround(w.Tree, w.Env), rng: rand.New(rand.NewPCG(w.Seed, lot(w.Env.Name))), seen: map[string]bool{}, yield: yield}
	ops := x.Operators
	if ops == nil {
		ops = All()
	}
	for _, o := range ops {
		if err := o.check(); err != nil {
			return err
		}
		if s := o.Sites(d.g); len(s) > 0 {
			d.pool = append(d.pool, pool{op: o, sites: s})
		}
	}
	w.Say("%d operators have sites here", len(d.pool))
	if err := d.findDecoys(ctx); err != nil {
		return err
	}
	for ctx.Err() == nil {
		f, err := d.draw(ctx)
		if err != nil {
			return err
		}
		if f == nil {
			break
		}
		if f = d.turns.next(f, patienceFor(w.Env)); f != nil {
			if err := d.propose(f); err != nil {
				return err
			}
		}
		// As many of several as there are of one, in the long run: each kind of
		// fault is met alone before it is met in company.
		if len(d.faults) >= 3 && d.rng.Float64() < 0.6 {
			if err := d.combine(2); err != nil {
				return err
			}
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, f := range d.turns.held {
		if err := d.propose(f); err != nil {
			return err
		}
	}
	w.Say("%d faults bite alone, %d did not; now combinations alone", len(d.faults), d.mute)
	// The sites are used up; combinations are not.
	for misses := 0; misses < 200 && len(d.faults) > 1; {
		n := len(d.seen)
		if err := d.combine(math.MaxInt); err != nil {
			return err
		}
		if misses++; len(d.seen) > n {
			misses = 0
		}
	}
	return nil
}

// draw takes sites out of the pool until one bites; nil: the pool is empty.
func (d *draft) draw(ctx context.Context) (*fault, error) {
	for len(d.pool) > 0 && ctx.Err() == nil {
		i := d.choose()
		p := &d.pool[i]
		k := d.rng.IntN(len(p.sites))
		s, o := p.sites[k], p.op
		p.sites = slices.Delete(slices.Clone(p.sites), k, k+1)
		p.drawn++
		if len(p.sites) == 0 {
			d.pool = slices.Delete(d.pool, i, i+1)
		}
		f, err := o.Apply(d.g, s, rand.New(rand.NewPCG(d.w.Seed, d.rng.Uint64())))
		if err != nil || f.Delta.Check() != nil || d.g.bytesOf(f.Delta) > maxLayer {
			continue // a site that is not what it seemed, or a fault too large to store
		}
		if key := digest(f.Delta); d.seen[key] {
			continue
		} else {
			d.seen[key] = true
		}
		bite, err := d.probe(ctx, f.Delta)
		if err != nil {
			return nil, fmt.Errorf("try %s: %w", o.Name, err)
		}
		if len(bite.Failed) == 0 {
			d.mute++
			continue
		}
		n := &fault{Fault: f, op: o, site: s, bite: bite, stop: len(bite.Failed) == stable(d.w.Env)}
		d.faults = append(d.faults, n)
		for i := range d.pool {
			if d.pool[i].op.Name == o.Name {
				d.pool[i].bit++
			}
		}
		return n, nil
	}
	return nil, ctx.Err()
}

func (d *draft) probe(ctx context.Context, delta forge.Delta) (Bite, error) {
	if d.x.Probe != nil {
		return d.x.Probe(ctx, d.w, delta)
	}
	return Suite(ctx, d.w, delta)
}

// choose draws an operator: a family by its share, of those that are left,
// then one of it by realism. What was met already is drawn less, and so is a
// family that has nothing else left: a set has many kinds of faults.
func (d *draft) choose() int {
	var families []Family
	fresh := map[Family]float64{}
	for _, p := range d.pool {
		if !slices.Contains(families, p.op.Family) {
			families = append(families, p.op.Family)
		}
		fresh[p.op.Family] = max(fresh[p.op.Family], p.fresh())
	}
	slices.Sort(families)
	family := families[weighted(d.rng, len(families), func(i int) float64 { return families[i].Share() * fresh[families[i]] })]
	return weighted(d.rng, len(d.pool), func(i int) float64 {
		p := d.pool[i]
		if p.op.Family != family {
			return 0
		}
		return p.op.weight() * p.fresh() * p.fresh()
	})
}

// fresh is 1 for an operator that nobody has met in this set, and less the more
// often it bit, or was tried in vain more than twice.
func (p pool) fresh() float64 { return 1 / float64(1+4*p.bit+max(0, p.drawn-p.bit-2)) }

// weighted draws an index by its weight; weights are not all zero.
func weighted(rng *rand.Rand, n int, weight func(int) float64) int {
	sum := 0.0
	for i := range n {
		sum += weight(i)
	}
	at := rng.Float64() * sum
	last := 0
	for i := range n {
		if w := weight(i); w > 0 {
			if last = i; at < w {
				return i
			}
			at -= w
		}
	}
	return last
}

// combine proposes one combination that was not proposed yet, if it finds one
// of faults that are in fewer than so many others.
func (d *draft) combine(fewer int) error {
	most := d.x.Most
	if most == 0 {
		most = 4
	}
	size := 2 + weighted(d.rng, max(1, most-1), func(i int) float64 { return []float64{5, 3, 2, 1, 1, 1, 1, 1}[min(i, 7)] })
	chain := d.rng.IntN(2) == 0
	var parts []*fault
	for _, f := range d.shuffled() {
		if len(parts) < size && f.used < fewer && fits(parts, f) && (!chain || len(parts) == 0 || nested(parts[len(parts)-1], f)) {
			parts = append(parts, f)
		}
	}
	if len(parts) < 2 {
		return nil
	}
	key := make([]string, 0, len(parts))
	for _, f := range parts {
		key = append(key, digest(f.Delta))
	}
	slices.Sort(key)
	if k := strings.Join(key, "+"); d.seen[k] {
		return nil
	} else {
		d.seen[k] = true
	}
	for _, f := range parts {
		f.used++
	}
	return d.propose(parts...)
}

// shuffled are the faults, those that were combined least first. For chains
// those that break most come before what they can hide.
func (d *draft) shuffled() []*fault {
	all := slices.Clone(d.faults)
	d.rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	slices.SortStableFunc(all, func(a, b *fault) int { return a.used - b.used })
	return all
}

// fits reports whether a fault can come to others: it is of another kind, and
// each can be mended without the others.
func fits(parts []*fault, f *fault) bool {
	return !slices.ContainsFunc(parts, func(p *fault) bool { return p.op.Name == f.op.Name || clash(p.Delta, f.Delta) })
}

// nested reports whether inner shows only when outer is mended: every test
// that inner fails, outer fails too, and some more, or nothing runs any more
// that could show it.
func nested(outer, inner *fault) bool {
	return (outer.stop || len(inner.bite.Failed) < len(outer.bite.Failed)) && !slices.ContainsFunc(inner.bite.Failed, func(id string) bool {
		_, ok := slices.BinarySearch(outer.bite.Failed, id)
		return !ok
	})
}

// propose makes a candidate of faults, with some decoys now and then.
func (d *draft) propose(parts ...*fault) error {
	c := forge.Candidate{Generator: d.x.Name(), Grade: forge.GradeState, Seed: d.w.Seed, Notes: map[string]string{}}
	expect := map[string]bool{}
	for i, f := range parts {
		c.Broken = merge(c.Broken, f.Delta)
		c.Operators = append(c.Operators, f.op.Name)
		for _, id := range f.bite.Failed {
			expect[id] = true
		}
		for k, v := range f.Facts {
			c.Notes[fmt.Sprintf("fault_%d_%s", i+1, k)] = v
		}
		c.Notes[fmt.Sprintf("fault_%d_fails", i+1)] = strconv.Itoa(len(f.bite.Failed))
	}
	c.Expect = slices.Sorted(maps.Keys(expect))
	c.Notes["faults"] = strconv.Itoa(len(parts))
	c.Notes["shape"] = shape(parts)
	c.Statement.Hints = hints(parts)
	if len(d.decoys) > 0 && d.rng.IntN(4) == 0 {
		n := 0
		for _, i := range d.rng.Perm(len(d.decoys))[:min(2, len(d.decoys))] {
			if !clash(c.Broken, d.decoys[i]) {
				c.Broken = merge(c.Broken, d.decoys[i])
				n++
			}
		}
		c.Notes["decoys"] = strconv.Itoa(n)
	}
	c.Name = "invert-" + string(parts[0].op.Ecosystem) + "-" + digest(c.Broken)[:10]
	return d.yield(c)
}

// shape is how faults of a candidate stand to each other.
func shape(parts []*fault) string {
	if len(parts) == 1 {
		return "single"
	}
	for i := range len(parts) - 1 {
		if !nested(parts[i], parts[i+1]) {
			return "parallel"
		}
	}
	return "chain"
}

// hints are from vague to plain: what kind of thing is wrong, then where.
func hints(parts []*fault) []string {
	var areas, places []string
	for _, f := range parts {
		areas = append(areas, f.op.Hint)
		places = append(places, path.Dir(f.site.Path))
	}
	slices.Sort(places)
	places = slices.Compact(places)
	areas = slices.Compact(areas)
	vague := "Look at " + strings.Join(areas, ", and at ") + "."
	if len(parts) > 1 {
		vague = "There is more than one cause. " + vague
	}
	return []string{vague, "Something below " + strings.Join(places, ", and below ") + " is not as it should be."}
}

// digest names a delta by its content.
func digest(d forge.Delta) string {
	b, err := json.Marshal(d)
	if err != nil {
		return "" // strings and numbers alone
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
