package proof

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/leak"
	"assay/internal/store"
	"assay/task"
)

// leaks looks for each task's solution in the image that gold ran on. Tasks of
// one image are looked for together.
func (r *runs) leaks(ctx context.Context) ([]leak.Result, error) {
	out := make([]leak.Result, len(r.cfg.Tasks))
	if !r.cfg.Leaks {
		return out, nil
	}
	byImage := map[string][]int{}
	golds, seen := make([]*leak.Gold, len(r.cfg.Tasks)), make([]*leak.Gold, len(r.cfg.Tasks))
	for i, t := range r.cfg.Tasks {
		tr := r.gold(t)
		if tr == nil || tr.Record.Image.ID == "" {
			continue
		}
		g, err := solution(t, tr)
		if err != nil {
			return nil, fmt.Errorf("prove: solution of %s: %w", t.Name, err)
		}
		if g.Small() {
			out[i].Notes = append(out[i].Notes, "the solution is too small to be looked for")
			continue
		}
		if merged(t) {
			seen[i] = g
			continue
		}
		golds[i] = g
		byImage[tr.Record.Image.ID] = append(byImage[tr.Record.Image.ID], i)
	}
	shared, err := sharedLayers(r.deps.Images)
	if err != nil {
		return nil, err
	}
	s := &leak.Scanner{Store: r.deps.Images, Git: r.cfg.Git, Cache: r.cfg.Cache, Shared: func(id image.LayerID) bool { return shared[id] }}
	if err := r.seen(ctx, s, seen, out); err != nil {
		return nil, err
	}
	for id, tasks := range byImage {
		im, err := job.ImageOf(r.goldDir, image.ID(id))
		if err != nil {
			return nil, fmt.Errorf("prove: %w", err)
		}
		some := make([]*leak.Gold, len(tasks))
		for k, i := range tasks {
			some[k] = golds[i]
		}
		got, err := s.Scan(ctx, im, some)
		if err != nil {
			return nil, fmt.Errorf("prove: %w", err)
		}
		for k, i := range tasks {
			out[i] = got[k]
		}
	}
	return out, nil
}

// gold is a task's first run of the gold solution; nil: it has none.
func (r *runs) gold(t *task.Task) *store.Trial {
	for _, tr := range r.trials[t.Name] {
		if tr.Agent == r.cfg.Arms.Gold.Spec {
			return tr
		}
	}
	return nil
}

// sharedLayers are those of images with a name: what others stand on, too.
func sharedLayers(st *image.Store) (map[image.LayerID]bool, error) {
	all, err := st.List()
	if err != nil {
		return nil, fmt.Errorf("prove: %w", err)
	}
	shared := map[image.LayerID]bool{}
	for _, im := range all {
		for _, id := range im.Layers {
			shared[id] = true
		}
	}
	return shared, nil
}

// maxSolution is how much of a task's solution directory is read, in bytes.
const maxSolution = 4 << 20

// solution is what gold's run changed, and where that is nothing that a diff
// shows, the text of the solution's own files.
func solution(t *task.Task, tr *store.Trial) (*leak.Gold, error) {
	var added, known []string
	for _, st := range tr.Steps {
		b, err := os.ReadFile(filepath.Join(stepDir(tr, st), "agent", "workspace.diff"))
		if err != nil && !os.IsNotExist(err) {
			return nil, err
		}
		a, k := leak.FromDiff(b)
		added, known = append(added, a...), append(known, k...)
	}
	if len(added) > 0 {
		return leak.NewGold(added, known), nil
	}
	for i := range t.Steps {
		text, err := texts(t.Key(i).Solution)
		if err != nil {
			return nil, err
		}
		added = append(added, text...)
	}
	return leak.NewGold(added, known), nil
}

// texts are the lines of a directory's regular files; nothing is followed.
func texts(dir string) ([]string, error) {
	if dir == "" {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var lines []string
	left := int64(maxSolution)
	err = fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		fi, err := d.Info()
		if err != nil || fi.Size() > left {
			return err
		}
		left -= fi.Size()
		b, err := root.ReadFile(p)
		if err == nil {
			lines = append(lines, strings.Split(string(b), "\n")...)
		}
		return err
	})
	return lines, err
}

// merged reports whether a task's solution is looked for in what can be seen of
// its image, not in what a layer above hides. So it is for all tasks of the
// forge: they share a healthy image, which holds every solution below whiteouts.
// Of a task that is graded by its state only git's objects count then: what its
// solution puts back must survive somewhere.
func merged(t *task.Task) bool {
	_, forged := t.Config.Metadata.Assay.Rest["forge"].(map[string]any)
	return forged
}

// seen looks for all solutions at once in what can be seen of their images.
func (r *runs) seen(ctx context.Context, s *leak.Scanner, golds []*leak.Gold, out []leak.Result) error {
	var images []image.Image
	var some []*leak.Gold
	var at []int
	for i, g := range golds {
		if g == nil {
			continue
		}
		im, err := job.ImageOf(r.goldDir, image.ID(r.gold(r.cfg.Tasks[i]).Record.Image.ID))
		if err != nil {
			return fmt.Errorf("prove: %w", err)
		}
		images, some, at = append(images, im), append(some, g), append(at, i)
	}
	if len(some) == 0 {
		return nil
	}
	got, err := s.ScanMerged(ctx, images, some)
	if err != nil {
		return fmt.Errorf("prove: %w", err)
	}
	for k, i := range at {
		out[i] = got[k]
	}
	return nil
}

// addLeaks makes sure findings reasons, and others notes. With objects only
// those in git's objects are reasons.
func (p *Proof) addLeaks(r leak.Result, objects bool) {
	p.Leaks, p.Notes = r.Findings, append(p.Notes, r.Notes...)
	for _, f := range r.Findings {
		if f.Sure && (!objects || f.Git()) {
			p.because("the solution can be read: %s", f)
		} else {
			p.Notes = append(p.Notes, "looks like the solution: "+f.String())
		}
	}
}
