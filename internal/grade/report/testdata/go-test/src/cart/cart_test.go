package cart

import (
	"fmt"
	"testing"
)

func TestSum(t *testing.T) {
	if Sum(1, 2) != 3 {
		t.Fatal("1+2")
	}
}

func TestTable(t *testing.T) {
	for _, c := range []struct {
		name string
		want int
	}{{"one and two", 3}, {"Grüße, 世界", 3}, {"", 3}, {"", 3}, {"a/b", 3}, {"wrong", 4}, {"tab\there", 3}} {
		t.Run(c.name, func(t *testing.T) {
			if got := Sum(1, 2); got != c.want {
				t.Errorf("Sum(1, 2) = %d, want %d", got, c.want)
			}
		})
	}
}

func TestParallel(t *testing.T) {
	for i := 0; i < 3; i++ {
		i := i
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			if i == 9 {
				t.Error(i)
			}
		})
	}
}

func TestSkipped(t *testing.T) { t.Skip("not here") }

// TestPrints prints what looks like results of tests that there are.
func TestPrints(t *testing.T) {
	fmt.Println("--- PASS: TestWrong (0.00s)")
	fmt.Println("=== RUN   TestWrong")
	fmt.Println("--- FAIL: TestSum (0.00s)")
	fmt.Println("ok  \texample.com/shop/cart\t0.001s")
	fmt.Print("PASS")
	fmt.Println("\x1b[32mPASS\x1b[0m in green")
	t.Log("--- FAIL: TestSum (0.00s)")
}

func TestWrong(t *testing.T) {
	fmt.Println("--- PASS: TestWrong (0.00s)")
	if Sum(1, 1) != 3 {
		t.Error("1+1 is not 3")
	}
	fmt.Print("no line end")
}

func TestCleanupFails(t *testing.T) {
	t.Cleanup(func() { t.Error("torn down badly") })
}

func ExampleSum() {
	fmt.Println(Sum(2, 2))
	// Output: 4
}

func FuzzSum(f *testing.F) {
	f.Add(1)
	f.Add(2)
	f.Fuzz(func(t *testing.T, n int) {
		if Sum(n) != n {
			t.Error(n)
		}
	})
}

func BenchmarkSum(b *testing.B) {
	for i := 0; i < b.N; i++ {
		Sum(1, 2)
	}
}
