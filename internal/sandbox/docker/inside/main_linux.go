package inside

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/sandbox/docker/wire"
)

// Main is the whole life of the process if args name it: "MARKER keep" only
// lives as long as its input, "MARKER serve PORT…" serves a sandbox.
func Main(args []string) (code int, handled bool) {
	if len(args) < 3 || args[1] != Marker {
		return 0, false
	}
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(50)
	// Handled is not ignored: programs begin with the default of every signal.
	signal.Notify(make(chan os.Signal, 1))
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "become untraceable:", err)
		return 1, true
	}
	var err error
	if args[2] == "serve" {
		spareThreads(Threads - 7) // the others are the runtime's own and what waits for good
		err = serve(args[3:])
	} else {
		_, err = bufio.NewReader(os.Stdin).WriteTo(discard{})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "container init:", err)
		return 1, true
	}
	return 0, true
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

type server struct {
	conn  *wire.Conn
	procs reaper
	slots slots

	mu    sync.Mutex
	pipes map[uint32]*wire.Stream // opened for programs to come
	puts  map[*wire.Stream]bool
	quiet sync.WaitGroup // of puts
}

func serve(ports []string) error {
	unix.Umask(0o022)
	s := &server{slots: make(slots, busy), pipes: map[uint32]*wire.Stream{}, puts: map[*wire.Stream]bool{}}
	s.procs.start()
	s.conn = wire.New(os.Stdin, os.Stdout, false, s.accept)
	for _, p := range ports {
		port, err := strconv.Atoi(p)
		if err != nil {
			return err
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", p))
		if err != nil {
			return err
		}
		go s.relay(l, port)
	}
	return s.conn.Serve()
}

// relay hands connections out.
func (s *server) relay(l net.Listener, port int) {
	for {
		c, err := l.Accept()
		if err != nil {
			time.Sleep(50 * time.Millisecond) // no descriptor is free
			continue
		}
		go func() {
			defer c.Close()
			b, _ := json.Marshal(wire.Request{Op: wire.OpConn, Port: port})
			st, err := s.conn.Open(b)
			if err != nil {
				return
			}
			defer st.Reset()
			sent := make(chan struct{})
			go func() {
				pump(st, c)
				_ = st.CloseWrite()
				close(sent)
			}()
			pump(c, st)
			if t, ok := c.(*net.TCPConn); ok {
				_ = t.CloseWrite()
			}
			<-sent // the program may go on after the host has said all it has to say
		}()
	}
}

// accept is called in the order of the streams.
func (s *server) accept(st *wire.Stream, what []byte) {
	var q wire.Request
	if err := json.Unmarshal(what, &q); err != nil {
		st.Reset()
		return
	}
	switch q.Op {
	case wire.OpPipe:
		s.mu.Lock()
		s.pipes[st.ID()] = st
		s.mu.Unlock()
		return
	case wire.OpPut: // before whatever is asked next
		s.mu.Lock()
		s.puts[st] = true
		s.quiet.Add(1)
		s.mu.Unlock()
	}
	go s.handle(st, q)
}

func (s *server) handle(st *wire.Stream, q wire.Request) {
	switch q.Op {
	case wire.OpStart:
		s.start(st, q)
		return
	case wire.OpSignal:
		answer(st, s.work(func() error { return s.procs.signal(q.Program, q.Signal) }))
	case wire.OpClose:
		s.procs.close(q.Program)
		answer(st, nil)
	case wire.OpKill:
		s.procs.killAll()
		if q.Quiet {
			s.hush()
		}
		answer(st, nil)
	case wire.OpPut:
		err := s.work(func() error { return put(string(q.Path), outside{st, s.slots}) })
		s.mu.Lock()
		delete(s.puts, st)
		s.mu.Unlock()
		s.quiet.Done()
		answer(st, err)
	case wire.OpGet:
		out := s.pipe(q.Pipes, 0)
		answer(st, s.send(out, func(w io.Writer) error { return get(string(q.Path), q.Max, w) }))
	case wire.OpScan:
		told := outside{st, s.slots}
		err := s.work(func() error {
			return scan(q, func(e wire.Entry) error { return tell(told, wire.Reply{Entry: &e}) })
		})
		answer(st, err)
	case wire.OpFetch:
		out := s.pipe(q.Pipes, 0)
		answer(st, s.send(out, func(w io.Writer) error { return fetch(outside{st, s.slots}, w) }))
	default:
		answer(st, fmt.Errorf("unknown request %q", q.Op))
	}
	_ = st.CloseWrite()
}

// hush breaks puts off and forgets what programs left in memory.
func (s *server) hush() {
	s.mu.Lock()
	for st := range s.puts {
		st.Reset()
	}
	s.mu.Unlock()
	s.quiet.Wait()
	for _, d := range []string{"/dev/shm", "/dev/mqueue"} {
		all, _ := os.ReadDir(d) // one that is not there holds nothing
		for _, e := range all {
			_ = os.RemoveAll(d + "/" + e.Name())
		}
	}
}

// pipe takes a stream that was opened before.
func (s *server) pipe(ids []uint32, i int) *wire.Stream {
	if i >= len(ids) || ids[i] == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.pipes[ids[i]]
	delete(s.pipes, ids[i])
	return st
}

// work does what takes the kernel's time.
func (s *server) work(f func() error) error {
	s.slots.enter()
	defer s.slots.leave()
	return f()
}

func (s *server) send(out *wire.Stream, f func(io.Writer) error) error {
	if out == nil {
		return fmt.Errorf("the request names no stream")
	}
	err := s.work(func() error { return f(outside{out, s.slots}) })
	if err != nil {
		out.Reset()
		return err
	}
	return out.CloseWrite()
}

func tell(st io.Writer, r wire.Reply) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = st.Write(append(b, '\n'))
	return err
}

// answer ends a request; a host that does not listen any more is no matter.
func answer(st *wire.Stream, err error) {
	r := clocks()
	if err != nil {
		r.Error, r.Fault = err.Error(), faultOf(err)
	}
	_ = tell(st, r)
}

// clocks tells the time, and whether somebody set it.
func clocks() wire.Reply {
	var ts unix.Timespec
	now := time.Now().UnixNano()
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return wire.Reply{Now: now}
	}
	return wire.Reply{Now: now, Boot: now - ts.Nano()}
}

type fault struct {
	kind string
	text string
}

func (f *fault) Error() string { return f.text }

func faultOf(err error) string {
	for e := err; e != nil; {
		if f, ok := e.(*fault); ok {
			return f.kind
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	return ""
}

func notStarted(format string, args ...any) error {
	return &fault{wire.FaultNotStarted, fmt.Sprintf(format, args...)}
}

func isKernelTree(fd int) bool {
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return true
	}
	switch st.Type {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.DEVPTS_SUPER_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC:
		return true
	}
	return false
}

// pump copies until either side is over.
func pump(w interface{ Write([]byte) (int, error) }, r interface{ Read([]byte) (int, error) }) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if _, werr := w.Write(buf[:n]); werr != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func pathOf(env []string) string {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			return v
		}
	}
	return ""
}
