package invert

import (
	"math/rand/v2"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/forge"
	"assay/internal/image"
)

// native are faults of what C and C++ are built with. Those of binaries are in
// elf.go.
func native() []Operator {
	op := func(number int, name string, f Family, realism int, hint string) Operator {
		return Operator{Name: "native-" + name, Number: number, Ecosystem: Native, Family: f, Realism: realism, Hint: hint}
	}
	v := func(what string, pairs ...string) Payload {
		p := Payload{Name: what, File: "toolchain"}
		for i := 0; i+1 < len(pairs); i += 2 {
			p.Lines = append(p.Lines, export(pairs[i], pairs[i+1]))
		}
		return p
	}
	flags, cache := "what the compiler is called with", "what the build was configured with"
	built := "what is built already is not compiled again"
	masked := func(o Operator, why string) Operator { o.Masked = why; return o }
	return slices.Concat([]Operator{
		chosen(op(56, "header-shadowed", FileState, 4, "where headers are looked for"), headerShadow),
		nativeCarried(masked(op(57, "flags", Config, 4, flags), built), v("strict", "CFLAGS", "-std=c89 -pedantic-errors -Werror", "CXXFLAGS", "-std=c++98 -pedantic-errors -Werror"),
			v("warnings", "CFLAGS", "-Wall -Wextra -Wconversion -Werror", "CXXFLAGS", "-Wall -Wextra -Wconversion -Werror"), v("no asserts", "CPPFLAGS", "-DNDEBUG", "CFLAGS", "-DNDEBUG"),
			v("linker", "LDFLAGS", "-fuse-ld=mold"), v("32 bits", "CFLAGS", "-m32", "CXXFLAGS", "-m32", "LDFLAGS", "-m32")),
		nativeCarried(masked(op(0, "compiler-missing", Config, 5, flags), built), v("gcc", "CC", "gcc-8", "CXX", "g++-8"), v("ccache", "CC", "ccache gcc", "CXX", "ccache g++")),
		nativeCarried(masked(op(0, "include-path", Config, 4, "where headers are looked for"), built), Payload{Name: "kit", File: "toolchain",
			Lines: []string{prepend("CPATH", "/opt/sdk/include")}, More: legacyHeaders}),
		chosen(op(58, "object-stale", FileState, 4, "what was built before"), objectStale),
		rewritten(op(59, "pkg-config", Config, 4, "what libraries say about themselves"), pkgConfigs, pkgConfigPrefix),
		nativeCarried(masked(op(59, "pkg-config-path", Config, 4, "what libraries say about themselves"), built), v("libdir", "PKG_CONFIG_LIBDIR", "/opt/lib/pkgconfig", "PKG_CONFIG_PATH", "")),
		rewritten(op(60, "cmake-cache", Config, 5, cache), cmakeCaches, cmakeCache),
		rewritten(op(60, "config-header", Config, 4, cache), configHeaders, configHeader),
		rewritten(op(0, "cmake-minimum", Config, 5, "what the build asks for"), cmakeLists, cmakeMinimum),
		rewritten(op(0, "cmake-package", Dependency, 5, "what the build asks for"), cmakeLists, cmakePackage),
		rewritten(op(0, "source-list", Config, 5, "which files are built"), cmakeLists, sourceList),
		rewritten(op(0, "makefile-variable", Config, 4, "what the makefile sets"), makeFiles, makeVariable),
		rewritten(op(0, "build-file-cut", FileState, 3, cache), buildFiles, buildCut),
		rewritten(op(0, "test-list-stale", Config, 3, "which tests the build knows"), ctestFiles, ctestStale),
	}, elfs())
}

// nativeCarried makes an operator of payloads for projects that a C compiler
// is called for.
func nativeCarried(o Operator, payloads ...Payload) Operator {
	return chosen(o, func(g *Ground) []choice {
		if len(g.Everything(".c", ".cc", ".cpp", ".cxx")) == 0 {
			return nil
		}
		var all []choice
		for _, p := range payloads {
			if p.More != nil && len(p.More(g)) == 0 {
				continue
			}
			all = append(all, g.carried(p)...)
		}
		return all
	})
}

