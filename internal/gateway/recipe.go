package gateway

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

var errRecipe = errors.New("the recipe of a body is broken")

// frame reads the frame at an offset that load has seen.
func (ix *packIndex) frame(at int64) (frameHead, []byte, error) {
	r := &counted{r: bufio.NewReader(io.NewSectionReader(ix.f, at, maxFrame+64))}
	var buf []byte
	h, payload, err := readFrame(r, &buf)
	if err != nil {
		return h, nil, fmt.Errorf("frame at %d: %w", at, err)
	}
	b, err := h.open(ix.dec, payload)
	if err != nil {
		return h, nil, fmt.Errorf("frame at %d: %w", at, err)
	}
	return h, b, nil
}

func (ix *packIndex) answer(seq int) ([]byte, error) {
	var all []byte
	for _, at := range ix.answers[seq] {
		_, b, err := ix.frame(at)
		if err != nil {
			return nil, err
		}
		if len(all)+len(b) > maxBody {
			return nil, fmt.Errorf("it is larger than %d bytes", maxBody)
		}
		all = append(all, b...)
	}
	return all, nil
}

func (ix *packIndex) request(seq int) ([]byte, error) {
	at, ok := ix.requests[seq]
	if !ok {
		return nil, ErrNoRecord
	}
	h, recipe, err := ix.frame(at)
	if err != nil {
		return nil, err
	}
	var body []byte
	for len(recipe) > 0 {
		op := recipe[0]
		n, used := binary.Uvarint(recipe[1:])
		if used <= 0 {
			return nil, errRecipe
		}
		recipe = recipe[1+used:]
		switch op {
		case opInline:
			if n > uint64(len(recipe)) {
				return nil, errRecipe
			}
			body, recipe = append(body, recipe[:n]...), recipe[n:]
		case opChunk:
			body, err = ix.appendChunk(body, n)
		case opChain:
			body, err = ix.appendChain(body, n)
		default:
			err = errRecipe
		}
		if err != nil {
			return nil, err
		}
	}
	if uint64(len(body)) != h.b {
		return nil, fmt.Errorf("%w: %d bytes instead of %d", errRecipe, len(body), h.b)
	}
	return body, nil
}

func (ix *packIndex) appendChunk(body []byte, n uint64) ([]byte, error) {
	if n == 0 || n > uint64(len(ix.chunks)) {
		return nil, errRecipe
	}
	_, b, err := ix.frame(ix.chunks[n-1])
	if err != nil {
		return nil, err
	}
	if len(body)+len(b) > maxBody {
		return nil, fmt.Errorf("it is larger than %d bytes", maxBody)
	}
	return append(body, b...), nil
}

// appendChain ends: a node's predecessor has a smaller number, as load checks.
func (ix *packIndex) appendChain(body []byte, n uint64) ([]byte, error) {
	if n == 0 || n > uint64(len(ix.nodes)) {
		return nil, errRecipe
	}
	var chunks []uint64
	for ; n != 0; n = ix.nodes[n-1][0] {
		chunks = append(chunks, ix.nodes[n-1][1])
	}
	var err error
	for _, c := range slices.Backward(chunks) {
		if body, err = ix.appendChunk(body, c); err != nil {
			return nil, err
		}
	}
	return body, nil
}
