package cgroup

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	prefix = "assay-" // of a tree's directory; also told apart by its lock
	mine   = "main"   // version 2: the leaf that this process moves into
)

// Options of Open. The zero value works.
type Options struct {
	// Want are the controllers to look for; empty: memory, pids and cpu.
	Want []string
}

// Tree is this process's place in every hierarchy that it may use. Its methods
// may be called concurrently.
type Tree struct {
	at map[string]*place // by controller
}

// place is a tree's directory in one hierarchy.
type place struct {
	dir  string
	v2   bool
	lock *os.File
}

// Open finds what this process may use and removes what dead ones left. An
// error says, controller by controller, why there is nothing.
func Open(o Options) (*Tree, error) {
	if len(o.Want) == 0 {
		o.Want = []string{Memory, Pids, CPU}
	}
	info, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, fmt.Errorf("control groups: %w", err)
	}
	t := &Tree{at: map[string]*place{}}
	mounts, paths := parseMounts(string(info)), parseOwn(string(own))
	errs := []error{t.openV2(mounts, paths, o.Want)}
	for _, c := range o.Want {
		if t.at[c] == nil {
			errs = append(errs, t.openV1(mounts, paths, c))
		}
	}
	if len(t.at) > 0 {
		return t, nil
	}
	err = errors.Join(errs...)
	if err == nil {
		err = errors.New("none is mounted")
	}
	return nil, fmt.Errorf("control groups: %w", err)
}

// By says what holds a controller's limit: "cgroup-v1", "cgroup-v2", or
// nothing.
func (t *Tree) By(controller string) string {
	switch p := t.place(controller); {
	case p == nil:
		return ""
	case p.v2:
		return "cgroup-v2"
	}
	return "cgroup-v1"
}

func (t *Tree) place(controller string) *place {
	if t == nil {
		return nil
	}
	return t.at[controller]
}

func (t *Tree) openV1(mounts []mount, paths map[string]string, c string) error {
	for _, m := range mounts {
		own, ok := paths[c]
		if !ok || m.v2 || !slices.Contains(m.ctl, c) {
			continue
		}
		dir, ok := m.directory(own)
		if !ok {
			continue
		}
		for _, p := range t.at { // cpu and cpuacct share a hierarchy, others may
			if path.Dir(p.dir) == dir {
				t.at[c] = p
				return nil
			}
		}
		p, err := newPlace(dir, false)
		if err != nil {
			return err
		}
		t.at[c] = p
		return nil
	}
	return nil
}

func (t *Tree) openV2(mounts []mount, paths map[string]string, want []string) error {
	own, ok := paths[""]
	if !ok {
		return nil
	}
	for _, m := range mounts {
		if !m.v2 {
			continue
		}
		dir, ok := m.directory(own)
		if !ok {
			continue
		}
		// Another tree of this process, or of its parent, has moved it.
		if base, ok := strings.CutSuffix(dir, "/"+mine); ok && strings.HasPrefix(path.Base(base), prefix) {
			dir = path.Dir(base)
		}
		b, err := os.ReadFile(dir + "/cgroup.controllers")
		if err != nil {
			return err
		}
		here := slices.DeleteFunc(slices.Clone(want), func(c string) bool { return !slices.Contains(strings.Fields(string(b)), c) })
		if len(here) == 0 {
			return nil // they belong to version 1
		}
		p, err := newPlace(dir, true)
		if err == nil {
			if err = divide(dir, p.dir, here); err != nil {
				p.close()
			}
		}
		if err != nil {
			return err
		}
		for _, c := range here {
			t.at[c] = p
		}
		return nil
	}
	return nil
}

