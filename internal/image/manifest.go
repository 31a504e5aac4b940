package image

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Manifest is the truth about a layer: every name below its root, in path
// order, parents before children, each parent present.
//
// Its encoding is JSON with one entry a line and exactly one spelling for each
// manifest, since its digest is the layer's id. Names that are not UTF-8 stand
// as {"base64":"…"}. Modification times are not in it.
type Manifest struct {
	Entries []Entry
}

const (
	manifestHead = `{"version":1,"entries":[` + "\n"
	manifestTail = "]}\n"
	maxLine      = 1 << 20 // one entry: two paths, 64 KiB of attributes in base64
)

// ID returns the digest of the manifest's encoding.
func (m Manifest) ID() LayerID {
	sum := sha256.Sum256(m.Encode())
	return LayerID("sha256:" + hex.EncodeToString(sum[:]))
}

// Encode returns the canonical encoding. Entries must be in path order.
func (m Manifest) Encode() []byte {
	b := make([]byte, 0, 64+len(m.Entries)*192)
	b = append(b, manifestHead...)
	for i, e := range m.Entries {
		b = e.append(b)
		if i < len(m.Entries)-1 {
			b = append(b, ',')
		}
		b = append(b, '\n')
	}
	return append(b, manifestTail...)
}

// append writes e's line. Written by hand because the bytes are hashed: they
// must not depend on a JSON library's taste in escapes.
func (e Entry) append(b []byte) []byte {
	b = append(b, `{"path":`...)
	b = appendName(b, e.Path)
	b = fmt.Appendf(b, `,"type":"%s"`, e.Type)
	if e.Type != TypeWhiteout {
		if e.Type != TypeSymlink {
			b = fmt.Appendf(b, `,"mode":"%04o"`, e.Mode)
		}
		b = fmt.Appendf(b, `,"uid":%d,"gid":%d`, e.UID, e.GID)
	}
	if len(e.Xattrs) > 0 {
		b = append(b, `,"xattrs":{`...)
		for i, k := range slices.Sorted(maps.Keys(e.Xattrs)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendName(b, k)
			b = append(b, `:"`...)
			b = base64.StdEncoding.AppendEncode(b, []byte(e.Xattrs[k]))
			b = append(b, '"')
		}
		b = append(b, '}')
	}
	if e.Link != "" {
		b = appendName(append(b, `,"link":`...), e.Link)
	}
	if e.Hardlink != "" {
		b = appendName(append(b, `,"hardlink":`...), e.Hardlink)
	}
	if e.Type == TypeChar || e.Type == TypeBlock {
		b = fmt.Appendf(b, `,"major":%d,"minor":%d`, e.Major, e.Minor)
	}
	if e.Opaque {
		b = append(b, `,"opaque":true`...)
	}
	if e.Type == TypeFile {
		b = fmt.Appendf(b, `,"size":%d,"digest":"%s"`, e.Size, e.Digest)
	}
	return append(b, '}')
}

// appendName writes a string of bytes as JSON, without loss.
func appendName(b []byte, s string) []byte {
	if !utf8.ValidString(s) {
		b = append(b, `{"base64":"`...)
		b = base64.StdEncoding.AppendEncode(b, []byte(s))
		return append(b, `"}`...)
	}
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < 0x20:
			b = fmt.Appendf(b, `\u%04x`, c)
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// rawName is a string of bytes in a manifest.
type rawName string

func (n *rawName) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, (*string)(n))
	}
	var v struct{ Base64 []byte }
	err := json.Unmarshal(b, &v)
	*n = rawName(v.Base64)
	return err
}

type wireEntry struct {
	Path         rawName
	Type         Type
	Mode         string
	UID, GID     int
	Xattrs       map[string][]byte
	Link         rawName
	Hardlink     rawName
	Major, Minor uint32
	Opaque       bool
	Size         int64
	Digest       string
}

