package compare

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"assay/internal/store"
	"assay/trial"
)

// spec is one trial of a made-up job.
type spec struct {
	task, digest, agent, model string
	cause                      trial.Cause
	change                     func(*store.Trial)
}

var modesHere = trial.Modes{Backend: "ns", UID: "single", Grade: "patch", Verifier: "sealed", Network: "none", VerifierNetwork: "none"}

// job makes a view as the store reads one.
func job(name string, specs ...spec) *store.View {
	v := &store.View{Dir: "/jobs/" + name, Name: name, ID: "id-" + name, State: store.Done}
	for i, s := range specs {
		digest := s.digest
		if digest == "" {
			digest = "sha256:" + s.task
		}
		t := &store.Trial{Name: fmt.Sprintf("%s__%d", s.task, i), Task: s.task, Digest: strings.TrimPrefix(digest, "none"), Agent: s.agent, Model: s.model, Status: store.TrialPlanned}
		if s.cause != "" {
			e, err := s.cause.Ending()
			if err != nil {
				panic(err)
			}
			t.Status, t.Cause, t.Outcome, t.Fault, t.Evidence = store.TrialFinished, s.cause, e.Outcome, e.Fault, trial.Separate
			t.Record.Modes = modesHere
			if e.Outcome == trial.Infra {
				t.Record.Modes = trial.Modes{}
			}
			v.Ended++
		}
		if s.change != nil {
			s.change(t)
		}
		v.Trials = append(v.Trials, t)
	}
	v.Planned = len(v.Trials)
	return v
}

func compared(t testing.TB, opt Options, views ...*store.View) *Report {
	t.Helper()
	r, err := Compare(views, opt)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Fatalf("the report is no JSON: %v", err)
	}
	return r
}

// grades gives two agents the same tasks; a letter a task: b both solve it, a
// and c one alone, . nobody.
func grades(tasks string) (all []spec) {
	won := func(yes bool) trial.Cause {
		if yes {
			return trial.CauseSolved
		}
		return trial.CauseUnsolved
	}
	for i, c := range tasks {
		name := fmt.Sprintf("set/t%03d", i)
		all = append(all, spec{task: name, agent: "ada", cause: won(c == 'b' || c == 'a')}, spec{task: name, agent: "cyd", cause: won(c == 'b' || c == 'c')})
	}
	return all
}

func TestAnswers(t *testing.T) {
	r := compared(t, Options{}, job("one", grades(strings.Repeat("b", 50)+strings.Repeat("a", 25)+strings.Repeat("c", 5)+strings.Repeat(".", 20))...))
	p := r.Pairs[0]
	if p.Verdict != ABetter || p.Diff.Value != 0.2 || p.McNemar == nil || p.McNemar.OnlyA != 25 || p.Boot == nil || !p.Survives {
		t.Errorf("%+v", p)
	}
	if want := "ada solves 20 more of every 100 tasks than cyd (95 % interval 9.5 to 30), on 100 tasks, 100/100 and 100/100 attempts graded."; r.Sentences[0] != want {
		t.Errorf("%q, want %q", r.Sentences[0], want)
	}
	r = compared(t, Options{}, job("one", grades("bbbbaac....")...))
	p = r.Pairs[0]
	if p.Verdict != CannotTell || p.Needed < 50 {
		t.Errorf("%+v", p)
	}
	for _, want := range []string{"11 tasks cannot tell ada from cyd: ada solved 9.1 more of every 100", "more.", "would probably have shown"} {
		if !strings.Contains(p.Sentence, want) {
			t.Errorf("%q does not say %q", p.Sentence, want)
		}
	}
	r = compared(t, Options{}, job("one", grades("bbbb....")...))
	if s := r.Pairs[0].Sentence; !strings.Contains(s, "both solved as many") || !strings.Contains(s, "No number of tasks shows that nothing differs") {
		t.Errorf("%q", s)
	}
	// Whoever stands first, the better one is named.
	r = compared(t, Options{Arms: []string{"cyd", "ada"}}, job("one", grades(strings.Repeat("a", 20)+strings.Repeat("b", 20))...))
	if p := r.Pairs[0]; p.A != "cyd" || p.Verdict != BBetter || !strings.HasPrefix(p.Sentence, "ada solves 50 more of every 100 tasks than cyd") {
		t.Errorf("%+v", p)
	}
}

