package atif

import "assay/internal/model"

// sideNote is a call beside the work.
type sideNote struct {
	Seq       int          `json:"seq"`
	Kind      string       `json:"kind"`
	Model     string       `json:"model,omitempty"`
	Message   string       `json:"message,omitempty"`
	Reasoning string       `json:"reasoning,omitempty"`
	Calls     []string     `json:"calls,omitempty"`
	Usage     *model.Usage `json:"usage,omitempty"`
	CostUSD   *float64     `json:"cost_usd,omitempty"`
	Retries   []try        `json:"retries,omitempty"`
	Error     *model.Error `json:"error,omitempty"`
	Aborted   bool         `json:"aborted,omitempty"`
}

func (w *writer) side(n *node) sideNote {
	s := &steps{w: w}
	x := sideNote{Seq: n.call.Seq, Kind: clean(n.call.Side), Model: clean(n.call.Model), Aborted: n.call.Aborted,
		Message: w.pen.cut(answerText(n.answer)), Reasoning: w.pen.cut(reasoningText(n.answer)),
		Retries: s.tries(n.tries), Error: s.error(n.call.Err)}
	for _, c := range calls(n.answer) {
		x.Calls = append(x.Calls, w.pen.cut(c.Name+" "+c.Arguments))
	}
	if u := usageOf(n); u != (model.Usage{}) {
		x.Usage = &u
	}
	if c := n.call.CostUSD; c != nil && isFinite(*c) {
		x.CostUSD = c
	}
	return x
}
