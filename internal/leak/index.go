package leak

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"assay/internal/image"
)

// filter is a Bloom filter of the lines of a layer: 16 bits a line and four
// probes, so that one line of 400 that is not there seems to be.
type filter struct{ bits []uint64 }

const (
	indexHead   = "assay-lines-1\n"
	bitsPerLine = 16
	probes      = 4
	maxIndex    = 1 << 30 // bytes of a file that is read
)

func newFilter(lines int) *filter {
	n := max(64, lines*bitsPerLine)
	return &filter{make([]uint64, 1<<max(0, bits.Len(uint(n-1))-6))}
}

func (f *filter) each(h uint64, do func(word int, bit uint64) bool) bool {
	m := uint64(len(f.bits))*64 - 1
	step := h>>32 | 1
	for range probes {
		at := h & m
		if !do(int(at>>6), 1<<(at&63)) {
			return false
		}
		h += step * 0x9e3779b97f4a7c15
	}
	return true
}

func (f *filter) add(h uint64) {
	f.each(h, func(w int, b uint64) bool { f.bits[w] |= b; return true })
}

func (f *filter) has(h uint64) bool {
	return f.each(h, func(w int, b uint64) bool { return f.bits[w]&b != 0 })
}

// holds reports whether so much of a solution may stand in the layer that it
// must be looked through.
func (f *filter) holds(g *Gold) bool {
	n := 0
	for h := range g.lines {
		if f.has(h) {
			n++
		}
	}
	return n > 0 && float64(n) >= share*float64(len(g.lines))
}

// index is a shared layer's filter, from the cache or made and put there.
func (s *Scanner) index(ctx context.Context, id image.LayerID) (*filter, error) {
	var file string
	if s.Cache != "" {
		file = filepath.Join(string(s.Cache), strings.ReplaceAll(string(id), ":", "-"))
		if f, err := readFilter(file); err == nil {
			return f, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			os.Remove(file) // it is made anew
		}
	}
	seen := map[uint64]struct{}{}
	w := &walk{s: s, layer: id, each: func(h uint64) { seen[h] = struct{}{} }}
	if err := w.layerAll(ctx); err != nil {
		return nil, err
	}
	f := newFilter(len(seen))
	for h := range seen {
		f.add(h)
	}
	if file == "" {
		return f, nil
	}
	return f, f.write(file)
}

func readFilter(file string) (*filter, error) {
	fi, err := os.Lstat(file)
	if err != nil {
		return nil, err
	}
	if !fi.Mode().IsRegular() || fi.Size() > maxIndex {
		return nil, errors.New("not an index")
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	body, ok := strings.CutPrefix(string(b), indexHead)
	n := len(body) / 8
	if !ok || len(body)%8 != 0 || n == 0 || n&(n-1) != 0 {
		return nil, errors.New("not an index")
	}
	f := &filter{make([]uint64, n)}
	for i := range f.bits {
		f.bits[i] = binary.LittleEndian.Uint64([]byte(body[8*i : 8*i+8]))
	}
	return f, nil
}

// write puts the filter in place whole: others may read it at the same time.
func (f *filter) write(file string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	b := append(make([]byte, 0, len(indexHead)+8*len(f.bits)), indexHead...)
	for _, w := range f.bits {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return renameio.WriteFile(file, b, 0o644)
}