// A lead is told from the side of whoever has it, with the interval's signs.
func TestALeadIsToldFromItsSide(t *testing.T) {
	r := compared(t, Options{}, job("one", grades("bbbbacc....")...))
	p := r.Pairs[0]
	if p.A != "ada" || p.Verdict != CannotTell || p.Diff.Value >= 0 {
		t.Fatalf("%+v", p)
	}
	if want := "11 tasks cannot tell ada from cyd: cyd solved 9.1 more of every 100 (95 % interval " + Points(-p.Diff.Hi) + " to " + Points(-p.Diff.Lo); !strings.HasPrefix(p.Sentence, want) {
		t.Errorf("%q, want %q", p.Sentence, want)
	}
}

// The baseline need not be among the arms that are asked for.
func TestBaselineBesideTheArms(t *testing.T) {
	v := job("one", append(grades("bbbbaac"), spec{task: "set/t000", agent: "eve", cause: trial.CauseSolved})...)
	r := compared(t, Options{Arms: []string{"cyd"}, Baseline: "ada"}, v)
	if len(r.Arms) != 2 || len(r.Pairs) != 1 || r.Pairs[0].A != "cyd" || r.Pairs[0].B != "ada" {
		t.Errorf("arms %+v, pairs %+v", r.Arms, r.Pairs)
	}
	if _, err := Compare([]*store.View{v}, Options{Arms: []string{"cyd"}, Baseline: "bob"}); err == nil || !strings.Contains(err.Error(), `"eve"`) {
		t.Errorf("%v", err)
	}
}

func TestOneArmAlone(t *testing.T) {
	a := job("one", spec{task: "x", agent: "ada", cause: trial.CauseSolved})
	b := job("two", spec{task: "x", agent: "ada", cause: trial.CauseUnsolved})
	r := compared(t, Options{}, a, b)
	if len(r.Pairs) != 0 || !strings.Contains(r.Sentences[0], "one arm alone") || !strings.Contains(r.Sentences[0], "--by job") {
		t.Errorf("%q", r.Sentences)
	}
	if r.Arms[0].Rate.Graded != 2 || r.Arms[0].Tasks != 1 {
		t.Errorf("two jobs of one agent are one arm: %+v", r.Arms[0])
	}
	if r := compared(t, Options{By: ByJob}, a, b); len(r.Arms) != 2 || r.Arms[0].Name != "ada in one" {
		t.Errorf("%+v", r.Arms)
	}
	again := *b
	again.Name, again.Dir = a.Name, "/elsewhere/one"
	if r := compared(t, Options{By: ByJob}, a, &again); len(r.Arms) != 2 || r.Arms[1].Name != "ada in /elsewhere/one" {
		t.Errorf("two jobs of one name: %+v", r.Arms)
	}
	if r := compared(t, Options{}); r.Sentences[0] != "There is no trial to compare." {
		t.Errorf("%q", r.Sentences)
	}
}

