package gateway

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

const callsName = "calls.ndjson"

// A body's members shorter than inlineBelow stand in its recipe; longer ones,
// and every element of its message array, are chunks that are stored once.
const inlineBelow = 96

// Operations of a recipe; each is followed by a uvarint.
const (
	opInline = 'i' // length, then as many bytes
	opChunk  = 'c' // number of a chunk
	opChain  = 'm' // number of a node: the chunks on the way from the first node to it
)

type digest [sha256.Size]byte

// maxPending bounds in bytes what waits to be written. A disk that is slower
// than its agent holds the agent up from there on.
const maxPending = 16 << 20

// recorder writes the record of one session: calls.ndjson and bodies.pack. A
// goroutine of its own writes, so that a disk that is busy does not hold up
// what passes; it keeps the order, bodies before the line of their call. The
// record is whole after close.
//
// An agent sends its whole conversation again at every turn. Its messages are
// therefore stored as a tree of prefixes: a node is a message and the node of
// what came before it, so that a turn costs its new messages and one number.
type recorder struct {
	enc *zstd.Encoder

	mu          sync.Mutex
	moved       *sync.Cond // something was given or written
	pack, calls *os.File
	bodies      []byte // waiting for pack
	lines       []byte // waiting for calls, once bodies are written
	writing     bool
	err         error // the first; nothing is written after it
	closed      bool
	done        chan struct{} // closed when the goroutine has ended

	chunks map[digest]uint64
	nodes  map[[2]uint64]uint64 // node before and chunk → node
}

func newRecorder(dir string, enc *zstd.Encoder) (*recorder, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make record: %w", err)
	}
	open := func(name string) (*os.File, error) {
		return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	}
	pack, err := open(packName)
	if err != nil {
		return nil, fmt.Errorf("make record: %w", err)
	}
	calls, err := open(callsName)
	if err != nil {
		pack.Close()
		return nil, fmt.Errorf("make record: %w", err)
	}
	r := &recorder{enc: enc, pack: pack, calls: calls, chunks: map[digest]uint64{}, nodes: map[[2]uint64]uint64{}, done: make(chan struct{})}
	r.moved = sync.NewCond(&r.mu)
	r.bodies = append(r.bodies, packMagic...)
	go r.run() // ends with close
	return r, nil
}

// run writes what is given, until the recorder is closed and all is written.
func (r *recorder) run() {
	defer close(r.done)
	r.mu.Lock()
	defer r.mu.Unlock()
	var bodies, lines []byte
	for {
		for len(r.bodies)+len(r.lines) == 0 && !r.closed {
			r.moved.Wait()
		}
		if len(r.bodies)+len(r.lines) == 0 {
			return
		}
		bodies, r.bodies = r.bodies, bodies[:0]
		lines, r.lines = r.lines, lines[:0]
		ok := r.err == nil
		r.writing = true
		r.mu.Unlock()
		var err error
		if ok {
			if _, err = r.pack.Write(bodies); err == nil {
				_, err = r.calls.Write(lines)
			}
		}
		r.mu.Lock()
		r.writing = false
		if err != nil { // a full disk must not end a call: close tells of it
			r.err = fmt.Errorf("write record: %w", err)
		}
		if cap(bodies) > maxPending/4 {
			bodies = nil
		}
		r.moved.Broadcast()
	}
}

// give lets the goroutine know of what was appended. The recorder is locked.
func (r *recorder) give() {
	r.moved.Broadcast()
	for len(r.bodies) > maxPending && !r.closed {
		r.moved.Wait()
	}
}

// drain waits until all that was given is in the files.
func (r *recorder) drain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.writing || len(r.bodies)+len(r.lines) > 0 {
		r.moved.Wait()
	}
}

// piece is a part of a body that is stored once. A chain has several.
type piece struct {
	from, to int
	chain    bool
	first    bool // of its chain
	digest   digest
}

// pieces finds what of a body is stored once. A chunk of a chain begins where
// the one before it ends, so that commas and blanks are stored too.
func pieces(body []byte, all []member, array string) []piece {
	var ps []piece
	add := func(from, to int, chain, first bool) {
		ps = append(ps, piece{from: from, to: to, chain: chain, first: first, digest: sha256.Sum256(body[from:to])})
	}
	for _, m := range all {
		if m.key == array {
			if els, ok := elements(body, m.value); ok && len(els) > 0 {
				from := els[0].from
				for i, e := range els {
					add(from, e.to, true, i == 0)
					from = e.to
				}
				continue
			}
		}
		if m.value.to-m.value.from >= inlineBelow {
			add(m.value.from, m.value.to, false, false)
		}
	}
	if len(all) == 0 && len(body) >= inlineBelow {
		add(0, len(body), false, false)
	}
	return ps
}

