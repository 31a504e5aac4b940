package job

import (
	"context"
	"fmt"
	"time"

	"assay/internal/agent"
)

// tidyTime is how long an agent's logs may take to be copied.
const tidyTime = 20 * time.Second

// tidy lets the agent take its logs and remove what is no work, once no process
// of it lives any more: what it says of itself is as old as its work.
func (a *attempt) tidy(ctx context.Context, live bool) error {
	t, can := a.p.arm.Agent.(agent.Tidier)
	if !can {
		return nil
	}
	if !live {
		if err := a.sb.Kill(ctx); err != nil {
			return fmt.Errorf("kill the agent's processes: %w", err)
		}
	}
	limited, stop := context.WithTimeout(ctx, tidyTime)
	defer stop()
	notes, err := t.Tidy(limited, a.session)
	for _, n := range notes {
		a.note(n)
	}
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		a.note(fmt.Sprintf("the agent's logs took more than %v; the rest is left out", tidyTime))
		return nil
	}
	if err != nil {
		err = fmt.Errorf("keep the agent's logs: %w", err)
	}
	return err
}

// allowed is a limit of memory with what the agent uses itself on top: the
// task's limit is for the work, not for a runtime that came with the agent.
func (a *attempt) allowed(limit int64) int64 {
	if limit <= 0 {
		return limit
	}
	var own int64
	for _, n := range a.needs {
		own = max(own, n.Memory)
	}
	return limit + own
}