// What is not the same is not compared, and is named.
func TestOnlyEqualsAreCompared(t *testing.T) {
	live := func(t *store.Trial) { t.Record.Modes.Verifier = "live" }
	s, f := trial.CauseSolved, trial.CauseUnsolved
	v := job("one",
		spec{task: "same", agent: "ada", cause: s}, spec{task: "same", agent: "cyd", cause: f},
		spec{task: "also", agent: "ada", cause: s}, spec{task: "also", agent: "cyd", cause: s},
		spec{task: "new", digest: "d1", agent: "ada", cause: s}, spec{task: "new", digest: "d2", agent: "cyd", cause: f},
		spec{task: "alive", agent: "ada", cause: s}, spec{task: "alive", agent: "cyd", cause: f, change: live},
		spec{task: "gone", agent: "ada", cause: s}, spec{task: "gone", agent: "cyd", cause: trial.CauseSandboxLost},
		spec{task: "open", agent: "ada", cause: s}, spec{task: "open", agent: "cyd"},
		spec{task: "mine", agent: "ada", cause: s},
		spec{task: "bare", digest: "none", agent: "ada", cause: s},
	)
	w := job("two", spec{task: "bare", digest: "none", agent: "cyd", cause: s})
	r := compared(t, Options{}, v, w)
	p := r.Pairs[0]
	if p.Diff == nil || p.Diff.Tasks != 2 {
		t.Fatalf("%+v", p.Diff)
	}
	want := map[string]string{
		"new": "another version of the task (its digest differs)", "alive": "other modes: verifier sealed and live",
		"gone": "cyd has no verdict on it: lost to infrastructure", "open": "cyd has no verdict on it: not run to its end",
		"mine": "only ada tried it", "bare": "the task's digest is not known in ada's job: it may be another version",
	}
	for name, why := range want {
		i := slices.IndexFunc(p.Dropped, func(d Dropped) bool { return d.Why == why })
		if i < 0 || !slices.Contains(p.Dropped[i].Tasks, name) {
			t.Errorf("%s: not dropped because %q: %+v", name, why, p.Dropped)
		}
	}
	// What was lost could have turned out either way.
	if !(p.Worst < p.Diff.Value && p.Best > p.Diff.Value) {
		t.Errorf("worst %v, best %v, difference %v", p.Worst, p.Best, p.Diff.Value)
	}
	r = compared(t, Options{Across: []string{"verifier"}}, v)
	if r.Pairs[0].Diff.Tasks != 3 {
		t.Errorf("across verifier modes %+v", r.Pairs[0].Diff)
	}
	if _, err := Compare([]*store.View{v}, Options{Across: []string{"colour"}}); err == nil || !strings.Contains(err.Error(), "no mode") {
		t.Errorf("%v", err)
	}
	// Tasks of one job without digests are still the same tasks.
	r = compared(t, Options{}, job("three", spec{task: "x", digest: "none", agent: "ada", cause: s}, spec{task: "x", digest: "none", agent: "cyd", cause: f},
		spec{task: "y", digest: "none", agent: "ada", cause: s}, spec{task: "y", digest: "none", agent: "cyd", cause: f}))
	if r.Pairs[0].Diff == nil || r.Pairs[0].Diff.Value != 1 {
		t.Errorf("%+v", r.Pairs[0])
	}
}

// An agent whose time was up leaves another harness no verifier's mode; its
// failure counts all the same.
func TestAFailureWithoutModesCounts(t *testing.T) {
	bare := func(t *store.Trial) { t.Record.Modes.Verifier = "" }
	s := trial.CauseSolved
	specs := []spec{
		{task: "x", agent: "ada", cause: s}, {task: "x", agent: "cyd", cause: trial.CauseAgentTimeout, change: bare},
		{task: "y", agent: "ada", cause: s}, {task: "y", agent: "cyd", cause: s},
	}
	if r := compared(t, Options{}, job("one", specs...)); r.Pairs[0].Diff == nil || r.Pairs[0].Diff.Tasks != 2 || len(r.Pairs[0].Dropped) != 0 {
		t.Errorf("%+v", r.Pairs[0])
	}
	// Where a job knows two modes, nobody can say which.
	specs = append(specs, spec{task: "z", agent: "ada", cause: s, change: func(t *store.Trial) { t.Record.Modes.Verifier = "live" }})
	if r := compared(t, Options{}, job("one", specs...)); len(r.Pairs[0].Dropped) != 2 {
		t.Errorf("%+v", r.Pairs[0].Dropped)
	}
}

func TestATrialCountsOnce(t *testing.T) {
	v := job("one", grades("bac")...)
	copied := *v
	copied.Dir = "/elsewhere/one"
	r := compared(t, Options{}, v, v, &copied)
	if r.Arms[0].Rate.Planned != 3 || len(r.Notes) != 2 || !strings.Contains(r.Notes[1], "count once") {
		t.Errorf("%+v, notes %q", r.Arms[0].Rate, r.Notes)
	}
}

func TestTwoVersionsAreTwoTasks(t *testing.T) {
	var all []spec
	for _, d := range []string{"d1", "d2"} {
		for _, a := range []string{"ada", "cyd"} {
			all = append(all, spec{task: "set/x", digest: d, agent: a, cause: trial.CauseSolved})
		}
	}
	r := compared(t, Options{}, job("one", all...))
	if r.Pairs[0].Diff.Tasks != 2 || len(r.Pairs[0].Dropped) != 0 || len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "set/x (2)") {
		t.Errorf("%+v, notes %q", r.Pairs[0], r.Notes)
	}
}

