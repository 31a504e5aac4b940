package job

import (
	"time"

	"assay/trial"
)

// clock measures a trial's phases. It belongs to one goroutine.
type clock struct {
	emit  func(trial.Kind, trial.PhaseMark)
	start time.Time
	times []trial.PhaseTime
	spans map[trial.Phase]trial.Span // first start, last end
}

func newClock(emit func(trial.Kind, trial.PhaseMark)) *clock {
	return &clock{emit: emit, start: time.Now(), spans: map[trial.Phase]trial.Span{}}
}

// do runs f as one stretch of a phase.
func (c *clock) do(p trial.Phase, step string, f func() error) error {
	begin := time.Now()
	c.emit(trial.PhaseStarted, trial.PhaseMark{Phase: p, Step: step})
	err := f()
	c.add(p, step, begin, time.Since(begin), err)
	return err
}

// add books a stretch that was measured elsewhere.
func (c *clock) add(p trial.Phase, step string, begin time.Time, d time.Duration, err error) {
	mark := trial.PhaseMark{Phase: p, Step: step, Millis: millis(d)}
	if err != nil {
		mark.Error = cut(err.Error(), 500)
	}
	c.emit(trial.PhaseFinished, mark)
	c.times = append(c.times, trial.PhaseTime{Phase: p, Step: step, Millis: millis(d)})
	s := c.spans[p]
	from, to := begin.UTC(), begin.Add(d).UTC()
	if s.StartedAt == nil {
		s.StartedAt = &from
	}
	s.FinishedAt = &to
	c.spans[p] = s
}

// overhead is the time since the start that neither the agent nor the tests
// had, in milliseconds.
func (c *clock) overhead() float64 {
	ms := millis(time.Since(c.start))
	for _, t := range c.times {
		if t.Phase == trial.PhaseAgent || t.Phase == trial.PhaseTests {
			ms -= t.Millis
		}
	}
	return max(0, ms)
}

func (c *clock) span(p trial.Phase) *trial.Span {
	s, ok := c.spans[p]
	if !ok {
		return nil
	}
	return &s
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cut shortens s to at most n bytes without splitting a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xC0 == 0x80 {
		n--
	}
	return s[:n] + "…"
}
