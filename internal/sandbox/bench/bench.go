package bench

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// Options say what is measured. Backend is required.
type Options struct {
	Backend sandbox.Backend
	Image   image.Image // must hold a program called true
	Rounds  int         // samples per time; 0: 50
	Idle    int         // sandboxes alive at once for the memory measure; 0: 200; negative: none
	// DiskBytes is a disk limit that the backend holds on disk; 0: the _disk
	// measures are left out.
	DiskBytes int64
	Workers   []int // sandboxes at once of the rates; nil: 1, 2, 8, 64
	// Docker is a client command, as ["docker"], and DockerImage what it runs;
	// without both, or if it does not answer, Docker is left out.
	Docker      []string
	DockerImage string
	DockerRuns  int      // docker run and docker exec, each; 0: 10
	Env         []string // of the client; nil: this process's
}

// Result is one measure. Times are milliseconds.
type Result struct {
	Measure string   `json:"measure"`
	Backend string   `json:"backend"`
	Median  *float64 `json:"median_ms,omitempty"`
	P95     *float64 `json:"p95_ms,omitempty"`
	Value   *float64 `json:"value,omitempty"`
	Unit    string   `json:"unit,omitempty"`
	N       int      `json:"n"`
	// Steps is how often the measure takes each step that stands in the same
	// run with a line of its own, and StepsMS their medians' sum.
	Steps   map[string]int `json:"steps,omitempty"`
	StepsMS *float64       `json:"steps_ms,omitempty"`
}

const (
	dirtyFiles = 1000
	peekFiles  = 100
	smallTree  = 100     // files of put and get
	smallFile  = 1 << 10 // bytes of each
)

// Run measures and emits. It ends at the first failure of the backend.
func Run(ctx context.Context, o Options, emit func(Result)) error {
	if o.Rounds == 0 {
		o.Rounds = 50
	}
	if o.Idle == 0 {
		o.Idle = 200
	}
	r := &run{Options: o, emit: emit, name: o.Backend.Capabilities().Name, median: map[string]float64{}}
	steps := []func(context.Context) error{r.forkExec, r.kernel, r.lifecycle, r.trees, r.branches, r.peeks, r.onDisk}
	if o.Workers == nil {
		o.Workers = []int{1, 2, 8, 64}
	}
	for _, workers := range o.Workers {
		steps = append(steps, func(ctx context.Context) error { return r.cycles(ctx, workers) })
	}
	steps = append(steps, r.memory, r.beside)
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return fmt.Errorf("bench: %w", err)
		}
	}
	return nil
}

type run struct {
	Options
	emit   func(Result)
	name   string
	median map[string]float64 // of the steps, ms
}

// samples are times of one operation.
type samples []time.Duration

func (s *samples) time(f func() error) error {
	t := time.Now()
	err := f()
	*s = append(*s, time.Since(t))
	return err
}

// times emits median and p95, nearest rank.
func (r *run) times(measure, backend string, s samples) {
	if len(s) == 0 {
		return
	}
	slices.Sort(s)
	ms := func(q float64) *float64 {
		v := float64(s[min(len(s)-1, int(q*float64(len(s))))].Microseconds()) / 1000
		return &v
	}
	res := Result{Measure: measure, Backend: backend, Median: ms(0.5), P95: ms(0.95), N: len(s)}
	if backend == stepsBackend {
		r.median[measure] = *res.Median
	}
	r.emitWithSteps(res)
}

func (r *run) value(measure, backend string, v float64, unit string, n int) {
	r.emitWithSteps(Result{Measure: measure, Backend: backend, Value: &v, Unit: unit, N: n})
}

// stepsBackend is whom the steps of a backend are measured of.
const stepsBackend = "kernel"

// emitWithSteps adds which of the measured steps a measure of the backend needs.
func (r *run) emitWithSteps(res Result) {
	if s, ok := r.Backend.(sandbox.Stepper); ok && res.Backend == r.name && len(r.median) > 0 {
		if res.Steps = s.Needs(res.Measure); res.Steps != nil {
			sum := 0.0
			for name, n := range res.Steps {
				sum += float64(n) * r.median[name]
			}
			sum = math.Round(1000*sum) / 1000
			res.StepsMS = &sum
		}
	}
	r.emit(res)
}

