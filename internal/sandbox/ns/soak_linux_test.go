package ns

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// soak is how many sandboxes TestSoak opens one after another and at once:
// ASSAY_SOAK of the first and half of it, or a tenth of what the documentation
// claims.
func soak(t testing.TB) (loop, together int) {
	loop = 100
	if s := os.Getenv("ASSAY_SOAK"); s != "" {
		var err error
		if loop, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	return loop, max(loop/2, 1)
}

// namespaces are those that some processes are in.
func namespaces(t testing.TB, pids map[int]string) map[string]bool {
	t.Helper()
	seen := map[string]bool{}
	for pid := range pids {
		all, err := filepath.Glob(fmt.Sprintf("/proc/%d/ns/*", pid))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			if to, err := os.Readlink(p); err == nil {
				seen[to] = true
			}
		}
	}
	return seen
}

// Hundreds of sandboxes, in a loop and at once, leave nothing behind; neither
// while the backend lives on, apart from the backend itself.
func TestSoak(t *testing.T) {
	requireSandbox(t)
	defer goleak.VerifyNone(t)
	loop, together := soak(t)
	scratch := t.TempDir()
	_, st := openStore(t)
	fds, outside := descriptors(t), namespaces(t, map[int]string{os.Getpid(): ""})
	b, err := Open(t.Context(), Config{Store: st, Scratch: image.HostPath(scratch)})
	if err != nil {
		t.Fatal(err)
	}
	use := func(i int) (sandbox.Sandbox, error) {
		s, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Limits: sandbox.Limits{DiskBytes: 16 << 20, MemBytes: 1 << 30, CPUs: 1}})
		if err != nil {
			return nil, err
		}
		// A program that ends, and one that stays behind.
		r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", "echo > /f; setsid sleep 600 >/dev/null 2>&1 & echo done"}}, sandbox.ExecOptions{})
		if err == nil && (string(r.Stdout) != "done\n" || r.Exit.OutOfMemory) {
			err = fmt.Errorf("%+v %q", r.Exit, r.Stdout)
		}
		if err == nil && i%5 == 0 {
			var snap sandbox.Snapshot
			if snap, err = s.Snapshot(t.Context()); err == nil {
				err = b.Drop(snap)
			}
		}
		return s, err
	}
	for range 3 { // what the keeper has for good, and keeps ready, comes with the first ones
		one, err := use(0)
		if err == nil {
			err = one.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	keeperMounts := settledMounts(t, b)
	keeperFDs := fdsOf(t, b.cmd.Process.Pid)
	for i := range loop {
		s, err := use(i)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatalf("sandbox %d: %v", i, err)
		}
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var boxes []sandbox.Sandbox
	var failed error
	slots := make(chan struct{}, 8)
	for i := range together {
		slots <- struct{}{}
		wg.Go(func() {
			s, err := use(i)
			mu.Lock()
			failed = errors.Join(failed, err)
			if s != nil {
				boxes = append(boxes, s)
			}
			mu.Unlock()
			<-slots
		})
	}
	wg.Wait()
	if failed != nil {
		t.Error(failed)
	}
	all := descendants(t, os.Getpid())
	groups := groupsWith(t, all)
	spaces := namespaces(t, all)
	everybody := map[int]string{}
	for pid := range processes(t) {
		_, everybody[pid] = origin(pid)
	}
	for s := range outside {
		delete(spaces, s)
	}
	if len(spaces) < together*5 {
		t.Errorf("the test sees %d namespaces of %d sandboxes", len(spaces), together)
	}
	if len(all) < together*3/2 { // a snapshot ends what stays behind
		t.Errorf("the test sees %d processes of %d sandboxes", len(all), together)
	}
	for _, s := range boxes {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if after := fdsOf(t, b.cmd.Process.Pid); after > keeperFDs+8 {
		t.Errorf("the keeper has %d descriptors, %d after the first sandboxes", after, keeperFDs)
	}
	// Mounts are made in the keeper's namespace alone, and nobody else's come there.
	if after := settledMounts(t, b); after > keeperMounts {
		t.Errorf("the keeper has %d mounts, %d after the first sandboxes", after, keeperMounts)
	}
	if left := living(t, descendants(t, os.Getpid())); len(left) > 5 { // keeper, zygote, the two inits that wait, one that starts
		t.Errorf("processes while the backend lives: %q", left)
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if left := living(t, all); len(left) > 0 {
		t.Errorf("processes: %q", left)
	}
	if n := descriptors(t); n > fds {
		t.Errorf("%d descriptors, %d before", n, fds)
	}
	if left := abandoned(groups); len(left) > 0 {
		t.Errorf("control groups: %v", left)
	}
	if left, _ := filepath.Glob(scratch + "/live-*"); len(left) > 0 {
		t.Errorf("scratch holds %v", left)
	}
	// The kernel gives the numbers of namespaces out again: who is in one of ours must have been there then.
	for pid, began := range everybody {
		if _, b := origin(pid); b != began {
			delete(everybody, pid)
		}
	}
	now := namespaces(t, everybody)
	for s := range spaces {
		if now[s] {
			t.Errorf("namespace %s lives on", s)
		}
	}
	t.Logf("%d in a loop, %d at once with %d processes in %d namespaces", loop, together, len(all), len(spaces))
}

// mountsOf counts what is mounted in another process's namespace; if its threads
// have several, as a keeper's have, in the fullest of them.
func mountsOf(t testing.TB, pid int) (most int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/mountinfo", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("process %d has no mounts: %v", pid, err)
	}
	for _, p := range threads {
		b, err := os.ReadFile(p)
		if err != nil {
			continue // it ended
		}
		most = max(most, strings.Count(string(b), "\n"))
	}
	return most
}

// fdsOf counts another process's descriptors.
func fdsOf(t testing.TB, pid int) int {
	t.Helper()
	d, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		t.Skipf("the keeper's descriptors cannot be seen: %v", err)
	}
	return len(d)
}
