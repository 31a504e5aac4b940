package gateway

import (
	"assay/internal/model"
)

// account understands a call that is over, writes its line, and counts it.
func (s *Session) account(a *asked) {
	c := &a.call
	a.understand()
	if c.Usage != nil && s.up.Cost != nil {
		c.CostUSD = s.up.Cost(c.Usage)
	}
	if c.Err != nil {
		e := *c.Err
		e.Message = clip(s.own().maskString(e.Message), 2000)
		c.Err = &e
	}
	s.rec.call(*c, s.own())
	x := s.used(c)
	s.mu.Lock()
	s.state.spent.add(x)
	s.tally(a)
	s.mu.Unlock()
	s.conf.Purse.spend(x)
	s.up.rates.used(x.tokens)
	if s.conf.OnCall != nil {
		s.callback.Lock()
		s.conf.OnCall(*c)
		s.callback.Unlock()
	}
	s.overspent()
}

// used is what a call counts for in budgets.
func (s *Session) used(c *Call) spent {
	if c.Side == SideProbe || c.Side == SideModels || c.Side == SideCount || c.Status == 0 && c.Answered == 0 || c.Status >= 400 {
		return spent{}
	}
	u := c.Usage
	if u == nil || u.Input == nil && u.Output == nil {
		in, out := (c.Bytes+3)/4, (c.Answered+3)/4
		u = &model.Usage{Input: &in, Output: &out}
	}
	var x spent
	for _, n := range []*int64{u.Input, u.Output} {
		if n != nil {
			x.tokens += max(0, *n)
		}
	}
	if s.up.Cost != nil {
		if usd := s.up.Cost(u); usd != nil {
			x.usd = *usd
		}
	}
	return x
}

// tally adds a call to the summary. The session is locked.
func (s *Session) tally(a *asked) {
	c, sum := &a.call, &s.state.sum
	if a.body != nil {
		if p, ok := s.state.earlier[a.digest]; ok && (p.seq == c.Seq || p.seq == c.RetryOf) {
			p.over, p.bad = true, c.Err != nil || c.Aborted
			s.state.earlier[a.digest] = p
		}
	}
	switch {
	case a.refused():
		return
	case c.Side == SideProbe || c.Side == SideModels || c.Side == SideCount:
		sum.Side++
		return
	case c.Side != "":
		sum.Side++
	default:
		sum.Calls++
	}
	switch {
	case c.Usage != nil:
		addUsage(&sum.Usage, c.Usage)
	case c.Status < 400 && c.Status != 0:
		sum.Unknown++
	}
	s.bill(c)
	if c.Side != "" {
		return
	}
	if c.Err != nil {
		if !ours(c.Err.Kind) {
			sum.LastError = c.Err
		}
		return
	}
	sum.LastError, sum.Last, sum.Malformed = nil, c.Stop, c.Malformed > 0 && c.Malformed == a.calls
}

// bill adds up costs; one that is unknown makes the sum unknown for good.
func (s *Session) bill(c *Call) {
	sum := &s.state.sum
	if c.Status >= 400 || c.Status == 0 && c.Usage == nil {
		return // nothing was had
	}
	if c.CostUSD == nil {
		s.state.unpriced = true
		sum.CostUSD = nil
		return
	}
	if !s.state.unpriced {
		total := *c.CostUSD
		if sum.CostUSD != nil {
			total += *sum.CostUSD
		}
		sum.CostUSD = &total
	}
}

// refused: the call had no right to an answer, or came after a stop.
func (a *asked) refused() bool {
	if a.route.unknown || a.call.Err == nil {
		return a.route.unknown
	}
	return a.call.Err.Kind == model.ErrForbidden || a.turned
}

func addUsage(sum, u *model.Usage) {
	add := func(to **int64, n *int64) {
		if n == nil {
			return
		}
		v := *n
		if *to != nil {
			v += **to
		}
		*to = &v
	}
	add(&sum.Input, u.Input)
	add(&sum.Cached, u.Cached)
	add(&sum.CacheWrite, u.CacheWrite)
	add(&sum.Output, u.Output)
	add(&sum.Reasoning, u.Reasoning)
}
