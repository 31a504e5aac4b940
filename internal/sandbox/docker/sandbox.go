package docker

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/docker/wire"
)

// state is what a sandbox's tree stands on.
type state struct {
	tag   string
	since int64 // 0: the container's own start
	boot  int64 // as the clock said at that time
	depth int   // commits between it and the layers
	// points are where something was mounted: the engine made directories there.
	points []image.Path
}

func (s *snapshot) state() *state { return &state{s.tag, s.since, s.boot, s.depth, s.points} }

// Sandbox implements sandbox.Sandbox and sandbox.Held.
type Sandbox struct {
	b      *Backend
	spec   sandbox.Spec
	layers []image.LayerID
	base   state // what an empty Reset goes back to

	bare bool // for our own use: nothing is made in it

	conf   sandbox.Service // its place among services; zero without a set
	set    *set            // nil: it is alone
	hosts  bool            // it is the one whose services they are
	before *Sandbox        // whose place it has taken
	parted bool            // guarded by mu: its place is given up

	change sync.RWMutex // held for writing by what replaces or freezes the tree

	mu     sync.Mutex
	live   *link // nil when lost or closed
	on     state
	since  int64
	boot   int64
	procs  map[*process]bool
	closed bool
}

// link is a running container and the way into it.
type link struct {
	c      *container
	conn   *wire.Conn
	served sync.WaitGroup
	relays sync.WaitGroup
}

// begin starts a container on a tree.
func (s *Sandbox) begin(ctx context.Context, on state) error {
	c, err := s.b.start(ctx, "", s.b.spec(s, on.tag))
	if err != nil {
		return err
	}
	l := &link{c: c}
	rctx, stop := context.WithCancel(context.Background()) // of relay handlers
	l.conn = wire.New(c.io, c.io, true, func(st *wire.Stream, what []byte) { s.relay(rctx, l, st, what) })
	l.served.Go(func() { _ = l.conn.Serve(); stop() })
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.live, s.on = l, on
	}
	s.mu.Unlock()
	if closed {
		return errors.Join(sandbox.ErrClosed, l.end(context.WithoutCancel(ctx)))
	}
	// The answer tells that it lives, and the time of its machine.
	r, err := l.ask(ctx, wire.Request{Op: wire.OpKill})
	if err == nil {
		s.since, s.boot = r.Now-int64(clockGrain), r.Boot
		err = s.furnish(ctx)
	}
	if err == nil && on.since == 0 {
		err = s.putFiles(ctx)
	}
	if err != nil {
		return fmt.Errorf("start sandbox: %w%s", err, l.said())
	}
	return nil
}

// clockGrain is more than a file's time lies behind the clock, and less than
// the engine needs to start a container after the last change to its image.
const clockGrain = 50 * time.Millisecond

// furnish makes what every sandbox has.
func (s *Sandbox) furnish(ctx context.Context) error {
	for _, d := range s.furniture() {
		if err := s.put(ctx, d, strings.NewReader(strings.Repeat("\x00", 1024))); err != nil {
			return err
		}
	}
	return nil
}

func (s *Sandbox) furniture() []image.Path {
	if s.bare {
		return nil
	}
	dirs := []image.Path{"/tmp", "/root"}
	if w := s.spec.Image.Config.Workdir; w != "" {
		dirs = append(dirs, w)
	}
	return dirs
}

func (l *link) said() string {
	if w := l.c.io.words.String(); w != "" {
		return "; its first process said: " + w
	}
	return ""
}

// end removes the container and waits for what belonged to it.
func (l *link) end(ctx context.Context) error {
	err := l.c.remove(ctx)
	l.served.Wait()
	l.relays.Wait()
	return err
}

const maxConns = 256 // to relays at a time

func (s *Sandbox) relay(ctx context.Context, l *link, st *wire.Stream, what []byte) {
	var q wire.Request
	i := -1
	if json.Unmarshal(what, &q) == nil && q.Op == wire.OpConn {
		i = slices.IndexFunc(s.spec.Relays, func(r sandbox.Relay) bool { return r.Port == q.Port })
	}
	if i < 0 {
		st.Reset()
		return
	}
	mine, theirs := net.Pipe()
	l.relays.Go(func() {
		defer theirs.Close()
		stop := context.AfterFunc(ctx, func() { theirs.Close() })
		defer stop()
		s.spec.Relays[i].Handle(ctx, theirs)
	})
	l.relays.Go(func() {
		defer st.Reset()
		defer mine.Close()
		in := make(chan struct{})
		go func() { defer close(in); io.Copy(mine, st); mine.SetReadDeadline(time.Time{}) }()
		io.Copy(st, mine)
		_ = st.CloseWrite()
		mine.Close()
		select {
		case <-in:
		case <-time.After(time.Second): // what it still sends has no reader
		}
	})
}

// link returns the way into the sandbox.
func (s *Sandbox) link() (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, sandbox.ErrClosed
	}
	if s.live == nil {
		return nil, sandbox.ErrLost
	}
	return s.live, nil
}

