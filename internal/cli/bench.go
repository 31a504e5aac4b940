package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"

	"assay/internal/sandbox/bench"
)

type sandboxBenchCmd struct {
	N           int    `placeholder:"N" help:"Repetitions of each measure; default 50, of containers 10."`
	Idle        int    `placeholder:"N" help:"Idle sandboxes to weigh; default 200, of containers 10."`
	Image       string `default:"host" placeholder:"NAME" help:"Image to measure on."`
	DockerImage string `name:"docker-image" placeholder:"NAME" help:"Image of the container engine to compare with; default: the first it lists."`
}

// diskLimit is larger than the trees that are kept in memory, so that the
// _disk measures lie on disk.
const diskLimit = 1 << 40

func (sandboxBenchCmd) Help() string {
	return `Each measure stands beside plain fork+exec in the same run and, where Docker answers, docker run and
docker exec, with how many times slower they are (docker_run_ratio, docker_exec_ratio). With --json, one object a line: {"measure":…,"backend":…,"median_ms":…,"p95_ms":…,"n":…}.
Bare names are one sandbox in memory, with 1,000 changed files where that matters (peek: 100).
The lines of backend "kernel" are the steps that these consist of, each alone: where a sandbox is slow, they
say what of it is the kernel's. "steps" of a measure counts them, "steps_ms" is their sum.

Examples:
  assay sandbox bench --json
  assay sandbox bench --backend docker --image local/base:1

Exit status: 0, 1 the sandbox broke.`
}

func (c *sandboxBenchCmd) Run(ctx *boundCtx, a *app, g *grammar) error {
	a.collectLess() // as a job does
	r, err := a.open(ctx, g)
	if err != nil {
		return err
	}
	defer r.Close()
	img, err := r.resolve(ctx, c.Image)
	if err != nil {
		return err
	}
	o := bench.Options{Backend: r.backend, Image: img, Rounds: c.N, Idle: c.Idle, DiskBytes: diskLimit}
	if g.Env == "docker" { // which limits no disk, and takes a good part of a second for most
		o.DiskBytes, o.Workers = 0, []int{1, 2, 8}
		o.Rounds, o.Idle = cmp.Or(c.N, 10), cmp.Or(c.Idle, 10)
	}
	if path, err := exec.LookPath("docker"); err == nil {
		o.Docker, o.DockerImage = []string{path}, c.DockerImage
		if o.DockerImage == "" {
			o.DockerImage = firstDockerImage(ctx, path)
		}
	}
	var emitErr error
	err = bench.Run(ctx, o, func(res bench.Result) {
		if g.JSON {
			emitErr = errors.Join(emitErr, json.NewEncoder(a.Stdout).Encode(res))
			return
		}
		_, e := fmt.Fprintln(a.Stdout, benchLine(res))
		emitErr = errors.Join(emitErr, e)
	})
	return errors.Join(err, emitErr)
}

func benchLine(r bench.Result) string {
	s := fmt.Sprintf("%-8s %-16s", r.Backend, r.Measure)
	switch {
	case r.Median != nil:
		s += fmt.Sprintf(" median %9.3f ms", *r.Median)
		if r.P95 != nil {
			s += fmt.Sprintf("   p95 %9.3f ms", *r.P95)
		}
	case r.Value != nil:
		s += fmt.Sprintf(" %16.2f %s", *r.Value, r.Unit)
	}
	s += fmt.Sprintf("   n %d", r.N)
	if r.StepsMS != nil {
		s += fmt.Sprintf("   its kernel steps %.3f ms:", *r.StepsMS)
		for _, name := range slices.Sorted(maps.Keys(r.Steps)) {
			s += fmt.Sprintf(" %d×%s", r.Steps[name], strings.TrimPrefix(name, "kernel_"))
		}
	}
	return s
}

// firstDockerImage is an image of the engine to compare with; empty when no
// engine answers or it has none.
func firstDockerImage(ctx *boundCtx, docker string) string {
	out, err := exec.CommandContext(ctx, docker, "image", "ls", "--format", "{{.Repository}}:{{.Tag}}").Output()
	if err != nil {
		return ""
	}
	for _, line := range strings.Fields(string(out)) {
		if !strings.Contains(line, "<none>") && !strings.HasPrefix(line, "assay/") {
			return line
		}
	}
	return ""
}