// headers are those that are included between quotes and lie in another
// directory than what includes them.
func headers(g *Ground) []string {
	return slices.DeleteFunc(g.Sources(".h", ".hpp"), func(p string) bool {
		text, _ := g.Text(p)
		return !strings.Contains(text, "(") || len(text) > 256<<10
	})
}

// outdated is a header with some of its declarations taken out.
func outdated(text string) string {
	decl := regexp.MustCompile(`(?m)^[A-Za-z_][\w\s*()]*\b\w+\s*\([^;{}]*\)\s*;\s*$`)
	all := decl.FindAllStringIndex(text, -1)
	if len(all) == 0 {
		return text
	}
	last := all[len(all)-1]
	return text[:last[0]] + text[last[1]:]
}

// headerShadow puts an older copy of a header beside a file that includes it,
// and has that file built again.
func headerShadow(g *Ground) []choice {
	var all []choice
	include := regexp.MustCompile(`(?m)^\s*#\s*include\s+"([\w.-]+)"`)
	byName := map[string]string{}
	for _, h := range headers(g) {
		byName[path.Base(h)] = h
	}
	seen := map[string]bool{}
	for _, p := range g.Everything(".c", ".cc", ".cpp", ".cxx") {
		text, _ := g.Text(p)
		for _, m := range include.FindAllStringSubmatch(text, -1) {
			h, at := byName[m[1]], path.Join(path.Dir(p), m[1])
			if h == "" || g.Has(at) || seen[at] || !g.Ours(at) {
				continue
			}
			seen[at] = true
			old, _ := g.Text(h)
			if outdated(old) == old {
				continue
			}
			all = append(all, choice{Site{Path: at, What: m[1]}, func(*rand.Rand) (forge.Delta, error) {
				return append(g.Write(at, []byte(outdated(old))), g.Touch(p, g.later())...), nil
			}})
		}
	}
	return all
}

// legacyHeaders are those of a development kit that was left on the path of
// headers: they stand before the system's, and ask for what nobody sets here.
func legacyHeaders(g *Ground) forge.Delta {
	include := regexp.MustCompile(`(?m)^\s*#\s*include\s+<((?:std\w+|string|assert|errno|cstd\w+|vector|cstring)(?:\.h)?)>`)
	var d forge.Delta
	seen := map[string]bool{}
	for _, p := range g.Everything(".c", ".cc", ".cpp", ".cxx", ".h") {
		text, _ := g.Text(p)
		for _, m := range include.FindAllStringSubmatch(text, -1) {
			if !seen[m[1]] && len(seen) < 3 {
				seen[m[1]] = true
				d = append(d, g.Write("/opt/sdk/include/"+m[1], []byte("#ifndef SDK_TARGET\n#error \"SDK_TARGET is not set: source environment-setup first\"\n#endif\n#include_next <"+m[1]+">\n"))...)
			}
		}
	}
	return uniquePaths(d)
}

// uniquePaths keeps the first edit of each path.
func uniquePaths(d forge.Delta) forge.Delta {
	seen := map[string]bool{}
	return slices.DeleteFunc(d, func(e forge.Edit) bool {
		was := seen[e.Path]
		seen[e.Path] = true
		return was
	})
}

// objectStale puts one object file in the place of another.
func objectStale(g *Ground) []choice {
	var objects []string
	_ = g.Tree.Walk(g.Dir(), each(func(p string, size int64) {
		if (strings.HasSuffix(p, ".o") || strings.HasSuffix(p, ".obj")) && size < 256<<10 && len(objects) < 400 {
			objects = append(objects, p)
		}
	}))
	var all []choice
	for i, p := range objects {
		other := objects[(i+1)%len(objects)]
		if other == p || path.Dir(other) != path.Dir(p) || !g.Ours(p) {
			continue
		}
		all = append(all, choice{Site{Path: p, What: path.Base(other)}, func(*rand.Rand) (forge.Delta, error) {
			return forge.Delta{g.as(other, p, func(n *forge.Edit) { n.Time = g.later() })}, nil
		}})
	}
	return all
}

