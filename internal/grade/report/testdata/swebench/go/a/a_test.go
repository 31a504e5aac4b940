package a

import (
	"fmt"
	"os"
	"testing"
)

func TestNew(t *testing.T) {
	if New() != 42 {
		t.Error("not new")
	}
}

func TestNewer(t *testing.T) {
	for _, n := range []string{"a b", "ä/ö", "c"} {
		t.Run(n, func(t *testing.T) {
			if Newer() != 42 {
				t.Error("not newer")
			}
		})
	}
}

func TestPrints(t *testing.T) {
	fmt.Println("some output")
	t.Log("and a line of the log")
}

func TestSkipped(t *testing.T) { t.Skip("not here") }

func TestConditional(t *testing.T) {
	if os.Getenv("SHOP_STATE") == "skip" {
		t.Skip("not today")
	}
	if New() != 42 {
		t.Error("not new")
	}
}

func TestAdd(t *testing.T) {
	if Add(1, 2) != 3 {
		t.Error("1+2")
	}
}

func TestParallel(t *testing.T) {
	t.Parallel()
	if os.Getenv("SHOP_STATE") == "skipold" {
		t.Skip("not any more")
	}
}
