package ns

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"assay/internal/sandbox"
	"assay/internal/sandbox/bench"
)

var full = flag.Bool("bench-full", false, "measure with all rounds and print every result")

// What bench reports is complete and positive; figures are printed, not judged.
func TestBench(t *testing.T) {
	b, _ := open(t)
	o := bench.Options{Backend: b, Image: hostImage(), Rounds: 3, Idle: 5, DiskBytes: 64 << 30}
	if *full {
		o.Rounds, o.Idle = 50, 200
		o.Docker, o.DockerImage = []string{"docker"}, os.Getenv("BENCH_IMAGE")
	}
	seen := map[string]bench.Result{}
	err := bench.Run(context.Background(), o, func(r bench.Result) {
		j, err := json.Marshal(r)
		if err != nil {
			t.Error(err)
		}
		t.Logf("%s", j)
		if _, twice := seen[r.Measure]; twice {
			t.Errorf("%s is reported twice", r.Measure)
		}
		seen[r.Measure] = r
	})
	if err != nil {
		t.Fatal(err)
	}
	for m := range strings.FieldsSeq("fork_exec create exec put get snapshot fork reset snapshot_disk reset_disk peek destroy cycles_1 cycles_2 cycles_8 cycles_64 create_8 memory_idle") {
		r, ok := seen[m]
		if !ok {
			t.Errorf("%s is not reported", m)
			continue
		}
		if (r.Median == nil) == (r.Value == nil) || (r.Value != nil) != (r.Unit != "") || r.N == 0 {
			t.Errorf("%s: neither a time nor a value with its unit: %+v", m, r)
		}
		if r.Median != nil && (*r.Median <= 0 || *r.P95 < *r.Median) {
			t.Errorf("%s: median %v, p95 %v", m, *r.Median, *r.P95)
		}
	}
}

func BenchmarkCycle(b *testing.B) {
	be, _ := open(b)
	ctx := context.Background()
	b.SetParallelism(2)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			s, err := be.Create(ctx, sandbox.Spec{Image: hostImage()})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := sandbox.Exec(ctx, s, sandbox.Command{Args: []string{"true"}}, sandbox.ExecOptions{}); err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
}

func BenchmarkExec(b *testing.B) {
	be, _ := open(b)
	ctx := context.Background()
	s, err := be.Create(ctx, sandbox.Spec{Image: hostImage()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := sandbox.Exec(ctx, s, sandbox.Command{Args: []string{"true"}}, sandbox.ExecOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReset(b *testing.B) {
	be, _ := open(b)
	ctx := context.Background()
	s, err := be.Create(ctx, sandbox.Spec{Image: hostImage()})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if err := s.Reset(ctx, ""); err != nil {
			b.Fatal(err)
		}
	}
}
