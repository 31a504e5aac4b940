package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// Caps of one file of records.
const (
	MaxFile  = 1 << 30  // bytes
	MaxItem  = 64 << 20 // bytes of one record
	MaxItems = 200_000
)

// Kind is how a file holds its records.
type Kind string

const (
	KindLines Kind = "jsonl" // one JSON value after the other
	KindList  Kind = "list"  // a JSON array
	KindMap   Kind = "map"   // a JSON object, id to record
)

// Layout is a file without its records: with them it gives the file's bytes.
type Layout struct {
	Kind Kind `json:"kind"`
	// Pieces is what stands before the first record, between them, and after
	// the last; three where all that stand between are equal.
	Pieces []string `json:"pieces"`
	IDs    []string `json:"ids"` // of the records, in the file's order
}

// item is one record of a file.
type item struct {
	key  string // of a map
	raw  json.RawMessage
	line int // where it begins, from 1
}

// readFile reads a whole file with a cap.
func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		err = fmt.Errorf("%s: larger than %d MiB", path, MaxFile>>20)
	}
	return b, err
}

// placed is an error with its line.
type placed struct {
	line int
	err  error
}

func (e *placed) Error() string { return e.err.Error() }
func (e *placed) Unwrap() error { return e.err }

// at wraps an error of a file with the file's name and the line it knows.
func at(path string, err error) error {
	var p *placed
	if errors.As(err, &p) {
		return fmt.Errorf("%s:%d: %w", path, p.line, p.err)
	}
	return fmt.Errorf("%s: %w", path, err)
}

// split takes a file of records apart. A file of one object is a map when no
// value of it is anything but an object, else one record.
func split(data []byte) ([]item, Layout, error) {
	body := bytes.TrimLeft(data, " \t\r\n")
	if len(body) == 0 {
		return nil, Layout{}, errors.New("the file is empty")
	}
	switch {
	case body[0] == '[':
		return splitInside(data, '[', KindList)
	case isMap(body):
		return splitInside(data, '{', KindMap)
	}
	s := &splitter{data: data, kind: KindLines}
	dec := json.NewDecoder(bytes.NewReader(data))
	for {
		err := s.next(dec, "")
		if errors.Is(err, io.EOF) {
			return s.done()
		}
		if err != nil {
			return nil, Layout{}, err
		}
	}
}

// isMap reports whether the first value is an object of objects, and all.
func isMap(body []byte) bool {
	dec := json.NewDecoder(bytes.NewReader(body))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return false
	}
	n := 0
	for ; dec.More(); n++ {
		if _, err := dec.Token(); err != nil {
			return n > 0 // a broken map, to be complained of as one
		}
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return n > 0
		}
		if t := bytes.TrimSpace(raw); len(t) == 0 || t[0] != '{' {
			return false
		}
	}
	if _, err := dec.Token(); err != nil {
		return n > 0
	}
	return n > 0 && len(bytes.TrimSpace(body[dec.InputOffset():])) == 0
}

// splitter collects items and what stands between them.
type splitter struct {
	data   []byte
	kind   Kind
	items  []item
	pieces []string
	end    int // of the last item
	line   int // of end, less 1
}

func (s *splitter) fault(offset int64, err error) error {
	o := min(max(int(offset), 0), len(s.data))
	return &placed{1 + bytes.Count(s.data[:o], []byte{'\n'}), err}
}

