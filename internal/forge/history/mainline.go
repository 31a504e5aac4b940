package history

import (
	"regexp"
	"strings"
)

// past is what the graph and all messages tell together.
type past struct {
	byID map[string]*commit
	// brought is the merge that brought a commit into the main line.
	brought map[string]string
	// undone is the commit that took another one back, and undoes the other way round.
	undone, undoes map[string]string
}

var reverts = regexp.MustCompile(`(?i)this reverts (?:the )?(?:merge )?commit ([0-9a-f]{7,64})`)

// look reads the main line, oldest first: the commits that a merge's other
// parents reach, and no earlier merge did, came with it.
func look(commits []*commit) *past {
	p := &past{byID: map[string]*commit{}, brought: map[string]string{}, undone: map[string]string{}, undoes: map[string]string{}}
	for _, c := range commits {
		p.byID[c.id] = c
	}
	var main []*commit
	seen := map[string]bool{}
	for c := newest(commits); c != nil; {
		main = append(main, c)
		seen[c.id] = true
		if len(c.parents) == 0 {
			break
		}
		c = p.byID[c.parents[0]]
	}
	for i := len(main) - 1; i >= 0; i-- {
		m := main[i]
		if len(m.parents) < 2 {
			continue
		}
		for todo := append([]string(nil), m.parents[1:]...); len(todo) > 0; {
			id := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			if n := p.byID[id]; n != nil && !seen[id] {
				seen[id] = true
				p.brought[id] = m.id
				todo = append(todo, n.parents...)
			}
		}
	}
	p.reversions(commits)
	return p
}

func newest(commits []*commit) *commit {
	if len(commits) == 0 {
		return nil
	}
	return commits[0]
}

// reversions pairs commits with those that take them back. A commit that was
// taken back and stayed so is no part of the healthy tree any more.
func (p *past) reversions(commits []*commit) {
	bySubject := map[string]*commit{} // of the newest with it, among older ones
	for i := len(commits) - 1; i >= 0; i-- {
		c := commits[i]
		subject := c.subject()
		if m := reverts.FindStringSubmatch(c.message); m != nil {
			if x := p.prefix(m[1]); x != nil {
				p.undone[x.id], p.undoes[c.id] = c.id, x.id
			}
		} else if quoted, ok := strings.CutPrefix(subject, `Revert "`); ok {
			if x := bySubject[strings.TrimSuffix(quoted, `"`)]; x != nil {
				p.undone[x.id], p.undoes[c.id] = c.id, x.id
			}
		}
		bySubject[subject] = c
	}
}

func (p *past) prefix(id string) *commit {
	if c := p.byID[id]; c != nil || len(id) >= 40 {
		return c
	}
	var found *commit
	for k, c := range p.byID {
		if strings.HasPrefix(k, id) {
			if found != nil {
				return nil // of two we know neither
			}
			found = c
		}
	}
	return found
}

// stands reports whether a commit was not taken back, or its taking back was.
func (p *past) stands(id string) bool {
	standing := true
	for range 40 { // a revert of a revert of …
		by, ok := p.undone[id]
		if !ok {
			break
		}
		id, standing = by, !standing
	}
	return standing
}

// names follows renames: commits must be asked newest first.
type names map[string]string

// now is what a path of a commit is called today, as far as the log tells.
func (n names) now(p string) string {
	if to, ok := n[p]; ok {
		return to
	}
	return p
}

// pass records a commit's renames, before older commits are asked.
func (n names) pass(c *commit) {
	type pair struct{ was, to string }
	var all []pair
	for _, f := range c.files {
		if f.status == 'R' {
			all = append(all, pair{f.was, n.now(f.path)})
		}
	}
	for _, r := range all {
		n[r.was] = r.to
	}
	for _, f := range c.files {
		if f.status == 'A' { // what had this name before was another file
			delete(n, f.path)
		}
	}
}

// subject is a message's first line.
func (c *commit) subject() string {
	s, _, _ := strings.Cut(strings.TrimSpace(c.message), "\n")
	return strings.TrimSpace(s)
}

// body is what stands below the first line.
func (c *commit) body() string {
	_, s, _ := strings.Cut(strings.TrimSpace(c.message), "\n")
	return strings.TrimSpace(s)
}