// Every figure says what it stands on.
func TestFigures(t *testing.T) {
	usd := func(x float64, calls int, checks *trial.Checks) func(*store.Trial) {
		return func(t *store.Trial) {
			in, out := int64(900), int64(100)
			t.Usage = trial.Sum{Usage: trial.Usage{CostUSD: &x, InputTokens: &in, OutputTokens: &out}}
			t.Record.Calls, t.Record.Checks = &calls, checks
			t.Record.Phases = []trial.PhaseTime{{Phase: trial.PhaseSetup, Millis: 100}, {Phase: trial.PhaseAgent, Millis: 2000}}
		}
	}
	good := &trial.Checks{FailToPass: trial.Share{Passed: 2, Total: 2}, Resolved: true, Milestones: []trial.Milestone{{Reached: true, Weight: 1}, {Reached: true, Weight: 3}}}
	half := &trial.Checks{FailToPass: trial.Share{Passed: 1, Total: 2}, Milestones: []trial.Milestone{{Reached: true, Weight: 1}, {Weight: 3}}}
	strict := *good
	strict.Strict = true
	r := compared(t, Options{}, job("one",
		spec{task: "a", agent: "ada", cause: trial.CauseSolved, change: usd(1, 10, &strict)},
		spec{task: "a", agent: "ada", cause: trial.CauseUnsolved, change: usd(2, 20, half)},
		spec{task: "b", agent: "ada", cause: trial.CauseSolved, change: usd(3, 30, good)},
		spec{task: "b", agent: "ada", cause: trial.CauseSandboxLost},
		spec{task: "c", agent: "ada"},
		spec{task: "c", agent: "ada", cause: trial.CauseUnsolved},
	))
	a := r.Arms[0]
	for what, p := range map[string][2]float64{
		"rate": {a.Rate.Value, 0.5}, "worst": {a.Worst, 1.0 / 3}, "best": {a.Best, (0.5 + 1 + 0.5) / 3}, "cost": {a.Cost.Total, 6},
		"cost per solved": {*a.Cost.PerSolved, 3}, "seconds": {a.Time.Total, 6}, "tokens": {*a.Tokens.PerSolved, 1500}, "turns": {a.Turns.P50, 20},
		"strict": {a.Strict.Value, 0.25}, "partial": {a.Partial.Value, 0.875}, "milestones": {a.Reached.Value, (0.625 + 1) / 2},
		"pass@2": {a.AtK[0].Any.Mean.Value, 1}, "pass^2": {a.AtK[0].All.Mean.Value, 0},
	} {
		if math.Abs(p[0]-p[1]) > 1e-9 {
			t.Errorf("%s is %v, want %v", what, p[0], p[1])
		}
	}
	if a.Rate.Graded != 4 || a.Rate.Planned != 6 || a.Cost.Unknown != 1 || a.Checked != 3 || a.AtK[0].Any.Tasks != 1 || a.AtK[0].Any.Tasked != 3 {
		t.Errorf("%+v", a)
	}
	if len(a.Evidence) != 1 || a.Evidence[0] != (Count{"separate", 4}) || len(a.Causes) != 3 {
		t.Errorf("%+v %+v", a.Evidence, a.Causes)
	}
	none := compared(t, Options{}, job("one", spec{task: "a", agent: "ada", cause: trial.CauseUnsolved}))
	if s := none.Arms[0].Cost; s.PerSolved != nil || s.Known != 0 || s.Unknown != 1 {
		t.Errorf("unknown cost of nothing solved: %+v", s)
	}
}

func TestSourcesRepositoriesAndTiers(t *testing.T) {
	var all []spec
	add := func(task string, ada, cyd trial.Cause) {
		all = append(all, spec{task: task, agent: "ada", cause: ada}, spec{task: task, agent: "cyd", cause: cyd})
	}
	s, f := trial.CauseSolved, trial.CauseUnsolved
	add("verified/django__django-1", s, f)
	add("verified/django__django-2", s, s)
	add("verified/psf__requests-7", f, f)
	add("mine/hello", s, s)
	add("mine/hello__world", f, s)
	r := compared(t, Options{Labels: func(t *store.Trial) Labels {
		if strings.Contains(t.Task, "hello") {
			return Labels{Difficulty: "easy"}
		}
		return Labels{}
	}}, job("one", all...))
	if len(r.Sources) != 2 || r.Sources[0].Name != "mine" || r.Sources[1].Tasks != 3 || len(r.Sources[1].Pairs) != 1 || r.Sources[1].Pairs[0].Diff.Tasks != 3 {
		t.Errorf("%+v", r.Sources)
	}
	if g := r.Pairs[0].Diff.Groups; g != 4 {
		t.Errorf("%d repositories: django, requests and two tasks of none", g)
	}
	var names []string
	for _, tier := range append(r.Tiers, r.Declared...) {
		names = append(names, fmt.Sprintf("%s %d", tier.Name, tier.Tasks))
	}
	if got := strings.Join(names, ", "); got != "none 1, middle 2, all 2, not declared 3, easy 2" {
		t.Errorf("%s", got)
	}
	if r.Scale.KR20 != nil || !strings.Contains(r.Scale.Why, "insufficient") {
		t.Errorf("%+v", r.Scale)
	}
}

