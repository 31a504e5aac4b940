package grade

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/task"
)

// attempt is one run of the commands, with the canaries that are chosen for it.
type attempt struct {
	chosen  [][]int // by command; nil: the real run
	planted map[string][]int
	saw     *sighting
}

// attempts are the runs of one grading, the real one first.
func (o *observer) attempts() ([]*attempt, error) {
	all := []*attempt{{}}
	if o.Plain {
		return all, nil
	}
	chosen, guards := o.draw.planted(o.plan), o.draw.guards(o.plan)
	if o.Every {
		for i, c := range o.plan.Commands {
			chosen[i] = every(len(c.Canaries))
		}
	}
	for _, chosen := range [][][]int{chosen, guards} {
		a := &attempt{chosen: chosen, planted: map[string][]int{}}
		for i, mine := range chosen {
			c := o.plan.Commands[i]
			if len(mine) == 0 {
				continue
			}
			a.planted[c.Name] = mine
			hidden, err := o.hidden(c, mine)
			if err != nil {
				return nil, err
			}
			if !hidden {
				o.say(fmt.Sprintf("the canaries of %s stand in files that the agent had: whoever compares them with what was there can tell the runs apart", c.Name))
			}
		}
		if len(a.planted) > 0 {
			all = append(all, a)
		}
	}
	if len(all) > 1 && o.Mode == task.VerifierLive {
		o.notes = append(o.notes, "no canaries were planted: live verification has one sandbox alone")
		all = all[:1]
	}
	return all, nil
}

// try makes one run.
func (o *observer) try(ctx context.Context, a *attempt) (err error) {
	if a.chosen == nil {
		if a.saw = (&sighting{tampered: map[string]bool{}}); len(o.plan.Commands)+len(o.plan.State) > 0 {
			a.saw, err = o.run(ctx, nil, true)
		}
		return err
	}
	changed, err := o.put.changes(a.chosen)
	if err == nil {
		a.saw, err = o.run(ctx, changed, false)
	}
	return err
}

// observe runs the commands, with and without canaries, in the drawn order. It
// sees one thing for each run with canaries, and one where there is none.
func (o *observer) observe(ctx context.Context) ([]checks.Observation, *evidence, error) {
	all, err := o.attempts()
	if err != nil {
		return nil, nil, err
	}
	order := every(len(all))
	switch {
	case o.Beside != nil: // services remember what the first run did
	case len(all) > 2:
		order = o.draw.shuffled("order", len(all))
	case o.draw.canaryFirst():
		slices.Reverse(order)
	}
	for i, n := range order {
		begin := time.Now()
		if err := o.try(ctx, all[n]); err != nil {
			return nil, nil, err
		}
		if i+1 < len(all) {
			if err := blur(ctx, time.Since(begin)); err != nil {
				return nil, nil, err
			}
		}
	}
	real := all[0].saw
	obs := checks.Observation{
		Attempted: o.Attempted || !untouched(o.all, o.dir, o.Given), Untouched: o.idle(), Changed: absolute(o.all), Workdir: "/" + relative(image.Path(o.dir)),
		OneUser: o.UID == sandbox.UIDSingle, Linked: o.Beside != nil || o.Network != sandbox.NetNone,
	}
	bad := real.tampered
	for _, c := range real.ran {
		obs.Commands = append(obs.Commands, c.Ran)
	}
	for _, a := range all[1:] {
		for p := range a.saw.tampered {
			bad[p] = true
		}
	}
	if obs.Cases, err = o.cases(ctx); err != nil {
		return nil, nil, err
	}
	for _, p := range sortedKeys(bad) {
		obs.Tampered = append(obs.Tampered, "/"+p)
	}
	for _, s := range o.plan.State {
		if got, ok := real.state[s.Name]; ok {
			obs.State = append(obs.State, got)
		}
	}
	if len(all) == 1 {
		return []checks.Observation{obs}, o.evidence(obs, real, nil), nil
	}
	var out []checks.Observation
	for _, a := range all[1:] {
		out = append(out, o.beside(obs, a))
	}
	return out, o.evidence(out[0], real, all[1].saw), nil
}

// beside adds a run with canaries to what was seen of the real one.
func (o *observer) beside(obs checks.Observation, a *attempt) checks.Observation {
	obs.Planted, obs.Canary, obs.Spared = a.planted, []checks.Ran{}, map[string]bool{}
	for _, c := range a.saw.ran {
		obs.Canary = append(obs.Canary, c.Ran)
	}
	for _, c := range o.plan.Commands {
		obs.Spared[c.Name] = len(c.Canaries) > 0 && len(a.planted[c.Name]) == 0
	}
	return obs
}

// blur waits for a time that nobody can guess, at most as long as the first of
// two runs took: all that the second learns from its clock is when the first
// ended, which code of the first may choose, and so spell a message with.
func blur(ctx context.Context, took time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(rand.N(took + 1)):
		return nil
	}
}
