package ns

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/cgroup"
)

// confined is what holds a sandbox's memory, processors and processes.
type confined struct {
	group  *cgroup.Group
	limits cgroup.Limits // of it
	watch  bool          // the watchdog looks at its memory
	held   []string      // by control groups and the watchdog
	lack   []string      // asked for and not held
	kills  atomic.Int64  // by the watchdog
}

// initPids are the threads that an init itself needs at most.
const initPids = 32

// groupSlack is what an init and the kernel's bookkeeping for a sandbox need,
// in bytes.
const groupSlack = 16 << 20

// machineMemory is what this process may use: the machine's memory, in bytes.
// 0: unknown.
func machineMemory() int64 {
	var si unix.Sysinfo_t // reading /proc/meminfo takes longer than a mount
	if unix.Sysinfo(&si) != nil {
		return 0
	}
	return int64(si.Totalram) * int64(si.Unit)
}

// meminfo reads fields in kB and returns the sum in bytes.
func meminfo(text string, names ...string) int64 {
	var sum int64
	for line := range strings.Lines(text) {
		k, v, _ := strings.Cut(line, ":")
		if !slices.Contains(names, k) {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(v), "kB")), 10, 64)
		if err == nil {
			sum += n << 10
		}
	}
	return sum
}

// confine makes ready what a sandbox's init is put under, before there is one.
func (s *Sandbox) confine() {
	c := &s.confined
	l := &c.limits
	tree := s.b.groups
	if s.limits.MemBytes > 0 && tree.By(cgroup.Memory) != "" && !s.b.conf.without(sandbox.DefMemory) {
		l.Memory = s.limits.MemBytes + groupSlack
		if !s.disk {
			l.Memory += s.limits.DiskBytes // its tree is memory too, with a limit of its own
		}
	}
	if s.limits.Pids > 0 && tree.By(cgroup.Pids) != "" && !s.b.conf.without(sandbox.DefPids) {
		l.Pids = s.limits.Pids + initPids
	}
	if s.limits.CPUs > 0 && tree.By(cgroup.CPU) != "" {
		l.CPUs = s.limits.CPUs
	}
	if *l == (cgroup.Limits{}) {
		return
	}
	g, err := tree.New(strings.ToLower(s.name), *l)
	if err != nil {
		s.unconfine(err)
		return
	}
	c.group = g
}

// unconfine does without control groups.
func (s *Sandbox) unconfine(why error) {
	c := &s.confined
	_ = c.group.Remove() // what stays is swept by the next program
	c.group, c.limits = nil, cgroup.Limits{}
	c.lack = append(c.lack, fmt.Sprintf("control group: %v", why))
}

// settleLimits says what is held, once the init is where it belongs. What control
// groups cannot hold, the watchdog does, or nothing: Held says.
func (s *Sandbox) settleLimits() {
	c, l, tree := &s.confined, s.confined.limits, s.b.groups
	add := func(what, controller string, limit bool) {
		if limit {
			c.held = append(c.held, what+":"+tree.By(controller))
		}
	}
	add("memory", cgroup.Memory, l.Memory > 0)
	add("pids", cgroup.Pids, l.Pids > 0)
	add("cpus", cgroup.CPU, l.CPUs > 0)
	if s.limits.CPUs > 0 && l.CPUs == 0 {
		c.lack = append(c.lack, "cpus")
	}
	if s.limits.MemBytes <= 0 || s.b.conf.without(sandbox.DefMemory) {
		return
	}
	// The kernel's limit leaves room for the tree; the watchdog holds programs to theirs.
	if c.watch = l.Memory == 0 || !s.disk; c.watch {
		if err := s.b.dog.add(s); err != nil {
			c.watch = false
			c.lack = append(c.lack, "memory: "+err.Error())
		} else if l.Memory == 0 {
			c.held = append(c.held, "memory:watchdog")
		}
	}
}

// release takes the limits away again; no process is left.
func (s *Sandbox) release() {
	s.b.dog.remove(s)
	_ = s.confined.group.Remove() // what stays is swept by the next program
}

// memoryKills is how many of the sandbox's processes ended for its memory.
func (s *Sandbox) memoryKills() int64 {
	n := s.confined.kills.Load()
	if g := s.confined.group; g.HoldsMemory() {
		k, err := g.OOMKills()
		if err == nil {
			n += k
		}
	}
	return n
}

// holds lists every limit with what holds it here.
func (b *Backend) holds() []string {
	out := []string{"disk:tmpfs", "inodes:tmpfs", "pids:rlimit", "files:rlimit"}
	for _, c := range [][2]string{{"memory", cgroup.Memory}, {"pids", cgroup.Pids}, {"cpus", cgroup.CPU}} {
		if by := b.groups.By(c[1]); by != "" {
			out = append(out, c[0]+":"+by)
		}
	}
	if b.groups.By(cgroup.Memory) == "" { // asking takes long beside the rest
		if _, err := children(os.Getpid()); err == nil {
			out = append(out, "memory:watchdog")
		}
	}
	return out
}
