package hostile

import (
	"sync"

	"assay/internal/sandbox"
)

// batches are plain attacks with the same walls down, which one arena makes one
// after another: an arena takes longer than an attack.
type batches struct {
	run func(how string, as []attack) map[string]verdict
	of  map[string]*batch // by attack
}

type batch struct {
	how     string
	attacks []attack
	once    sync.Once
	all     map[string]verdict
}

// batchSize keeps what one batch leaves behind within the arena's limits.
const batchSize = 12

func newBatches(run func(how string, as []attack) map[string]verdict, match func(string) bool) *batches {
	b := &batches{run: run, of: map[string]*batch{}}
	open := map[sandbox.Defences]*batch{}
	for _, a := range attacks() {
		if !a.plain || match != nil && !match(a.name) {
			continue
		}
		to := open[a.off]
		if to == nil || len(to.attacks) == batchSize {
			to = &batch{how: "off"}
			if a.off == 0 {
				to.how = "all"
			}
			open[a.off] = to
		}
		to.attacks = append(to.attacks, a)
		b.of[a.name] = to
	}
	return b
}

// verdict of an attack with its walls down. One that a batch has none of, since
// another one ended its arena, is made alone.
func (b *batches) verdict(a attack) verdict {
	t := b.of[a.name]
	t.once.Do(func() { t.all = b.run(t.how, t.attacks) })
	v, ok := t.all[a.name]
	if !ok || v.Err != "" {
		v = b.run(t.how, []attack{a})[a.name]
	}
	return v
}
