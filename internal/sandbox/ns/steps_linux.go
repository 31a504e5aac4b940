package ns

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox"
)

// Steps implements sandbox.Stepper: the keeper does each step alone, where
// sandboxes are made.
func (b *Backend) Steps(ctx context.Context, rounds int) ([]sandbox.Step, error) {
	r, fds, err := b.call(ctx, request{Op: opSteps, Max: int64(rounds)})
	closeFDs(fds)
	if err != nil {
		return nil, fmt.Errorf("measure steps: %w", err)
	}
	return r.Steps, nil
}

// Needs implements sandbox.Stepper. The numbers are those of this package's code
// as a sandbox of the host's tree runs through it; what is done before or
// meanwhile by others is left out, as the overlays of spare trees are, and so is
// what costs less than a system call's few microseconds.
func (b *Backend) Needs(measure string) map[string]int {
	if onMemory, ok := strings.CutSuffix(measure, "_disk"); ok {
		needs := b.Needs(onMemory)
		if needs[stepOverlayMount] > 0 { // of the disk's file system instead of memory's
			delete(needs, stepOverlayMount)
			needs[stepDiskOverlay] = 1
		}
		return needs
	}
	switch measure {
	case "create", "fork": // backend, keeper, init, backend
		return map[string]int{stepWakeup: 3, stepMoveMount: 3, stepPivot: 1}
	case "exec": // there and back
		return map[string]int{stepWakeup: 3, stepProgram: 1}
	case "reset": // the init's programs, then as create; the old tree and init end in the background
		return map[string]int{stepWakeup: 5, stepMoveMount: 3, stepPivot: 1}
	case "snapshot": // upon a ground that is new
		return map[string]int{stepWakeup: 5, stepMoveMount: 3, stepPivot: 1, stepOverlayMount: 1}
	case "destroy":
		return map[string]int{stepWakeup: 2, stepInitEnd: 1}
	case "cycles_1", "cycles_2", "cycles_8", "cycles_64":
		return map[string]int{stepWakeup: 8, stepInitBoot: 1, stepInitEnd: 1, stepTmpfs: 1, stepOverlayMount: 1,
			stepOverlayGone: 1, stepMoveMount: 4, stepPivot: 1, stepUnmount: 2, stepSeccomp: 1, stepProgram: 1}
	}
	return nil
}

const (
	stepWakeup       = "kernel_wakeup"
	stepProgram      = "kernel_program"
	stepTmpfs        = "kernel_mount_tmpfs"
	stepOverlayMount = "kernel_mount_overlay"
	stepMoveMount    = "kernel_move_mount"
	stepPivot        = "kernel_pivot_root"
	stepUnmount      = "kernel_unmount"
	stepOverlayGone  = "kernel_end_overlay"
	stepSeccomp      = "kernel_seccomp"
	stepDiskVolume   = "kernel_mkdir_disk" // three directories
	stepDiskOverlay  = "kernel_mount_overlay_disk"
	stepInitBoot     = "init_boot"
	stepInitEnd      = "init_end"
)

// stepTimer collects what one keeper measures.
type stepTimer struct {
	k      *keeper
	rounds int
	out    []sandbox.Step
}

func (k *keeper) steps(rounds int) ([]sandbox.Step, error) {
	t := &stepTimer{k: k, rounds: max(rounds, 1)}
	for _, f := range []func() error{t.wakeups, t.programs, t.mounts, t.pivots, t.filters, t.inits} {
		if err := f(); err != nil {
			return nil, err
		}
	}
	return t.out, nil
}

// add appends one sample of a step.
func (t *stepTimer) add(name string, d time.Duration) {
	i := slices.IndexFunc(t.out, func(s sandbox.Step) bool { return s.Name == name })
	if i < 0 {
		t.out = append(t.out, sandbox.Step{Name: name})
		i = len(t.out) - 1
	}
	t.out[i].Took = append(t.out[i].Took, d)
}