func pkgConfigs(g *Ground) []string {
	if !strings.Contains(everyMakefile(g), "pkg-config") {
		return nil
	}
	var all []string
	_ = g.Tree.Walk(g.Dir(), each(func(p string, _ int64) {
		if strings.HasSuffix(p, ".pc") {
			all = append(all, p)
		}
	}))
	own, _ := g.exported("PKG_CONFIG_PATH")
	for _, d := range append(strings.Split(own, ":"), "/usr/lib/pkgconfig", "/usr/local/lib/pkgconfig", "/usr/share/pkgconfig", "/usr/lib/x86_64-linux-gnu/pkgconfig") {
		for _, e := range g.List(d) {
			if strings.HasSuffix(e.Path, ".pc") && e.Type == image.TypeFile && strings.Contains(everyMakefile(g), strings.TrimSuffix(path.Base(e.Path), ".pc")) {
				all = append(all, "/"+e.Path)
			}
		}
	}
	return all
}

func pkgConfigPrefix(_ *Ground, _, text string) []rewrite {
	line := regexp.MustCompile(`(?m)^prefix=.*$`)
	libs := regexp.MustCompile(`(?m)^Libs:(.*)$`)
	requires := regexp.MustCompile(`(?m)^Version:.*$`)
	return []rewrite{
		{what: "prefix", text: line.ReplaceAllString(text, "prefix=/opt/staging/usr")},
		{what: "library", text: libs.ReplaceAllStringFunc(text, func(l string) string { return regexp.MustCompile(`-l(\w+)`).ReplaceAllString(l, "-l${1}_s") })},
		{what: "requires", text: requires.ReplaceAllString(text, "$0\nRequires: zlib-ng >= 2.9")},
	}
}

func everyMakefile(g *Ground) string {
	var b strings.Builder
	for _, p := range makeFiles(g) {
		text, _ := g.Text(p)
		b.WriteString(text)
	}
	return b.String()
}

func makeFiles(g *Ground) []string {
	if !g.Runs("make") {
		return nil
	}
	return slices.DeleteFunc(g.Project(), func(p string) bool {
		n := path.Base(p)
		return n != "Makefile" && n != "GNUmakefile" && n != "makefile" && !strings.HasSuffix(n, ".mk")
	})
}

func makeVariable(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, r := range [][2]string{{`(?m)^(CC|CXX)([ \t]*[:?]?=[ \t]*)\S.*$`, "$1$2/opt/gcc-4.9/bin/gcc"}, {`(?m)^(LDLIBS|LIBS|LDFLAGS)([ \t]*[:?+]?=[ \t]*)(\S.*)$`, "$1$2-lintl $3"},
		{`(?m)^(CFLAGS|CXXFLAGS)([ \t]*[:?+]?=[ \t]*)(\S.*)$`, "$1$2-Werror -Wconversion -Wsystem-headers $3"}, {`(?m)^(SHELL)([ \t]*[:?]?=[ \t]*)\S.*$`, "$1$2/usr/local/bin/bash5"}} {
		line := regexp.MustCompile(r[0])
		if m := line.FindStringSubmatch(text); m != nil {
			all = append(all, rewrite{what: m[1], text: line.ReplaceAllString(text, r[1]), rebuilt: true})
		}
	}
	if !strings.Contains(text, "SHELL") {
		all = append(all, rewrite{what: "SHELL added", text: "SHELL := /usr/local/bin/bash5\n" + text, rebuilt: true})
	}
	return all
}

// rebuilt gives what choices make a later time than all else, so that a build
// looks at it again.
func (g *Ground) rebuilt(all []choice) []choice {
	for i, c := range all {
		all[i].delta = func(rng *rand.Rand) (forge.Delta, error) {
			d, err := c.delta(rng)
			for j := range d {
				if d[j].Type == image.TypeFile {
					d[j].Time = g.later()
				}
			}
			return d, err
		}
	}
	return all
}
