package pid1

import "errors"

// Kind is what a message asks or tells.
type Kind byte

const (
	Enter Kind = iota + 1
	Park
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
	Filter
	StartAs
	Link
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

// Marker is argv[0] of an init.
const Marker = "assay-ns-init"

// BackToRoot as argv[1] says that the init was started below another root
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
func (m Message) Encode() []byte {
	b := make([]byte, 0, 64)
	b = append(b, byte(m.Kind))
	b = appendUvarint(b, uint64(m.ID))
	b = appendUvarint(b, uint64(len(m.Nums)))
	for _, n := range m.Nums {
		b = appendUvarint(b, uint64(n<<1)^uint64(n>>63))
	}
	b = appendUvarint(b, uint64(len(m.Strs)))
	for _, s := range m.Strs {
		b = appendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	return b
}

// Decode reads what Encode wrote.
func Decode(b []byte) (Message, error) {
	if len(b) == 0 {
		return Message{}, errMessage
	}
	r := reader{b: b[1:]}
	m := Message{Kind: Kind(b[0]), ID: uint32(r.uvarint())}
	n := r.count()
	for i := 0; i < n && !r.bad; i++ {
		m.Nums = append(m.Nums, r.varint())
	}
	n = r.count()
	for i := 0; i < n && !r.bad; i++ {
		m.Strs = append(m.Strs, string(r.bytes()))
	}
	if r.bad || len(r.b) > 0 {
		return Message{}, errMessage
	}
	return m, nil
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

func (r *reader) bytes() []byte {
	n := r.count()
	if r.bad {
		return nil
	}
	s := r.b[:n]
	r.b = r.b[n:]
	return s
}
