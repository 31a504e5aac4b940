package trial

import (
	"encoding/json"
	"testing"
)

func TestSolvedAndMain(t *testing.T) {
	for _, c := range []struct {
		rewards string
		solved  bool
		main    *float64
	}{
		{`{}`, false, nil},
		{`null`, false, nil},
		{`{"reward":1}`, true, money(1)},
		{`{"reward":1.0}`, true, money(1)},
		{`{"reward":0.999}`, false, money(0.999)},
		{`{"reward":2}`, true, money(2)},
		{`{"reward":-1}`, false, money(-1)},
		{`{"reward":1,"speed":0.2}`, true, money(1)},
		{`{"reward":0,"speed":1}`, false, money(0)},
		{`{"tests":1}`, true, money(1)},
		{`{"tests":1,"style":1}`, true, nil},
		{`{"tests":1,"style":0.5}`, false, nil},
		{`{"reward":1000000000000000000000000000000}`, true, money(1e30)},
		{`{"reward":1e999}`, false, nil},
	} {
		var m map[string]json.Number
		if err := json.Unmarshal([]byte(c.rewards), &m); err != nil {
			t.Fatal(err)
		}
		if got := Solved(m); got != c.solved {
			t.Errorf("Solved(%s) = %v", c.rewards, got)
		}
		if got := Main(m); !same(got, c.main) {
			t.Errorf("Main(%s) = %v, want %v", c.rewards, show(got), show(c.main))
		}
	}
}
