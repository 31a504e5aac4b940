package invert

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// buildDirs are directories that a build was configured in.
func buildDirs(g *Ground) []string {
	var all []string
	_ = g.Tree.Walk(g.Dir(), each(func(p string, _ int64) {
		if path.Base(p) == "CMakeCache.txt" {
			all = append(all, path.Dir(p))
		}
	}))
	return all
}

func cmakeCaches(g *Ground) []string {
	var all []string
	for _, d := range buildDirs(g) {
		all = append(all, d+"/CMakeCache.txt")
	}
	return all
}

func cmakeLists(g *Ground) []string {
	if len(buildDirs(g)) == 0 {
		return nil
	}
	return g.Sources("/CMakeLists.txt")
}

// cmakeCache makes the cache that of another machine or another checkout. What
// is only read when the build is configured anew comes with a later time.
func cmakeCache(g *Ground, _, text string) []rewrite {
	set := func(what, key, value string) rewrite {
		line := regexp.MustCompile(`(?m)^(` + key + `:\w+)=.*$`)
		return rewrite{what: what, text: line.ReplaceAllString(text, "${1}="+strings.ReplaceAll(value, "$", "$$")), rebuilt: true}
	}
	program := "/usr/local/bin/ninja-build"
	if strings.Contains(text, "CMAKE_GENERATOR:INTERNAL=Unix Makefiles") {
		program = "/usr/local/bin/gmake"
	}
	other, generator := path.Join("/home/build", path.Base(g.Dir())), "Unix Makefiles"
	if strings.Contains(text, "CMAKE_GENERATOR:INTERNAL=Unix Makefiles") {
		generator = "Ninja"
	}
	all := []rewrite{
		set("program", "CMAKE_MAKE_PROGRAM", program),
		set("source", "CMAKE_HOME_DIRECTORY", other),
		set("directory", "CMAKE_CACHEFILE_DIR", other+"/build"),
		set("generator", "CMAKE_GENERATOR", generator),
		set("compiler", "CMAKE_C(?:XX)?_COMPILER", "/usr/bin/gcc-8"),
		set("flags", "CMAKE_C(?:XX)?_FLAGS", "-Werror -Wconversion -Wpedantic -Wshadow"),
		set("linker", "CMAKE_(?:EXE|SHARED)_LINKER_FLAGS", "-fuse-ld=mold"),
		set("tests off", "BUILD_TESTING", "OFF"),
		set("build type", "CMAKE_BUILD_TYPE", "Release"),
	}
	for _, m := range regexp.MustCompile(`(?m)^(\w*(?:TEST|SHARED|BUILD)\w*):BOOL=ON$`).FindAllStringSubmatch(text, 8) {
		if m[1] != "BUILD_TESTING" {
			all = append(all, set(m[1]+" off", m[1], "OFF"))
		}
	}
	return all
}

func cmakeMinimum(_ *Ground, _, text string) []rewrite {
	line := regexp.MustCompile(`(?mi)^(\s*cmake_minimum_required\s*\(\s*VERSION\s+)[\d.]+(?:\.\.\.[\d.]+)?`)
	return []rewrite{{what: "3.99", text: line.ReplaceAllString(text, "${1}3.99"), rebuilt: true},
		{what: "4.9", text: line.ReplaceAllString(text, "${1}4.9"), rebuilt: true}}
}

func cmakePackage(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`(?mi)^(\s*find_package\s*\(\s*)(\w+)([^)]*)\)`).FindAllStringSubmatch(text, 6) {
		all = append(all, rewrite{what: m[2], text: strings.Replace(text, m[0], m[1]+m[2]+" 19.1 REQUIRED)", 1), rebuilt: true})
	}
	if m := regexp.MustCompile(`(?mi)^\s*project\s*\([^)]*\)`).FindString(text); m != "" {
		all = append(all, rewrite{what: "added", text: strings.Replace(text, m, m+"\nfind_package(Boost 1.99 REQUIRED COMPONENTS json)", 1), rebuilt: true})
	}
	return all
}

