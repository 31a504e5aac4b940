package web

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"assay/trial"
)

func TestReadSteps(t *testing.T) {
	tr := &Trial{Agent: "script", Started: fixtureStart}
	s := readSteps(strings.NewReader(fixtureTrajectory(tr, 12)), pageRoom)
	if s.Problem != "" || s.Total != 13 || len(s.Shown) != 13 || s.Agent != "script 1.0" {
		t.Fatalf("%d of %d steps by %q, problem %q", len(s.Shown), s.Total, s.Agent, s.Problem)
	}
	if f := s.Shown[0]; !f.Brief || f.Source != "user" || !strings.Contains(f.Message.Head, "parse_timestamp") {
		t.Errorf("first step %+v", f)
	}
	c := s.Shown[1].Calls
	if len(c) != 1 || c[0].Name != "shell" || c[0].Args.Head != "ls -la /srv/app" || len(c[0].Results) != 1 {
		t.Errorf("call %+v", c)
	}
	if s.Shown[1].Usage != "1200 in, 90 out, $0.0031" || s.Shown[2].Reasoning.Empty() {
		t.Errorf("usage %q, reasoning %+v", s.Shown[1].Usage, s.Shown[2].Reasoning)
	}
}

func manySteps(n int, text string) string {
	var b strings.Builder
	b.WriteString(`{"steps":[`)
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"step_id":%d,"source":"agent","message":%q}`, i, text)
	}
	b.WriteString(`]}`)
	return b.String()
}

func TestLongTrajectoriesKeepBothEnds(t *testing.T) {
	for _, n := range []int{799, 1000, 1001, 1003, 5000} {
		s := readSteps(strings.NewReader(manySteps(n, "x")), pageRoom)
		want := min(n, maxHeadSteps+maxTailSteps)
		if s.Total != n || len(s.Shown) != want {
			t.Fatalf("%d steps: %d shown of %d", n, len(s.Shown), s.Total)
		}
		skipped := 0
		for i, st := range s.Shown {
			id := i + 1
			if n > want && i >= maxHeadSteps {
				id = n - want + i + 1
			}
			if st.ID != id {
				t.Fatalf("%d steps: place %d holds step %d, want %d", n, i, st.ID, id)
			}
			skipped += st.Skipped
		}
		if skipped != n-want {
			t.Errorf("%d steps: %d are said to be left out, want %d", n, skipped, n-want)
		}
	}
}

// The end of a long run must not go hungry because its start was verbose.
func TestWaterLevelFeedsEveryStep(t *testing.T) {
	s := readSteps(strings.NewReader(manySteps(300, strings.Repeat("word ", 8000))), 256<<10)
	total := 0
	for _, st := range s.Shown {
		n := len(st.Message.Head) + len(st.Message.Tail)
		if n < 100 || st.Message.Left == 0 {
			t.Fatalf("step %d shows %d bytes", st.ID, n)
		}
		total += n
	}
	if total > 256<<10 {
		t.Errorf("%d bytes are shown", total)
	}
}

func TestBrokenTrajectories(t *testing.T) {
	good := `{"step_id":1,"source":"user","message":"hello"}`
	for name, c := range map[string]struct {
		text  string
		shown int
	}{
		"cut":            {`{"steps":[` + good + `,{"step_id":2,"sou`, 1},
		"no object":      {`[1,2]`, 0},
		"empty":          {``, 0},
		"steps a number": {`{"agent":{"name":"a"},"steps":7}`, 0},
		"not JSON":       {`{"steps":[` + good + `,nope]}`, 1},
		"deep":           {`{"extra":` + strings.Repeat("[", 20_000), 0},
	} {
		s := readSteps(strings.NewReader(c.text), pageRoom)
		if s.Problem == "" || len(s.Shown) != c.shown {
			t.Errorf("%s: %d shown, problem %q", name, len(s.Shown), s.Problem)
		}
	}
	// A field of the wrong type costs that field, not the trajectory.
	s := readSteps(strings.NewReader(`{"steps":[{"step_id":"one","source":"user","message":[{"type":"text","text":"hi"},{"type":"image","source":{"media_type":"image/png","path":"javascript:alert(1)"}}]},`+good+`]}`), pageRoom)
	if s.Problem != "" || len(s.Shown) != 2 || !strings.Contains(s.Shown[0].Message.Head, "[image: javascript:alert(1), image/png]") {
		t.Errorf("%+v", s)
	}
}

func FuzzReadSteps(f *testing.F) {
	f.Add(fixtureTrajectory(&Trial{Agent: "a"}, 2))
	f.Add(`{"steps":[{"tool_calls":[{"tool_call_id":"","arguments":[]}],"observation":{"results":[{"source_call_id":"x","content":null}]}}]}`)
	f.Add(`{"agent":{"name":"` + "\x1b[1m" + `"},"steps":[]}`)
	f.Fuzz(func(t *testing.T, s string) {
		got := readSteps(strings.NewReader(s), 4<<10)
		if len(got.Shown) > got.Total || got.Problem == "" && len(got.Shown) != min(got.Total, maxHeadSteps+maxTailSteps) {
			t.Fatalf("%d shown of %d, problem %q", len(got.Shown), got.Total, got.Problem)
		}
	})
}

// Other conversations of a document are named, however odd or many they are.
func TestOtherConversations(t *testing.T) {
	doc := `{"steps":[],"extra":{"assay":{"roots":[{"trajectory_id":"main","kind":"main"},{"trajectory_id":"root-2","kind":"sub-agent","of":"main","step":3,"calls":1},
		{"trajectory_id":"root-3","kind":"sample","calls":2}],"side":[{"kind":"title","message":"A \u001b[31mtitle\nof two lines"}]}}}`
	s := readSteps(strings.NewReader(doc), pageRoom)
	want := []string{"sub-agent root-2: 1 call, of step 3 of main", "sample root-3: 2 calls", "title: A title of two lines"}
	if s.Problem != "" || s.AroundN != 3 || !slices.Equal(s.Around, want) {
		t.Errorf("%d %q, problem %q", s.AroundN, s.Around, s.Problem)
	}
	many := `{"extra":{"assay":{"side":[` + strings.Repeat(`{"kind":"probe"},`, 500) + `{"kind":5}]}}}`
	if s = readSteps(strings.NewReader(many), pageRoom); len(s.Around) > maxAround || s.AroundN < 500 {
		t.Errorf("%d of %d", len(s.Around), s.AroundN)
	}
}

func TestUsageWords(t *testing.T) {
	in, out, calls := int64(1200), int64(90), 3
	trials := []*Trial{{State: StateFinished, Calls: &calls, Usage: trial.Usage{InputTokens: &in, OutputTokens: &out}}, {State: StateFinished}}
	if got := usageOf(trials).String(); got != "3 calls, ≥ 1200 in, ≥ 90 out, cost unknown" {
		t.Errorf("%q", got)
	}
	if got := usageOf(trials[1:]).String(); got != "–" {
		t.Errorf("%q", got)
	}
}
