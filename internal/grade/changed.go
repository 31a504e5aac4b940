package grade

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/image"
)

// change is one path at which a layer differs from what it lies upon.
type change struct {
	path string
	now  image.Entry // its type is a whiteout where the path is gone
}

// changesOf lists what a layer changes, in order of the paths, without
// directories that only lead to something. entries is the layer, or a part.
func changesOf(base *image.View, entries map[string]image.Entry) []change {
	all := map[string]image.Entry{}
	for p, e := range entries {
		old, err := base.Lstat(p)
		was := err == nil
		if e.Type == image.TypeWhiteout {
			if was {
				hidden(base, p, all)
			}
			continue
		}
		if e.Opaque || was && old.IsDir() && !e.IsDir() {
			hidden(base, p, all)
		}
		if !was || !same(old, e) {
			all[p] = e
		}
	}
	for p, e := range all { // what was hidden and is there again
		now, ok := entries[p]
		if e.Type != image.TypeWhiteout || !ok || now.Type == image.TypeWhiteout {
			continue
		}
		if old, err := base.Lstat(p); err == nil && same(old, now) {
			delete(all, p)
		} else {
			all[p] = now
		}
	}
	out := make([]change, 0, len(all))
	for _, p := range sortedKeys(all) {
		out = append(out, change{p, all[p]})
	}
	return out
}

// hidden marks what the base has at a path, and all below it, as removed unless
// something else is known of it.
func hidden(base *image.View, p string, all map[string]image.Entry) {
	_ = base.Walk(p, func(b image.Entry) error { // what is missing has nothing below it
		if _, ok := all[b.Path]; !ok && b.Path != "." {
			all[b.Path] = image.Entry{Path: b.Path, Type: image.TypeWhiteout}
		}
		return nil
	})
}

// same reports whether two entries are equal in what a program may see of them,
// times aside.
func same(a, b image.Entry) bool {
	if a.Type != b.Type || a.UID != b.UID || a.GID != b.GID {
		return false
	}
	switch a.Type {
	case image.TypeSymlink:
		return a.Link == b.Link
	case image.TypeFile:
		return a.Mode == b.Mode && a.Digest == b.Digest
	}
	return a.Mode == b.Mode && a.Major == b.Major && a.Minor == b.Minor
}

// workDigest names the work that crosses: equal for equal changes, whatever
// made them and upon whatever they lie.
func workDigest(changes []change) string {
	sum := sha256.New()
	enc := json.NewEncoder(sum)
	for _, c := range changes {
		line := []any{c.path, c.now.Type}
		switch c.now.Type {
		case image.TypeFile:
			line = append(line, c.now.Mode&0o111 != 0, c.now.Digest)
		case image.TypeSymlink:
			line = append(line, c.now.Link)
		}
		if err := enc.Encode(line); err != nil {
			return "" // only texts and truths are in it
		}
	}
	return hexSum(sum.Sum(nil))
}

// absolute spells the paths of changes as the sandbox does.
func absolute(changes []change) []string {
	out := make([]string, len(changes))
	for i, c := range changes {
		out[i] = "/" + c.path
	}
	return out
}

// Touched lists the protected paths that a layer changes, absolute and in
// order: those that guard covers, and those that a removed directory held.
func Touched(store *image.Store, base image.Image, layer image.LayerID, workdir image.Path, protected []string) ([]string, error) {
	if layer == "" || len(protected) == 0 {
		return nil, nil
	}
	dir, err := resolveDir(store, base.Layers, workdir)
	if err != nil {
		return nil, fmt.Errorf("protected paths: %w", err)
	}
	v, err := store.View(base.Layers)
	if err != nil {
		return nil, fmt.Errorf("protected paths: %w", err)
	}
	g, err := newGuard(dir, byLinks(v, dir, protected))
	if err != nil {
		return nil, &taskError{err}
	}
	entries, err := entriesOf(store, layer)
	if err != nil {
		return nil, fmt.Errorf("protected paths: %w", err)
	}
	all := slices.DeleteFunc(changesOf(v, entries), func(c change) bool { return !g.covers(c.path) })
	return absolute(all), nil
}

// entriesOf are what layers hold, the upper ones' where they name the same.
func entriesOf(store *image.Store, layers ...image.LayerID) (map[string]image.Entry, error) {
	in := map[string]image.Entry{}
	for _, id := range layers {
		if id == "" {
			continue
		}
		for e, err := range store.Entries(id) {
			if err != nil {
				return nil, err
			}
			in[e.Path] = e
		}
	}
	return in, nil
}

// wasGiven reports whether a path is as a directory of the host has it.
func wasGiven(c change, rel string, given []string) bool {
	for _, dir := range given {
		if c.now.IsDir() {
			if info, err := os.Lstat(filepath.Join(dir, rel)); err == nil && info.IsDir() {
				return true
			}
			continue
		}
		b, err := readHostFile(dir, rel, maxScript)
		sum := sha256.Sum256(b)
		if err == nil && c.now.Type == image.TypeFile && c.now.Digest == hexSum(sum[:]) {
			return true
		}
	}
	return false
}

// untouched reports whether nothing was done but what leaves no work: logs,
// temporary files, and a working directory and its files that the agent was
// given, whose directories on the host are known.
func untouched(changes []change, workdir string, given []string) bool {
	return !slices.ContainsFunc(changes, func(c change) bool {
		if c.now.IsDir() && within(workdir, c.path) || within(c.path, workdir) && wasGiven(c, below(c.path, workdir), given) {
			return false
		}
		for _, dir := range []string{logsDir, testsDir, "tmp", "var/tmp", "solution"} {
			if within(c.path, dir) {
				return false
			}
		}
		return true
	})
}
