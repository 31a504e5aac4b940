package pid1

import (
	"syscall"
	"unsafe"
)

// reap waits for the children that have ended, adopted ones too.
func (s *server) reap() error {
	for {
		if some, err := s.reapOne(syscall.WNOHANG); !some || err != nil {
			return err
		}
	}
}

// reapOne tells the end of one child if it was started from outside. It
// reports whether there was any.
func (s *server) reapOne(options int) (bool, error) {
	var ws syscall.WaitStatus
	var ru syscall.Rusage
	for {
		pid, err := syscall.Wait4(-1, &ws, options, &ru)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 { // no child at all, or none that has ended
			return false, nil
		}
		for i, p := range s.programs {
			if p.pid != pid {
				continue
			}
			s.programs[i] = s.programs[len(s.programs)-1]
			s.programs = s.programs[:len(s.programs)-1]
			cpu := ru.Utime.Nano() + ru.Stime.Nano()
			return true, s.tell(Message{Kind: Exited, ID: p.id, Nums: []int64{int64(ws), cpu, ru.Maxrss * 1024}})
		}
		return true, nil
	}
}

// killAll ends every process of the namespace but this one and returns when
// the last is reaped. Fork fails in a process with a signal pending.
func (s *server) killAll() error {
	for {
		_ = syscall.Kill(-1, syscall.SIGKILL) // ESRCH: only zombies are left
		if some, err := s.reapOne(0); !some || err != nil {
			return err
		}
	}
}

// signal sends sig to every process of a started program's session. Nobody else
// reaps its leader, whose number stays its own meanwhile.
func (s *server) signal(id uint32, sig syscall.Signal) error {
	for _, p := range s.programs {
		if p.id != id {
			continue
		}
		if sig != syscall.SIGKILL {
			s.seen = s.seen[:0]
			s.signalSession(p.pid, sig)
			return nil
		}
		// New members can appear between the look and the kill; members of the
		// first look are dead in the second one.
		s.seen = s.seen[:0]
		for tries := 0; tries < 100 && s.signalSession(p.pid, sig); tries++ {
		}
		return nil
	}
	return failed("signal", syscall.ESRCH)
}

// signalSession sends to each process of a session that has not been seen, and
// reports whether there was any.
func (s *server) signalSession(sid int, sig syscall.Signal) (some bool) {
	if _, err := syscall.Seek(s.proc, 0, 0); err != nil {
		_ = syscall.Kill(sid, sig)
		return false
	}
	for {
		size, err := syscall.ReadDirent(s.proc, s.scratch[:])
		if size <= 0 || err != nil {
			return some
		}
		for b := s.scratch[:size]; len(b) > nameAt; {
			d := (*syscall.Dirent)(unsafe.Pointer(&b[0]))
			if int(d.Reclen) < nameAt || int(d.Reclen) > len(b) {
				return some
			}
			if pid := number(cstring(b[nameAt:d.Reclen])); pid > 1 && getsid(pid) == sid && !has(s.seen, pid) {
				_ = syscall.Kill(pid, sig) // it may have ended
				s.seen, some = append(s.seen, pid), true
			}
			b = b[d.Reclen:]
		}
	}
}

func has(list []int, n int) bool {
	for _, v := range list {
		if v == n {
			return true
		}
	}
	return false
}

// nameAt is where the name stands in an entry of a directory.
const nameAt = int(unsafe.Offsetof(syscall.Dirent{}.Name))

// cstring is what comes before the first zero byte.
func cstring(b []byte) []byte {
	for i, c := range b {
		if c == 0 {
			return b[:i]
		}
	}
	return b
}

func number(s []byte) int {
	n := 0
	for _, c := range s {
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