// newPlace makes and locks a directory in one that may be ours to write to.
func newPlace(parent string, v2 bool) (*place, error) {
	sweep(parent)
	for tries := 0; ; tries++ {
		dir := path.Join(parent, prefix+strings.ToLower(rand.Text()[:10]))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		lock, err := lockDir(dir)
		if err == nil {
			// Somebody's sweep may have come between.
			if _, err = os.Stat(dir); err == nil {
				return &place{dir, v2, lock}, nil
			}
			lock.Close()
		}
		if tries == 10 {
			return nil, fmt.Errorf("lock %s: %w", dir, err)
		}
	}
}

func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// divide lets the groups below base have the controllers of dir.
func divide(dir, base string, controllers []string) error {
	on := "+" + strings.Join(controllers, " +")
	err := write(dir+"/cgroup.subtree_control", on)
	if errors.Is(err, syscall.EBUSY) {
		// A group that divides its resources has no processes of its own.
		if err = moveOwn(dir, base+"/"+mine); err == nil {
			err = write(dir+"/cgroup.subtree_control", on)
		}
	}
	if err == nil {
		err = write(base+"/cgroup.subtree_control", on)
	}
	return err
}

// moveOwn moves this process and its children from one group into another, if
// they are all there is.
func moveOwn(from, to string) error {
	pids, err := readPids(from)
	if err != nil {
		return err
	}
	for _, pid := range pids {
		if pid != os.Getpid() && parent(pid) != os.Getpid() {
			return fmt.Errorf("%s also holds process %d, which is not of this program: start it in a group of its own, "+
				"as with systemd-run --user --scope -p Delegate=yes", from, pid)
		}
	}
	if err := os.Mkdir(to, 0o755); err != nil {
		return err
	}
	for _, pid := range pids {
		if err := write(to+"/cgroup.procs", strconv.Itoa(pid)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
	}
	return nil
}

func parent(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	if len(f) < 2 {
		return 0
	}
	n, _ := strconv.Atoi(f[1]) // 0: nobody's
	return n
}

// sweep removes the trees of dead processes.
func sweep(dir string) {
	left, _ := filepath.Glob(dir + "/" + prefix + "*") // the pattern is well formed
	for _, p := range left {
		lock, err := lockDir(p)
		if err != nil {
			continue // it lives, or is somebody else's
		}
		removeTree(p)
		lock.Close()
	}
}

// removeTree ends what is left in a tree's groups and removes them.
func removeTree(dir string) {
	groups, _ := os.ReadDir(dir)
	for _, g := range groups {
		if g.IsDir() && g.Name() != mine {
			_ = remove(path.Join(dir, g.Name())) // what stays is the next sweep's
		}
	}
	// The leaf of a process that lives stays, and so does its parent.
	_ = os.Remove(path.Join(dir, mine))
	_ = os.Remove(dir)
}

// remove ends the processes of a group and removes it.
func remove(dir string) error {
	for wait := time.Millisecond; ; wait *= 2 {
		err := os.Remove(dir)
		if err == nil || errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if !errors.Is(err, syscall.EBUSY) || wait > time.Second {
			return err
		}
		if write(dir+"/cgroup.kill", "1") != nil { // version 1, or Linux before 5.14
			pids, _ := readPids(dir)
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may be gone
			}
		}
		time.Sleep(wait)
	}
}

// Close removes what the tree made. Its groups must have been removed or hold
// sandboxes only: their processes are killed.
func (t *Tree) Close() {
	if t == nil {
		return
	}
	done := map[*place]bool{}
	for _, p := range t.at {
		if !done[p] {
			p.close()
			done[p] = true
		}
	}
}

func (p *place) close() {
	removeTree(p.dir)
	p.lock.Close()
}

func readPids(dir string) ([]int, error) {
	b, err := os.ReadFile(dir + "/cgroup.procs")
	if err != nil {
		return nil, err
	}
	var out []int
	for f := range strings.FieldsSeq(string(b)) {
		n, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("%s/cgroup.procs: %w", dir, err)
		}
		if n > 0 { // 0 is a process that this namespace does not see
			out = append(out, n)
		}
	}
	return out, nil
}

// write writes a control file, which must exist.
func write(file, text string) error {
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