// kernel measures the steps that the backend's operations consist of, alone.
func (r *run) kernel(ctx context.Context) error {
	s, ok := r.Backend.(sandbox.Stepper)
	if !ok {
		return nil
	}
	steps, err := s.Steps(ctx, r.Rounds)
	for _, step := range steps {
		r.times(step.Name, stepsBackend, step.Took)
	}
	return err
}

func (r *run) spec() sandbox.Spec { return sandbox.Spec{Image: r.Image} }

// runTrue runs the least program there is.
func runTrue(ctx context.Context, s sandbox.Starter) error {
	res, err := sandbox.Exec(ctx, s, sandbox.Command{Args: []string{"true"}}, sandbox.ExecOptions{})
	if err == nil && res.Exit.Code != 0 {
		err = fmt.Errorf("true ended with %d: %s", res.Exit.Code, res.Stderr)
	}
	return err
}

// forkExec is the floor: the same program without a sandbox.
func (r *run) forkExec(ctx context.Context) error {
	path, err := exec.LookPath("true")
	if err != nil {
		return nil // nothing to compare with
	}
	var s samples
	for range r.Rounds {
		if err := s.time(func() error { return exec.CommandContext(ctx, path).Run() }); err != nil {
			return err
		}
	}
	r.times("fork_exec", "host", s)
	return nil
}

// lifecycle measures create, exec and destroy.
func (r *run) lifecycle(ctx context.Context) error {
	var create, first, run, destroy samples
	for range r.Rounds {
		var s sandbox.Sandbox
		err := create.time(func() (err error) { s, err = r.Backend.Create(ctx, r.spec()); return err })
		if err != nil {
			return err
		}
		err = first.time(func() error { return runTrue(ctx, s) })
		for range 4 {
			err = errors.Join(err, run.time(func() error { return runTrue(ctx, s) }))
		}
		if err = errors.Join(err, destroy.time(s.Close)); err != nil {
			return err
		}
	}
	r.times("create", r.name, create)
	r.times("exec", r.name, run)
	r.times("exec_first", r.name, first)
	r.times("destroy", r.name, destroy)
	return nil
}

// tree makes a tar stream of n small files.
func tree(n int) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	data := bytes.Repeat([]byte("x"), smallFile)
	for i := range n {
		// A bytes.Buffer does not fail, and the headers are valid.
		_ = w.WriteHeader(&tar.Header{Name: fmt.Sprintf("d%d/f%d", i/100, i), Mode: 0o644, Size: smallFile, ModTime: time.Unix(1e9, 0)})
		_, _ = w.Write(data)
	}
	_ = w.Close()
	return b.Bytes()
}

const dirtyDir = "/bench"

func put(ctx context.Context, s sandbox.Trees, tree []byte) error {
	return s.Put(ctx, dirtyDir, bytes.NewReader(tree))
}

