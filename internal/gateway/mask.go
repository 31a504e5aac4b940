package gateway

import (
	"bytes"
	"strings"
)

// minSecret is the length of the shortest string that is treated as a secret.
// A server of one's own is often given "EMPTY" or "not-needed" as its key;
// overwriting those wherever they stand would spoil texts and protect nothing.
const minSecret = 16

// secrets are strings that must not be where they are not needed. They are
// overwritten in place with asterisks, so that lengths and JSON stay as they are.
type secrets []string

func newSecrets(all ...string) secrets {
	var s secrets
	for _, one := range all {
		if len(one) >= minSecret {
			s = append(s, one)
		}
	}
	return s
}

// in reports whether b has one of them.
func (s secrets) in(b []byte) bool {
	for _, one := range s {
		if bytes.Contains(b, []byte(one)) {
			return true
		}
	}
	return false
}

// mask returns b, or a copy of it in which the secrets are overwritten.
func (s secrets) mask(b []byte) []byte {
	if !s.in(b) {
		return b
	}
	b = bytes.Clone(b)
	s.overwrite(b)
	return b
}

func (s secrets) overwrite(b []byte) {
	for _, one := range s {
		for i := 0; ; {
			n := bytes.Index(b[i:], []byte(one))
			if n < 0 {
				break
			}
			i += n
			for range len(one) {
				b[i] = '*'
				i++
			}
		}
	}
}

func (s secrets) maskString(v string) string {
	for _, one := range s {
		v = strings.ReplaceAll(v, one, strings.Repeat("*", len(one)))
	}
	return v
}

// masked overwrites secrets in a stream that comes in pieces. It holds back
// the end of a piece only while that may be the beginning of a secret.
type masked struct {
	s    secrets
	held []byte
}

// next returns what may go on, which is valid until the call after it.
func (m *masked) next(piece []byte) []byte {
	if len(m.s) == 0 {
		return piece
	}
	if len(m.held) > 0 {
		piece = append(m.held, piece...)
		m.held = nil
	}
	if m.s.in(piece) {
		piece = bytes.Clone(piece)
		m.s.overwrite(piece)
	}
	if keep := m.s.beginnings(piece); keep > 0 {
		m.held = bytes.Clone(piece[len(piece)-keep:])
		piece = piece[:len(piece)-keep]
	}
	return piece
}

// rest is what is still held back when the stream is over.
func (m *masked) rest() []byte {
	b := m.held
	m.held = nil
	return b
}

// beginnings is the length of the longest end of b that begins a secret.
func (s secrets) beginnings(b []byte) int {
	most := 0
	for _, one := range s {
		for n := min(len(one)-1, len(b)); n > most; n-- {
			if b[len(b)-n] == one[0] && string(b[len(b)-n:]) == one[:n] {
				most = n
			}
		}
	}
	return most
}
