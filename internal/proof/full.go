package proof

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/image"
	"assay/internal/job"
	"assay/task"
	"assay/trial"
)

// Battery is what the full level tries on a task.
type Battery struct {
	// Arms are the cheats that mean something for a task, by their ids, for the
	// job that will be at dir.
	Arms func(dir string, t *task.Task) ([]job.Arm, error)
	// Residual says of a cheat that may pass why; empty: it may not.
	Residual func(id string, t *task.Task) string
	Limit    time.Duration // of one cheat
	Seed     uint64
	Sample   int // tasks of each verifier class; zero: one in twenty, at least one
}

// ground names what an image stands on: its lowest layers, up to the last that
// images with a name have, too. A task's own small layers make no image of
// their own of it. An image that shares nothing is itself.
func ground(im image.Image, shared map[image.LayerID]bool) string {
	n := 0
	for i, id := range im.Layers {
		if shared[id] {
			n = i + 1
		}
	}
	if n == 0 {
		return string(im.ID)
	}
	h := sha256.New()
	for _, id := range im.Layers[:n] {
		fmt.Fprintln(h, id) // never fails
	}
	return hex.EncodeToString(h.Sum(nil))
}

// class is what decides whether cheats work: the runners, the shape of the
// plan, what crosses, the image's ground and the uid mode. Tasks of one class
// share it.
func class(t *task.Task, p *checks.Plan, image, uid string) string {
	parts := map[string]bool{}
	for _, c := range p.Commands {
		word := string(c.Report)
		if word == "" {
			word = "status"
		}
		switch {
		case c.Separate:
			word += "/separate"
		case len(c.Canaries) > 0:
			word += "/canaries"
		}
		parts[word] = true
	}
	for _, c := range p.Cases {
		word := "cases/" + c.Compare
		if c.Call != "" {
			word += "/" + c.Call
		}
		parts[word] = true
	}
	if len(p.State) > 0 {
		parts["state"] = true
	}
	if len(p.Place) > 0 {
		parts["place"] = true
	}
	var words []string
	for w := range parts {
		words = append(words, w)
	}
	slices.Sort(words)
	k := t.Key(0)
	return strings.Join([]string{strings.Join(words, "+"), string(k.Grade), string(k.Mode), short(image), uid}, " ")
}

func short(id string) string {
	id = strings.TrimPrefix(id, "sha256:")
	return id[:min(12, len(id))]
}

// full tries the battery on a sample of each class of the tasks that stand so
// far, and raises the level of the classes that withstand it.
func (r *runs) full(ctx context.Context, proofs []Proof) error {
	shared, err := sharedLayers(r.deps.Images)
	if err != nil {
		return err
	}
	classes := map[string][]int{}
	for i := range proofs {
		p := &proofs[i]
		p.Level = Quick
		plan, _, err := checks.Find(r.cfg.Tasks[i].Key(0).Tests)
		if err != nil {
			return fmt.Errorf("prove %s: %w", p.Task, err)
		}
		switch {
		case len(p.Reasons) > 0 || p.Lost:
		case plan == nil:
			p.Notes = append(p.Notes, "not full: it is graded by its own reward file alone")
		case r.cfg.Tasks[i].MultiStep():
			p.Notes = append(p.Notes, "not full: cheats are tried on tasks of one step")
		default:
			im, err := job.ImageOf(r.goldDir, image.ID(p.Image))
			if err != nil {
				return fmt.Errorf("prove %s: %w", p.Task, err)
			}
			p.Class = class(r.cfg.Tasks[i], plan, ground(im, shared), p.Modes.UID)
			classes[p.Class] = append(classes[p.Class], i)
		}
	}
	var names []string
	for c := range classes {
		names = append(names, c)
	}
	slices.Sort(names)
	for n, c := range names {
		if err := r.class(ctx, fmt.Sprintf("attack-%d", n), c, classes[c], proofs); err != nil {
			return err
		}
	}
	return nil
}

// class tries the battery on some tasks of a class.
func (r *runs) class(ctx context.Context, dir, name string, members []int, proofs []Proof) error {
	b := r.cfg.Battery
	found := Attacks{Seed: b.Seed}
	for _, i := range b.sample(name, members) {
		t := r.cfg.Tasks[i]
		c := job.Config{
			Dir: filepath.Join(r.cfg.Dir, fmt.Sprintf("%s-%d", dir, i)), Tasks: []*task.Task{t}, Attempts: 1,
			Image: r.cfg.Image, UID: r.uid, Concurrent: r.cfg.Concurrent, AgentLimit: b.Limit,
		}
		var err error
		if c.Arms, err = b.Arms(c.Dir, t); err != nil {
			return fmt.Errorf("prove %s: %w", t.Name, err)
		}
		v, err := runJob(ctx, c, r.deps)
		r.deps.Images.Release(image.HostPath(c.Dir))
		if err != nil {
			return err
		}
		found.Sampled = append(found.Sampled, t.Name)
		for _, tr := range v.Trials {
			found.Tried++
			switch o := tr.Record.Outcome; {
			case o == trial.Infra || o == trial.Invalid:
				found.Lost = append(found.Lost, fmt.Sprintf("%s: %s: %s", tr.Agent, tr.Record.Cause, tr.Record.Detail))
			case o == trial.Pass && b.Residual(tr.Agent, t) != "":
				found.Residual = append(found.Residual, tr.Agent)
			case o == trial.Pass:
				found.Passed = append(found.Passed, tr.Agent)
			}
		}
	}
	for _, i := range members {
		p := &proofs[i]
		p.Attacks = &found
		switch {
		case len(found.Passed) > 0:
			p.because("%d cheats pass on %s, the first %q", len(found.Passed), strings.Join(found.Sampled, ", "), found.Passed[0])
		case len(found.Lost) > 0:
			p.Notes = append(p.Notes, fmt.Sprintf("not full: %d cheats were lost, the first %s", len(found.Lost), found.Lost[0]))
		default:
			p.Level = Full
		}
	}
	return nil
}

// sample chooses tasks of a class: the same ones for the same seed and set.
func (b Battery) sample(name string, members []int) []int {
	n := b.Sample
	if n <= 0 {
		n = (len(members) + 19) / 20
	}
	h := fnv.New64a()
	h.Write([]byte(name)) // never fails
	order := rand.New(rand.NewPCG(b.Seed, h.Sum64())).Perm(len(members))
	var out []int
	for _, k := range order[:min(n, len(members))] {
		out = append(out, members[k])
	}
	slices.Sort(out)
	return out
}
