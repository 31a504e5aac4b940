package history

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"assay/internal/repo"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
)

// change is what a commit did to one file, line by line.
type change struct {
	file
	added, removed []string // without line ends
	newAt, oldAt   []int    // their line numbers, from 1, in the new and the old file
	hunks          []hunk
	binary         bool
}

// hunk is one run of lines that went and came, with the line ends.
type hunk struct{ removed, added string }

// patches asks git for the changes of some commits against their first
// parents. A commit that git cannot show is missing from the answer.
func patches(ctx context.Context, g *repo.Git, all []*mined) (map[string]map[string]change, error) {
	out, err := diffTree(ctx, g, all)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(all) <= 1 {
			return nil, nil // more than the cap, or objects that are not there
		}
		half := len(all) / 2
		a, err := patches(ctx, g, all[:half])
		if err != nil {
			return nil, err
		}
		b, err := patches(ctx, g, all[half:])
		if err != nil {
			return nil, err
		}
		if a == nil {
			return b, nil
		}
		for id, p := range b {
			a[id] = p
		}
		return a, nil
	}
	found := map[string]map[string]change{}
	for id, text := range out {
		files, _, err := gitdiff.Parse(bytes.NewReader(text))
		if err != nil {
			continue // a name or a file that the format cannot hold
		}
		found[id] = changes(files)
	}
	return found, nil
}

// diffTree is git's patch of each commit, by its hash.
func diffTree(ctx context.Context, g *repo.Git, all []*mined) (map[string][]byte, error) {
	var in strings.Builder
	want := map[string]bool{}
	for _, m := range all {
		fmt.Fprintf(&in, "%s %s\n", m.id, m.parents[0])
		want[m.id] = true
	}
	out, err := g.Feed(ctx, strings.NewReader(in.String()), "diff-tree", "--stdin", "-r", "-p", "-M", "--full-index",
		"--no-ext-diff", "--no-textconv", "--no-color", "--src-prefix=a/", "--dst-prefix=b/")
	if err != nil {
		return nil, err
	}
	// A line of a patch begins with a sign or a word, never with a hash.
	byID := map[string][]byte{}
	id, from := "", 0
	for at := 0; at < len(out); {
		end := bytes.IndexByte(out[at:], '\n')
		if end < 0 {
			end = len(out) - at - 1
		}
		if line := string(out[at : at+end]); (len(line) == 40 || len(line) == 64) && want[line] {
			if id != "" {
				byID[id] = out[from:at]
			}
			id, from = line, at+end+1
		}
		at += end + 1
	}
	if id != "" {
		byID[id] = out[from:]
	}
	return byID, nil
}

func changes(files []*gitdiff.File) map[string]change {
	all := map[string]change{}
	for _, f := range files {
		c := change{binary: f.IsBinary}
		name := f.NewName
		if f.IsDelete || name == "" {
			name = f.OldName
		}
		for _, h := range f.TextFragments {
			was, is := int(h.OldPosition), int(h.NewPosition)
			var run hunk
			for _, l := range h.Lines {
				text := strings.TrimRight(l.Line, "\r\n")
				switch l.Op {
				case gitdiff.OpAdd:
					c.added, c.newAt = append(c.added, text), append(c.newAt, is)
					run.added += l.Line
					is++
				case gitdiff.OpDelete:
					c.removed, c.oldAt = append(c.removed, text), append(c.oldAt, was)
					run.removed += l.Line
					was++
				default:
					c.hunk(&run)
					is++
					was++
				}
			}
			c.hunk(&run)
		}
		all[name] = c
	}
	return all
}

func (c *change) hunk(run *hunk) {
	if *run != (hunk{}) {
		c.hunks = append(c.hunks, *run)
		*run = hunk{}
	}
}
