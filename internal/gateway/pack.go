package gateway

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A pack is a file of frames that only grows:
//
//	kind  byte     one of the frame kinds below
//	flags byte     1: the payload is compressed (zstd)
//	a, b  uvarint  their meaning depends on the kind
//	n     uvarint  length of the payload
//	n bytes        the payload
//	crc   4 bytes  CRC-32C of all that precedes it in the frame, little-endian
//
// Whatever follows a frame that is not whole was being written when the
// process died, and is not read.
const (
	packName  = "bodies.pack"
	packMagic = "assay bodies 1\n"

	frameChunk   = 'C' // a: its number, from 1; b: its length. Bytes that requests have in common
	frameNode    = 'N' // a: the node before it, 0: none; b: its chunk. Nodes are numbered from 1 as they come
	frameRequest = 'R' // a: number of the call; b: length of the body. The recipe of a request body
	frameAnswer  = 'A' // a: number of the call; b: length. The next piece of a raw response body

	flagZstd = 1

	// maxFrame bounds a frame's payload on disk and after decompression.
	maxFrame = 128 << 20
)

type frameHead struct {
	kind, flags byte
	a, b        uint64
	size        int // of the payload on disk
}

var errTorn = errors.New("frame is not whole")

// appendFrame adds a frame to dst, compressed where that helps.
func appendFrame(dst []byte, enc *zstd.Encoder, kind byte, a, b uint64, payload []byte) []byte {
	flags := byte(0)
	if len(payload) >= 256 {
		if small := enc.EncodeAll(payload, nil); len(small) < len(payload) {
			flags, payload = flagZstd, small
		}
	}
	start := len(dst)
	dst = append(dst, kind, flags)
	dst = binary.AppendUvarint(dst, a)
	dst = binary.AppendUvarint(dst, b)
	dst = binary.AppendUvarint(dst, uint64(len(payload)))
	dst = append(dst, payload...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli()))
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

// frames calls f for each whole frame of r, with the offset of the frame and
// its payload as stored; f must not keep that. It returns errTorn when bytes
// are left over that are no frame.
func frames(r io.Reader, f func(h frameHead, at int64, payload []byte) error) error {
	br := &counted{r: bufio.NewReaderSize(r, 64<<10)}
	var buf []byte
	for {
		at := br.n
		h, payload, err := readFrame(br, &buf)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return errTorn
		}
		if err := f(h, at, payload); err != nil {
			return err
		}
	}
}

// counted counts and sums what is read.
type counted struct {
	r   *bufio.Reader
	n   int64
	sum uint32
}

func (c *counted) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
		c.sum = crc32.Update(c.sum, castagnoli(), []byte{b})
	}
	return b, err
}

// readFrame returns io.EOF only where no byte of a frame is left.
func readFrame(c *counted, buf *[]byte) (h frameHead, payload []byte, err error) {
	c.sum = 0
	if h.kind, err = c.ReadByte(); err != nil {
		return h, nil, err
	}
	if h.flags, err = c.ReadByte(); err != nil {
		return h, nil, errTorn
	}
	var n uint64
	for _, p := range []*uint64{&h.a, &h.b, &n} {
		if *p, err = binary.ReadUvarint(c); err != nil {
			return h, nil, errTorn
		}
	}
	if n > maxFrame || h.flags&^flagZstd != 0 {
		return h, nil, errTorn
	}
	h.size = int(n)
	payload, err = readAll(c.r, h.size, buf)
	if err != nil {
		return h, nil, errTorn
	}
	want := crc32.Update(c.sum, castagnoli(), payload)
	var tail [4]byte
	if _, err := io.ReadFull(c.r, tail[:]); err != nil || binary.LittleEndian.Uint32(tail[:]) != want {
		return h, nil, errTorn
	}
	c.n += int64(n) + 4
	return h, payload, nil
}

// readAll reads n bytes into buf, growing it as they come: a length alone
// makes nobody allocate.
func readAll(r io.Reader, n int, buf *[]byte) ([]byte, error) {
	b := (*buf)[:0]
	for len(b) < n {
		step := min(n-len(b), 1<<20)
		b = append(b, make([]byte, step)...)
		if _, err := io.ReadFull(r, b[len(b)-step:]); err != nil {
			return nil, err
		}
	}
	*buf = b
	return b, nil
}

// open returns the payload as it was given to appendFrame.
func (h frameHead) open(dec *zstd.Decoder, payload []byte) ([]byte, error) {
	if h.flags&flagZstd == 0 {
		return payload, nil
	}
	b, err := dec.DecodeAll(payload, nil)
	if err != nil {
		return nil, fmt.Errorf("decompress frame: %w", err)
	}
	return b, nil
}

func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxFrame), zstd.WithDecoderLowmem(true))
}

// newEncoder is shared by the sessions of a gateway.
func newEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(256<<10))
}
