package setup

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"assay/internal/image"
	"assay/internal/repo"
)

// Stage is how far an attempt came.
type Stage string

const (
	StageImage   Stage = "image"   // the base, packages, the toolchain
	StageInstall Stage = "install" // the recipe's own commands
	StageTest    Stage = "test"    // a run of the suite
)

// Attempt is one thing that was tried: a recipe, and what became of it.
type Attempt struct {
	Rung    string   `json:"rung"` // of the ladder; "first", or what was there
	Why     string   `json:"why,omitempty"`
	Stage   Stage    `json:"stage"`          // in which it ended
	Step    string   `json:"step,omitempty"` // the command that failed
	Result  string   `json:"result"`
	Passed  int      `json:"passed"`
	Failed  int      `json:"failed"`
	Output  []string `json:"output,omitempty"` // its last lines
	Seconds float64  `json:"seconds"`
	Kept    bool     `json:"kept"` // the next ones stand on it

	recipe *Recipe
	plan   *plan
	tried  tried
	text   string // all output
	image  image.Image
}

// better orders attempts: how far they came, then how much passed.
func (a *Attempt) better(b *Attempt) bool {
	if b == nil {
		return true
	}
	rank := func(s Stage) int { return slices.Index([]Stage{StageImage, StageInstall, StageTest}, s) }
	whole := func(x *Attempt) int {
		if x.tried.void != "" || x.tried.hung != "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a.Stage), rank(b.Stage)), cmp.Compare(whole(a), whole(b)),
		cmp.Compare(a.Passed, b.Passed), cmp.Compare(b.Failed, a.Failed)) > 0
}

// climber goes up the ladder.
type climber struct {
	rungs  []rung
	theirs []string // Debian packages that the project's own files install
	used   map[string]int
	found  map[string]bool
}

func newClimber(p *plan, theirs []string) *climber {
	c := &climber{used: map[string]int{}, found: map[string]bool{}, theirs: theirs}
	if p.eco != nil {
		// Its own before those of all, but for the last resort of another version.
		for _, r := range p.eco.Rungs {
			if r.Toolchain == "" {
				c.rungs = append(c.rungs, r)
			}
		}
	}
	c.rungs = append(c.rungs, p.shared.Rungs...)
	if p.eco != nil {
		for _, r := range p.eco.Rungs {
			if r.Toolchain != "" {
				c.rungs = append(c.rungs, r)
			}
		}
	}
	return c
}

// step is a rung as it fits one failure.
type step struct {
	rung
	found string // what its When found
	next  *plan
}

// next finds the first rung that fits what became of an attempt.
func (c *climber) next(a *Attempt) (step, bool) {
	for _, r := range c.rungs {
		if r.Stage != "any" && r.Stage != string(a.Stage) || a.Stage == StageImage {
			continue
		}
		if a.tried.fair() && !r.Cheap || len(r.Systems) > 0 && !slices.Contains(r.Systems, a.plan.system.Name) || r.Needs != "" && a.plan.vars[r.Needs] == "" {
			continue
		}
		if c.used[r.Name] > r.Repeat {
			continue
		}
		for _, m := range regexp.MustCompile(r.When).FindAllStringSubmatch(a.text, 50) {
			what := ""
			if len(m) > 1 {
				what = m[1]
			}
			if key := r.Name + " " + what; !c.found[key] {
				if next, ok := c.apply(r, what, a.plan); ok {
					c.found[key] = true
					c.used[r.Name] += max(1, min(r.Repeat, 1))
					return step{r, what, next}, true
				}
			}
		}
	}
	return step{}, false
}

// apply is the plan that a rung makes of another; not ok: it changes nothing.
func (c *climber) apply(r rung, what string, p *plan) (*plan, bool) {
	n := p.clone()
	word := func(s, v string) string { return strings.ReplaceAll(s, "{1}", v) }
	for k, v := range r.Set {
		n.vars[k] = word(v, what)
	}
	for k, v := range r.Add {
		w := what
		if other, ok := r.Rename[what]; ok {
			w = other
		}
		if w != "" && !strings.Contains(w, "'") {
			w = repo.Quote(w)
		}
		if !strings.Contains(n.vars[k], word(v, w)) {
			n.vars[k] += word(v, w)
		}
	}
	for k, v := range r.Before {
		if !strings.HasPrefix(n.vars[k], v) {
			n.vars[k] = v + " && " + n.vars[k]
		}
	}
	maps.Copy(n.env, r.Env)
	more := slices.Clone(r.Packages)
	if len(r.PackageOf) > 0 {
		pkg, ok := r.PackageOf[what]
		if !ok {
			return nil, false
		}
		more = append(more, pkg)
	}
	if r.Theirs {
		more = append(more, c.theirs...)
	}
	for _, m := range more {
		if !slices.Contains(n.more, m) {
			n.more = append(n.more, m)
		}
	}
	if r.Toolchain != "" {
		if n.eco == nil || n.base != "" || n.file != "" {
			return nil, false
		}
		if n.tool = n.eco.neighbour(p.tool, r.Toolchain); n.tool < 0 {
			return nil, false
		}
	}
	same := n.tool == p.tool && maps.Equal(n.vars, p.vars) && maps.Equal(n.env, p.env) && slices.Equal(n.more, p.more)
	return n, !same
}

// cured says that an attempt, not better by its numbers, no longer fails by
// what the rung was for.
func (s step) cured(a, before *Attempt) bool {
	if s.found == "" || a.Stage != before.Stage && a.Stage != StageTest {
		return false
	}
	for _, m := range regexp.MustCompile(s.When).FindAllStringSubmatch(a.text, 50) {
		if len(m) > 1 && m[1] == s.found {
			return false
		}
	}
	return true
}

// lastLines are the end of an output, for people.
func lastLines(text string, n int) []string {
	var lines []string
	for l := range strings.Lines(text) {
		if l = strings.TrimRight(l, " \r\n\t"); l != "" {
			if len(l) > 300 {
				l = l[:300] + "…"
			}
			lines = append(lines, plain(l))
		}
	}
	return lines[max(0, len(lines)-n):]
}

// plain is text of a program for a terminal: nothing in it steers one.
func plain(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t':
			return ' '
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
}

func seconds(since time.Time) float64 { return float64(time.Since(since).Milliseconds()) / 1000 }