// sourceList takes one file out of a list of more.
func sourceList(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, list := range regexp.MustCompile(`(?is)(?:add_library|add_executable|target_sources|set)\s*\([^)]*\)`).FindAllString(text, -1) {
		names := regexp.MustCompile(`[ \t\n]+([\w./${}-]+\.(?:c|cc|cpp|cxx))\b`).FindAllStringSubmatch(list, -1)
		if len(names) < 2 {
			continue
		}
		for _, n := range names {
			all = append(all, rewrite{what: n[1], text: strings.Replace(text, list, strings.Replace(list, n[0], "", 1), 1), rebuilt: true})
		}
	}
	return all
}

// configHeaders are headers that configure made.
func configHeaders(g *Ground) []string {
	var all []string
	_ = g.Tree.Walk(g.Dir(), each(func(p string, _ int64) {
		if n := path.Base(p); n == "config.h" || strings.HasSuffix(n, "_config.h") || strings.HasSuffix(n, "-config.h") {
			all = append(all, p)
		}
	}))
	return all
}

// configHeader has one feature not found that was.
func configHeader(_ *Ground, _, text string) []rewrite {
	var all []rewrite
	for _, m := range regexp.MustCompile(`(?m)^#define[ \t]+((?:\w+_)?(?:HAVE|USE|ENABLE|SIZEOF|STDC)_\w+)[ \t]+\d+[ \t]*$`).FindAllStringSubmatch(text, 40) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[0], "/* #undef "+m[1]+" */", 1), rebuilt: true})
	}
	for _, m := range regexp.MustCompile(`(?m)^#define[ \t]+(\w*(?:VERSION|PACKAGE)\w*)[ \t]+"([^"]+)"`).FindAllStringSubmatch(text, 4) {
		all = append(all, rewrite{what: m[1], text: strings.Replace(text, m[0], strings.Replace(m[0], `"`+m[2]+`"`, `"`+bump(m[2])+`"`, 1), 1), rebuilt: true})
	}
	return all
}

func buildFiles(g *Ground) []string {
	var all []string
	for _, d := range buildDirs(g) {
		for _, n := range []string{"build.ninja", "Makefile"} {
			if g.isFile(d + "/" + n) {
				all = append(all, d+"/"+n)
			}
		}
	}
	return all
}

// buildCut cuts a file that was being written when the machine stopped.
func buildCut(_ *Ground, _, text string) []rewrite {
	cut := len(text) * 3 / 5
	if i := strings.LastIndex(text[:cut], " "); i > 0 {
		cut = i
	}
	return []rewrite{{what: "cut", text: text[:cut]}}
}

func ctestFiles(g *Ground) []string {
	var all []string
	_ = g.Tree.Walk(g.Dir(), each(func(p string, _ int64) {
		if path.Base(p) == "CTestTestfile.cmake" && len(all) < 40 {
			all = append(all, p)
		}
	}))
	return all
}

func ctestStale(g *Ground, p, text string) []rewrite {
	line := regexp.MustCompile(`(?m)^(add_test\(\S+ )"([^"]+)"`)
	var all []rewrite
	for _, m := range line.FindAllStringSubmatch(text, 6) {
		all = append(all, rewrite{what: path.Base(m[2]), text: strings.Replace(text, m[0], m[1]+`"`+path.Join("/home/build", path.Base(g.Dir()), path.Base(m[2]))+`"`, 1)})
	}
	if sub := regexp.MustCompile(`(?m)^subdirs\(.*$`).FindString(text); sub != "" {
		all = append(all, rewrite{what: "directory", text: strings.Replace(text, sub, "", 1)})
	}
	return slices.DeleteFunc(all, func(rewrite) bool { return !g.Ours(p) })
}