func TestManyAgentsMakeAScale(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var all []spec
	for a := range 12 {
		for i := range 40 {
			c := trial.CauseUnsolved
			if rnd.Float64() < 1/(1+math.Exp(float64(i)/10-2-float64(a-6)/3)) {
				c = trial.CauseSolved
			}
			all = append(all, spec{task: fmt.Sprintf("t%02d", i), agent: fmt.Sprintf("a%02d", a), cause: c})
		}
	}
	r := compared(t, Options{Baseline: "a00"}, job("one", all...))
	if r.Scale.KR20 == nil || *r.Scale.KR20 < 0.6 || r.Tasks[0].Corr == nil && r.Tasks[20].Corr == nil || r.Tasks[0].Logits == nil || r.Tasks[39].Logits.Logits < r.Tasks[0].Logits.Logits {
		t.Errorf("%+v, %+v", r.Scale, r.Tasks[0])
	}
	if len(r.Pairs) != 11 || r.Pairs[0].B != "a00" || r.Pairs[0].Of != 11 {
		t.Errorf("%d comparisons with the baseline: %+v", len(r.Pairs), r.Pairs[0])
	}
	for _, p := range r.Pairs {
		if p.Adjusted < p.Diff.P {
			t.Errorf("Holm made %v of %v", p.Adjusted, p.Diff.P)
		}
	}
	if !strings.Contains(r.Sentences[len(r.Sentences)-1], "Holm") {
		t.Errorf("%q", r.Sentences)
	}
}

