package decide

import (
	"assay/internal/grade/report"
)

// maxOutput is what a verdict keeps of a failure's text, in bytes.
const maxOutput = 4 << 10

// failures are the selected tests that did not pass. One that is missing counts
// unless the run was stopped before it.
func failures(r *request, o outcome) (failed map[string]report.Status, passed, missing int) {
	failed = map[string]report.Status{}
	hit := false
	for _, t := range r.tests {
		switch st, ok := o.status[t.ID]; {
		case ok && st == report.Passed:
			passed++
		case ok:
			failed[t.ID] = st
			hit = true
		}
	}
	if o.timedOut || o.broken != "" {
		return failed, passed, 0
	}
	if o.crashed != "" {
		if o.running != "" {
			failed[o.running] = report.Errored
		}
		if !r.stop || o.running == "" {
			hit = false
		} else {
			hit = true
		}
	}
	for _, t := range r.tests {
		if _, ok := o.status[t.ID]; !ok && failed[t.ID] == "" && !(r.stop && hit) {
			failed[t.ID] = report.Missing
			missing++
		}
	}
	return failed, passed, missing
}

func anyFailed(r *request, o outcome) bool {
	failed, _, _ := failures(r, o)
	return len(failed) > 0
}

// unproved are the tests that failed and are not known to pass on the healthy
// tree when only some tests run. Of all of them together a warm driver knows it:
// it has begun with that.
func (d *Decider) unproved(by driver, c *command, r *request, o outcome) (open []*test) {
	_, anew := by.(*cold)
	if o.broken != "" || !anew && len(r.tests) == len(c.tests) {
		return nil
	}
	failed, _, _ := failures(r, o)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range r.tests {
		if failed[t.ID] != "" {
			if _, known := d.proof[t.global()]; !known {
				open = append(open, t)
			}
		}
	}
	return open
}

// prove notes what a run of tests on the healthy tree says of each; it reports
// whether one did not pass.
func (d *Decider) prove(c *command, tests []*test, null outcome) (unfit bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range tests {
		if _, told := null.status[t.ID]; null.timedOut && !told {
			continue // it says nothing of this one
		}
		ok := null.status[t.ID] == report.Passed
		if !ok {
			d.c.Say("%s: %s does not pass without the tests before it: it decides nothing by itself", d.c.Env.Name, t.global())
			unfit = true
		}
		d.proof[t.global()] = ok
	}
	return unfit
}

// pick leaves out what cannot be selected; where nothing is left the whole
// command runs.
func (d *Decider) pick(c *command, tests []*test) (out []*test) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, t := range tests {
		if ok, known := d.proof[t.global()]; ok || !known {
			out = append(out, t)
		}
	}
	if len(out) == 0 {
		return c.tests
	}
	return out
}

// settle makes of an outcome what the command says of the change.
func (d *Decider) settle(c *command, j *job, r *request, o outcome) {
	failed, passed, missing := failures(r, o)
	j.v.Took += o.took
	j.v.Ran += len(o.status)
	if j.v.Output == "" {
		j.v.Output = clip(o.output, maxOutput)
	}
	if o.broken != "" || passed == 0 && missing > 0 && missing == len(failed) && o.crashed == "" {
		j.v.Class, j.v.Whole = Unviable, false
		if o.broken != "" {
			j.v.Output = clip(o.broken, maxOutput)
		}
		return
	}
	for id, st := range failed {
		j.v.Failed[c.Name+":"+id] = string(st)
	}
	switch {
	case len(failed) > 0:
		j.v.Class = Killed
		j.v.Whole = !o.timedOut && !r.stop
	case o.timedOut:
		j.v.Class = Timeout
	default:
		j.v.Whole = true
	}
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