// request stores a body. all are its members, nil for a body that is not a
// JSON object; array is the name of the one that holds the messages.
func (r *recorder) request(seq int, body []byte, all []member, array string) {
	ps := pieces(body, all, array)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	var recipe []byte
	done := 0 // bytes of body that the recipe has
	inline := func(to int) {
		if to > done {
			recipe = binary.AppendUvarint(append(recipe, opInline), uint64(to-done))
			recipe = append(recipe, body[done:to]...)
		}
		done = to
	}
	var node uint64
	for i, p := range ps {
		if !p.chain || p.first {
			inline(p.from)
			node = 0
		}
		chunk := r.chunk(p.digest, body[p.from:p.to])
		done = p.to
		if !p.chain {
			recipe = binary.AppendUvarint(append(recipe, opChunk), chunk)
			continue
		}
		node = r.node(node, chunk)
		if i+1 == len(ps) || !ps[i+1].chain || ps[i+1].first {
			recipe = binary.AppendUvarint(append(recipe, opChain), node)
		}
	}
	inline(len(body))
	r.bodies = appendFrame(r.bodies, r.enc, frameRequest, uint64(seq), uint64(len(body)), recipe)
	r.give()
}

// node is what follows a node.
func (r *recorder) node(before, chunk uint64) uint64 {
	step := [2]uint64{before, chunk}
	n, ok := r.nodes[step]
	if !ok {
		n = uint64(len(r.nodes)) + 1
		r.nodes[step] = n
		r.bodies = appendFrame(r.bodies, r.enc, frameNode, before, chunk, nil)
	}
	return n
}

func (r *recorder) chunk(d digest, b []byte) uint64 {
	n, ok := r.chunks[d]
	if !ok {
		n = uint64(len(r.chunks)) + 1
		r.chunks[d] = n
		r.bodies = appendFrame(r.bodies, r.enc, frameChunk, n, uint64(len(b)), b)
	}
	return n
}

// call writes the line of a call that is over.
func (r *recorder) call(c Call, s secrets) {
	b, err := json.Marshal(c)
	s.overwrite(b) // whatever an agent or a provider may have put a secret into
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case err != nil:
		r.err = fmt.Errorf("write record of call %d: %w", c.Seq, err)
	default:
		r.lines = append(append(r.lines, b...), '\n')
		r.give()
	}
}

// close makes the record durable. Calls that end later leave no trace in it.
func (r *recorder) close() error {
	r.mu.Lock()
	first := !r.closed
	r.closed = true
	r.moved.Broadcast()
	r.mu.Unlock()
	<-r.done
	r.mu.Lock()
	defer r.mu.Unlock()
	if !first {
		return r.err
	}
	err := errors.Join(r.err, r.pack.Sync(), r.calls.Sync(), r.pack.Close(), r.calls.Close())
	r.chunks, r.nodes, r.bodies, r.lines = nil, nil, nil, nil
	if err != nil {
		r.err = fmt.Errorf("close record: %w", err)
	}
	return r.err
}

// An answer's bytes wait for pieceSize of them, or for pieceAge since the last
// piece, before they become a frame: small frames neither compress nor read
// well, and a process that dies loses no more than that.
const (
	pieceSize = 64 << 10
	pieceAge  = time.Second
)

// answer stores one raw response as it comes.
type answer struct {
	r    *recorder
	seq  int
	buf  []byte // what came, from the first byte as long as that is no more than keepWhole
	done int    // bytes of buf that are in the pack
	last time.Time
	n    int64
}

// keepWhole bounds what is held in memory of one answer until it is over;
// longer ones are read back from the pack.
const keepWhole = 256 << 10

func (r *recorder) answer(seq int) *answer { return &answer{r: r, seq: seq, last: time.Now()} }

func (a *answer) add(b []byte) {
	a.n += int64(len(b))
	a.buf = append(a.buf, b...)
	if len(a.buf)-a.done >= pieceSize || time.Since(a.last) >= pieceAge {
		a.flush()
	}
}

func (a *answer) flush() {
	a.last = time.Now()
	piece := a.buf[a.done:]
	if len(piece) > 0 {
		frame := appendFrame(nil, a.r.enc, frameAnswer, uint64(a.seq), uint64(len(piece)), piece)
		a.r.mu.Lock()
		if !a.r.closed {
			a.r.bodies = append(a.r.bodies, frame...)
			a.r.give()
		}
		a.r.mu.Unlock()
	}
	if a.done = len(a.buf); a.n > keepWhole {
		a.buf, a.done = a.buf[:0], 0
	}
}

// whole returns the answer's bytes once it is over.
func (a *answer) whole() ([]byte, error) {
	a.flush()
	if a.n <= keepWhole {
		return a.buf, nil
	}
	a.r.drain()
	ix, err := indexPack(a.r.pack.Name())
	if err != nil {
		return nil, err
	}
	defer ix.close()
	return ix.answer(a.seq)
}