// broken says what an error of the connection means.
func (s *Sandbox) broken(l *link, err error) error {
	if !errors.Is(err, wire.ErrClosed) && !errors.Is(err, wire.ErrReset) {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return sandbox.ErrClosed
	}
	return fmt.Errorf("%w%s", sandbox.ErrLost, l.said())
}

// open begins a request.
func (l *link) open(q wire.Request) (*wire.Stream, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	return l.conn.Open(b)
}

const maxReply = 8 << 20 // bytes of one line

// ask sends a request that is answered once.
func (l *link) ask(ctx context.Context, q wire.Request) (wire.Reply, error) {
	st, err := l.open(q)
	if err != nil {
		return wire.Reply{}, err
	}
	defer st.Reset()
	stop := context.AfterFunc(ctx, st.Reset)
	defer stop()
	return answer(ctx, json.NewDecoder(io.LimitReader(st, maxReply)))
}

func answer(ctx context.Context, d *json.Decoder) (wire.Reply, error) {
	var r wire.Reply
	if err := d.Decode(&r); err != nil {
		if ctx.Err() != nil {
			return r, context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = wire.ErrClosed
		}
		return r, err
	}
	return r, replyError(r)
}

func replyError(r wire.Reply) error {
	if r.Error == "" {
		return nil
	}
	switch r.Fault {
	case wire.FaultNotStarted:
		return fmt.Errorf("%.500s: %w", r.Error, sandbox.ErrNotStarted)
	case wire.FaultNotExist:
		return fmt.Errorf("%.500s: %w", r.Error, fs.ErrNotExist)
	case wire.FaultTooLarge:
		return fmt.Errorf("%.500s: %w", r.Error, sandbox.ErrTooLarge)
	}
	return fmt.Errorf("%.500s", r.Error)
}

// Held says which limits the engine was told and can hold.
func (s *Sandbox) Held() (held, unheld []string) {
	l := s.spec.Limits
	say := func(asked, can bool, what, by string) {
		switch {
		case asked && can:
			held = append(held, what+":"+by)
		case asked:
			unheld = append(unheld, what)
		}
	}
	say(l.DiskBytes >= 0, false, "disk", "")
	say(l.Inodes >= 0, false, "inodes", "")
	say(l.OpenFiles > 0, true, "files", "ulimit")
	say(l.Pids >= 0, s.b.info.PidsLimit, "pids", "cgroup")
	say(l.MemBytes > 0, s.b.info.MemoryLimit, "memory", "cgroup")
	say(l.CPUs > 0, s.b.info.CpuCfsQuota, "cpus", "cgroup")
	return held, unheld
}

// Kill ends every process.
func (s *Sandbox) Kill(ctx context.Context) error {
	l, err := s.link()
	if err == nil {
		if _, err = l.ask(ctx, wire.Request{Op: wire.OpKill}); err != nil {
			err = s.broken(l, err)
		}
	}
	if err != nil {
		return fmt.Errorf("kill: %w", err)
	}
	return nil
}

// Snapshot kills, commits and goes on.
func (s *Sandbox) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	s.change.Lock()
	defer s.change.Unlock()
	id, err := s.commit(ctx, true)
	if err != nil {
		return "", fmt.Errorf("snapshot: %w", err)
	}
	return id, nil
}

// Peek commits while the processes are paused.
func (s *Sandbox) Peek(ctx context.Context) (sandbox.Snapshot, error) {
	s.change.Lock()
	defer s.change.Unlock()
	id, err := s.commit(ctx, false)
	if err != nil {
		return "", fmt.Errorf("peek: %w", err)
	}
	return id, nil
}

func (s *Sandbox) commit(ctx context.Context, kill bool) (sandbox.Snapshot, error) {
	l, err := s.link()
	if err != nil {
		return "", err
	}
	if kill {
		if _, err := l.ask(ctx, wire.Request{Op: wire.OpKill, Quiet: true}); err != nil {
			return "", s.broken(l, err)
		}
	}
	if s.on.depth >= maxDepth {
		return "", fmt.Errorf("%d snapshots stand upon each other, more than an engine stacks; commit one as a layer and start from it: %w", maxDepth, sandbox.ErrUnsupported)
	}
	id := sandbox.Snapshot(rand.Text())
	snap := &snapshot{tag: "assay/snapshot:" + strings.ToLower(string(id)), layers: s.layers, since: s.base.since, boot: s.base.boot, depth: s.on.depth + 1, points: s.points()}
	repo, tag, _ := strings.Cut(snap.tag, ":")
	pause := "1"
	if kill {
		pause = "0"
	}
	q := url.Values{"container": {l.c.id}, "repo": {repo}, "tag": {tag}, "pause": {pause}}
	if err := s.b.api.call(ctx, "POST", "/commit", q, map[string]any{"Labels": map[string]string{labelOwner: s.b.owner}}, nil); err != nil {
		return "", err
	}
	s.b.mu.Lock()
	defer s.b.mu.Unlock()
	s.b.snaps[id] = snap
	return id, nil
}

