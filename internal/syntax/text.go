package syntax

import (
	"encoding/binary"
	"unicode/utf8"
)

// source is a text as the parser reads it, UTF-16, and the way back to bytes.
// A byte that is no UTF-8 reads as U+FFFD and stands for itself, so that every
// unit has its place in the file.
type source struct {
	units   []byte  // UTF-16, little endian
	offsets []int32 // byte of each unit and of the end; nil: all is ASCII, unit i is byte i
	lines   []int32 // byte at which each line begins
}

func read(src []byte) *source {
	s := &source{units: make([]byte, 0, 2*len(src)), lines: []int32{0}}
	ascii := true
	for i, b := range src {
		ascii = ascii && b < utf8.RuneSelf
		if b == '\n' {
			s.lines = append(s.lines, int32(i+1))
		}
	}
	if ascii {
		for _, b := range src {
			s.units = append(s.units, b, 0)
		}
		return s
	}
	s.offsets = make([]int32, 0, len(src)+1)
	for i := 0; i < len(src); {
		r, n := utf8.DecodeRune(src[i:])
		if r >= 0x10000 {
			r -= 0x10000
			s.units = binary.LittleEndian.AppendUint16(s.units, uint16(0xd800+r>>10))
			s.offsets = append(s.offsets, int32(i))
			r = 0xdc00 + r&0x3ff
		}
		s.units = binary.LittleEndian.AppendUint16(s.units, uint16(r))
		s.offsets = append(s.offsets, int32(i))
		i += n
	}
	s.offsets = append(s.offsets, int32(len(src)))
	return s
}

// at is the byte of a unit.
func (s *source) at(unit uint32) int {
	if s.offsets == nil {
		return min(int(unit), len(s.units)/2)
	}
	return int(s.offsets[min(int(unit), len(s.offsets)-1)])
}

// chunk is what is left from a unit on, at most n units.
func (s *source) chunk(unit, n uint32) []byte {
	from := min(2*uint64(unit), uint64(len(s.units)))
	return s.units[from:min(from+2*uint64(n), uint64(len(s.units)))]
}
