package program

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"assay/internal/grade/checks"
	"assay/internal/grade/program/drivers"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
)

// Request is one group of cases, to be tried on one candidate.
type Request struct {
	Suite Suite // of [Load]
	// Fresh makes a sandbox with the candidate's work in it and nothing of the
	// key: no /tests, nothing that was placed. Its limits are the group's.
	// Run closes it.
	Fresh func(ctx context.Context) (sandbox.Sandbox, error)
	// Pristine makes a sandbox of the same image without the candidate's work,
	// for references and test scripts. Nil will do where there are none.
	Pristine func(ctx context.Context) (sandbox.Sandbox, error)

	Workdir image.Path // empty: the image's
	User    string     // empty: the image's
	Env     []string   // added to the image's
	Draw    [32]byte   // gives the order in which cases are tried
	// Budget is the time for all cases together; those that are not reached are
	// timeouts. Zero: ctx alone ends it.
	Budget time.Duration
	// Cache is a directory of the host's for what references return; empty: none.
	Cache image.HostPath
	Image string // the image's id, which what is cached belongs to
}

// Limits are base with the group's own memory limit, for [Request.Fresh].
func Limits(g checks.Cases, base sandbox.Limits) sandbox.Limits {
	if m := g.MemoryMB << 20; m > 0 && (base.MemBytes <= 0 || m < base.MemBytes) {
		base.MemBytes = m
	}
	return base
}

// Run tries every case, in drawn order, each from the same frozen tree. What
// the candidate does is in the tests' results, in the file's order; an error is
// a fault of the harness or the machine, or the end of ctx. CasesRan.Err is a
// fault of the group itself, such as a reference that does not run.
func Run(ctx context.Context, r Request) (checks.CasesRan, error) {
	ran := checks.CasesRan{Name: r.Suite.Group.Name}
	end := time.Time{}
	if r.Budget > 0 {
		end = time.Now().Add(r.Budget)
	}
	want, err := r.expect(ctx)
	var broken *refError
	if errors.As(err, &broken) {
		ran.Err = broken.Error()
		return ran, nil
	}
	if err != nil {
		return ran, fmt.Errorf("cases %s: reference: %w", ran.Name, err)
	}
	c, err := r.court(ctx, want)
	if err != nil {
		return ran, fmt.Errorf("cases %s: %w", ran.Name, err)
	}
	defer c.close()
	ran.Tests = make([]report.Test, len(r.Suite.Cases))
	for n, i := range r.order() {
		one := &r.Suite.Cases[i]
		if !end.IsZero() && !time.Now().Before(end) {
			ran.Tests[i] = result(one, report.Errored, report.KindTimeout, "the time for all cases was up before this one was tried")
			continue
		}
		if ran.Tests[i], err = c.try(ctx, n > 0, i); err != nil {
			return ran, fmt.Errorf("cases %s: %s: %w", ran.Name, one.ID, err)
		}
	}
	return ran, nil
}

func (r Request) order() []int {
	return rand.New(rand.NewChaCha8(r.Draw)).Perm(len(r.Suite.Cases))
}

func result(c *Case, s report.Status, k report.Kind, why string) report.Test {
	return report.Test{ID: c.ID, Status: s, Kind: k, Message: shorten(why, report.MaxMessage-8)}
}

// answer is a pass, or why not.
func answer(c *Case, why string) report.Test {
	if why == "" {
		return report.Test{ID: c.ID, Status: report.Passed}
	}
	return result(c, report.Failed, report.KindAssertion, why)
}

// court is where the cases of one group are tried.
type court struct {
	r       *Request
	want    expected
	stand   *stand // with the candidate
	gone    bool   // its sandbox died
	testers *stand // without it, for scripts; nil: none
}

func (r *Request) court(ctx context.Context, want expected) (*court, error) {
	c := &court{r: r, want: want}
	var err error
	if c.stand, err = r.newStand(ctx, r.Fresh, nil); err != nil {
		return nil, err
	}
	for i := range r.Suite.Cases {
		if r.Suite.Cases[i].Script == "" {
			continue
		}
		if r.Pristine == nil {
			c.close()
			return nil, errors.New("there are test scripts, and no sandbox without the candidate to run them in")
		}
		if c.testers, err = r.newTester(ctx); err != nil {
			c.close()
			return nil, err
		}
		break
	}
	return c, nil
}

func (c *court) close() {
	for _, s := range []*stand{c.stand, c.testers} {
		if s != nil {
			s.sb.Close()
		}
	}
}

// try judges one case. Again says that another one was tried before.
func (c *court) try(ctx context.Context, again bool, i int) (report.Test, error) {
	one := &c.r.Suite.Cases[i]
	if c.stand.broken != "" {
		return result(one, report.Errored, report.KindBuild, c.stand.broken), nil
	}
	if again {
		if err := c.renew(ctx); err != nil {
			return report.Test{}, err
		}
	}
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, one.Timeout)
	defer cancel()
	var t report.Test
	var err error
	switch {
	case c.r.Suite.Group.Call == "":
		t, err = c.program(ctx, one)
	case one.Script != "":
		t, err = c.script(limited, one)
	case c.r.Suite.Group.Call == drivers.SQL:
		t, err = c.query(limited, one, c.want[one.ID])
	default:
		t, err = c.calls(limited, one, c.want[one.ID])
	}
	if ctx.Err() != nil {
		return t, context.Cause(ctx)
	}
	if limited.Err() != nil && c.r.Suite.Group.Call != "" && (err != nil || t.Status != report.Passed) {
		t, err = result(one, report.Errored, report.KindTimeout, fmt.Sprintf("no answer within %v", one.Timeout)), nil
	}
	var not *notStarted
	if errors.As(err, &not) {
		t, err = result(one, report.Errored, report.KindException, not.Error()), nil
	}
	if errors.Is(err, sandbox.ErrOutOfMemory) {
		c.gone = true
		t, err = result(one, report.Errored, report.KindException, "the sandbox ended for its memory limit"), nil
	}
	t.Took = time.Since(start)
	return t, err
}

// renew puts the tree back and ends every process, in a new sandbox if the old
// one is gone.
func (c *court) renew(ctx context.Context) error {
	if !c.gone {
		return c.stand.reset(ctx)
	}
	c.stand.sb.Close()
	var err error
	c.stand.sb, err = c.r.Fresh(ctx)
	if err != nil {
		return err
	}
	c.gone = false
	return c.stand.prepare(ctx, nil)
}
