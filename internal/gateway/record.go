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

// recorder writes the record of one session: calls.ndjson and bodies.pack.
// Bytes are in the file system when a method returns, and on the disk after
// close.
//
// An agent sends its whole conversation again at every turn. Its messages are
// therefore stored as a tree of prefixes: a node is a message and the node of
// what came before it, so that a turn costs its new messages and one number.
type recorder struct {
	enc *zstd.Encoder

	mu     sync.Mutex
	pack   *os.File
	calls  *os.File
	chunks map[digest]uint64
	nodes  map[[2]uint64]uint64 // node before and chunk → node
	err    error                // the first; nothing is written after it
	closed bool
	buf    []byte
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
	r := &recorder{enc: enc, pack: pack, calls: calls, chunks: map[digest]uint64{}, nodes: map[[2]uint64]uint64{}}
	r.write([]byte(packMagic))
	return r, nil
}

// write appends to the pack. A disk that is full must not end a call that is
// going on: the error is kept for close.
func (r *recorder) write(b []byte) {
	if r.err != nil || r.closed {
		return
	}
	if _, err := r.pack.Write(b); err != nil {
		r.err = fmt.Errorf("write record: %w", err)
	}
}

// request stores a body. all are its members, nil for a body that is not a
// JSON object; array is the name of the one that holds the messages.
func (r *recorder) request(seq int, body []byte, all []member, array string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buf = r.buf[:0]
	var recipe []byte
	done := 0 // bytes of body that the recipe has
	inline := func(to int) {
		if to > done {
			recipe = binary.AppendUvarint(append(recipe, opInline), uint64(to-done))
			recipe = append(recipe, body[done:to]...)
			done = to
		}
	}
	ref := func(op byte, n uint64, to int) {
		recipe = binary.AppendUvarint(append(recipe, op), n)
		done = to
	}
	for _, m := range all {
		if m.key == array {
			if els, ok := elements(body, m.value); ok && len(els) > 0 {
				inline(els[0].from)
				ref(opChain, r.chain(body, els), els[len(els)-1].to)
				continue
			}
		}
		if m.value.to-m.value.from >= inlineBelow {
			inline(m.value.from)
			ref(opChunk, r.chunk(m.value.of(body)), m.value.to)
		}
	}
	if len(all) == 0 && len(body) >= inlineBelow {
		ref(opChunk, r.chunk(body), len(body))
	}
	inline(len(body))
	r.buf = appendFrame(r.buf, r.enc, frameRequest, uint64(seq), uint64(len(body)), recipe)
	r.write(r.buf)
}

// chain returns the node of the last of els. A chunk begins where the one
// before it ends, so that commas and blanks are stored too.
func (r *recorder) chain(body []byte, els []span) uint64 {
	var node uint64
	from := els[0].from
	for _, e := range els {
		step := [2]uint64{node, r.chunk(body[from:e.to])}
		from = e.to
		next, ok := r.nodes[step]
		if !ok {
			next = uint64(len(r.nodes)) + 1
			r.nodes[step] = next
			r.buf = appendFrame(r.buf, r.enc, frameNode, step[0], step[1], nil)
		}
		node = next
	}
	return node
}

func (r *recorder) chunk(b []byte) uint64 {
	d := digest(sha256.Sum256(b))
	n, ok := r.chunks[d]
	if !ok {
		n = uint64(len(r.chunks)) + 1
		r.chunks[d] = n
		r.buf = appendFrame(r.buf, r.enc, frameChunk, n, uint64(len(b)), b)
	}
	return n
}

// call writes the line of a call that is over.
func (r *recorder) call(c Call, s secrets) {
	b, err := json.Marshal(c)
	s.overwrite(b) // whatever an agent or a provider may have put a secret into
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil || r.closed {
		return
	}
	if err == nil {
		_, err = r.calls.Write(append(b, '\n'))
	}
	if err != nil {
		r.err = fmt.Errorf("write record of call %d: %w", c.Seq, err)
	}
}

func (r *recorder) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// close makes the record durable. Calls that end later leave no trace in it.
func (r *recorder) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.err
	}
	r.closed = true
	err := errors.Join(r.err, r.pack.Sync(), r.calls.Sync(), r.pack.Close(), r.calls.Close())
	r.chunks, r.nodes, r.buf = nil, nil, nil
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
		a.r.write(frame)
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
	ix, err := indexPack(a.r.pack.Name())
	if err != nil {
		return nil, err
	}
	defer ix.close()
	return ix.answer(a.seq)
}
