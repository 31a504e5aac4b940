package bench

import (
	"os"
	"os/exec"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/fake"
)

// On a backend that is quick and everywhere, each measure comes once, complete.
func TestRun(t *testing.T) {
	st, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	b := fake.Open(st)
	defer b.Close()
	seen := map[string]Result{}
	err = Run(t.Context(), Options{Backend: b, Rounds: 2, Idle: 3}, func(r Result) {
		if _, twice := seen[r.Measure]; twice {
			t.Errorf("%s twice", r.Measure)
		}
		seen[r.Measure] = r
		if (r.Median == nil) == (r.Value == nil) || (r.Median == nil) != (r.P95 == nil) || (r.Value != nil) != (r.Unit != "") || r.N == 0 {
			t.Errorf("%+v", r)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"create", "exec", "put", "get", "snapshot", "fork", "reset", "peek", "destroy", "cycles_1", "cycles_64"} {
		if r, ok := seen[m]; !ok || r.Backend != "fake" {
			t.Errorf("%s: %+v", m, r)
		}
	}
	if _, ok := seen["docker_run"]; ok {
		t.Error("Docker was measured though none was given")
	}
}

// Beside a real engine, its figures stand with how many times slower they are.
func TestBesideDocker(t *testing.T) {
	if os.Getenv("DOCKER_HOST") == "" || os.Getenv("ASSAY_BASE_TAR") == "" {
		t.Skip("needs a Docker engine named by DOCKER_HOST that has an image local/base:1, as ASSAY_BASE_TAR says")
	}
	docker, err := exec.LookPath("docker")
	if err != nil {
		t.Skip("needs the docker client in PATH")
	}
	st, err := image.Open(image.HostPath(t.TempDir()), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	b := fake.Open(st)
	defer b.Close()
	seen := map[string]Result{}
	r := run{Options: Options{Backend: b, Docker: []string{docker}, DockerImage: "local/base:1", DockerRuns: 2}, name: "fake", emit: func(res Result) { seen[res.Measure] = res }}
	if err := r.beside(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, m := range []string{"docker_run", "docker_exec", "cycle_beside_docker", "exec_beside_docker"} {
		if s := seen[m]; s.Median == nil || *s.Median < 0 || s.N < 2 {
			t.Errorf("%s: %+v", m, s)
		}
	}
	for _, m := range []string{"docker_run_ratio", "docker_exec_ratio"} {
		if s := seen[m]; s.Value == nil || *s.Value <= 0 || s.Unit != "x" || s.N != 2 {
			t.Errorf("%s: %+v", m, s)
		}
	}
}

func TestNearestRank(t *testing.T) {
	var got Result
	r := run{emit: func(res Result) { got = res }}
	s := samples{}
	for i := 100; i > 0; i-- {
		s = append(s, time.Duration(i)*time.Millisecond)
	}
	r.times("m", "b", s)
	if *got.Median != 51 || *got.P95 != 96 || got.N != 100 {
		t.Errorf("median %v, p95 %v of 1 to 100", *got.Median, *got.P95)
	}
}

var _ sandbox.Dropper = (*fake.Backend)(nil)
