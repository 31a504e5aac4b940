package scripted

import (
	"iter"
	"strconv"
	"strings"
	"unicode/utf8"
)

// answer is what the server says, before it has a wire form.
type answer struct {
	id        string // unique for the request, without a dialect's prefix
	model     string
	created   int64 // Unix seconds
	reasoning string
	text      string
	refusal   string
	calls     []call
	stop      string // "length", "filter", or "" for what the rest says
	usage     *Usage
	chunk     int
	empty     bool // says nothing at all
}

// filler stands in arguments for as many bytes as a fault asks for. It is a
// private-use rune, so that it needs no escape in JSON, and goes out a piece
// at a time: an answer of a gigabyte takes no memory here.
const filler = "\uf8ff"

const fillPiece = 64 << 10

// pieces cuts text into fragments of about chunk bytes, never within a rune,
// and the filler into one fragment.
func pieces(text string, chunk int) iter.Seq[string] {
	return func(yield func(string) bool) {
		for text != "" {
			n := min(chunk, len(text))
			if i := strings.Index(text[:min(len(text), n+len(filler))], filler); i >= 0 {
				n = i
				if i == 0 {
					n = len(filler)
				}
			}
			for n < len(text) && !utf8.RuneStart(text[n]) {
				n++
			}
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// event is one server-sent event.
type event struct {
	name string // empty: data alone
	data []byte
}

// object is JSON. Its keys are written in order of the alphabet, so that the
// same answer is the same bytes.
type object = map[string]any

// finish picks the dialect's word for why the answer ended.
func (a *answer) finish(calls, length, filter, refused, end string) string {
	switch {
	case a.stop == "length":
		return length
	case a.stop == "filter":
		return filter
	case a.refusal != "":
		return refused
	case len(a.calls) > 0:
		return calls
	default:
		return end
	}
}

// estimate is a token count for bytes of which nobody knows the tokens: four
// bytes each, at least one.
func estimate(bytes int) int64 { return int64(max(1, (bytes+3)/4)) }

func (a *answer) outputBytes() int {
	n := len(a.reasoning) + len(a.text) + len(a.refusal)
	for _, c := range a.calls {
		n += len(c.name) + len(c.args)
	}
	return n
}

// tokenID is a made-up id of a fragment: the same text has the same one.
func tokenID(s string) int64 {
	h := uint32(2166136261) // FNV-1a
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return int64(h % 50_000)
}

// requestID makes ids that differ between requests and are the same in a
// second run.
func requestID(n int64) string { return strconv.FormatInt(1_000_000+n, 36) }
