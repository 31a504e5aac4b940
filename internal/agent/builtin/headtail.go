package builtin

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxOutput bounds one observation whatever a strategy says, in bytes.
const maxOutput = 256 << 10

// headTail keeps the beginning and the end of what is written to it.
type headTail struct {
	max   int // bytes kept, half of them of the beginning
	head  []byte
	tail  []byte // a ring once it is full
	next  int    // of the ring
	total int64
}

func (h *headTail) Write(b []byte) (int, error) {
	n := len(b)
	h.total += int64(n)
	if room := h.max/2 - len(h.head); room > 0 {
		take := min(room, len(b))
		h.head = append(h.head, b[:take]...)
		b = b[take:]
	}
	size := h.max - h.max/2
	if len(b) > size {
		b = b[len(b)-size:]
	}
	if grow := min(size-len(h.tail), len(b)); grow > 0 {
		h.tail = append(h.tail, b[:grow]...)
		b = b[grow:]
	}
	for len(b) > 0 {
		c := copy(h.tail[h.next:], b)
		h.next = (h.next + c) % size
		b = b[c:]
	}
	return n, nil
}

// String is what was kept, with a line that says how much was not.
func (h *headTail) String() string {
	tail := append(append([]byte{}, h.tail[h.next:]...), h.tail[:h.next]...)
	missing := h.total - int64(len(h.head)+len(tail))
	if missing <= 0 {
		return strings.ToValidUTF8(string(h.head)+string(tail), "\ufffd")
	}
	begin, end := string(h.head), string(tail)
	for len(begin) > 0 { // no half characters at the cut
		if r, n := utf8.DecodeLastRuneInString(begin); r != utf8.RuneError || n != 1 {
			break
		}
		begin = begin[:len(begin)-1]
		missing++
	}
	for len(end) > 0 && !utf8.RuneStart(end[0]) {
		end = end[1:]
		missing++
	}
	return strings.ToValidUTF8(begin, "\ufffd") + fmt.Sprintf("\n[… %d bytes left out …]\n", missing) + strings.ToValidUTF8(end, "\ufffd")
}

// clip keeps the beginning and the end of a text.
func clip(text string, most int) string {
	h := headTail{max: most}
	h.Write([]byte(text))
	return h.String()
}