// Reset kills and goes back.
func (s *Sandbox) Reset(ctx context.Context, to sandbox.Snapshot) error {
	if err := s.reset(ctx, to); err != nil {
		return fmt.Errorf("reset: %w", err)
	}
	return nil
}

func (s *Sandbox) reset(ctx context.Context, to sandbox.Snapshot) error {
	s.change.Lock()
	defer s.change.Unlock()
	old, err := s.link()
	if errors.Is(err, sandbox.ErrClosed) {
		return err
	}
	on := s.base
	if to != "" {
		s.b.mu.Lock()
		snap := s.b.snaps[to]
		s.b.mu.Unlock()
		if snap == nil || !slices.Equal(snap.layers, s.layers) {
			return fmt.Errorf("snapshot %s is not one of this backend and image", to)
		}
		on = *snap.state()
	}
	s.killed()
	if old != nil {
		if err := old.end(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.live = nil
	s.mu.Unlock()
	return s.begin(ctx, on)
}

// killed says of every program that it was.
func (s *Sandbox) killed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for p := range s.procs {
		p.killed.Store(true)
	}
}

// Close ends the sandbox.
func (s *Sandbox) Close() error {
	s.mu.Lock()
	l := s.live
	s.live, s.closed = nil, true
	s.mu.Unlock()
	s.killed()
	s.b.mu.Lock()
	delete(s.b.boxes, s)
	s.b.mu.Unlock()
	if l == nil {
		return s.part(context.Background())
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return errors.Join(l.end(ctx), s.part(ctx))
}

// Put unpacks a tar stream.
func (s *Sandbox) Put(ctx context.Context, dst image.Path, tar io.Reader) error {
	if err := s.put(ctx, dst, tar); err != nil {
		return fmt.Errorf("put into %s: %w", dst, err)
	}
	return nil
}

func (s *Sandbox) put(ctx context.Context, dst image.Path, in io.Reader) error {
	l, err := s.link()
	if err != nil {
		return err
	}
	st, err := l.open(wire.Request{Op: wire.OpPut, Path: []byte(dst)})
	if err != nil {
		return s.broken(l, err)
	}
	defer st.Reset()
	stop := context.AfterFunc(ctx, st.Reset)
	defer stop()
	sent := make(chan error, 1)
	go func() {
		_, err := io.Copy(st, sourceReader{in})
		if err == nil {
			err = st.CloseWrite()
		} else {
			var mine *sourceError
			if errors.As(err, &mine) {
				st.Reset()
			}
		}
		sent <- err
	}()
	_, err = answer(ctx, json.NewDecoder(io.LimitReader(st, maxReply)))
	if err == nil {
		return nil
	}
	if errors.Is(err, wire.ErrReset) {
		select {
		case serr := <-sent:
			var mine *sourceError
			if errors.As(serr, &mine) {
				return mine.error
			}
		case <-time.After(time.Second): // the caller's reader hangs
		}
		if ctx.Err() == nil {
			select {
			case <-l.conn.Done():
			default:
				return errors.New("broken off by a snapshot")
			}
		}
	}
	return s.broken(l, err)
}

// sourceReader marks errors of the caller's own reader.
type sourceReader struct{ r io.Reader }

type sourceError struct{ error }

func (s *sourceError) Unwrap() error { return s.error }

func (s sourceReader) Read(b []byte) (int, error) {
	n, err := s.r.Read(b)
	if err != nil && err != io.EOF {
		err = &sourceError{err}
	}
	return n, err
}

// Get writes a part of the tree as a tar stream.
func (s *Sandbox) Get(ctx context.Context, src image.Path, out io.Writer, maxBytes int64) error {
	if err := s.get(ctx, src, out, maxBytes); err != nil {
		return fmt.Errorf("get %s: %w", src, err)
	}
	return nil
}

func (s *Sandbox) get(ctx context.Context, src image.Path, out io.Writer, maxBytes int64) error {
	l, err := s.link()
	if err != nil {
		return err
	}
	data, err := l.open(wire.Request{Op: wire.OpPipe})
	if err != nil {
		return s.broken(l, err)
	}
	defer data.Reset()
	st, err := l.open(wire.Request{Op: wire.OpGet, Path: []byte(src), Max: maxBytes, Pipes: []uint32{data.ID()}})
	if err != nil {
		return s.broken(l, err)
	}
	defer st.Reset()
	stop := context.AfterFunc(ctx, func() { data.Reset(); st.Reset() })
	defer stop()
	checked := check(data, out, maxBytes)
	if checked != nil && !errors.Is(checked, wire.ErrReset) && !errors.Is(checked, wire.ErrClosed) {
		return checked
	}
	if _, err := answer(ctx, json.NewDecoder(io.LimitReader(st, maxReply))); err != nil {
		return s.broken(l, err)
	}
	return checked
}
