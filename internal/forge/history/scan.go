package history

import (
	"context"
	"errors"
	"fmt"
	"time"

	"assay/internal/repo"
)

// commit is what one pass over the log tells.
type commit struct {
	id      string
	parents []string
	when    time.Time
	author  string
	message string
	files   []file // against the first parent
	cut     bool   // it has more files than are kept
}

func (c *commit) merge() bool { return len(c.parents) > 1 }

// file is one file that a commit changed. Names of objects are full.
type file struct {
	status        byte // A, M, D, R, C, T, of git diff --raw
	path, was     string
	mode, oldMode string
	blob, old     string
}

// Caps of what is kept of a log, which strangers wrote.
const (
	maxCommits = 2_000_000
	maxFiles   = 400 // of a commit; one with more is no candidate
)

// ground is the commit that the healthy tree was made of, where the clone has
// it; empty: it has not, and its HEAD is taken for it.
func ground(ctx context.Context, g *repo.Git, commit string) string {
	if commit == "" {
		return ""
	}
	id, err := g.Commit(ctx, commit)
	if err != nil {
		return ""
	}
	return id
}

// scan reads all commits that a name reaches, newest first: what came after the
// healthy tree is none of its past. Which lines they
// changed is not asked: that reads every file of every merge, and costs ten
// times as much as all else.
func scan(ctx context.Context, g *repo.Git, from string) ([]*commit, error) {
	var all []*commit
	err := g.Log(ctx, repo.LogOptions{From: from, Merges: true}, func(c repo.Commit) error {
		if len(all) == maxCommits {
			return fmt.Errorf("more than %d commits; give the time from which on they count", maxCommits)
		}
		all = append(all, keep(c))
		return nil
	})
	if errors.Is(err, repo.ErrNoCommits) {
		return nil, nil
	}
	return all, err
}

func keep(c repo.Commit) *commit {
	x := &commit{id: c.Hash, parents: c.Parents, when: c.Committer, author: c.AuthorName, message: c.Message}
	if len(c.Parents) == 0 {
		return x // everything is new in it
	}
	for _, f := range c.Changes {
		// Names of today need the renames of all commits.
		if len(x.files) == maxFiles {
			x.cut = true
			break
		}
		x.files = append(x.files, file{status: f.Status, path: f.Path, was: f.From, mode: f.NewMode, oldMode: f.OldMode, blob: f.NewHash, old: f.OldHash})
	}
	return x
}