func TestArmsAreFound(t *testing.T) {
	v := job("one", spec{task: "x", agent: "ada", model: "m1"}, spec{task: "x", agent: "ada", model: "m2"}, spec{task: "x", agent: "cyd", model: "m3"})
	for name, want := range map[string]string{"m1": "ada with m1", "cyd": "cyd with m3", "ada with m2": "ada with m2"} {
		r := compared(t, Options{Arms: []string{name, "m3"}}, v)
		if r.Arms[0].Name != want {
			t.Errorf("%s is %s", name, r.Arms[0].Name)
		}
	}
	for name, want := range map[string]string{"ada": `names 2 arms`, "bob": "no arm is called"} {
		if _, err := Compare([]*store.View{v}, Options{Arms: []string{name}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Compare([]*store.View{v}, Options{Baseline: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("baseline %s: %v", name, err)
		}
	}
	if r := compared(t, Options{By: ByAgent}, v); len(r.Arms) != 2 || r.Arms[0].Rate.Planned != 2 {
		t.Errorf("%+v", r.Arms)
	}
	if r := compared(t, Options{By: ByModel}, v); len(r.Arms) != 3 {
		t.Errorf("%+v", r.Arms)
	}
}

// simulated is one job of two agents at a sample of tasks: difficulties vary,
// agents suit tasks differently, attempts are lost, and tasks of one
// repository may resemble each other.
func simulated(r *rand.Rand, i int, delta float64) *store.View {
	tasks, k := 20+r.IntN(120), 1+r.IntN(4)
	repos := 0
	if r.IntN(3) == 0 {
		repos = 8 + r.IntN(20)
	}
	type effect struct{ easy, suits float64 }
	effects := make([]effect, repos)
	for j := range effects {
		effects[j] = effect{r.NormFloat64(), 0.5 * r.NormFloat64()}
	}
	v := &store.View{Dir: "/jobs/" + strconv.Itoa(i), Name: strconv.Itoa(i), ID: strconv.Itoa(i)}
	solved, _ := trial.CauseSolved.Ending()
	failed, _ := trial.CauseUnsolved.Ending()
	gone, _ := trial.CauseSandboxLost.Ending()
	for t := range tasks {
		name := "set/t" + strconv.Itoa(t)
		var e effect
		if repos > 0 {
			j := r.IntN(repos)
			e = effects[j]
			name = fmt.Sprintf("set/o__r%d-%d", j, t)
		} else {
			e.easy = r.NormFloat64()
		}
		level := 1.7*r.NormFloat64() + e.easy
		pa, pb := chance(level+delta+0.6*r.NormFloat64()+e.suits), chance(level)
		for _, arm := range []struct {
			agent string
			p     float64
		}{{"ada", pa}, {"cyd", pb}} {
			for rep := range k {
				end := failed
				if r.Float64() < arm.p {
					end = solved
				}
				if r.Float64() < 0.05 {
					end = gone
				}
				v.Trials = append(v.Trials, &store.Trial{Name: fmt.Sprint(name, arm.agent, rep), Task: name, Digest: name, Agent: arm.agent, Status: store.TrialFinished,
					Outcome: end.Outcome, Cause: end.Cause, Fault: end.Fault, Record: trial.Record{Modes: modesHere}})
			}
		}
	}
	return v
}

func chance(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// truth is the mean difference in the population that simulated samples; tasks
// with and without repositories have the same distribution but for suits, a
// third of the time.
func truth(delta float64) float64 {
	r := rand.New(rand.NewPCG(99, 1))
	var d float64
	const n = 400_000
	for range n {
		level := 1.7*r.NormFloat64() + r.NormFloat64()
		suits := 0.0
		if r.IntN(3) == 0 {
			suits = 0.5 * r.NormFloat64()
		}
		d += (chance(level+delta+0.6*r.NormFloat64()+suits) - chance(level)) / n
	}
	return d
}

// The way of a user's jobs, from trials to the verdict, over comparisons with
// and without a true difference: 200 each, or as many as ASSAY_LONG_STATS says.
func TestSimulatedComparisons(t *testing.T) {
	n := 200
	if s := os.Getenv("ASSAY_LONG_STATS"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	began := time.Now()
	for _, w := range []struct {
		name  string
		delta float64
	}{{"no difference", 0}, {"a difference", 0.5}} {
		r := rand.New(rand.NewPCG(2026, uint64(1000*w.delta)))
		true0 := truth(w.delta)
		covers, boots, winners, wrong, drawn := 0, 0, 0, 0, 0
		for i := range n {
			p := compared(t, Options{}, simulated(r, i, w.delta)).Pairs[0]
			if p.Diff.Lo <= true0 && true0 <= p.Diff.Hi {
				covers++
			}
			if p.Boot != nil {
				drawn++
				if p.Boot.Lo <= true0 && true0 <= p.Boot.Hi {
					boots++
				}
			}
			switch p.Verdict {
			case ABetter:
				winners++
			case BBetter:
				winners++
				wrong++
			}
		}
		share := func(c int) float64 { return 100 * float64(c) / float64(n) }
		t.Logf("%s (true %.1f points), %d comparisons: %.1f %% of the intervals cover it (bootstrap %.1f %%), a winner in %.1f %%", w.name, 100*true0, n, share(covers), 100*float64(boots)/float64(drawn), share(winners))
		least, most := 93.0, 97.0
		if n < 500 { // a share of 200 is uncertain by 1.5
			least, most = 91.5, 98.5
		}
		if c := share(covers); c < least || c > most {
			t.Errorf("%s: %.1f %% of the intervals cover the truth", w.name, c)
		}
		if w.delta == 0 && share(winners) > 7 {
			t.Errorf("with no difference a winner is named in %.1f %%", share(winners))
		}
		if w.delta > 0 && (share(winners) < 30 || share(wrong) > 1) {
			t.Errorf("with a difference a winner is named in %.1f %%, the wrong one in %.1f %%", share(winners), share(wrong))
		}
	}
	t.Logf("took %v", time.Since(began).Round(time.Second))
}

// Of many arms that are all alike hardly any report names a winner.
func TestManyArmsAlike(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	named := 0
	n := 60
	if os.Getenv("ASSAY_LONG_STATS") != "" {
		n = 300
	}
	for range n {
		var all []spec
		for i := range 40 {
			level := 2 * r.NormFloat64()
			for a := range 5 {
				c := trial.CauseUnsolved
				if r.Float64() < chance(level) {
					c = trial.CauseSolved
				}
				all = append(all, spec{task: fmt.Sprintf("t%02d", i), agent: fmt.Sprintf("a%d", a), cause: c})
			}
		}
		rep := compared(t, Options{}, job("one", all...))
		if slices.ContainsFunc(rep.Pairs, func(p Pair) bool { return p.Verdict == ABetter || p.Verdict == BBetter }) {
			named++
		}
	}
	if named > n*7/100+n/50 {
		t.Errorf("%d of %d reports of five equal arms name a winner", named, n)
	}
	t.Logf("%d of %d reports of five equal arms name a winner", named, n)
}
