package bench

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"assay/internal/sandbox"
)

// ownRounds are ours for each of Docker's, which is slower by far; fewer for a
// backend that is not.
const ownRounds = 10

// beside measures docker run and docker exec of the same program and, turn by
// turn with them, what stands against each of them here: a sandbox made, used
// and closed, and a program started in one that lives. The ratios are of the
// medians: how many times faster the backend is.
func (r *run) beside(ctx context.Context) error {
	if len(r.Docker) == 0 || r.DockerImage == "" {
		return nil
	}
	if r.DockerRuns == 0 {
		r.DockerRuns = 10
	}
	client := func(args ...string) (string, error) {
		c := exec.CommandContext(ctx, r.Docker[0], slices.Concat(r.Docker[1:], args)...)
		c.Env = r.Env
		out, err := c.Output()
		return strings.TrimSpace(string(out)), err
	}
	if _, err := client("image", "inspect", r.DockerImage); err != nil {
		return nil // no engine or no such image: nothing to stand beside
	}
	id, err := client("run", "-d", "--rm", r.DockerImage, "sleep", "600")
	if err != nil {
		return fmt.Errorf("docker run: %w", err)
	}
	var theirs, ours [2]samples // of run, of exec
	err = r.with(ctx, r.spec(), func(s sandbox.Sandbox) error {
		for range r.DockerRuns {
			begin := time.Now()
			for i, args := range [][]string{{"run", "--rm", r.DockerImage, "true"}, {"exec", id, "true"}} {
				if err := theirs[i].time(func() error { _, err := client(args...); return err }); err != nil {
					return fmt.Errorf("docker %s: %w", args[0], err)
				}
			}
			took := time.Since(begin)
			for n := range ownRounds {
				if n > 0 && time.Since(begin) > 2*took {
					break
				}
				err := ours[0].time(func() error { return r.with(ctx, r.spec(), func(s sandbox.Sandbox) error { return runTrue(ctx, s) }) })
				if err == nil {
					err = ours[1].time(func() error { return runTrue(ctx, s) })
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	_, kerr := client("kill", id)
	if err = errors.Join(err, kerr); err != nil {
		return err
	}
	for i, name := range []string{"run", "exec"} {
		r.times("docker_"+name, "docker", theirs[i])
		r.times([]string{"cycle", "exec"}[i]+"_beside_docker", r.name, ours[i])
		r.value("docker_"+name+"_ratio", r.name, middle(theirs[i])/middle(ours[i]), "x", len(theirs[i]))
	}
	return nil
}

// middle is the median of sorted samples, in seconds.
func middle(s samples) float64 { return s[len(s)/2].Seconds() }
