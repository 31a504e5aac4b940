package pid1

import (
	"syscall"
	"unsafe"
)

// server is an init: one thread that answers requests, one at a time, reaps,
// and sees to relays and names between them.
type server struct {
	in       inbox
	out      []byte
	without  uint64 // walls that are left out: see WithoutDeafness
	ends     int    // says when a child has ended
	programs []started
	seen     []int // processes that a signal was sent to
	relays   []relay
	polls    []pollFD
	dns      int  // 0: none
	linked   bool // the namespace has an interface, which the other side holds
	at       int  // where the tree is attached
	dev      int  // roots of the tree's mounts
	pts      int
	proc     int
	entered  bool
	filter   *filter // of this process once it has entered, and so of every program
	prog     program // the one being started
	who      identity
	users    []byte // files of the tree that were looked into
	groups   []byte
	scratch  [8 << 10]byte
}

// started is a program that lives.
type started struct {
	pid int
	id  uint32
}

type relay struct{ fd, port int }

type pollFD struct {
	fd              int32
	events, revents int16
}

// newServer makes what an init needs from the start, before it is forked.
func newServer() *server {
	return &server{out: make([]byte, 0, inline), programs: make([]started, 0, 64), seen: make([]int, 0, 64), polls: make([]pollFD, 0, 16), dev: -1, pts: -1, proc: -1}
}

const pollIn = 1

// serve ends when the other side is gone; the namespace goes with this process.
func (s *server) serve() {
	s.watch()
	for {
		asked, err := s.await()
		if err != nil {
			return
		}
		if !asked {
			continue
		}
		m, fds, err := s.in.recv(control)
		if err != nil {
			return
		}
		err = s.handle(m, fds)
		CloseAll(fds)
		s.in.free()
		if err != nil {
			return
		}
	}
}

// watch lists what await waits for: requests and children first, then names if
// they are answered here, then relays.
func (s *server) watch() {
	s.polls = append(s.polls[:0], pollFD{fd: control, events: pollIn}, pollFD{fd: int32(s.ends), events: pollIn})
	if s.dns > 0 {
		s.polls = append(s.polls, pollFD{fd: int32(s.dns), events: pollIn})
	}
	for _, r := range s.relays {
		s.polls = append(s.polls, pollFD{fd: int32(r.fd), events: pollIn})
	}
}

// await sees to everything but requests, and reports whether there is one.
func (s *server) await() (asked bool, err error) {
	_, _, e := syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(&s.polls[0])), uintptr(len(s.polls)), 0, 0, 0, 0)
	if e == syscall.EINTR {
		return false, nil
	}
	if e != 0 {
		return false, e
	}
	if s.polls[1].revents != 0 {
		_, _ = syscall.Read(s.ends, s.scratch[:]) // one signal stands for many
		if err := s.reap(); err != nil {
			return false, err
		}
	}
	rest := s.polls[2:]
	if s.dns > 0 {
		if rest[0].revents != 0 {
			s.answerDNS()
		}
		rest = rest[1:]
	}
	asked = s.polls[0].revents != 0
	for i := range rest {
		if rest[i].revents != 0 {
			s.accept(i)
			break // the list may have changed
		}
	}
	return asked, nil
}

// handle answers one request. Its error means that nobody hears.
func (s *server) handle(m *Message, fds []int) error {
	var err error
	switch m.Kind {
	case Start:
		return s.start(m, fds)
	case StartAs:
		return s.startAs(m, fds)
	case Link:
		return s.link(m, fds)
	case Enter:
		var joined syscall.Errno
		if joined, err = s.enter(m, fds); err == nil {
			// The other side goes on meanwhile; nothing is started before the old root is gone.
			if err := s.tell(Message{Kind: OK, ID: m.ID, Nums: []int64{int64(joined)}}); err != nil {
				return err
			}
			return s.close()
		}
	case Kill:
		s.entered = s.entered && len(m.Nums) == 0
		err = s.killAll()
	case Signal:
		if len(m.Nums) != 2 {
			err = errMessage
		} else {
			err = s.signal(uint32(m.Nums[0]), syscall.Signal(m.Nums[1]))
		}
	default:
		err = errMessage
	}
	if err != nil {
		return s.refuse(m.ID, StageInit, err)
	}
	return s.tell(Message{Kind: OK, ID: m.ID})
}

// close leaves the old root, and then all that programs are refused: they get
// the filter from this process, which needs no more itself, so that the kernel
// does not have to translate it for each of them.
func (s *server) close() error {
	if err := s.leave(); err != nil {
		return err
	}
	if s.lacks(WithoutSeccomp) {
		return nil
	}
	if s.filter == nil {
		return errMessage
	}
	_, _, e := syscall.RawSyscall(sysSeccomp, seccompModeFilter, seccompSpecAllow, uintptr(unsafe.Pointer(s.filter)))
	return failed("install the filter", e)
}

// maxRefusal is how much of an error is told, in bytes.
const maxRefusal = 1 << 10

func (s *server) refuse(id uint32, stage Stage, err error) error {
	e := errno(err)
	if f, ok := err.(*failure); ok {
		e = f.err
	}
	text := err.Error()
	return s.tell(Message{Kind: Refused, ID: id, Strs: []string{text[:min(len(text), maxRefusal)]}, Nums: []int64{int64(e), int64(stage)}})
}

func (s *server) tell(m Message, fds ...int) (err error) {
	s.out, err = tell(control, s.out, m, fds...)
	return err
}
