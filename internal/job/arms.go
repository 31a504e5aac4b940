package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/trial"
)

// pauseAfter is how many equal infrastructure faults in a row say that an
// arm's next trial would be lost, too.
const pauseAfter = 3

// ErrBudget is the cause of a job that ends because its budget is used up.
var ErrBudget = errors.New("the job's budget is used up")

// arms watches over the arms of a job: which go on, and what they spend.
type arms struct {
	mu     sync.Mutex
	by     map[string]*armState
	budget Budget
	spent  Budget
}

type armState struct {
	row    int // equal infrastructure faults in a row
	cause  trial.Cause
	paused *trial.ArmMark
}

func (s *arms) of(arm Arm) *armState {
	if s.by == nil {
		s.by = map[string]*armState{}
	}
	st := s.by[arm.label()]
	if st == nil {
		st = &armState{}
		s.by[arm.label()] = st
	}
	return st
}

// skip reports whether a trial of arm is left pending, and counts it.
func (s *arms) skip(arm Arm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(arm)
	if st.paused != nil {
		st.paused.Pending++
	}
	return st.paused != nil
}

// ended takes note of how a trial ended. It returns a mark when the arm is
// paused for it.
func (s *arms) ended(arm Arm, rec *trial.Record) *trial.ArmMark {
	if arm.Model == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.of(arm)
	if rec.Fault != trial.FaultInfra {
		st.row, st.cause = 0, ""
		return nil
	}
	if rec.Cause != st.cause {
		st.row, st.cause = 0, rec.Cause
	}
	st.row++
	if st.paused != nil || st.row < pauseAfter && !hopeless(rec.Cause) {
		return nil
	}
	st.paused = &trial.ArmMark{Agent: arm.Spec, Model: arm.model(), Cause: rec.Cause, Detail: rec.Detail}
	mark := *st.paused
	return &mark
}

// hopeless causes hold for every further trial of an arm.
func hopeless(c trial.Cause) bool {
	return c == trial.CauseModelAuth || c == trial.CauseModelSetup || c == trial.CauseQuota
}

// paused lists the arms that were, with what they left pending.
func (s *arms) paused() []trial.ArmMark {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []trial.ArmMark
	for _, st := range s.by {
		if st.paused != nil {
			all = append(all, *st.paused)
		}
	}
	slices.SortFunc(all, func(a, b trial.ArmMark) int { return strings.Compare(a.Agent+a.Model, b.Agent+b.Model) })
	return all
}

// spend books what a call used; it reports why the job must end, if it must.
func (s *arms) spend(u trial.Usage, estimate int64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent.add(u, estimate)
	switch b := s.budget; {
	case b.Tokens > 0 && s.spent.Tokens >= b.Tokens:
		return fmt.Sprintf("%d of %d tokens are used", s.spent.Tokens, b.Tokens)
	case b.USD > 0 && s.spent.USD >= b.USD:
		return fmt.Sprintf("$%.2f of $%.2f are spent", s.spent.USD, b.USD)
	}
	return ""
}

// spend is told of every call of every trial.
func (r *run) spend(u trial.Usage, estimate int64) {
	if err := r.ledger.add(entry{u, estimate}); err != nil {
		r.fail(err)
	}
	if why := r.arms.spend(u, estimate); why != "" {
		r.exhaust(why)
	}
}

// exhaust ends the job, resumable.
func (r *run) exhaust(why string) {
	r.mu.Lock()
	first := r.summary.Exhausted == ""
	if first {
		r.summary.Exhausted = why
	}
	stop := r.stop
	r.mu.Unlock()
	if !first {
		return
	}
	r.emit("", 0, trial.BudgetMet, map[string]string{"detail": why})
	if stop != nil {
		stop(ErrBudget)
	}
}

// ledger is the file of what every call of a job used, those of attempts that
// were dropped or replaced included.
type ledger struct {
	path string
	mu   sync.Mutex
	f    *os.File // nil until the first call
}

// entry is one call in the ledger.
type entry struct {
	trial.Usage
	Estimate int64 `json:"n_estimated_tokens,omitempty"` // where the provider did not say
}

func (l *ledger) add(e entry) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		if err := os.MkdirAll(filepath.Dir(l.path), 0o755); err != nil {
			return err
		}
		if l.f, err = os.OpenFile(l.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
			return err
		}
	}
	_, err = l.f.Write(append(raw(e), '\n'))
	return err
}

// before books what earlier runs of the job used. A torn last line is the end.
func (l *ledger) before(book func(entry)) error {
	b, err := os.ReadFile(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range bytes.Lines(b) {
		var e entry
		if json.Unmarshal(line, &e) != nil {
			break
		}
		book(e)
	}
	return err
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	return l.f.Close()
}
