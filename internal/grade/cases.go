package grade

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/grade/program"
	"assay/internal/sandbox"
	"assay/task"
)

// cases tries the plan's groups of cases, each on sandboxes of its own, in
// which there is nothing of the grader's.
func (o *observer) cases(ctx context.Context) ([]checks.CasesRan, error) {
	if len(o.plan.Cases) == 0 {
		return nil, nil
	}
	begin := time.Now()
	defer func() { o.casesTime = time.Since(begin) }()
	root, err := os.OpenRoot(o.planDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	end := begin.Add(o.Key.Timeout)
	var out []checks.CasesRan
	for _, g := range o.plan.Cases {
		if o.Mode == task.VerifierLive {
			out = append(out, checks.CasesRan{Name: g.Name, Err: "live verification has no fresh sandbox for each case"})
			continue
		}
		suite, err := program.Load(root.FS(), g)
		if err != nil {
			return nil, errPlan("cases %q: %w", g.Name, err)
		}
		ran, err := program.Run(ctx, program.Request{
			Suite:    suite,
			Fresh:    func(ctx context.Context) (sandbox.Sandbox, error) { return o.candidate(ctx, g) },
			Pristine: func(ctx context.Context) (sandbox.Sandbox, error) { return o.Backend.Create(ctx, o.pristine()) },
			Workdir:  o.Workdir, User: o.Key.User, Env: o.Env,
			Draw:   o.draw.bits("cases\x00" + g.Name),
			Budget: max(time.Until(end), time.Nanosecond),
			Cache:  o.Cache, Image: string(o.Image.ID),
		})
		if err != nil {
			return nil, fmt.Errorf("cases %q: %w", g.Name, err)
		}
		out = append(out, ran)
	}
	return out, nil
}

// candidate is a sandbox with the work alone.
func (o *observer) candidate(ctx context.Context, g checks.Cases) (sandbox.Sandbox, error) {
	spec := o.spec
	spec.Extra = slices.Concat(spec.Extra, o.Seal)
	spec.Limits = program.Limits(g, spec.Limits)
	sb, err := o.Backend.Create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("create the verifier's sandbox: %w", err)
	}
	if o.Mode == task.VerifierSeparate {
		if _, err := o.putArtifacts(ctx, sb); err != nil {
			sb.Close()
			return nil, byWork(ctx, fmt.Errorf("put artifacts: %w", err))
		}
	}
	return sb, nil
}
