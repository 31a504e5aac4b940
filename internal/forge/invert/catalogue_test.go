package invert

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The documentation lists every operator.
func TestCatalogue(t *testing.T) {
	const file, mark = "../../../docs/environment-faults.md", "-run TestCatalogue -update -->\n"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, was, ok := strings.Cut(string(b), mark)
	if !ok {
		t.Fatalf("%s has no place for the table", file)
	}
	ops := All()
	slices.SortStableFunc(ops, func(a, b Operator) int {
		return (a.Number+999)%1000 - (b.Number+999)%1000 // those without a row last
	})
	var out strings.Builder
	out.WriteString("\n| # | operator | of | family | realism | where to look | may be masked |\n|---|---|---|---|---|---|---|\n")
	for _, o := range ops {
		n := "–"
		if o.Number > 0 {
			n = strconv.Itoa(o.Number)
		}
		fmt.Fprintf(&out, "| %s | %s | %s | %s | %d | %s | %s |\n", n, o.Name, o.Ecosystem, o.Family, o.Realism, o.Hint, o.Masked)
	}
	if *update {
		if err := os.WriteFile(file, []byte(head+mark+out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if out.String() != was {
		t.Errorf("%s does not list the operators as they are; run this test with -update", file)
	}
}

var update = flag.Bool("update", false, "write the table of operators")
