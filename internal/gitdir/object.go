// Package gitdir reads and writes the parts of a git directory that make one
// commit: loose objects, trees, the index. It takes and gives bytes, runs no
// git, follows no configuration, and knows SHA-1 repositories alone. What it
// reads is hostile: sizes are capped and every length is checked.
package gitdir

import (
	"bytes"
	"cmp"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Hash is an object's name.
type Hash [sha1.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// ParseHash reads 40 hexadecimal digits.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if n, err := hex.Decode(h[:], []byte(s)); err != nil || n != len(h) || len(s) != 2*len(h) {
		return Hash{}, fmt.Errorf("%.50q is not the name of a git object", s)
	}
	return h, nil
}

// Path is where a loose object lies below a git directory.
func (h Hash) Path() string {
	s := h.String()
	return "objects/" + s[:2] + "/" + s[2:]
}

// Kinds of objects.
const (
	Blob   = "blob"
	Tree   = "tree"
	Commit = "commit"
)

// Encode makes a loose object. Equal objects have equal bytes.
func Encode(kind string, body []byte) (Hash, []byte) {
	head := kind + " " + strconv.Itoa(len(body)) + "\x00"
	h := sha1.New()
	io.WriteString(h, head)
	h.Write(body)
	var out bytes.Buffer
	z, err := zlib.NewWriterLevel(&out, zlib.BestCompression)
	if err != nil {
		panic("gitdir: " + err.Error()) // the level is a constant
	}
	io.WriteString(z, head) // a buffer takes everything
	z.Write(body)
	z.Close()
	return Hash(h.Sum(nil)), out.Bytes()
}

// HashOf is the name that a blob of this content has.
func HashOf(body []byte) Hash {
	h := sha1.New()
	io.WriteString(h, Blob+" "+strconv.Itoa(len(body))+"\x00")
	h.Write(body)
	return Hash(h.Sum(nil))
}

// Decode reads a loose object of at most max bytes and checks its name.
func Decode(loose []byte, want Hash, max int64) (kind string, body []byte, err error) {
	z, err := zlib.NewReader(bytes.NewReader(loose))
	if err != nil {
		return "", nil, fmt.Errorf("git object %s: %w", want, err)
	}
	defer z.Close()
	all, err := io.ReadAll(io.LimitReader(z, max+64))
	if err != nil {
		return "", nil, fmt.Errorf("git object %s: %w", want, err)
	}
	head, body, ok := bytes.Cut(all, []byte{0})
	kind, size, ok2 := strings.Cut(string(head), " ")
	n, err := strconv.ParseInt(size, 10, 64)
	if !ok || !ok2 || err != nil || n != int64(len(body)) || n > max {
		return "", nil, fmt.Errorf("git object %s: its head %.40q does not fit its %d bytes (at most %d)", want, head, len(body), max)
	}
	if sum := sha1.Sum(all); Hash(sum) != want {
		return "", nil, fmt.Errorf("git object %s: its content is that of %x", want, sum)
	}
	return kind, body, nil
}

// Mode is a tree entry's: a file's, a program's, a link's, a directory's or a
// submodule's.
type Mode uint32

const (
	ModeFile Mode = 0o100644
	ModeExec Mode = 0o100755
	ModeLink Mode = 0o120000
	ModeDir  Mode = 0o040000
	ModeSub  Mode = 0o160000
)

// Entry is one name of a tree.
type Entry struct {
	Name string
	Mode Mode
	Hash Hash
}

// maxEntries is how many names of one tree are read.
const maxEntries = 1 << 20

// DecodeTree reads a tree object's body.
func DecodeTree(body []byte) ([]Entry, error) {
	var all []Entry
	for len(body) > 0 {
		head, rest, ok := bytes.Cut(body, []byte{0})
		mode, name, ok2 := strings.Cut(string(head), " ")
		m, err := strconv.ParseUint(mode, 8, 32)
		if !ok || !ok2 || err != nil || len(rest) < sha1.Size {
			return nil, errors.New("git tree: it breaks off or is none")
		}
		if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
			return nil, fmt.Errorf("git tree: the name %.80q", name)
		}
		if len(all) == maxEntries {
			return nil, fmt.Errorf("git tree: more than %d names", maxEntries)
		}
		all = append(all, Entry{name, Mode(m), Hash(rest[:sha1.Size])})
		body = rest[sha1.Size:]
	}
	return all, nil
}

// EncodeTree makes a tree's body of entries in any order.
func EncodeTree(all []Entry) []byte {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Compare(a.key(), b.key()) })
	var out bytes.Buffer
	for _, e := range all {
		fmt.Fprintf(&out, "%o %s\x00", uint32(e.Mode), e.Name)
		out.Write(e.Hash[:])
	}
	return out.Bytes()
}

// key orders names as git does: a directory as if a slash ended it.
func (e Entry) key() string {
	if e.Mode == ModeDir {
		return e.Name + "/"
	}
	return e.Name
}

// CommitTree is the tree that a commit names, and what of it can stand in
// another commit: author, committer and message, without parents and
// signatures.
func CommitTree(body []byte) (tree Hash, rest []byte, err error) {
	head, message, ok := bytes.Cut(body, []byte("\n\n"))
	if !ok {
		return Hash{}, nil, errors.New("git commit: it has no message")
	}
	var keep bytes.Buffer
	for l := range bytes.Lines(head) {
		l = bytes.TrimSuffix(l, []byte("\n"))
		key, value, _ := bytes.Cut(l, []byte(" "))
		switch string(key) {
		case "tree":
			if tree, err = ParseHash(string(value)); err != nil {
				return Hash{}, nil, fmt.Errorf("git commit: %w", err)
			}
		case "author", "committer", "encoding":
			keep.Write(l)
			keep.WriteByte('\n')
		}
	}
	if tree == (Hash{}) {
		return Hash{}, nil, errors.New("git commit: it names no tree")
	}
	keep.WriteByte('\n')
	keep.Write(message)
	return tree, keep.Bytes(), nil
}

// EncodeCommit is a commit without parents.
func EncodeCommit(tree Hash, rest []byte) []byte {
	return append([]byte("tree "+tree.String()+"\n"), rest...)
}
