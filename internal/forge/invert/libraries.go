package invert

import (
	"bytes"
	"debug/elf"
	"io"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// library is a shared library that a program asks for by its soname.
type library struct{ soname, path string }

// libraryDirs are where a loader looks without being told.
func libraryDirs() []string {
	return []string{"/usr/local/lib", "/usr/local/lib/x86_64-linux-gnu", "/usr/local/lib/aarch64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu",
		"/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/lib64", "/lib", "/usr/lib64", "/usr/lib"}
}

// imports are the sonames that a compiled file asks for, and where else it
// looks for them.
func (g *Ground) imports(p string) (names, dirs []string) {
	f, err := g.Tree.Open(p)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 64<<20))
	if err != nil {
		return nil, nil
	}
	e, err := elf.NewFile(bytes.NewReader(b))
	if err != nil {
		return nil, nil
	}
	names, _ = e.ImportedLibraries() // a static one has none
	for _, tag := range []elf.DynTag{elf.DT_RUNPATH, elf.DT_RPATH} {
		s, _ := e.DynString(tag)
		for _, list := range s {
			for d := range strings.SplitSeq(list, ":") {
				dirs = append(dirs, path.Clean(strings.ReplaceAll(d, "$ORIGIN", path.Dir(p))))
			}
		}
	}
	return names, dirs
}

// configuredDirs are those that only the loader's cache knows.
func (g *Ground) configuredDirs() []string {
	var all []string
	for _, e := range g.List("/etc/ld.so.conf.d") {
		text, _ := g.Text("/" + e.Path)
		for l := range strings.Lines(text) {
			if d := strings.TrimSpace(l); path.IsAbs(d) && !slices.Contains(libraryDirs()[1:], d) {
				all = append(all, path.Clean(d))
			}
		}
	}
	return all
}

// closure are the libraries that programs need, one by the other.
func (g *Ground) closure(programs []string) []library {
	var all []library
	seen := map[string]bool{}
	configured := g.configuredDirs()
	for queue := programs; len(queue) > 0 && len(all) < 300; {
		p := queue[0]
		queue = queue[1:]
		names, dirs := g.imports(p)
		for _, n := range names {
			if seen[n] || strings.Contains(n, "/") {
				continue
			}
			seen[n] = true
			for _, d := range slices.Concat(dirs, configured, libraryDirs()) {
				dir := g.Real(d)
				if dir == "" || !g.Has(dir+"/"+n) {
					continue
				}
				all = append(all, library{n, dir + "/" + n})
				if real := g.Real(dir + "/" + n); real != "" {
					queue = append(queue, real)
				}
				break
			}
		}
	}
	return all
}

// wanted are the libraries of the suite's programs and of the project's
// compiled files, less those that looking around and mending needs.
func wanted(g *Ground) []library {
	var base, suite []string
	for _, t := range []string{"sh", "bash", "ls", "cp", "mv", "ln", "cat", "sed", "grep", "find", "tar", "ldconfig", "id", "env", "awk", "perl", "gzip", "readelf", "file"} {
		if p := g.Real(g.Which(t)); g.Which(t) != "" && p != "" {
			base = append(base, p)
		}
	}
	for _, t := range suiteTools(g) {
		if p := g.Real(g.Which(t)); g.Which(t) != "" && p != "" {
			suite = append(suite, p)
		}
	}
	for i, b := range binaries(g) {
		if i < 40 {
			suite = append(suite, b.path)
		}
	}
	spared := g.closure(base)
	return slices.DeleteFunc(g.closure(suite), func(l library) bool {
		return slices.ContainsFunc(spared, func(s library) bool { return s.soname == l.soname }) || strings.HasPrefix(l.soname, "libc.") ||
			strings.HasPrefix(l.soname, "ld-linux") || strings.HasPrefix(l.soname, "libm.") || strings.HasPrefix(l.soname, "libpthread")
	})
}

// libraryLinks make a soname lead to a version that is not there, or take it
// away: what ldconfig or an installation would put right.
func libraryLinks(g *Ground) []choice {
	var all []choice
	for _, l := range wanted(g) {
		e, _ := g.Entry(l.path)
		if e.Type != image.TypeSymlink || !g.Ours(l.path) {
			continue
		}
		all = append(all, choice{Site{Path: l.path, What: "relinked"}, g.relink(l.path, older(e.Link))},
			choice{Site{Path: l.path, What: "missing"}, func(*rand.Rand) (forge.Delta, error) { return g.Drop(l.path), nil }})
	}
	return all
}

// libraryMoved puts a library where no loader looks.
func libraryMoved(g *Ground) []choice {
	var all []choice
	for _, l := range wanted(g) {
		real := g.Real(l.path)
		e, _ := g.Entry(real)
		if e.Type != image.TypeFile || e.Size > maxPatched {
			continue
		}
		all = append(all, g.moved(real, path.Join(path.Dir(real), "old", path.Base(real)))...)
	}
	return all
}

// loaderCache takes the loader's cache away where libraries lie that only it
// knows.
func loaderCache(g *Ground) []choice {
	if !g.isFile("/etc/ld.so.cache") {
		return nil
	}
	dirs := g.configuredDirs()
	for _, l := range wanted(g) {
		if slices.Contains(dirs, path.Dir(l.path)) {
			return []choice{{Site{Path: "/etc/ld.so.cache", What: "missing"}, func(*rand.Rand) (forge.Delta, error) { return g.Drop("/etc/ld.so.cache"), nil }}}
		}
	}
	return nil
}

// staleLibraries are the beginnings of copies, in a directory that is searched
// before all others. A loader stops at one that is too short; one of another
// machine it would pass by.
func staleLibraries(g *Ground) []Payload {
	var all []Payload
	dir := "/opt/legacy/lib"
	if g.Has(dir) {
		return nil
	}
	for _, l := range wanted(g) {
		real := g.Real(l.path)
		if len(all) >= 8 || real == "" {
			continue
		}
		all = append(all, Payload{Name: l.soname, File: "legacy", Lines: []string{prepend("LD_LIBRARY_PATH", dir)}, More: func(g *Ground) forge.Delta {
			f, err := g.Tree.Open(real)
			if err != nil {
				return nil
			}
			defer f.Close()
			head, err := io.ReadAll(io.LimitReader(f, 2048))
			if err != nil {
				return nil
			}
			return g.Program(dir+"/"+l.soname, head)
		}})
	}
	return all
}
