package pid1

import (
	"sync"
	"syscall"
)

// server answers requests, one at a time, on the main thread.
type server struct {
	sock           blocking
	without        uint64 // walls that are left out: see WithoutDeafness
	reaper         reaper
	relays         []int // listening sockets
	dns            int   // 0: none
	linked         bool  // the namespace has an interface, which the other side holds
	accepting      sync.WaitGroup
	spare          int // while parked, where the next tree is attached
	dev, pts, proc int // roots of the tree's mounts; -1 before the first tree
	parked         bool
	filter         *filter   // of every program; nil before it came
	who            *identity // of the program being started; nil: root
	behind         bool      // the old root is still there: see leave
	next           furniture // while parked, of the next tree
	unready        error     // why there is none
}

func (s *server) serve() {
	s.parked = true
	r := Receiver{P: s.sock}
	for {
		s.await()
		m, fds, err := r.Recv()
		if err != nil {
			return // the other side is gone; the namespace goes with this process
		}
		err = s.handle(m, fds)
		CloseAll(fds)
		if err != nil {
			return
		}
	}
}

// handle answers one request. Its error means that nobody hears.
func (s *server) handle(m Message, fds []int) error {
	var err error
	switch m.Kind {
	case Start:
		return s.start(m, fds)
	case StartAs:
		return s.startAs(m, fds)
	case Filter:
		s.filter = newFilter(m)
		return nil
	case Link:
		return s.link(m, fds)
	case Enter:
		if err = s.enter(m, fds); err == nil {
			// The other side goes on meanwhile; nothing is started before the old root is gone.
			if err := Send(s.sock, Message{Kind: OK, ID: m.ID}); err != nil {
				return err
			}
			return s.leave()
		}
	case Park:
		if !s.lacks(WithoutDeath) {
			s.reaper.killAll()
		}
		if err = s.park(); err == nil {
			if err := Send(s.sock, Message{Kind: OK, ID: m.ID}); err != nil {
				return err
			}
			s.unready = s.prepareNext(len(m.Nums) > 0 && m.Nums[0] != 0)
			return nil
		}
	case Kill:
		s.reaper.killAll()
	case Signal:
		if len(m.Nums) != 2 {
			err = errMessage
		} else {
			err = s.reaper.signal(uint32(m.Nums[0]), syscall.Signal(m.Nums[1]), s.proc)
		}
	default:
		err = errMessage
	}
	if err != nil {
		return s.refuse(m.ID, StageInit, err)
	}
	return Send(s.sock, Message{Kind: OK, ID: m.ID})
}

// prepareNext makes ready for the next tree while the other side prepares it.
func (s *server) prepareNext(fresh bool) error {
	if fresh {
		if err := s.renew(); err != nil {
			return err
		}
	}
	return s.furnish()
}

func (s *server) refuse(id uint32, stage Stage, err error) error {
	e := errno(err)
	if f, ok := err.(*failure); ok {
		e = f.err
	}
	return Send(s.sock, Message{Kind: Refused, ID: id, Strs: []string{err.Error()}, Nums: []int64{int64(e), int64(stage)}})
}
