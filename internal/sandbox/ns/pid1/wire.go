package pid1

import (
	"errors"
	"unsafe"
)

// Kind is what a message asks or tells.
type Kind byte

const (
	Enter Kind = iota + 1
	Kill
	Start
	Signal
	Ready
	Failed
	OK
	Refused
	Started
	Exited
	Conn
	Filters
	StartAs
	Link
	Bear
	Born
	spilled // the content lies in the first descriptor, a memfd of Nums[0] bytes
)

// Stage says how far a refused start had come.
type Stage int64

const (
	StageInit  Stage = iota // init itself: out of processes, descriptors, …
	StageDir                // chdir
	StageExec               // execve
	StageSetup              // terminal, capabilities, …
	StageUser               // no such user
)

// Message is one packet without its descriptors.
type Message struct {
	Kind Kind
	ID   uint32
	Nums []int64
	Strs []string
}

// Marker is argv[0] of a zygote, and so of every init.
const Marker = "assay-ns-init"

// BackToRoot as argv[1] says that the zygote was started below another root
// directory than the one it works in, which is its working directory.
const BackToRoot = "back-to-root"

// inline is the most bytes a packet carries. Every sandbox has two buffers of
// this size; the kernel's default socket buffer holds many.
const inline = 8 << 10

// maxSpilled bounds what a receiver maps into memory: Linux allows programs
// 2 MiB of arguments by default.
const maxSpilled = 8 << 20

var errMessage = errors.New("malformed message")

// errEnd is the end of a socket.
var errEnd = errors.New("end of socket")

// Encode returns the bytes of m.
func (m Message) Encode() []byte { return m.append(make([]byte, 0, 64)) }

// append appends them to b. A zero byte ends each string, so that whoever has
// the bytes has what the kernel takes for a string.
func (m Message) append(b []byte) []byte {
	b = append(b, byte(m.Kind))
	b = appendUvarint(b, uint64(m.ID))
	b = appendUvarint(b, uint64(len(m.Nums)))
	for _, n := range m.Nums {
		b = appendUvarint(b, uint64(n<<1)^uint64(n>>63))
	}
	b = appendUvarint(b, uint64(len(m.Strs)))
	for _, s := range m.Strs {
		b = appendUvarint(b, uint64(len(s)))
		b = append(append(b, s...), 0)
	}
	return b
}

// Decode reads what Encode wrote.
func Decode(b []byte) (Message, error) {
	var m Message
	if !m.view(b) {
		return Message{}, errMessage
	}
	for i, s := range m.Strs {
		m.Strs[i] = string([]byte(s))
	}
	return m, nil
}

// view is Decode without making anything that m has room for: the strings lie
// in b, each with a zero byte behind it.
func (m *Message) view(b []byte) bool {
	m.Nums, m.Strs = m.Nums[:0], m.Strs[:0]
	if len(b) == 0 {
		return false
	}
	r := reader{b: b[1:]}
	m.Kind, m.ID = Kind(b[0]), uint32(r.uvarint())
	n := r.count()
	for i := 0; i < n && !r.bad; i++ {
		m.Nums = append(m.Nums, r.varint())
	}
	n = r.count()
	for i := 0; i < n && !r.bad; i++ {
		s := r.bytes()
		m.Strs = append(m.Strs, unsafe.String(unsafe.SliceData(s), len(s)))
	}
	return !r.bad && len(r.b) == 0
}

type reader struct {
	b   []byte
	bad bool
}

// appendUvarint writes 7 bits a byte, least first, as encoding/binary does:
// that package would bring reflect along.
func appendUvarint(b []byte, v uint64) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func (r *reader) uvarint() uint64 {
	var v uint64
	for i, c := range r.b {
		if i == 10 || (i == 9 && c > 1) {
			break
		}
		v |= uint64(c&0x7f) << (7 * i)
		if c < 0x80 {
			r.b = r.b[i+1:]
			return v
		}
	}
	r.bad = true
	return 0
}

func (r *reader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// count is a number of items, each of at least one byte.
func (r *reader) count() int {
	v := r.uvarint()
	if v > uint64(len(r.b)) {
		r.bad = true
		return 0
	}
	return int(v)
}

// bytes is a string; the zero byte behind it is not of it.
func (r *reader) bytes() []byte {
	n := r.count()
	if r.bad || n == len(r.b) || r.b[n] != 0 {
		r.bad = true
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n+1:]
	return s
}