// with makes a sandbox for one measure.
func (r *run) with(ctx context.Context, spec sandbox.Spec, f func(sandbox.Sandbox) error) error {
	s, err := r.Backend.Create(ctx, spec)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// trees measures put and get of 100 files of 1 KiB.
func (r *run) trees(ctx context.Context) error {
	var puts, gets samples
	data := tree(smallTree)
	err := r.with(ctx, r.spec(), func(s sandbox.Sandbox) error {
		for range r.Rounds {
			if err := puts.time(func() error { return put(ctx, s, data) }); err != nil {
				return err
			}
			err := gets.time(func() error { return s.Get(ctx, dirtyDir, io.Discard, 0) })
			if err != nil {
				return err
			}
		}
		return nil
	})
	r.times("put", r.name, puts)
	r.times("get", r.name, gets)
	return err
}

// branches measures snapshot, fork and reset with 1,000 dirty files. Each comes
// right after what it follows: what a backend makes ready for a fork, it makes
// while its snapshot or the fork is waited for, or has not made.
func (r *run) branches(ctx context.Context) error {
	return r.branching(ctx, r.spec(), "", r.Rounds)
}

// onDisk does the same where the tree is too large for memory.
func (r *run) onDisk(ctx context.Context) error {
	if r.DiskBytes == 0 {
		return nil
	}
	spec := r.spec()
	spec.Limits.DiskBytes = r.DiskBytes
	return r.branching(ctx, spec, "_disk", max(r.Rounds/5, 3))
}

func (r *run) branching(ctx context.Context, spec sandbox.Spec, suffix string, rounds int) error {
	if !r.Backend.Capabilities().Snapshots {
		return nil
	}
	var snapshot, fork, reset samples
	dirty := tree(dirtyFiles)
	for range rounds {
		err := r.with(ctx, spec, func(s sandbox.Sandbox) error {
			if err := put(ctx, s, dirty); err != nil {
				return err
			}
			var snap sandbox.Snapshot
			err := snapshot.time(func() (err error) { snap, err = s.Snapshot(ctx); return err })
			if err != nil {
				return err
			}
			defer r.drop(snap)
			forked := spec
			forked.From = snap
			var f sandbox.Sandbox
			if err := fork.time(func() (err error) { f, err = r.Backend.Create(ctx, forked); return err }); err != nil {
				return err
			}
			if err := errors.Join(f.Close(), put(ctx, s, dirty)); err != nil {
				return err
			}
			return reset.time(func() error { return s.Reset(ctx, "") })
		})
		if err != nil {
			return err
		}
	}
	r.times("snapshot"+suffix, r.name, snapshot)
	r.times("fork"+suffix, r.name, fork)
	r.times("reset"+suffix, r.name, reset)
	return nil
}

func (r *run) drop(s sandbox.Snapshot) {
	if d, ok := r.Backend.(sandbox.Dropper); ok {
		_ = d.Drop(s) // it goes with the backend at the latest
	}
}

// peeks measures a peek at 100 dirty files. Peek ends nothing, and a backend
// that stops programs for a while stops them for less than the whole call,
// which is what is measured.
func (r *run) peeks(ctx context.Context) error {
	if !r.Backend.Capabilities().Peek {
		return nil
	}
	var took samples
	err := r.with(ctx, r.spec(), func(s sandbox.Sandbox) error {
		if err := put(ctx, s, tree(peekFiles)); err != nil {
			return err
		}
		for range r.Rounds {
			var snap sandbox.Snapshot
			if err := took.time(func() (err error) { snap, err = s.Peek(ctx); return err }); err != nil {
				return err
			}
			r.drop(snap)
		}
		return nil
	})
	r.times("peek", r.name, took)
	return err
}

// cycles counts create, exec true, destroy with so many at once.
func (r *run) cycles(ctx context.Context, workers int) error {
	var mu sync.Mutex
	var all, create samples
	var failed error
	total := max(2*workers, 2*r.Rounds)
	next := make(chan struct{}, total)
	for range total {
		next <- struct{}{}
	}
	close(next)
	begin := time.Now()
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for range next {
				t := time.Now()
				var made time.Duration
				s, err := r.Backend.Create(ctx, r.spec())
				if err == nil {
					made = time.Since(t)
					err = errors.Join(runTrue(ctx, s), s.Close())
				}
				mu.Lock()
				if all, create = append(all, time.Since(t)), append(create, made); err != nil && failed == nil {
					failed = err
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	if failed != nil {
		return fmt.Errorf("%d at once: %w", workers, failed)
	}
	r.value("cycles_"+strconv.Itoa(workers), r.name, float64(len(all))/took.Seconds(), "1/s", len(all))
	if workers > 1 {
		r.times("create_"+strconv.Itoa(workers), r.name, create)
	}
	return nil
}

// memory is what the machine has less of for every idle sandbox that has run
// one program.
func (r *run) memory(ctx context.Context) error {
	if r.Idle < 0 {
		return nil
	}
	before, err := available()
	if err != nil {
		return nil // no such file on this system
	}
	var boxes []sandbox.Sandbox
	for range r.Idle {
		var s sandbox.Sandbox
		if s, err = r.Backend.Create(ctx, r.spec()); err != nil {
			break
		}
		boxes = append(boxes, s)
		if err = runTrue(ctx, s); err != nil {
			break
		}
	}
	if err == nil {
		var after int64
		if after, err = available(); err == nil {
			r.value("memory_idle", r.name, float64(before-after)/float64(len(boxes))/(1<<20), "MiB", len(boxes))
		}
	}
	var s samples
	for _, b := range boxes {
		err = errors.Join(err, s.time(b.Close))
	}
	return err
}

// available reads the bytes of memory that the machine could still give.
func available() (int64, error) {
	b, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemAvailable:" {
			kb, err := strconv.ParseInt(f[1], 10, 64)
			return kb << 10, err
		}
	}
	return 0, errors.New("/proc/meminfo has no MemAvailable")
}
