package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"assay/internal/image"
	"assay/internal/job"
	"assay/internal/stats"
)

// plan prints what a run would do.
func (a *app) plan(ctx context.Context, g *grammar, cfg job.Config, f registryFlags) error {
	p, err := job.Estimate(ctx, cfg)
	if err != nil {
		return usage(err)
	}
	needs, err := a.survey(ctx, g, cfg, f)
	if err != nil {
		return err
	}
	disks, err := a.disks(g, cfg, job.RoomFor(needs))
	if err != nil {
		return err
	}
	assume := stats.Assumptions{}
	diff, ok := stats.DetectablePaired(len(cfg.Tasks), max(1, cfg.Attempts), assume)
	out := map[string]any{
		"trials": p.Trials, "done": p.Done, "tasks": len(cfg.Tasks), "agents": len(cfg.Arms), "attempts": cfg.Attempts,
		"expected_sec": p.Expected, "measured_trials": p.Measured, "longest_sec": p.Longest,
		"images": needs, "fetch_bytes": job.ToFetch(needs), "disks": disks, "arms": p.Arms,
	}
	if ok {
		out["smallest_difference"] = diff
	}
	if g.JSON {
		return a.emit("plan", out)
	}
	w := a.Stdout
	fmt.Fprintf(w, "trials     %d = %d tasks × %d agents × %d attempts", p.Trials, len(cfg.Tasks), len(cfg.Arms), cfg.Attempts)
	if p.Done > 0 {
		fmt.Fprintf(w, ", %d of them have a result already", p.Done)
	}
	fmt.Fprintln(w)
	if p.Expected != nil {
		fmt.Fprintf(w, "time       about %s at %d at once, from %d earlier trials of these tasks and agents\n", round(*p.Expected), cfg.Concurrent, p.Measured)
	} else {
		fmt.Fprintf(w, "time       unknown: no earlier trial of these tasks and agents in %s\n", short(filepath.Dir(cfg.Dir)))
	}
	if p.Longest != nil {
		fmt.Fprintf(w, "           at most %s if every agent and verifier uses its whole limit\n", round(*p.Longest))
	} else {
		fmt.Fprintln(w, "           no upper bound: at least one task sets no limit for the agent (see --agent-timeout)")
	}
	if ok {
		fmt.Fprintf(w, "difference between two agents that this sample can show (80 %% power, 5 %% level): %.0f points\n", 100*diff)
	} else {
		fmt.Fprintln(w, "difference: this sample is too small to show any")
	}
	for _, arm := range p.Arms {
		fmt.Fprintln(w, "model      "+armPlan(arm))
	}
	printImages(w, needs)
	for _, d := range disks {
		fmt.Fprintln(w, d)
	}
	fmt.Fprintf(w, "job        %s\n", short(cfg.Dir))
	return nil
}

// armPlan says what an arm is expected to use. Unknown is never zero.
func armPlan(p job.ArmPlan) string {
	s := fmt.Sprintf("%s with %s: %d trials", p.Agent, p.Model, p.Trials)
	if p.From == 0 {
		return s + ", tokens and cost unknown: no earlier trial (see --pilot)"
	}
	if p.Tokens != nil {
		s += fmt.Sprintf(", about %.0f tokens", *p.Tokens)
	} else {
		s += ", tokens unknown"
	}
	if p.USD != nil {
		s += fmt.Sprintf(", about $%.2f", *p.USD)
	} else {
		s += ", cost unknown"
	}
	return s + fmt.Sprintf("; from %d earlier trials", p.From)
}

// diskPlan is a file system that a job fills.
type diskPlan struct {
	Holds   string `json:"holds"` // "store" or "job"
	Path    string `json:"path"`
	Free    int64  `json:"free_bytes"`
	Needs   int64  `json:"needs_bytes"` // about, for what is fetched
	MinFree int64  `json:"min_free_bytes"`
	Fits    bool   `json:"fits"`
}

func (d diskPlan) String() string {
	s := fmt.Sprintf("disk       %s free for the %s, at %s", size(d.Free), d.Holds, short(d.Path))
	if d.Needs > 0 {
		s += fmt.Sprintf("; fetching takes about %s", size(d.Needs))
	}
	if !d.Fits {
		s += fmt.Sprintf("\n           WARNING: that does not fit beside the %s that --min-free keeps: the job would pause", size(d.MinFree))
	}
	return s
}

// disks says what room there is for the store and for the job.
func (a *app) disks(g *grammar, cfg job.Config, needs int64) ([]diskPlan, error) {
	store, err := a.storeDir(g)
	if err != nil {
		return nil, err
	}
	all := []diskPlan{{Holds: "store", Path: store, Needs: needs}, {Holds: "job", Path: cfg.Dir}}
	for i := range all {
		d := &all[i]
		if d.Free, err = job.Free(image.HostPath(d.Path)); err != nil {
			return nil, err
		}
		d.MinFree = cfg.MinFree
		d.Fits = d.Free-d.Needs >= d.MinFree
	}
	return all, nil
}

// plannedImages is how many lines a plan spends on images of one kind.
const plannedImages = 10

// printImages says what must be done for images before trials begin.
func printImages(w io.Writer, needs []job.ImageNeed) {
	head := "images     "
	line := func(format string, args ...any) {
		fmt.Fprintf(w, head+format+"\n", args...)
		head = "           "
	}
	states := []job.ImageState{job.ImageHere, job.ImageShipped, job.ImageFetch, job.ImageFallback, job.ImageMissing, job.ImageBroken, job.ImageBuild}
	needs = slices.Clone(needs)
	slices.SortStableFunc(needs, func(a, b job.ImageNeed) int {
		return cmp.Compare(slices.Index(states, a.State), slices.Index(states, b.State))
	})
	counts := map[job.ImageState]int{}
	for _, n := range needs {
		if counts[n.State]++; counts[n.State] > plannedImages {
			continue
		}
		name, what := n.Name, string(n.State)
		switch n.State {
		case job.ImageFetch:
			what = fmt.Sprintf("to fetch, %s", size(*n.Bytes))
		case job.ImageBuild:
			name, what = filepath.Join(short(n.Name), "Dockerfile"), "to build; cached steps cost nothing"
		case job.ImageShipped:
			what = "came with the tasks"
		case job.ImageFallback:
			what = "missing: " + n.Error
		case job.ImageMissing:
			what = "MISSING: " + n.Error
		case job.ImageBroken:
			name, what = filepath.Join(short(n.Name), "Dockerfile"), "BROKEN: "+n.Error
		}
		line("%s  %s  (%s)", name, what, taskList(n.Tasks))
	}
	for _, s := range states {
		if more := counts[s] - plannedImages; more > 0 {
			line("… and %d more: %s", more, s)
		}
	}
	if counts[job.ImageFetch] > 0 {
		line("%s to fetch in all, compressed", size(job.ToFetch(needs)))
	}
}
