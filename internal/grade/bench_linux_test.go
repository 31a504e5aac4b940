package grade

import (
	"path/filepath"
	"strconv"
	"testing"

	"assay/internal/image"
	"assay/task"
)

// The harness's own part of grading, without the test script's time.
func BenchmarkGrade(b *testing.B) {
	for _, kind := range []task.GradeKind{task.GradeState, task.GradePatch} {
		b.Run(string(kind), func(b *testing.B) {
			s := newStore(b)
			backend := openNS(b, s)
			b.Cleanup(func() { backend.Close() })
			w := &world{t: b, spy: &spy{Backend: backend}, store: s, walls: true}
			w.img = w.image(file("app/main.txt", "old\n"))
			end := w.agent(`echo new >main.txt; echo x >/tmp/x`)
			r := w.request(end, `echo 1 >`+reward)
			r.Key.Grade = kind
			own := 0.0
			for i := range b.N {
				r.Out = image.HostPath(filepath.Join(b.TempDir(), strconv.Itoa(i)))
				v, err := Grade(b.Context(), r)
				if err != nil || v.Rewards == nil {
					b.Fatalf("%+v, %v", v, err)
				}
				own += (v.GradeTime - v.TestsTime).Seconds() * 1000
			}
			b.ReportMetric(own/float64(b.N), "own-ms/op")
		})
	}
}

// The same for a check plan: a run and a canary run, each in a sandbox of its own.
func BenchmarkGradePlan(b *testing.B) {
	s := newStore(b)
	backend := openNS(b, s)
	b.Cleanup(func() { backend.Close() })
	w := &world{t: b, spy: &spy{Backend: backend}, store: s, walls: true}
	w.planImage()
	r := w.planned(w.agent(`echo new >main.txt`), suitePlan)
	own := 0.0
	for i := range b.N {
		r.Out, r.Trial = image.HostPath(filepath.Join(b.TempDir(), strconv.Itoa(i))), strconv.Itoa(i)
		v, err := Grade(b.Context(), r)
		if err != nil || v.Checks == nil || !v.Checks.Resolved {
			b.Fatalf("%+v, %v", v, err)
		}
		own += (v.GradeTime - v.TestsTime).Seconds() * 1000
	}
	b.ReportMetric(own/float64(b.N), "own-ms/op")
}
