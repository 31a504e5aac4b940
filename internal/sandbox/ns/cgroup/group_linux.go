package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Group is the group of one sandbox, in every hierarchy that holds something
// of it.
type Group struct {
	dirs   map[*place]string
	memory string // directory; empty: not held here
	cpu    string // the same
	v2     bool   // of memory
}

// New makes a group with the limits that the tree can hold. name is unique in
// the tree.
func (t *Tree) New(name string, l Limits) (_ *Group, err error) {
	g := &Group{dirs: map[*place]string{}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("control group %s: %w", name, err), g.Remove())
		}
	}()
	for _, c := range []struct {
		name string
		set  bool
	}{{Memory, l.Memory > 0}, {Pids, l.Pids > 0}, {CPU, l.CPUs > 0}} {
		p := t.place(c.name)
		if p == nil || !c.set {
			continue
		}
		dir := g.dirs[p]
		if dir == "" {
			dir = path.Join(p.dir, name)
			if err := os.Mkdir(dir, 0o755); err != nil {
				return nil, err
			}
			g.dirs[p] = dir
		}
		if err := l.write(c.name, dir, p.v2); err != nil {
			return nil, err
		}
		if c.name == Memory {
			g.memory, g.v2 = dir, p.v2
		}
		if c.name == CPU {
			g.cpu = dir
		}
	}
	return g, nil
}

// period is that of the processor's bandwidth, in microseconds: the kernel's
// default.
const period = 100_000

func (l Limits) write(controller, dir string, v2 bool) error {
	memory, pids := strconv.FormatInt(l.Memory, 10), strconv.FormatInt(l.Pids, 10)
	quota := strconv.FormatInt(max(int64(l.CPUs*period), 1000), 10)
	switch {
	case controller == Pids:
		return write(dir+"/pids.max", pids)
	case controller == Memory && v2:
		return errors.Join(write(dir+"/memory.max", memory), optional(dir+"/memory.swap.max", "0"))
	case controller == Memory:
		// Memory and swap together: without swap accounting there is no such file.
		return errors.Join(write(dir+"/memory.limit_in_bytes", memory), optional(dir+"/memory.memsw.limit_in_bytes", memory))
	case v2:
		return write(dir+"/cpu.max", quota+" "+strconv.Itoa(period))
	}
	return errors.Join(write(dir+"/cpu.cfs_period_us", strconv.Itoa(period)), write(dir+"/cpu.cfs_quota_us", quota))
}

// optional writes a file that some kernels do not have.
func optional(file, text string) error {
	if err := write(file, text); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Add moves a process in; its children will be born there.
func (g *Group) Add(pid int) error {
	for _, dir := range g.dirs {
		if err := write(dir+"/cgroup.procs", strconv.Itoa(pid)); err != nil {
			return fmt.Errorf("control group: %w", err)
		}
	}
	return nil
}

// Doors are lists of tasks, open for writing, by which a process of a single
// thread puts itself in: it writes 0. Moving another process makes the kernel
// wait until nobody forks anywhere, some 8 ms; who moves itself waits for
// nobody. Version 2 has none: all says whether they do instead of Add. They are
// the caller's to close, even with an error.
func (g *Group) Doors() (fds []int, all bool, err error) {
	if g == nil {
		return nil, true, nil
	}
	all = true
	for p, dir := range g.dirs {
		if p.v2 {
			all = false
			continue
		}
		fd, err := unix.Open(dir+"/tasks", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fds, false, fmt.Errorf("control group %s: %w", dir, err)
		}
		fds = append(fds, fd)
	}
	return fds, all, nil
}

// HoldsMemory reports whether the kernel holds a memory limit of the group.
func (g *Group) HoldsMemory() bool { return g != nil && g.memory != "" }

// OOMKills is how many processes the kernel has ended for the memory limit.
func (g *Group) OOMKills() (int64, error) {
	file := "/memory.oom_control"
	if g.v2 {
		file = "/memory.events"
	}
	return field(g.memory+file, "oom_kill")
}

// Charged is all memory that counts against the limit, in bytes: that of
// programs, of files in memory and of what the kernel holds for them.
func (g *Group) Charged() (int64, error) {
	file := "/memory.usage_in_bytes"
	if g.v2 {
		file = "/memory.current"
	}
	b, err := os.ReadFile(g.memory + file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
}

// Anonymous is the part of it that is programs' own, in bytes.
func (g *Group) Anonymous() (int64, error) {
	if g.v2 {
		return field(g.memory+"/memory.stat", "anon")
	}
	return field(g.memory+"/memory.stat", "total_rss")
}

// field reads a number from a file of names and numbers.
func field(file, name string) (int64, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), " "); ok && k == name {
			return strconv.ParseInt(v, 10, 64)
		}
	}
	return 0, fmt.Errorf("%s: no %s", file, name)
}

// Throttled is in how many periods the kernel made the group wait.
func (g *Group) Throttled() (int64, error) { return field(g.cpu+"/cpu.stat", "nr_throttled") }

// Procs lists the processes in the group of the memory limit.
func (g *Group) Procs() ([]int, error) { return readPids(g.memory) }

// Remove removes the group; what still runs in it is killed.
func (g *Group) Remove() error {
	if g == nil {
		return nil
	}
	var errs []error
	for _, dir := range g.dirs {
		errs = append(errs, remove(dir))
	}
	return errors.Join(errs...)
}
