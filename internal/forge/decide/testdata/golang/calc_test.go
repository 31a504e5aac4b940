package calc

import "testing"

func TestAdd(t *testing.T) {
	if got := Add(1, 2); got != 3 {
		t.Errorf("1 + 2 = %d", got)
	}
}

func TestClamp(t *testing.T) {
	for name, c := range map[string][2]int{"below": {5, 5}, "above": {50, 10}} {
		t.Run(name, func(t *testing.T) {
			if got := Clamp(c[0]); got != c[1] {
				t.Errorf("%d", got)
			}
		})
	}
}

func TestCount(t *testing.T) {
	if Count(0) != 0 || Count(3) != 3 {
		t.Error("count")
	}
}

func TestUpper(t *testing.T) {
	if Upper("a") != "A" {
		t.Error("upper")
	}
}

func TestFailsAlways(t *testing.T) { t.Error("always") }