func (w wireEntry) entry() (Entry, error) {
	e := Entry{Path: string(w.Path), Type: w.Type, UID: w.UID, GID: w.GID, Link: string(w.Link),
		Hardlink: string(w.Hardlink), Major: w.Major, Minor: w.Minor, Opaque: w.Opaque, Size: w.Size, Digest: w.Digest}
	if w.Mode != "" {
		m, err := strconv.ParseUint(w.Mode, 8, 16)
		if err != nil {
			return e, fmt.Errorf("mode: %w", err)
		}
		e.Mode = uint32(m)
	}
	if len(w.Xattrs) > 0 {
		e.Xattrs = make(map[string]string, len(w.Xattrs))
		for k, v := range w.Xattrs {
			e.Xattrs[k] = string(v)
		}
	}
	return e, nil
}

// DecodeManifest reads a canonical encoding and refuses any other spelling,
// entries out of order, and entries whose parent is missing.
func DecodeManifest(r io.Reader) (Manifest, error) {
	var m Manifest
	br := bufio.NewReaderSize(r, 64<<10)
	line, err := readLine(br)
	if err != nil || string(line) != manifestHead {
		return m, fmt.Errorf("manifest: line 1: not a layer manifest of version 1")
	}
	more := true // the line before promised another entry
	for n := 2; ; n++ {
		if line, err = readLine(br); err != nil {
			return m, fmt.Errorf("manifest: line %d: %w", n, err)
		}
		if string(line) == manifestTail {
			break
		}
		body, comma := bytes.CutSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte(","))
		e, err := decodeEntry(body)
		if err == nil && !more {
			err = errors.New("comma missing before it")
		}
		if err == nil && len(m.Entries) > 0 && comparePaths(m.Entries[len(m.Entries)-1].Path, e.Path) >= 0 {
			err = fmt.Errorf("%q is out of order", e.Path)
		}
		if err != nil {
			return m, fmt.Errorf("manifest: line %d: %w", n, err)
		}
		m.Entries = append(m.Entries, e)
		more = comma
	}
	if len(m.Entries) > 0 && more {
		return m, errors.New("manifest: comma after the last entry")
	}
	if _, err := br.ReadByte(); err != io.EOF {
		return m, errors.New("manifest: bytes after the end")
	}
	return m, m.checkTree()
}

func decodeEntry(line []byte) (Entry, error) {
	var w wireEntry
	if err := json.Unmarshal(line, &w); err != nil {
		return Entry{}, err
	}
	e, err := w.entry()
	if err != nil {
		return e, err
	}
	if err := e.check(Caps{}.orDefault()); err != nil {
		return e, err
	}
	if !bytes.Equal(e.append(nil), line) {
		return e, fmt.Errorf("%q is not in canonical form", e.Path)
	}
	return e, nil
}

// readLine returns a line with its newline.
func readLine(br *bufio.Reader) ([]byte, error) {
	line, err := br.ReadSlice('\n')
	if err != bufio.ErrBufferFull {
		return line, unexpectedEOF(err)
	}
	long := bytes.Clone(line)
	for err == bufio.ErrBufferFull && len(long) < maxLine {
		line, err = br.ReadSlice('\n')
		long = append(long, line...)
	}
	return long, unexpectedEOF(err)
}

func unexpectedEOF(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// checkTree demands that a parent is a directory that stands before its
// children, and that a hard link names an earlier entry that is none.
func (m Manifest) checkTree() error {
	type known struct {
		t    Type
		link bool
	}
	seen := make(map[string]known, len(m.Entries))
	for _, e := range m.Entries {
		if e.Path != "." && seen[parent(e.Path)].t != TypeDir {
			return fmt.Errorf("manifest: the parent of %q is not a directory of this layer", e.Path)
		}
		if e.Hardlink != "" {
			if k := seen[e.Hardlink]; k.t != e.Type || k.link {
				return fmt.Errorf("manifest: %q is a hard link to %q, which is not an earlier %s", e.Path, e.Hardlink, e.Type)
			}
		}
		seen[e.Path] = known{e.Type, e.Hardlink != ""}
	}
	return nil
}

// parent returns the directory of a path; "." is its own.
func parent(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[:i]
		}
	}
	return "."
}

// base returns the last name of a path.
func base(p string) string {
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[i+1:]
		}
	}
	return p
}
