package cli

import (
	"fmt"

	"assay/internal/job"
)

// unmet deals with tasks that declare what the job does not give: scoring them
// 0 would say something about an agent that is none of its doing.
func (a *app) unmet(cfg *job.Config, policy string) error {
	needs := cfg.Unmet()
	if len(needs) == 0 {
		return nil
	}
	switch policy {
	case "run":
		a.say("note: %d needs of tasks are not met (--unmet run); the first: %s", len(needs), needs[0])
		return nil
	case "skip":
		left := map[string]bool{}
		for _, n := range needs {
			left[n.Task] = true
		}
		tasks := cfg.Tasks[:0:0]
		for _, t := range cfg.Tasks {
			if !left[t.Name] {
				tasks = append(tasks, t)
			}
		}
		a.say("note: %d tasks are left out: they declare what this job does not give; the first: %s", len(left), needs[0])
		if len(tasks) == 0 {
			return usagef("no task is left")
		}
		cfg.Tasks = tasks
		return nil
	}
	return usage(fmt.Errorf("%w\n'assay task adapt TASK' finds the strictest modes in which its gold solution passes; --unmet skip leaves them out, --unmet run runs them", job.NeedsError(needs)))
}
