package job

import (
	"testing"

	"assay/task"
	"assay/trial"
)

// What no earlier trial tells is unknown, and one arm's trials tell nothing of
// another's.
func TestPlanPricesTheRest(t *testing.T) {
	use := func(tokens int64, usd *float64) trial.Usage {
		zero := int64(0)
		return trial.Usage{InputTokens: &tokens, OutputTokens: &zero, CostUSD: usd}
	}
	half := 0.5
	cfg := Config{Attempts: 2, Tasks: []*task.Task{{Name: "x"}, {Name: "y"}}, Arms: []Arm{
		{Spec: "a", Model: &Model{Name: "m"}}, {Spec: "a", Model: &Model{Name: "free"}}, {Spec: "b", Model: &Model{Name: "m"}}, {Spec: "oracle"},
	}}
	all, err := expand(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	past := bills{}
	past.book("x", "a", "m", use(100, &half))
	past.book("z", "a", "m", use(300, &half))
	past.book("x", "a", "free", use(10, nil))
	var p Plan
	p.price(cfg, all, map[cell]bool{{"x", "a", "m", 1}: true}, past)
	if len(p.Arms) != 3 {
		t.Fatalf("%+v", p.Arms)
	}
	// One trial at x as before, two at y by the mean of x and z.
	if a := p.Arms[0]; a.Trials != 3 || a.From != 2 || a.Tokens == nil || *a.Tokens != 100+2*200 || a.USD == nil || *a.USD != 1.5 {
		t.Errorf("%+v: %v tokens, %v dollars", a, *a.Tokens, *a.USD)
	}
	if a := p.Arms[1]; a.Trials != 4 || *a.Tokens != 40 || a.USD != nil {
		t.Errorf("without a price: %+v", a)
	}
	if a := p.Arms[2]; a.From != 0 || a.Tokens != nil || a.USD != nil {
		t.Errorf("without a trial: %+v", a)
	}
}