// next reads one value, which a decoder error or [io.EOF] may end.
func (s *splitter) next(dec *json.Decoder, key string) error {
	var raw json.RawMessage
	before := dec.InputOffset()
	if err := dec.Decode(&raw); err != nil {
		if errors.Is(err, io.EOF) && len(bytes.TrimSpace(s.data[before:])) == 0 {
			return io.EOF
		}
		return s.fault(before+skipped(s.data[before:]), fmt.Errorf("not JSON: %w", err))
	}
	end := int(dec.InputOffset())
	value := bytes.TrimSpace(raw)
	begin := end - len(value)
	if begin < s.end || !bytes.Equal(s.data[begin:end], value) {
		return s.fault(before, errors.New("not JSON that can be taken apart"))
	}
	s.line += bytes.Count(s.data[s.end:begin], []byte{'\n'})
	it := item{key: key, raw: value, line: s.line + 1}
	switch {
	case len(value) > MaxItem:
		return &placed{it.line, fmt.Errorf("a record of %d bytes (at most %d)", len(value), MaxItem)}
	case len(s.items) == MaxItems:
		return &placed{it.line, fmt.Errorf("more than %d records", MaxItems)}
	case value[0] != '{':
		return &placed{it.line, fmt.Errorf("a record must be a JSON object, and this begins with %q", value[0])}
	}
	s.pieces = append(s.pieces, string(s.data[s.end:begin]))
	s.items = append(s.items, it)
	s.line += bytes.Count(value, []byte{'\n'})
	s.end = end
	return nil
}

// skipped is how much white space data begins with.
func skipped(data []byte) int64 {
	return int64(len(data) - len(bytes.TrimLeft(data, " \t\r\n,:")))
}

func (s *splitter) done() ([]item, Layout, error) {
	l := Layout{Kind: s.kind, Pieces: append(s.pieces, string(s.data[s.end:]))}
	if n := len(l.Pieces); n > 3 {
		same := true
		for _, p := range l.Pieces[2 : n-1] {
			same = same && p == l.Pieces[1]
		}
		if same {
			l.Pieces = []string{l.Pieces[0], l.Pieces[1], l.Pieces[n-1]}
		}
	}
	return s.items, l, nil
}

func splitInside(data []byte, open byte, kind Kind) ([]item, Layout, error) {
	s := &splitter{data: data, kind: kind}
	dec := json.NewDecoder(bytes.NewReader(data))
	if _, err := dec.Token(); err != nil {
		return nil, Layout{}, s.fault(0, err)
	}
	for dec.More() {
		key := ""
		if open == '{' {
			tok, err := dec.Token()
			if err != nil {
				return nil, Layout{}, s.fault(dec.InputOffset(), fmt.Errorf("not JSON: %w", err))
			}
			key, _ = tok.(string) // a key is always text
		}
		if err := s.next(dec, key); err != nil {
			if errors.Is(err, io.EOF) {
				err = s.fault(int64(len(data)), io.ErrUnexpectedEOF)
			}
			return nil, Layout{}, err
		}
	}
	if _, err := dec.Token(); err != nil {
		return nil, Layout{}, s.fault(int64(len(data)), fmt.Errorf("the file breaks off: %w", err))
	}
	if rest := bytes.TrimSpace(data[dec.InputOffset():]); len(rest) > 0 {
		return nil, Layout{}, s.fault(dec.InputOffset(), errors.New("something follows the end of the JSON"))
	}
	return s.done()
}

// Join gives back the bytes of a file: its layout with these records.
func (l Layout) Join(records [][]byte) ([]byte, error) {
	n := len(records)
	if n == 0 {
		return []byte(strings.Join(l.Pieces, "")), nil
	}
	piece := func(i int) (string, bool) {
		switch {
		case len(l.Pieces) == n+1:
			return l.Pieces[i], true
		case len(l.Pieces) == 3 && i == 0:
			return l.Pieces[0], true
		case len(l.Pieces) == 3 && i == n:
			return l.Pieces[2], true
		case len(l.Pieces) == 3:
			return l.Pieces[1], true
		}
		return "", false
	}
	var b bytes.Buffer
	for i := range n + 1 {
		p, ok := piece(i)
		if !ok {
			return nil, fmt.Errorf("a layout of %d pieces does not hold %d records", len(l.Pieces), n)
		}
		b.WriteString(p)
		if i < n {
			b.Write(records[i])
		}
	}
	return b.Bytes(), nil
}

// Lines is the layout of one record a line.
func Lines(n int) Layout {
	if n == 0 {
		return Layout{Kind: KindLines}
	}
	if n == 1 {
		return Layout{Kind: KindLines, Pieces: []string{"", "\n"}}
	}
	return Layout{Kind: KindLines, Pieces: []string{"", "\n", "\n"}}
}
