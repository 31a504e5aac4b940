package trial

// Usage counts what a model was asked and gave. Every number may be unknown:
// unknown is null, never zero.
type Usage struct {
	InputTokens  *int64   `json:"n_input_tokens"` // cached ones included
	CacheTokens  *int64   `json:"n_cache_tokens"`
	OutputTokens *int64   `json:"n_output_tokens"`
	CostUSD      *float64 `json:"cost_usd"`
}

// Sum is a total over usages of which some numbers may be unknown.
type Sum struct {
	Usage
	// Partial is set when at least one summand of a known total was unknown:
	// the true total is larger than or equal to what stands here.
	Partial bool `json:"partial"`
}

// SumUsage adds usages. A number that no summand knows stays null; one that
// only some know is a lower bound, and Partial says so.
func SumUsage(all ...Usage) Sum {
	var s Sum
	s.InputTokens = addUp(all, func(u Usage) *int64 { return u.InputTokens }, &s.Partial)
	s.CacheTokens = addUp(all, func(u Usage) *int64 { return u.CacheTokens }, &s.Partial)
	s.OutputTokens = addUp(all, func(u Usage) *int64 { return u.OutputTokens }, &s.Partial)
	s.CostUSD = addUp(all, func(u Usage) *float64 { return u.CostUSD }, &s.Partial)
	return s
}

func addUp[N int64 | float64](all []Usage, get func(Usage) *N, partial *bool) *N {
	var total N
	known, unknown := false, false
	for _, u := range all {
		if n := get(u); n != nil {
			total += *n
			known = true
		} else {
			unknown = true
		}
	}
	if !known {
		return nil
	}
	if unknown {
		*partial = true
	}
	return &total
}
