package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxLine bounds a line of calls.ndjson, maxBody a body that is put together.
const (
	maxLine = 4 << 20
	maxBody = 256 << 20
)

// ErrNoRecord: a call is listed, and its bodies are not in the pack.
var ErrNoRecord = errors.New("not in the record")

// Record is what a session left on disk. Its methods may be called
// concurrently; Close it.
type Record struct {
	calls []Call
	pack  *packIndex
	torn  bool
}

// Read opens the record in dir. Lines and frames that were being written when
// their process died are left out; see [Record.Torn].
func Read(dir string) (*Record, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("read record of model calls: %w", err)
	}
	defer root.Close()
	r := &Record{}
	if err := r.readCalls(root, dir); err != nil {
		return nil, err
	}
	if r.pack, err = indexIn(root, packName); err != nil {
		return nil, fmt.Errorf("read record %s: %w", filepath.Join(dir, packName), err)
	}
	r.torn = r.torn || r.pack.torn
	return r, nil
}

// openRegular opens a file beneath root that is one, and no link.
func openRegular(root *os.Root, name string) (*os.File, error) {
	if st, err := root.Lstat(name); err != nil {
		return nil, err
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %v, not a file", name, st.Mode().Type())
	}
	return root.Open(name)
}

func (r *Record) readCalls(root *os.Root, dir string) error {
	f, err := openRegular(root, callsName)
	if err != nil {
		return fmt.Errorf("read record of model calls: %w", err)
	}
	defer f.Close()
	torn, err := eachLine(f, func(n int, line []byte) error {
		var c Call
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("%s:%d: %w", filepath.Join(dir, callsName), n, err)
		}
		if c.V > CallVersion {
			return fmt.Errorf("%s:%d: version %d is newer than this program's %d; use a newer assay", filepath.Join(dir, callsName), n, c.V, CallVersion)
		}
		r.calls = append(r.calls, c)
		return nil
	})
	r.torn = torn
	slices.SortStableFunc(r.calls, func(a, b Call) int { return a.Seq - b.Seq })
	return err
}

// eachLine calls f for every line that ends; torn: one did not.
func eachLine(r io.Reader, f func(n int, line []byte) error) (torn bool, err error) {
	var line []byte
	buf := make([]byte, 64<<10)
	for n := 1; ; {
		got, err := r.Read(buf)
		for rest := buf[:got]; len(rest) > 0; {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				line = append(line, rest...)
				if len(line) > maxLine {
					return false, fmt.Errorf("line %d is longer than %d bytes", n, maxLine)
				}
				break
			}
			line, rest = append(line, rest[:i]...), rest[i+1:]
			if err := f(n, line); err != nil {
				return false, err
			}
			n, line = n+1, line[:0]
		}
		if err == io.EOF {
			return len(line) > 0, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// Calls are those that ended, in the order of their arrival.
func (r *Record) Calls() []Call { return slices.Clone(r.calls) }

// Torn reports whether the process that wrote the record died at it.
func (r *Record) Torn() bool { return r.torn }

// Unfinished lists the numbers of calls that have bodies and no line: they
// were going on when the process died.
func (r *Record) Unfinished() []int {
	ended := map[int]bool{}
	for _, c := range r.calls {
		ended[c.Seq] = true
	}
	var all []int
	for seq := range r.pack.requests {
		if !ended[seq] {
			all = append(all, seq)
		}
	}
	slices.Sort(all)
	return all
}

// Raw returns the bodies of a call as they were on the wire, the agent's
// request in its own dialect and the provider's answer in the provider's.
// Secrets in them are overwritten with asterisks. A call without an answer has
// an empty one.
func (r *Record) Raw(seq int) (request, response []byte, err error) {
	if request, err = r.pack.request(seq); err != nil {
		return nil, nil, fmt.Errorf("request of call %d: %w", seq, err)
	}
	if response, err = r.pack.answer(seq); err != nil {
		return nil, nil, fmt.Errorf("response of call %d: %w", seq, err)
	}
	return request, response, nil
}

// Close releases the record's file.
func (r *Record) Close() error { return r.pack.close() }

// packIndex knows where everything in a pack is.
type packIndex struct {
	f        *os.File
	dec      *zstd.Decoder
	torn     bool
	chunks   []int64     // offset of chunk i+1
	nodes    [][2]uint64 // node before and chunk of node i+1
	requests map[int]int64
	answers  map[int][]int64
}

func indexPack(file string) (*packIndex, error) {
	root, err := os.OpenRoot(filepath.Dir(file))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return indexIn(root, filepath.Base(file))
}

func indexIn(root *os.Root, name string) (*packIndex, error) {
	f, err := openRegular(root, name)
	if err != nil {
		return nil, err
	}
	ix := &packIndex{f: f, requests: map[int]int64{}, answers: map[int][]int64{}}
	if err := ix.load(); err != nil {
		f.Close()
		return nil, err
	}
	if ix.dec, err = newDecoder(); err != nil {
		f.Close()
		return nil, err
	}
	return ix, nil
}

func (ix *packIndex) load() error {
	head := make([]byte, len(packMagic))
	if n, err := io.ReadFull(ix.f, head); err != nil {
		ix.torn = true // died before the first line was whole
		if !strings.HasPrefix(packMagic, string(head[:n])) {
			return errors.New("it is not a pack of bodies")
		}
		return nil
	}
	if string(head) != packMagic {
		return errors.New("it is not a pack of bodies, or of another version")
	}
	err := frames(ix.f, func(h frameHead, at int64, _ []byte) error {
		at += int64(len(packMagic))
		switch h.kind {
		case frameChunk:
			if h.a != uint64(len(ix.chunks))+1 {
				return fmt.Errorf("chunk %d at %d is out of order", h.a, at)
			}
			ix.chunks = append(ix.chunks, at)
		case frameNode:
			if h.a > uint64(len(ix.nodes)) || h.b == 0 || h.b > uint64(len(ix.chunks)) {
				return fmt.Errorf("node at %d refers to what is not there", at)
			}
			ix.nodes = append(ix.nodes, [2]uint64{h.a, h.b})
		case frameRequest, frameAnswer:
			if h.a == 0 || h.a > math.MaxInt32 {
				return fmt.Errorf("frame at %d is of call %d", at, h.a)
			}
			if h.kind == frameRequest {
				ix.requests[int(h.a)] = at
			} else {
				ix.answers[int(h.a)] = append(ix.answers[int(h.a)], at)
			}
		}
		return nil
	})
	if errors.Is(err, errTorn) {
		ix.torn, err = true, nil
	}
	return err
}

func (ix *packIndex) close() error {
	ix.dec.Close()
	return ix.f.Close()
}
