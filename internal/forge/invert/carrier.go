package invert

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
	"assay/internal/repo"
)

// Payload is what a session comes to be: lines of a POSIX shell, put into a
// file that the suite's commands read when they begin.
type Payload struct {
	Name  string   // a variant of its operator; in Site.What
	File  string   // what a person would call the file, without suffix: "locale", "proxy"
	Why   string   // a comment that a person might have left there; it gives nothing away
	Lines []string // "export TZ=Asia/Kathmandu"
	// Tool, if set, is a program whose wrapper can carry the lines too.
	Tool string
	// More comes with it: files that the lines name.
	More func(g *Ground) forge.Delta
}

// Carrier is a place that lasts and that the suite's entry reads.
type Carrier struct {
	Name string
	// Path is where the payload would lie; empty: this ground has no such place.
	Path func(g *Ground, p Payload) string
	// Carry puts the lines there.
	Carry func(g *Ground, at string, p Payload, rng *rand.Rand) forge.Delta
}

// Carriers lists the ways to last, for payloads of any kind. Rc files of tools
// and startup hooks of interpreters are operators of their own.
func Carriers() []Carrier {
	return []Carrier{
		{"profile", ownProfile, appendLines},  // C2: the project's own file below /etc/profile.d
		{"profile.d", newProfile, newLines},   // C2: another file there
		{"activate", activateOf, appendLines}, // C1: the virtual environment's script, where it is sourced
		{"dotenv", dotenvOf, appendLines},     // C1: the project's .env, where it is sourced
		{"sourced", sourcedOf, sourcedLines},  // one file below /etc/profile.d that sources another elsewhere
		{"wrapper", wrapperOf, wrapperLines},  // C4: a program of that name, earlier in PATH
	}
}

func ownProfile(g *Ground, _ Payload) string {
	const own = "/etc/profile.d/project.sh"
	if _, ok := g.Text(own); ok {
		return own
	}
	return ""
}

func newProfile(g *Ground, p Payload) string {
	if !g.IsDir("/etc/profile.d") {
		return ""
	}
	// After the project's own in the order of names, so that it has the last word.
	at := "/etc/profile.d/" + after(p.File) + ".sh"
	if g.Has(at) {
		return ""
	}
	return at
}

// after makes a name that is read after project.sh.
func after(name string) string {
	if name > "project" {
		return name
	}
	return "zz-" + name
}

func activateOf(g *Ground, _ Payload) string {
	return g.sourced(func(p string) bool { return path.Base(p) == "activate" })
}

func dotenvOf(g *Ground, _ Payload) string {
	return g.sourced(func(p string) bool { return strings.HasPrefix(path.Base(p), ".env") })
}

// sourced finds a file that the profile or the suite's commands source.
func (g *Ground) sourced(want func(string) bool) string {
	text := g.Commands()
	for _, f := range g.Profiles() {
		t, _ := g.Text(f)
		text += "\n" + t
	}
	for l := range strings.Lines(text) {
		f := strings.Fields(strings.NewReplacer(";", " ; ", "&&", " ; ", `"`, "").Replace(l))
		for i := range len(f) - 1 {
			if f[i] != "." && f[i] != "source" {
				continue
			}
			p := f[i+1]
			if !path.IsAbs(p) {
				p = path.Join(g.Dir(), p)
			}
			if _, ok := g.Text(p); ok && want(p) && g.Ours(p) {
				return p
			}
		}
	}
	return ""
}

func sourcedOf(g *Ground, p Payload) string {
	at := "/usr/local/etc/" + p.File + ".env"
	if !g.IsDir("/etc/profile.d") || g.Has(at) || newProfile(g, Payload{File: "site"}) == "" {
		return ""
	}
	return at
}

func wrapperOf(g *Ground, p Payload) string {
	if p.Tool == "" || !g.Runs(p.Tool) {
		return ""
	}
	real := g.Which(p.Tool)
	for _, d := range g.Search() {
		if real == "" || path.Dir(real) == d {
			return "" // nothing comes earlier
		}
		if g.IsDir(d) && strings.Contains(d, "local") || path.Base(d) == "bin" && strings.HasPrefix(d, g.Home()) {
			return path.Join(d, p.Tool)
		}
	}
	return ""
}

func (p Payload) text() string {
	out := ""
	if p.Why != "" {
		out = "# " + p.Why + "\n"
	}
	return out + strings.Join(p.Lines, "\n") + "\n"
}

func appendLines(g *Ground, at string, p Payload, _ *rand.Rand) forge.Delta {
	was, _ := g.Text(at)
	if was != "" && !strings.HasSuffix(was, "\n") {
		was += "\n"
	}
	return g.Write(at, []byte(was+p.text()))
}

func newLines(g *Ground, at string, p Payload, _ *rand.Rand) forge.Delta {
	return g.Write(at, []byte(p.text()))
}

func sourcedLines(g *Ground, at string, p Payload, _ *rand.Rand) forge.Delta {
	hub := newProfile(g, Payload{File: "site"})
	return append(g.Write(hub, []byte("# site settings\nif [ -r "+at+" ]; then\n  . "+at+"\nfi\n")), g.Write(at, []byte(p.text()))...)
}

func wrapperLines(g *Ground, at string, p Payload, _ *rand.Rand) forge.Delta {
	real := g.Which(p.Tool)
	return g.Program(at, []byte("#!/bin/sh\n"+p.text()+"exec "+real+" \"$@\"\n"))
}

// Carried makes an operator of payloads: each of them, in each carrier that
// the ground has, is a site.
func Carried(o Operator, payloads func(g *Ground) []Payload) Operator {
	o.Sites = func(g *Ground) []Site {
		var all []Site
		for _, p := range payloads(g) {
			for _, c := range Carriers() {
				if at := c.Path(g, p); at != "" && g.Ours(at) {
					all = append(all, Site{Path: at, What: p.Name, Via: c.Name})
				}
			}
		}
		return all
	}
	o.Apply = func(g *Ground, s Site, rng *rand.Rand) (Fault, error) {
		for _, p := range payloads(g) {
			for _, c := range Carriers() {
				if p.Name != s.What || c.Name != s.Via || c.Path(g, p) != s.Path {
					continue
				}
				d := c.Carry(g, s.Path, p, rng)
				if p.More != nil {
					d = append(p.More(g), d...)
				}
				return Fault{d, map[string]string{"carrier": c.Name, "path": s.Path, "lines": strings.Join(p.Lines, "; ")}}, nil
			}
		}
		return Fault{}, fmt.Errorf("%s: no such site: %s", o.Name, s)
	}
	return o
}

// export is the line that sets a variable.
func export(name, value string) string { return "export " + name + "=" + repo.Quote(value) }

// prepend is the line that puts a directory before those of a variable.
func prepend(name, dir string) string {
	return fmt.Sprintf(`export %s="%s${%s:+:$%s}"`, name, dir, name, name)
}

// isFile reports whether a regular file stands at a path.
func (g *Ground) isFile(p string) bool {
	e, ok := g.Entry(p)
	return ok && e.Type == image.TypeFile
}
