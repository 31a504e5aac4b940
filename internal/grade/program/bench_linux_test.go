package program

import (
	"fmt"
	"strings"
	"testing"

	"assay/internal/grade/checks"
)

// BenchmarkCases is what one case costs, with its fresh tree and process.
func BenchmarkCases(b *testing.B) {
	for _, bb := range []struct {
		name string
		g    checks.Cases
		line string
		file map[string]string
	}{
		{"sh", checks.Cases{Run: []string{"sh", "p.sh"}}, `{"id":"%d","want":{"stdout":"1"}}`, map[string]string{"p.sh": "echo 1\n"}},
		{"python", checks.Cases{Call: "python", Source: "s.py"}, `{"id":"%d","func":"f","args":[1],"want":1}`, map[string]string{"s.py": "def f(x): return x\n"}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p := newPlace(b)
			const n = 100
			var lines strings.Builder
			for i := range n {
				fmt.Fprintf(&lines, bb.line+"\n", i)
			}
			s := suite(b, bb.g, "", lines.String())
			for b.Loop() {
				p.run(s, bb.file)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/n/1000, "ms/case")
		})
	}
}
