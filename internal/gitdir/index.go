package gitdir

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// IndexEntry is a tracked file as the index has it. What git keeps there of
// the file system is left out: git looks at the files anew.
type IndexEntry struct {
	Path  string
	Mode  Mode
	Hash  Hash
	Flags uint16 // assume-valid and stage
	Extra uint16 // intent-to-add, skip-worktree
}

const (
	indexHead  = 12
	indexFixed = 62 // of an entry, before its name
	flagExtra  = 0x4000
	flagName   = 0x0fff
	maxIndex   = 1 << 20 // entries
)

// DecodeIndex reads an index of version 2, 3 or 4. Extensions that git needs
// to understand it (a split or sparse index) are refused, others left out.
func DecodeIndex(b []byte) ([]IndexEntry, error) {
	if len(b) < indexHead+sha1.Size || string(b[:4]) != "DIRC" {
		return nil, errors.New("git index: it is none, or breaks off")
	}
	body := b[:len(b)-sha1.Size]
	var none Hash
	if sum := sha1.Sum(body); !bytes.Equal(sum[:], b[len(body):]) && !bytes.Equal(none[:], b[len(body):]) {
		return nil, errors.New("git index: its sum is another")
	}
	version, n := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 || n > maxIndex {
		return nil, fmt.Errorf("git index: version %d with %d entries is not read", version, n)
	}
	d := indexReader{body: body[indexHead:], version: version}
	all := make([]IndexEntry, 0, min(n, 4096))
	for range n {
		e, err := d.entry()
		if err != nil {
			return nil, fmt.Errorf("git index: entry %d: %w", len(all)+1, err)
		}
		all = append(all, e)
	}
	for len(d.body) > 0 {
		if len(d.body) < 8 {
			return nil, errors.New("git index: an extension breaks off")
		}
		name, size := string(d.body[:4]), binary.BigEndian.Uint32(d.body[4:])
		if int64(size) > int64(len(d.body)-8) {
			return nil, errors.New("git index: an extension breaks off")
		}
		if name[0] < 'A' || name[0] > 'Z' {
			return nil, fmt.Errorf("git index: the extension %q is not read", name)
		}
		d.body = d.body[8+size:]
	}
	return all, nil
}

type indexReader struct {
	body    []byte
	version uint32
	last    string // name, of which the next one in version 4 keeps a part
}

var errCut = errors.New("it breaks off")

func (d *indexReader) entry() (IndexEntry, error) {
	b := d.body
	if len(b) < indexFixed {
		return IndexEntry{}, errCut
	}
	e := IndexEntry{Mode: Mode(binary.BigEndian.Uint32(b[24:])), Hash: Hash(b[40:60]), Flags: binary.BigEndian.Uint16(b[60:])}
	at := indexFixed
	if e.Flags&flagExtra != 0 {
		if d.version < 3 || len(b) < at+2 {
			return e, errCut
		}
		e.Extra = binary.BigEndian.Uint16(b[at:])
		at += 2
	}
	e.Flags &^= flagName | flagExtra
	keep := ""
	if d.version == 4 {
		strip, n := offset(b[at:])
		if n == 0 || strip > uint64(len(d.last)) {
			return e, errCut
		}
		at += n
		keep = d.last[:uint64(len(d.last))-strip]
	}
	end := bytes.IndexByte(b[at:], 0)
	if end < 0 {
		return e, errCut
	}
	e.Path = keep + string(b[at:at+end])
	if e.Path == "" || strings.HasPrefix(e.Path, "/") {
		return e, fmt.Errorf("the path %.80q", e.Path)
	}
	next := at + end + 1
	if d.version < 4 {
		next = (at + end + 8) &^ 7 // entries are filled up to eight bytes, with one NUL at least
	}
	if next > len(b) {
		return e, errCut
	}
	d.body, d.last = b[next:], e.Path
	return e, nil
}

// offset reads the variable-length number of an index of version 4; n is 0 if
// it breaks off.
func offset(b []byte) (v uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		if n > 0 {
			v++
		}
		v = v<<7 | uint64(c&0x7f)
		n++
		if c&0x80 == 0 {
			return v, n
		}
	}
	return 0, 0
}

// EncodeIndex writes an index of version 2, or 3 where an entry needs it, in
// which git trusts nothing that it did not look at itself.
func EncodeIndex(all []IndexEntry) []byte {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b IndexEntry) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Flags&0x3000, b.Flags&0x3000))
	})
	version := uint32(2)
	for _, e := range all {
		if e.Extra != 0 {
			version = 3
		}
	}
	out := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
	out = binary.BigEndian.AppendUint32(out, uint32(len(all)))
	for _, e := range all {
		begin := len(out)
		out = append(out, make([]byte, 24)...)
		out = binary.BigEndian.AppendUint32(out, uint32(e.Mode))
		out = append(out, make([]byte, 12)...)
		out = append(out, e.Hash[:]...)
		flags := e.Flags | uint16(min(len(e.Path), flagName))
		if e.Extra != 0 {
			flags |= flagExtra
		}
		out = binary.BigEndian.AppendUint16(out, flags)
		if e.Extra != 0 {
			out = binary.BigEndian.AppendUint16(out, e.Extra)
		}
		out = append(out, e.Path...)
		out = append(out, make([]byte, 8-(len(out)-begin)%8)...)
	}
	sum := sha1.Sum(out)
	return append(out, sum[:]...)
}
