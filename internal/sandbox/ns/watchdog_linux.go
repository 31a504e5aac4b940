package ns

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// watchdog ends programs that use more memory than their sandbox may, where
// the kernel does not: one reader for all sandboxes of a backend.
//
// It looks at what cannot be given back (anonymous and shared pages, swap),
// never at address space, and ends the largest processes until the rest fits.
// It looks closely only when that is possible at all: when the machine as a
// whole has got so much fuller that the sandbox could be over its limit, or a
// second has passed.
type watchdog struct {
	mu    sync.Mutex
	boxes map[*Sandbox]*watched
	wake  chan struct{}
	stop  chan struct{}
	done  sync.WaitGroup
	on    bool

	asked sync.Once
	blind error // why processes cannot be found
}

// watched is what was seen of a sandbox last.
type watched struct {
	use, machine int64 // bytes
	at           time.Time
	killed       map[int]string // by pid, with the time each began
}

const (
	// fillRate is how fast a program can fill memory, in bytes per second: the
	// kernel has to clear each page.
	fillRate = 4 << 30
	minLook  = 10 * time.Millisecond
	maxLook  = 100 * time.Millisecond
	sureLook = time.Second
)

func newWatchdog() *watchdog {
	return &watchdog{boxes: map[*Sandbox]*watched{}, wake: make(chan struct{}, 1), stop: make(chan struct{})}
}

// add begins to watch; the limit is s.limits.MemBytes.
func (w *watchdog) add(s *Sandbox) error {
	if !s.confined.group.HoldsMemory() {
		w.asked.Do(func() { _, w.blind = children(os.Getpid()) })
		if w.blind != nil {
			return fmt.Errorf("this kernel does not list the children of processes: %w", w.blind)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.boxes[s] = &watched{killed: map[int]string{}}
	if !w.on {
		w.on = true
		w.done.Go(w.run)
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return nil
}

func (w *watchdog) remove(s *Sandbox) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.boxes, s)
}

func (w *watchdog) close() {
	close(w.stop)
	w.done.Wait()
}

func (w *watchdog) run() {
	for wait := minLook; ; wait = w.round() {
		var tick <-chan time.Time
		wake := w.wake
		if wait > 0 {
			tick = time.After(wait)
		}
		if wait == minLook {
			wake = nil
		}
		select {
		case <-tick:
		case <-wake:
			select { // what is new has hardly begun, and may be gone by then
			case <-time.After(minLook):
			case <-w.stop:
				return
			}
		case <-w.stop:
			return
		}
	}
}

// round looks at every sandbox that may be over its limit, and says when to
// look again; 0: when there is one.
func (w *watchdog) round() time.Duration {
	w.mu.Lock()
	boxes := make(map[*Sandbox]*watched, len(w.boxes))
	for s, seen := range w.boxes {
		boxes[s] = seen
	}
	w.mu.Unlock()
	if len(boxes) == 0 {
		return 0
	}
	machine := int64(-1)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		machine = meminfo(string(b), "AnonPages", "Shmem") // what programs hold on the whole machine
	}
	next := maxLook
	for s, seen := range boxes {
		room := s.limits.MemBytes - seen.use
		now := time.Now()
		if machine < 0 || now.Sub(seen.at) >= sureLook || machine-seen.machine > room/2 || room < s.limits.MemBytes/8 {
			seen.use, seen.machine, seen.at = s.look(seen), machine, now
			room = s.limits.MemBytes - seen.use
		}
		next = min(next, max(minLook, time.Duration(float64(room)/fillRate*float64(time.Second))))
	}
	return next
}

// usage is one process's memory.
type usage struct {
	pid   int
	began string
	bytes int64
}

// look measures a sandbox and ends what is too much. It returns what is left.
func (s *Sandbox) look(seen *watched) int64 {
	if g := s.confined.group; g.HoldsMemory() {
		// The kernel counts already: nothing to do while all of it, the tree included, fits.
		all, err := g.Charged()
		if err == nil && all > s.limits.MemBytes {
			all, err = g.Anonymous()
		}
		if err == nil && all <= s.limits.MemBytes {
			return all
		}
	}
	pids, err := s.processes()
	if err != nil {
		return 0 // it is ending
	}
	procs, sum := measure(pids, seen.killed, resident)
	if sum > s.limits.MemBytes {
		// Pages that processes share were counted once for each.
		procs, sum = measure(pids, seen.killed, proportional)
	}
	slices.SortFunc(procs, func(a, b usage) int { return int(max(-1, min(1, b.bytes-a.bytes))) })
	for _, p := range procs {
		if sum <= s.limits.MemBytes {
			break
		}
		s.confined.kills.Add(1) // before anybody can see that it ended
		if !endProcess(p) {
			s.confined.kills.Add(-1)
			continue
		}
		seen.killed[p.pid] = p.began
		sum -= p.bytes
	}
	return sum
}

// processes lists those of the sandbox, its init left out.
func (s *Sandbox) processes() ([]int, error) {
	if g := s.confined.group; g.HoldsMemory() {
		pids, err := g.Procs()
		init := s.current().pid
		return slices.DeleteFunc(pids, func(p int) bool { return p == init }), err
	}
	all, err := children(s.current().pid)
	for i := 0; i < len(all); i++ { // all grows
		more, err := children(all[i])
		if err == nil {
			all = append(all, more...)
		}
	}
	return all, err
}

// children lists the children of all of a process's threads.
func children(pid int) ([]int, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	threads, err := d.Readdirnames(-1)
	var out []int
	for _, t := range threads {
		b, rerr := os.ReadFile(dir + "/" + t + "/children")
		if rerr != nil {
			if t == strconv.Itoa(pid) {
				return nil, rerr
			}
			continue // the thread has ended
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				out = append(out, n)
			}
		}
	}
	return out, err
}

// measure adds up what processes use. Those that were killed and have not
// ended yet do not count; killed forgets those that have.
func measure(pids []int, killed map[int]string, how func(pid int) (int64, error)) (out []usage, sum int64) {
	for pid := range killed {
		if !slices.Contains(pids, pid) {
			delete(killed, pid)
		}
	}
	for _, pid := range pids {
		u := usage{pid: pid, began: startOf(pid)}
		if u.began == "" || killed[pid] == u.began {
			continue
		}
		n, err := how(pid)
		if err != nil {
			continue // it has ended
		}
		u.bytes = n
		sum += n
		out = append(out, u)
	}
	return out, sum
}

// resident reads what a process has in memory and in swap, its files left out.
func resident(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	return meminfo(string(b), "RssAnon", "RssShmem", "VmSwap"), err
}

// proportional counts a page of n processes as the n-th part of one. It reads
// the page tables, which takes milliseconds for a gigabyte.
func proportional(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if errors.Is(err, unix.EACCES) || errors.Is(err, os.ErrNotExist) {
		return resident(pid)
	}
	return meminfo(string(b), "Pss_Anon", "Pss_Shmem", "SwapPss"), err
}

// startOf tells a process from a later one of the same number.
func startOf(pid int) string {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return ""
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 20 {
		return ""
	}
	return f[19]
}

// endProcess kills a process if it is still the one that was measured.
func endProcess(p usage) bool {
	fd, err := unix.PidfdOpen(p.pid, 0)
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	return startOf(p.pid) == p.began && unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) == nil
}
