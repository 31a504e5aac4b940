package job

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/agent"
	"assay/internal/image"
	"assay/internal/sandbox/fake"
	"assay/internal/store"
	"assay/task"
	"assay/trial"
)

// disk is a directory whose file system a test can fill and empty.
type disk struct {
	t    *testing.T
	dir  string
	min  int64 // there is less once it is full
	file string
	size int64
}

// newDisk mounts a small one where root may, and else takes a part of the
// machine's own, larger than what other programs use meanwhile.
func newDisk(t *testing.T) *disk {
	t.Helper()
	dir := t.TempDir()
	d := &disk{t: t, dir: dir, file: filepath.Join(dir, "filler")}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err == nil {
		t.Cleanup(func() {
			if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
		d.min, d.size = 32<<20, 48<<20
		return d
	}
	free, err := Free(image.HostPath(dir))
	if err != nil {
		t.Fatal(err)
	}
	d.size = 1 << 30
	if free < 3*d.size {
		t.Skipf("only %d bytes are free here", free)
	}
	d.min = free - d.size/2
	return d
}

func (d *disk) fill() {
	f, err := os.Create(d.file)
	if err == nil {
		err = errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, d.size), f.Close())
	}
	if err != nil {
		d.t.Error(err)
	}
}

func (d *disk) empty() {
	if err := os.Remove(d.file); err != nil {
		d.t.Error(err)
	}
}

// bare is a job without walls whose directory lies on a disk.
func bare(t *testing.T, d *disk, arms ...Arm) (Config, Deps) {
	t.Helper()
	images, err := image.Open(image.HostPath(filepath.Join(t.TempDir(), "store")), image.Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := images.Put(image.New("plain", nil, nil, image.Config{Workdir: "/app"})); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t}
	x := w.task("x", files{"task.toml": "[environment]\ndocker_image = \"plain\"\nworkdir = \"/app\"\n",
		"tests/test.sh": "#!/bin/sh\necho 1 >/logs/verifier/reward.txt\n"})
	backend := fake.Open(images)
	t.Cleanup(func() { backend.Close() })
	deps := Deps{Images: images, Backend: backend, Version: "test",
		Resolve: func(_ context.Context, ref string) (image.Image, error) { return images.Resolve(ref) },
		Env:     func(string) (string, bool) { return "", false }}
	return Config{Dir: filepath.Join(d.dir, "job"), Tasks: []*task.Task{x}, Arms: arms, Concurrent: 1, MinFree: d.min}, deps
}

// While there is less room than --min-free nothing begins; when there is more
// again, the job goes on by itself, and nothing has failed.
func TestPausesForWantOfRoom(t *testing.T) {
	d := newDisk(t)
	fills := acting("fills", func(context.Context, agent.Session) (agent.Report, error) {
		d.fill()
		return agent.Report{}, nil
	})
	c, deps := bare(t, d, fills, idle())
	d.fill()
	var mu sync.Mutex
	var order []trial.Kind
	deps.OnEvent = func(e trial.Event) {
		mu.Lock()
		defer mu.Unlock()
		switch e.Kind {
		case trial.JobPaused, trial.JobContinued, trial.ImageStarted, trial.TrialStarted, trial.TrialFinished:
			order = append(order, e.Kind)
		}
		if e.Kind == trial.JobPaused {
			time.AfterFunc(10*time.Millisecond, d.empty)
		}
	}
	sum, err := Run(t.Context(), c, deps)
	if err != nil || sum.Counts[trial.Pass] != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	want := []trial.Kind{trial.JobPaused, trial.JobContinued, trial.ImageStarted, trial.TrialStarted, trial.TrialFinished,
		trial.JobPaused, trial.JobContinued, trial.TrialStarted, trial.TrialFinished}
	if !slices.Equal(order, want) {
		t.Errorf("%q\nwant %q", order, want)
	}
}

// A paused job can be interrupted, and resumed later.
func TestPausedIsInterrupted(t *testing.T) {
	d := newDisk(t)
	c, deps := bare(t, d, idle())
	d.fill()
	ctx, cancel := context.WithCancel(t.Context())
	deps.OnEvent = func(e trial.Event) {
		if e.Kind == trial.JobPaused {
			cancel()
		}
	}
	sum, err := Run(ctx, c, deps)
	if err != nil || sum.Ran != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	d.empty()
	if sum, err = Run(t.Context(), c, deps); err != nil || sum.Counts[trial.Pass] != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}

// A trial that meets a disk without any room begins again when there is some.
func TestFullDiskFailsNoTrial(t *testing.T) {
	d := newDisk(t)
	if d.size > 1<<29 {
		t.Skip("the disk that this user can fill is everybody's")
	}
	first := true
	brimful := acting("brimful", func(context.Context, agent.Session) (agent.Report, error) {
		if !first {
			return agent.Report{}, nil
		}
		first = false
		f, err := os.Create(d.file)
		for b := make([]byte, 4096); err == nil; {
			_, err = f.Write(b)
		}
		time.AfterFunc(300*time.Millisecond, d.empty)
		return agent.Report{}, f.Close()
	})
	c, deps := bare(t, d, brimful, idle())
	sum, err := Run(t.Context(), c, deps)
	if err != nil || sum.Counts[trial.Pass] != 2 {
		t.Fatalf("%+v, %v", sum, err)
	}
	v, err := store.Read(c.Dir)
	if err != nil {
		t.Fatal(err)
	}
	tr := trialOf(t, v, "x", "brimful")
	if len(tr.Replaced) != 1 || tr.Replaced[0].Cause != trial.CauseHostDisk {
		t.Errorf("replaced attempts: %+v", tr.Replaced)
	}
}