// timed runs f and adds how long it took.
func (t *stepTimer) timed(name string, f func() error) error {
	begin := time.Now()
	err := f()
	t.add(name, time.Since(begin))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// wakeups: a packet to a thread that sleeps, half of the way there and back.
func (t *stepTimer) wakeups() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer unix.Close(pair[1])
		var b [1]byte
		for {
			if n, err := unix.Read(pair[1], b[:]); n != 1 || err != nil {
				return
			}
			if _, err := unix.Write(pair[1], b[:]); err != nil {
				return
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var b [1]byte
	for range 10 * t.rounds {
		begin := time.Now()
		if _, err := unix.Write(pair[0], b[:]); err != nil {
			return err
		}
		if _, err := unix.Read(pair[0], b[:]); err != nil {
			return err
		}
		t.add(stepWakeup, time.Since(begin)/2)
	}
	return nil
}

// programs: fork, exec, exit and wait for true, plainly and as the first
// process of namespaces of each kind, which its end takes apart.
func (t *stepTimer) programs() error {
	const program = "/bin/true"
	if _, err := os.Stat("/host" + program); err != nil {
		return nil
	}
	for _, n := range []struct {
		name  string
		flags uintptr
	}{
		{stepProgram, 0}, {"kernel_userns", unix.CLONE_NEWUSER},
		{"kernel_userns_mnt", unix.CLONE_NEWUSER | unix.CLONE_NEWNS}, {"kernel_userns_pid", unix.CLONE_NEWUSER | unix.CLONE_NEWPID},
		{"kernel_userns_net", unix.CLONE_NEWUSER | unix.CLONE_NEWNET}, {"kernel_userns_ipc", unix.CLONE_NEWUSER | unix.CLONE_NEWIPC},
		{"kernel_namespaces", initFlags},
	} {
		for range t.rounds {
			if err := t.timed(n.name, func() error { return t.run(program, n.flags) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// run starts a program of the machine and waits until the spawner has reaped it.
func (t *stepTimer) run(program string, flags uintptr) error {
	s := t.k.spawner
	p := &initProc{fd: -1, done: make(chan struct{})}
	null := uintptr(s.null)
	var err error
	s.reap.expect(p, func() (int, error) {
		p.pid, err = syscall.ForkExec(program, []string{program}, &syscall.ProcAttr{Dir: "/", Files: []uintptr{null, null, null},
			Sys: &syscall.SysProcAttr{Chroot: "/host", Cloneflags: flags}})
		return p.pid, err
	})
	if err == nil {
		<-p.done
	}
	return err
}

// mounts: those of a sandbox's tree, and their ends.
func (t *stepTimer) mounts() error {
	dir := "/o/" + strconv.Itoa(t.k.number())
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	defer os.Remove(dir)
	for range t.rounds {
		var m int
		err := t.timed(stepTmpfs, func() (err error) {
			m, err = newMount("tmpfs", unix.MOUNT_ATTR_NOSUID, mountOption{"size", "64k"})
			return err
		})
		if err != nil {
			return err
		}
		err = t.timed(stepMoveMount, func() error { return attach(m, dir) })
		unix.Close(m)
		if err == nil {
			err = t.timed(stepUnmount, func() error { return unix.Unmount(dir, unix.MNT_DETACH) })
		}
		if err == nil {
			var v *volume
			if v, err = t.k.newVolume(1<<20, 64, false); err == nil {
				err = t.overlays(v, stepOverlayMount, stepOverlayGone)
			}
		}
		if err == nil && t.k.scratch != "" {
			var v *volume
			err = t.timed(stepDiskVolume, func() (err error) { v, err = t.k.newVolume(0, 0, true); return err })
			if err == nil {
				err = t.overlays(v, stepDiskOverlay, stepOverlayGone+"_disk")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// overlays mounts one upon a volume, which it frees.
func (t *stepTimer) overlays(v *volume, mount, end string) error {
	defer t.k.release(v)
	var m int
	err := t.timed(mount, func() (err error) {
		m, err = t.k.overlay([]string{"/skel"}, v.upper(), v.work())
		return err
	})
	if err != nil {
		return err
	}
	return t.timed(end, func() error { return unix.Close(m) })
}

// pivots need a mount namespace of their own; the thread ends with it.
func (t *stepTimer) pivots() error {
	return onThrowaway(func() error {
		if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
			return err
		}
		for range t.rounds {
			m, err := newMount("tmpfs", unix.MOUNT_ATTR_NOSUID, mountOption{"size", "64k"})
			if err != nil {
				return err
			}
			err = unix.Mkdirat(m, "o", 0o700)
			if err == nil {
				err = attach(m, "/o")
			}
			if err == nil {
				err = unix.Fchdir(m)
			}
			unix.Close(m)
			if err == nil {
				err = t.timed(stepPivot, func() error { return unix.PivotRoot(".", ".") })
			}
			if err == nil {
				err = unix.Unmount(".", unix.MNT_DETACH)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// filters: each on a thread of its own, as they add up.
func (t *stepTimer) filters() error {
	code := t.k.spawner.filter
	prog := unix.SockFprog{Len: uint16(len(code) / unix.SizeofSockFilter), Filter: (*unix.SockFilter)(unsafe.Pointer(&code[0]))}
	for range t.rounds {
		err := onThrowaway(func() error {
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				return err
			}
			return t.timed(stepSeccomp, func() error {
				_, _, e := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, uintptr(unsafe.Pointer(&prog)))
				if e != 0 {
					return e
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inits: from the clone until it waits for a tree, and from the kill until it
// is reaped. No sandbox waits for the first as long as there is a spare one.
func (t *stepTimer) inits() error {
	for range t.rounds {
		var p *initProc
		if err := t.timed(stepInitBoot, func() (err error) { p, err = t.k.spawner.booted(0); return err }); err != nil {
			return err
		}
		if err := t.timed(stepInitEnd, func() error { p.discard(); return nil }); err != nil {
			return err
		}
	}
	return nil
}

// onThrowaway runs f on a thread that ends afterwards.
func onThrowaway(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // and never lets go
		done <- f()
	}()
	return <-done
}
