package invert

import (
	"fmt"
	"math/rand/v2"
	"path"
	"regexp"
	"strings"

	"assay/internal/forge"
)

// choice is a site with what comes of it.
type choice struct {
	Site
	delta func(rng *rand.Rand) (forge.Delta, error)
}

// maxChoices bounds the sites of one operator: a large project has thousands
// of files that could be renamed, and a few dozen tell as much.
const maxChoices = 48

// chosen makes an operator of choices.
func chosen(o Operator, list func(g *Ground) []choice) Operator {
	o.Sites = func(g *Ground) []Site {
		var all []Site
		for _, c := range spread(list(g)) {
			all = append(all, c.Site)
		}
		return all
	}
	o.Apply = func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
		for _, c := range list(g) {
			if c.Site == s {
				d, err := c.delta(rng)
				return Fault{d, map[string]string{"path": s.Path, "what": s.What}}, err
			}
		}
		return Fault{}, fmt.Errorf("%s: no such site: %s", o.Name, s)
	}
	return o
}

// spread keeps maxChoices of more, evenly.
func spread(all []choice) []choice {
	if len(all) <= maxChoices {
		return all
	}
	var some []choice
	for i := range maxChoices {
		some = append(some, all[i*len(all)/maxChoices])
	}
	return some
}

// rewrite is what a text becomes.
type rewrite struct {
	what, text string
	// rebuilt: the file's time has to change with it, or a build tool that
	// goes by times would not look at it again.
	rebuilt bool
}

// rewritten makes an operator of texts that change.
func rewritten(o Operator, files func(g *Ground) []string, edit func(g *Ground, p, text string) []rewrite) Operator {
	return chosen(o, func(g *Ground) []choice {
		var all []choice
		for _, p := range files(g) {
			text, ok := g.Text(p)
			if !ok || !g.Ours(p) {
				continue
			}
			for _, r := range edit(g, p, text) {
				if r.text != text {
					all = append(all, choice{Site{Path: p, What: r.what}, g.rewrite(p, r)})
				}
			}
		}
		return all
	})
}

func (g *Ground) rewrite(p string, r rewrite) func(*rand.Rand) (forge.Delta, error) {
	return func(*rand.Rand) (forge.Delta, error) {
		d := g.Write(p, []byte(r.text))
		if r.rebuilt {
			d[len(d)-1].Time = g.later()
		}
		return d, nil
	}
}

// later is a time after everything below Dir, in seconds.
func (g *Ground) later() int64 {
	t, err := forge.Later(g.Tree, g.Dir())
	if err != nil {
		return 1
	}
	return t.Unix()
}

// pinned is Write that keeps the file's time to the nanosecond, so that a build
// tool does not make it again.
func (g *Ground) pinned(p string, data []byte) forge.Delta {
	d := g.Write(p, data)
	if was, err := forge.Was(g.Tree, p); err == nil {
		d[len(d)-1].Time, d[len(d)-1].Nanos = was.Time, was.Nanos
	}
	return d
}

// added is a site where a file comes to be that was not there.
func (g *Ground) added(p, what, text string) []choice {
	if g.Has(p) || !g.Ours(p) {
		return nil
	}
	return []choice{{Site{Path: p, What: what}, func(*rand.Rand) (forge.Delta, error) { return g.Write(p, []byte(text)), nil }}}
}

// moved is a site where something gets another name.
func (g *Ground) moved(from, to string) []choice {
	if !g.Has(from) || g.Has(to) || !g.Ours(from) || !g.Ours(to) {
		return nil
	}
	return []choice{{Site{Path: from, What: path.Base(to)}, func(*rand.Rand) (forge.Delta, error) { return g.Move(from, to) }}}
}

// carried are the sites where lines come into the session, one for each carrier.
func (g *Ground) carried(p Payload) []choice {
	var all []choice
	for _, c := range Carriers() {
		at := c.Path(g, p)
		if at == "" || !g.Ours(at) {
			continue
		}
		all = append(all, choice{Site{Path: at, What: p.Name, Via: c.Name}, func(rng *rand.Rand) (forge.Delta, error) {
			d := c.Carry(g, at, p, rng)
			if p.More != nil {
				d = append(p.More(g), d...)
			}
			return d, nil
		}})
	}
	return all
}

// exported is the last value that the profile gives a variable, if it is a
// literal.
func (g *Ground) exported(name string) (value string, ok bool) {
	line := regexp.MustCompile(`(?m)^\s*(?:export\s+)?` + regexp.QuoteMeta(name) + `=["']?([^"'\n;]*)`)
	for _, f := range g.Profiles() {
		text, _ := g.Text(f)
		for _, m := range line.FindAllStringSubmatch(text, -1) {
			value, ok = m[1], true
		}
	}
	return value, ok
}

// near finds a file of that name in Dir or above it, up to Workdir.
func (g *Ground) near(names ...string) string {
	for d := g.Dir(); ; d = path.Dir(d) {
		for _, n := range names {
			if g.isFile(path.Join(d, n)) {
				return path.Join(d, n)
			}
		}
		if d == path.Clean(g.Env.Workdir) || d == "/" {
			return ""
		}
	}
}

// without takes the lines away that an expression matches.
func without(text string, line *regexp.Regexp) string {
	var b strings.Builder
	for l := range strings.Lines(text) {
		if !line.MatchString(strings.TrimRight(l, "\r\n")) {
			b.WriteString(l)
		}
	}
	return b.String()
}

// bump raises the last number of a version.
func bump(version string) string {
	at := regexp.MustCompile(`\d+`).FindAllStringIndex(version, -1)
	if len(at) == 0 {
		return version
	}
	i := at[min(2, len(at)-1)] // of 1.2.3-rc.1: the 3
	n := 0
	for _, c := range version[i[0]:min(i[1], i[0]+9)] {
		n = n*10 + int(c-'0')
	}
	return fmt.Sprintf("%s%d%s", version[:i[0]], n+1, version[i[1]:])
}
