package pid1

import (
	"sync"
	"syscall"
	"unsafe"
)

// reaper waits for every child, adopted ones too, on a thread of its own.
type reaper struct {
	mu    sync.Mutex // held from fork to registration, so that no exit is missed
	cond  sync.Cond
	ids   map[int]uint32 // started programs that live, by pid
	pids  map[uint32]int
	none  bool // no child at all; a child comes into being only under mu
	birth chan struct{}
}

func (r *reaper) start(sock blocking) {
	r.ids, r.pids, r.none = map[int]uint32{}, map[uint32]int{}, true
	r.birth = make(chan struct{}, 1)
	r.cond.L = &r.mu
	go r.loop(sock)
}

func (r *reaper) loop(sock blocking) {
	for {
		var ws syscall.WaitStatus
		var ru syscall.Rusage
		pid, err := syscall.Wait4(-1, &ws, 0, &ru)
		switch {
		case err == syscall.EINTR:
		case err != nil: // ECHILD
			r.mu.Lock()
			if len(r.birth) == 0 {
				r.none = true
				r.cond.Broadcast()
			}
			r.mu.Unlock()
			<-r.birth
		default:
			r.mu.Lock()
			id, ok := r.ids[pid]
			delete(r.ids, pid)
			delete(r.pids, id)
			r.mu.Unlock()
			if ok {
				cpu := ru.Utime.Nano() + ru.Stime.Nano()
				_ = Send(sock, Message{Kind: Exited, ID: id, Nums: []int64{int64(ws), cpu, ru.Maxrss * 1024}})
			}
		}
	}
}

// born registers a child; mu is held.
func (r *reaper) born(pid int, id uint32) {
	r.ids[pid], r.pids[id], r.none = id, pid, false
	select {
	case r.birth <- struct{}{}:
	default:
	}
}

// killAll ends every process of the namespace but this one and returns when
// the last is reaped. Programs are started by the caller's thread alone, so
// none comes up meanwhile; fork fails in a process with a signal pending.
func (r *reaper) killAll() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.none {
		_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: only zombies are left
		r.cond.Wait()
	}
}

// signal sends sig to every process of a started program's session.
func (r *reaper) signal(id uint32, sig syscall.Signal, proc int) error {
	r.mu.Lock()
	defer r.mu.Unlock() // the leader is not reaped meanwhile, so its number stays its own
	sid, ok := r.pids[id]
	if !ok {
		return failed("signal", syscall.ESRCH)
	}
	if sig != syscall.SIGKILL {
		for _, pid := range session(proc, sid) {
			_ = syscall.Kill(pid, sig) // it may have ended
		}
		return nil
	}
	// New members can appear between the look and the kill; members of the
	// first look are dead in the second one.
	seen := map[int]bool{}
	for range 100 {
		found := false
		for _, pid := range session(proc, sid) {
			if !seen[pid] {
				seen[pid], found = true, true
				_ = syscall.Kill(pid, sig)
			}
		}
		if !found {
			break
		}
	}
	return nil
}

// session lists the processes of a session.
func session(proc, sid int) []int {
	pids := []int{}
	if _, err := syscall.Seek(proc, 0, 0); err != nil {
		return []int{sid}
	}
	buf := make([]byte, 8192)
	for {
		n, err := syscall.ReadDirent(proc, buf)
		if n <= 0 || err != nil {
			return pids
		}
		_, _, names := syscall.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if pid := number(name); pid > 1 && getsid(pid) == sid {
				pids = append(pids, pid)
			}
		}
	}
}

func number(s string) int {
	n := 0
	for _, c := range []byte(s) {
		if c < '0' || c > '9' || n > 1<<30 {
			return 0
		}
		n = n*10 + int(c-'0')
	}
	return n
}

func getsid(pid int) int {
	sid, _, _ := syscall.RawSyscall(syscall.SYS_GETSID, uintptr(pid), 0, 0)
	return int(sid)
}

// openTerminal makes a terminal pair of the tree's own devpts.
func openTerminal(pts int, rows, cols uint16) (master, slave int, err error) {
	master, e := openat2(pts, "ptmx", syscall.O_RDWR|syscall.O_NOCTTY, 0)
	if e != 0 {
		return -1, -1, failed("open terminal", e)
	}
	var unlock int32
	_, _, e = syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), syscall.TIOCSPTLCK, uintptr(unsafe.Pointer(&unlock)))
	if e == 0 {
		size := [4]uint16{rows, cols}
		_, _, e = syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), syscall.TIOCSWINSZ, uintptr(unsafe.Pointer(&size)))
	}
	var s uintptr
	if e == 0 {
		s, _, e = syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), tiocgptpeer, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC)
	}
	if e != 0 {
		syscall.Close(master)
		return -1, -1, failed("open terminal", e)
	}
	return master, int(s), nil
}

const tiocgptpeer = 0x5441
