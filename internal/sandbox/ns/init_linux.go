package ns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"assay/internal/sandbox"
	"assay/internal/sandbox/ns/pid1"
)

// initConn is the way to one init. A sandbox has a new one with every tree.
type initConn struct {
	s      *Sandbox
	pid    int // on the host
	sock   packets
	done   chan struct{} // closed when the socket has ended
	reader sync.WaitGroup

	mu      sync.Mutex
	next    uint32
	pending map[uint32]chan initAnswer
	procs   map[uint32]*process
	failed  error // why it did not boot
}

type initAnswer struct {
	m   pid1.Message
	fds []int
}

func newInitConn(s *Sandbox) *initConn {
	return &initConn{s: s, done: make(chan struct{}), pending: map[uint32]chan initAnswer{}, procs: map[uint32]*process{}}
}

// current is the init of the sandbox's tree.
func (s *Sandbox) current() *initConn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.init
}

// succeed takes the socket of a new init, which the keeper told to enter its
// tree, and makes it the sandbox's. It owns fds.
func (s *Sandbox) succeed(c *initConn, pid int, fds []int) error {
	if len(fds) != 1 {
		closeFDs(fds)
		return errors.New("the keeper sent no init")
	}
	var err error
	if c.sock, err = newPackets(fds[0]); err != nil {
		return err
	}
	c.pid = pid
	s.mu.Lock()
	old := s.init
	s.init = c
	s.mu.Unlock()
	c.reader.Go(c.read)
	old.end()
	return nil
}

// end lets go of an init that is dead, or was never had.
func (c *initConn) end() {
	if c == nil {
		return
	}
	c.sock.Close()
	c.reader.Wait()
}

// read hands out what the init tells until its socket ends.
func (c *initConn) read() {
	ctx, cancel := context.WithCancel(context.Background()) // of relay handlers
	defer cancel()
	r := pid1.Receiver{P: c.sock}
	for {
		m, fds, err := r.Recv()
		if err != nil {
			break
		}
		switch m.Kind {
		case pid1.Exited:
			closeFDs(fds)
			c.exited(m)
		case pid1.Conn:
			c.s.connected(ctx, m, fds)
		case pid1.Failed:
			closeFDs(fds)
			c.mu.Lock()
			c.failed = initFailed(m)
			c.mu.Unlock()
		default:
			c.mu.Lock()
			ch := c.pending[m.ID]
			delete(c.pending, m.ID)
			c.mu.Unlock()
			if ch == nil {
				closeFDs(fds)
				continue
			}
			ch <- initAnswer{m, fds}
		}
	}
	close(c.done)
}

func (c *initConn) exited(m pid1.Message) {
	c.mu.Lock()
	p := c.procs[m.ID]
	delete(c.procs, m.ID)
	c.mu.Unlock()
	if p == nil || len(m.Nums) != 3 {
		return
	}
	ws := syscall.WaitStatus(m.Nums[0])
	p.exit = sandbox.Exit{Code: ws.ExitStatus(), CPU: time.Duration(m.Nums[1]), MaxRSS: m.Nums[2],
		OutOfMemory: c.s.memoryKills() > p.kills}
	if ws.Signaled() {
		p.exit.Signal, p.exit.Code = ws.Signal(), 128+int(ws.Signal())
	}
	close(p.done)
}

// awaited is an answer of the init that is to come.
type awaited struct {
	id uint32
	ch chan initAnswer
}

func (c *initConn) expect() awaited {
	w := awaited{ch: make(chan initAnswer, 1)}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next++
	w.id = c.next
	c.pending[w.id] = w.ch
	return w
}

// forget says whether the answer had not come.
func (c *initConn) forget(w awaited) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, ok := c.pending[w.id]
	delete(c.pending, w.id)
	return ok
}

// ask sends a request to the init and waits for the answer.
func (c *initConn) ask(ctx context.Context, m pid1.Message, fds ...int) (pid1.Message, []int, error) {
	w := c.expect()
	m.ID = w.id
	return c.send(ctx, m, w, fds...)
}

func (c *initConn) send(ctx context.Context, m pid1.Message, w awaited, fds ...int) (pid1.Message, []int, error) {
	if err := pid1.Send(c.sock, m, fds...); err != nil {
		c.forget(w)
		return m, nil, c.lost()
	}
	return c.await(ctx, w)
}

func (c *initConn) await(ctx context.Context, w awaited) (pid1.Message, []int, error) {
	var a initAnswer
	select {
	case a = <-w.ch:
	case <-c.done:
		select {
		case a = <-w.ch:
		default:
			return pid1.Message{}, nil, c.lost()
		}
	case <-ctx.Done():
		if c.forget(w) {
			return pid1.Message{}, nil, context.Cause(ctx)
		}
		a = <-w.ch
	}
	if a.m.Kind == pid1.Refused {
		closeFDs(a.fds)
		return a.m, nil, refused(a.m)
	}
	return a.m, a.fds, nil
}

// do asks for something that is answered without more.
func (c *initConn) do(ctx context.Context, m pid1.Message, fds ...int) error {
	_, out, err := c.ask(ctx, m, fds...)
	closeFDs(out)
	return err
}

// refused unpacks an init's error.
func refused(m pid1.Message) error {
	e := &remoteError{text: "init refused"}
	if len(m.Strs) == 1 {
		e.text = m.Strs[0]
	}
	if len(m.Nums) > 0 && m.Nums[0] != 0 {
		e.causes = append(e.causes, syscall.Errno(m.Nums[0]))
	}
	return e
}

// lost says why the init does not answer.
func (c *initConn) lost() error {
	kills := c.s.memoryKills()
	c.mu.Lock()
	failed := c.failed
	c.mu.Unlock()
	if failed != nil {
		return c.s.b.conf.explain(failed)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	if c.s.closed {
		return sandbox.ErrClosed
	}
	if c.s.init != nil && c.s.init != c {
		return fmt.Errorf("%w: the tree it belonged to was replaced", sandbox.ErrClosed)
	}
	if kills > 0 {
		return fmt.Errorf("%w: %w: %d of its processes ended for it", sandbox.ErrLost, sandbox.ErrOutOfMemory, kills)
	}
	if said := c.s.b.noise.String(); said != "" {
		return fmt.Errorf("%w: last words of the keeper and its inits: %s", sandbox.ErrLost, said)
	}
	return sandbox.ErrLost
}
