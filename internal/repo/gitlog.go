package repo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// LogOptions choose commits.
type LogOptions struct {
	From        string    // a name; empty: HEAD
	FirstParent bool      // follow first parents; a merge is then one change against its first
	Merges      bool      // follow all parents, and list a merge's changes against its first
	Since       time.Time // of the committer; zero: all
	Max         int       // 0: all
	Numstat     bool      // count lines: reads every changed file, some ten times slower
	Paths       []string  // literal
}

// Commit is one commit of a history and what it changed. Without
// LogOptions.FirstParent or Merges merges list no changes.
type Commit struct {
	Hash, Tree        string
	Parents           []string
	Author, Committer time.Time
	AuthorName        string
	Message           string // at most 256 KiB of it
	Changes           []FileChange
}

// FileChange is a path that a commit changed.
type FileChange struct {
	Status           byte   // A, M, D, T, R (renamed)
	Path, From       string // From: of what was renamed
	OldMode, NewMode string // "100644", "000000" where there is none
	OldHash, NewHash string
	Added, Deleted   int // lines; -1: binary, or not counted
}

// maxMessage is what is kept of a commit's message, maxPath what a path of a
// tree may have, maxChanges how many a commit may list before it is cut.
const (
	maxMessage = 256 << 10
	maxPath    = 64 << 10
	maxChanges = 100_000
)

// Log gives the commits that a name leads to, newest first, until yield
// returns an error, which it returns.
func (g *Git) Log(ctx context.Context, o LogOptions, yield func(Commit) error) error {
	args := []string{"log", "-z", "--raw", "--no-abbrev", "--no-color", "--no-mailmap", "--no-show-signature", "--no-notes", "--no-ext-diff", "--no-textconv",
		"--encoding=UTF-8", "--format=tformat:%x01%H%x00%T%x00%P%x00%at%x00%ct%x00%an%x00%B%x00"}
	if g.Partial { // telling renames reads files, which may not be there
		args = append(args, "--no-renames")
	} else {
		args = append(args, "-M")
	}
	if o.Numstat {
		args = append(args, "--numstat")
	}
	if o.FirstParent {
		args = append(args, "--first-parent", "--diff-merges=first-parent")
	}
	if o.Merges && !o.FirstParent {
		args = append(args, "--diff-merges=first-parent")
	}
	if !o.Since.IsZero() {
		args = append(args, "--since="+strconv.FormatInt(o.Since.Unix(), 10))
	}
	if o.Max > 0 {
		args = append(args, "--max-count="+strconv.Itoa(o.Max))
	}
	from := o.From
	if from == "" {
		from = "HEAD"
	}
	if _, err := g.Commit(ctx, from); err != nil {
		return err
	}
	args = append(append(args, "--end-of-options", from, "--"), o.Paths...)
	return g.Stream(ctx, func(r io.Reader) error { return readLog(r, yield) }, args...)
}

// readLog understands git's log as [Git.Log] asks for it: fields end with NUL,
// a commit begins with \x01, and where a path stands is known by what stands
// before it, so that no name can be taken for anything else.
func readLog(r io.Reader, yield func(Commit) error) error {
	l := logReader{r: bufio.NewReaderSize(r, 256<<10)}
	var c *Commit
	flush := func() error {
		if c == nil {
			return nil
		}
		done := *c
		c = nil
		return yield(done)
	}
	for {
		tok, err := l.token(maxPath)
		if errors.Is(err, io.EOF) {
			return flush()
		}
		if err != nil {
			return err
		}
		tok = strings.TrimLeft(tok, "\n")
		switch {
		case tok == "":
		case tok[0] == 1:
			if err := flush(); err != nil {
				return err
			}
			if c, err = l.commit(tok[1:]); err != nil {
				return err
			}
		case c == nil:
			return fmt.Errorf("git's log begins with %q", tok[:min(40, len(tok))])
		case tok[0] == ':':
			if err := l.raw(c, tok); err != nil {
				return err
			}
		default:
			if err := l.numstat(c, tok); err != nil {
				return err
			}
		}
	}
}

type logReader struct {
	r     *bufio.Reader
	count int // of the commit's changes, whose lines were counted: both lists have one order
}

// token reads to the next NUL and keeps at most so many bytes of it.
func (l *logReader) token(keep int) (string, error) {
	var b []byte
	for {
		part, err := l.r.ReadSlice(0)
		if n := keep - len(b); n > 0 {
			b = append(b, part[:min(n, len(part))]...)
		}
		if err == nil {
			return strings.TrimSuffix(string(b), "\x00"), nil
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if errors.Is(err, io.EOF) && len(b) > 0 {
			return string(b), nil
		}
		return "", err
	}
}

// commit reads the fields behind a commit's hash.
func (l *logReader) commit(hash string) (*Commit, error) {
	c := &Commit{Hash: hash}
	l.count = 0
	var f [6]string
	for i, keep := range []int{128, 4 << 10, 32, 32, 1 << 10, maxMessage} {
		tok, err := l.token(keep)
		if err != nil {
			return nil, fmt.Errorf("commit %s: git's log breaks off: %w", hash, err)
		}
		f[i] = tok
	}
	c.Tree, c.Parents, c.AuthorName = f[0], strings.Fields(f[1]), f[4]
	c.Author, c.Committer = unix(f[2]), unix(f[3])
	c.Message = strings.ToValidUTF8(strings.TrimRight(f[5], "\n"), "\uFFFD")
	return c, nil
}

// unix reads seconds; commits with nonsense for a date have the zero time.
func unix(s string) time.Time {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return time.Time{}
	}
	return time.Unix(n, 0).UTC()
}

// raw reads ":OLDMODE NEWMODE OLDHASH NEWHASH STATUS", and the one or two paths
// behind it.
func (l *logReader) raw(c *Commit, tok string) error {
	f := strings.Fields(tok[1:])
	if len(f) != 5 {
		return fmt.Errorf("commit %s: git's log has %q", c.Hash, tok[:min(80, len(tok))])
	}
	ch := FileChange{Status: f[4][0], OldMode: f[0], NewMode: f[1], OldHash: f[2], NewHash: f[3], Added: -1, Deleted: -1}
	var err error
	if ch.Path, err = l.token(maxPath); err != nil {
		return fmt.Errorf("commit %s: git's log breaks off: %w", c.Hash, err)
	}
	if ch.Status == 'R' || ch.Status == 'C' {
		ch.From = ch.Path
		if ch.Path, err = l.token(maxPath); err != nil {
			return fmt.Errorf("commit %s: git's log breaks off: %w", c.Hash, err)
		}
	}
	if len(c.Changes) < maxChanges {
		c.Changes = append(c.Changes, ch)
	}
	return nil
}

// numstat reads "ADDED\tDELETED\tPATH", or without the path, which then stands
// behind it, twice, of what was renamed.
func (l *logReader) numstat(c *Commit, tok string) error {
	f := strings.SplitN(tok, "\t", 3)
	if len(f) != 3 {
		return fmt.Errorf("commit %s: git's log has %q", c.Hash, tok[:min(80, len(tok))])
	}
	name := f[2]
	if name == "" {
		for range 2 {
			var err error
			if name, err = l.token(maxPath); err != nil {
				return fmt.Errorf("commit %s: git's log breaks off: %w", c.Hash, err)
			}
		}
	}
	if l.count < len(c.Changes) && c.Changes[l.count].Path == name {
		c.Changes[l.count].Added, c.Changes[l.count].Deleted = lines(f[0]), lines(f[1])
	}
	l.count++
	return nil
}

func lines(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}
