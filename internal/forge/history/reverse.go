package history

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/repo"
)

// reverser takes changes back in files that have moved on. It never sees the
// user's tree: what it merges lies in a directory of ours.
type reverser struct {
	git *repo.Git
	dir string
}

var errConflict = errors.New("the inverse does not apply")

// back is the file now with the change from was to is taken out of it. The
// change has to be there whole, and nothing else may go with it: the lines that
// come and go are those of the inverse, no more and no fewer.
//
// Where a merge fails, mostly because others wrote right beside it, the hunks
// are looked for by their own lines.
func (r *reverser) back(ctx context.Context, now, is, was []byte, hunks []hunk) ([]byte, error) {
	if bytes.Equal(now, is) {
		return was, nil
	}
	want := balance(is, was)
	if !hasLines(now, want) {
		return nil, errConflict // and no program has to be asked
	}
	names := []string{filepath.Join(r.dir, "now"), filepath.Join(r.dir, "is"), filepath.Join(r.dir, "was")}
	for i, b := range [][]byte{now, is, was} {
		if err := os.WriteFile(names[i], b, 0o600); err != nil {
			return nil, fmt.Errorf("take a change back: %w", err)
		}
	}
	out, err := r.git.Run(ctx, "merge-file", "-p", "-q", names[0], names[1], names[2])
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil && sameLines(want, balance(now, out)) {
		return out, nil
	}
	if out, ok := unhunk(string(now), hunks); ok && sameLines(want, balance(now, out)) {
		return out, nil
	}
	return nil, errConflict
}

// unhunk takes out what each hunk added and puts back what it removed. What was
// added must stand in the file once, line for line, and be enough to be known by.
func unhunk(now string, hunks []hunk) ([]byte, bool) {
	for _, h := range hunks {
		if len(strings.TrimSpace(h.added)) < 12 {
			return nil, false
		}
		at := strings.Index("\n"+now, "\n"+h.added)
		if at < 0 || strings.Contains(now[at+1:], "\n"+h.added) {
			return nil, false
		}
		now = now[:at] + h.removed + now[at+len(h.added):]
	}
	return []byte(now), len(hunks) > 0
}

// balance counts how often each line came (positive) or went.
func balance(from, to []byte) map[string]int {
	n := map[string]int{}
	for l := range bytes.Lines(to) {
		n[string(bytes.TrimRight(l, "\r\n"))]++
	}
	for l := range bytes.Lines(from) {
		n[string(bytes.TrimRight(l, "\r\n"))]--
	}
	for l, c := range n {
		if c == 0 {
			delete(n, l)
		}
	}
	return n
}

// hasLines reports whether all lines that are to go are there.
func hasLines(now []byte, balance map[string]int) bool {
	left := 0
	need := map[string]int{}
	for l, n := range balance {
		if n < 0 {
			need[l] = -n
			left -= n
		}
	}
	for l := range bytes.Lines(now) {
		if k := string(bytes.TrimRight(l, "\r\n")); need[k] > 0 {
			need[k]--
			left--
		}
	}
	return left == 0
}

func sameLines(a, b map[string]int) bool {
	if len(a) != len(b) {
		return false
	}
	for l, n := range a {
		if b[l] != n {
			return false
		}
	}
	return true
}

// blobName is what git calls a file with this content; like is a name in the
// repository's own hash.
func blobName(b []byte, like string) string {
	head := fmt.Appendf(nil, "blob %d\x00", len(b))
	if len(like) == 64 {
		h := sha256.New()
		h.Write(head)
		h.Write(b)
		return hex.EncodeToString(h.Sum(nil))
	}
	h := sha1.New()
	h.Write(head)
	h.Write(b)
	return hex.EncodeToString(h.Sum(nil))
}
