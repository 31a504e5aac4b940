package ns

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// descendants lists the processes below one, with the time each began so that
// a number used again is not taken for the same.
func descendants(t testing.TB, root int) map[int]string {
	t.Helper()
	children := map[int][]int{}
	for pid := range processes(t) {
		parent, _ := origin(pid)
		children[parent] = append(children[parent], pid)
	}
	out := map[int]string{}
	var walk func(int)
	walk = func(pid int) {
		for _, c := range children[pid] {
			_, out[c] = origin(c)
			walk(c)
		}
	}
	walk(root)
	return out
}

// living lists those that still live.
func living(t testing.TB, procs map[int]string) []string {
	t.Helper()
	var out []string
	all := processes(t)
	for pid, began := range procs {
		if _, b := origin(pid); b == began && all[pid] != "" {
			out = append(out, fmt.Sprint(pid, " ", all[pid]))
		}
	}
	return out
}

// origin reads a process's parent and the time it began.
func origin(pid int) (parent int, began string) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, ""
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	fmt.Sscan(f[1], &parent)
	return parent, f[19]
}

func descriptors(t testing.TB) int {
	t.Helper()
	d, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(d)
}

func mounts(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// newMounts are those since before that can only be ours: overlays of this
// package, which all have userxattr, and what names a directory of the test's.
// Other programs' come and go.
func newMounts(t testing.TB, before string, dirs ...string) (left []string) {
	t.Helper()
	for line := range strings.Lines(mounts(t)) {
		ours := strings.Contains(line, "userxattr") || slices.ContainsFunc(dirs, func(d string) bool { return strings.Contains(line, d) })
		if ours && !strings.Contains(before, line) {
			left = append(left, line)
		}
	}
	return left
}

// busy does everything once and leaves programs running.
func busy(t testing.TB, b *Backend) (boxes []sandbox.Sandbox, procs []sandbox.Process) {
	t.Helper()
	ctx := context.Background()
	start := func(s sandbox.Sandbox, c sandbox.Command) {
		p, err := s.Start(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		procs = append(procs, p)
	}
	modes := b.modes()
	for i, disk := range []int64{0, 64 << 40, 0, 64 << 40}[:2*len(modes)] {
		mode := modes[i/2]
		s, err := b.Create(ctx, sandbox.Spec{Image: hostImage(), UID: mode, Limits: sandbox.Limits{DiskBytes: disk}})
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, s)
		for _, c := range []string{"sleep 600", "trap '' TERM; setsid sleep 600 & sleep 600", "mkdir -p /d; echo x > /d/f; chown -R 42:42 /d; sleep 600"} {
			start(s, sandbox.Command{Args: []string{"sh", "-c", c}, Stdin: true})
		}
		snap, err := s.Peek(ctx)
		if err != nil {
			t.Fatal(err)
		}
		f, err := b.Create(ctx, sandbox.Spec{Image: hostImage(), UID: mode, From: snap, Limits: sandbox.Limits{DiskBytes: disk}})
		if err != nil {
			t.Fatal(err)
		}
		boxes = append(boxes, f)
		start(f, sandbox.Command{Args: []string{"sleep", "600"}, TTY: &sandbox.Size{Rows: 9, Cols: 9}})
		if err := f.Put(ctx, "/", strings.NewReader("no archive")); err == nil {
			t.Fatal("no error")
		}
		if err := f.Get(ctx, "/no", io.Discard, 10); err == nil {
			t.Fatal("no error")
		}
	}
	return boxes, procs
}

func TestCloseLeavesNothing(t *testing.T) {
	requireSandbox(t)
	defer goleak.VerifyNone(t)
	scratch := t.TempDir()
	_, st := openStore(t)
	before, fds := mounts(t), descriptors(t)
	b, err := Open(t.Context(), Config{Store: st, Scratch: image.HostPath(scratch)})
	if err != nil {
		t.Fatal(err)
	}
	boxes, procs := busy(t, b)
	all := descendants(t, os.Getpid())
	if len(all) < 10 {
		t.Fatalf("the test sees %d processes: %v", len(all), living(t, all))
	}
	groups := groupsWith(t, all)
	// Half of them are closed one by one, the others by the backend.
	for i, s := range boxes {
		if i%2 == 0 {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left := living(t, all); len(left) > 0 {
		t.Errorf("processes: %q", left)
	}
	if left := abandoned(groups); len(left) > 0 {
		t.Errorf("control groups: %v", left)
	}
	if left := newMounts(t, before, scratch, string(st.Root())); len(left) > 0 {
		t.Errorf("mounts: %q", left)
	}
	for _, p := range procs { // their streams are the caller's
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if n := descriptors(t); n > fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
	left, err := filepath.Glob(scratch + "/*/*")
	more, _ := filepath.Glob(scratch + "/live-*")
	if left = append(left, more...); err != nil || len(left) > 0 {
		t.Errorf("scratch holds %v, %v", left, err)
	}
}

// victimMarker is argv[0] of this test binary as a program that uses
// sandboxes and is killed.
const victimMarker = "assay-ns-victim"

func victim(args []string) int {
	t := &fatalist{}
	_, st := openStoreAt(t, args[1]+"/store")
	b, err := Open(context.Background(), Config{Store: st, Scratch: image.HostPath(args[1] + "/scratch")})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	busy(t, b)
	if len(args) > 2 {
		n, err := strconv.Atoi(args[2])
		if err != nil {
			fmt.Println(err)
			return 1
		}
		populate(t, b, n)
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
	return 0
}

// populate makes many sandboxes, each with a program in it and limits of its own.
func populate(t testing.TB, b *Backend, n int) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, 8)
	for range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s, err := b.Create(context.Background(), sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{DiskBytes: 16 << 20, MemBytes: 1 << 30, CPUs: 1}})
			if err == nil {
				_, err = s.Start(context.Background(), sandbox.Command{Args: []string{"sh", "-c", "echo > /f; setsid sleep 600 & sleep 600"}})
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	wg.Wait()
}

// fatalist stands in for a testing.TB in another process.
type fatalist struct{ testing.TB }

func (*fatalist) Helper()           {}
func (*fatalist) Fatal(args ...any) { fmt.Println(args...); os.Exit(1) }
func (*fatalist) Name() string      { return "victim" }
func (*fatalist) Cleanup(func())    {}
func (*fatalist) Error(args ...any) { fmt.Println(args...) }

func TestKillLeavesNothing(t *testing.T) {
	requireSandbox(t)
	for _, who := range []string{"the program", "the keeper"} {
		t.Run(who, func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.Command("/proc/self/exe")
			cmd.Args = []string{victimMarker, dir}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Wait()
			defer cmd.Process.Kill()
			if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
				t.Fatal(err)
			}
			all := descendants(t, cmd.Process.Pid)
			if len(all) < 10 {
				t.Fatalf("the test sees %d processes", len(all))
			}
			groups := groupsWith(t, all)
			victim := cmd.Process
			if who == "the keeper" {
				for pid, c := range processes(t) {
					if parent, _ := origin(pid); parent == cmd.Process.Pid && strings.HasPrefix(c, keeperMarker) {
						victim, err = os.FindProcess(pid)
					}
				}
			}
			if err := errors.Join(err, victim.Kill()); err != nil {
				t.Fatal(err)
			}
			for deadline := time.Now().Add(10 * time.Second); len(living(t, all)) > 0; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("left: %q", living(t, all))
				}
			}
			// What lies on disk goes when the next one opens.
			_, st := openStoreAt(t, dir+"/store")
			b, err := Open(t.Context(), Config{Store: st, Scratch: image.HostPath(dir + "/scratch")})
			if err != nil {
				t.Fatal(err)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			a, _ := filepath.Glob(dir + "/scratch/live-*")
			more, _ := filepath.Glob(dir + "/scratch/*/live-*")
			if left := append(a, more...); len(left) > 0 {
				t.Errorf("scratch holds %v", left)
			}
			if left := abandoned(groups); len(left) > 0 {
				t.Errorf("control groups: %v", left)
			}
		})
	}
}

// A sandbox whose init is killed is lost, and says so; the others live.
func TestLostSandbox(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	lost, other := arena(t, b), arena(t, b)
	p, err := lost.Start(t.Context(), sandbox.Command{Args: []string{"sleep", "600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	init, err := os.FindProcess(lost.(*Sandbox).current().pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := init.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(t.Context()); !isLost(err) {
		t.Errorf("wait: %v", err)
	}
	if _, err := lost.Snapshot(t.Context()); !isLost(err) {
		t.Errorf("snapshot: %v", err)
	}
	if err := lost.Close(); err != nil {
		t.Error(err)
	}
	if got := script(t, other, "echo alive"); got != "alive" {
		t.Errorf("%q", got)
	}
}

// A program that forgets to be the keeper does not start keepers without end.
func TestKeeperStartsNoKeeper(t *testing.T) {
	name := os.Args[0]
	os.Args[0] = keeperMarker
	defer func() { os.Args[0] = name }()
	_, st := openStoreAt(t, t.TempDir())
	if _, err := Open(t.Context(), Config{Store: st}); err == nil || !strings.Contains(err.Error(), "ns.Main") {
		t.Errorf("%v", err)
	}
}
