package invert

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

// goSettings are faults in what configures the go command: its own files, and
// variables of the session.
func goSettings() []Operator {
	op := func(number int, name string, f Family, realism int, list func(g *Ground) []setting) Operator {
		return goSetting(Operator{Name: "go-" + name, Number: number, Ecosystem: Go, Family: f, Realism: realism,
			Hint: "the settings that the go command starts with"}, list)
	}
	always := func(s ...setting) func(*Ground) []setting { return func(*Ground) []setting { return s } }
	needs := func(s ...setting) func(*Ground) []setting {
		return func(g *Ground) []setting {
			if len(goNeeds(g)) == 0 || goVendored(g) {
				return nil
			}
			return s
		}
	}
	all := []Operator{
		op(33, "target", Config, 3, always(setting{"GOOS", "windows"}, setting{"GOARCH", "arm64"}, setting{"GOOS", "darwin"})),
		op(34, "mod-flag", Config, 4, goModFlag),
		op(0, "modfile-flag", Config, 3, always(setting{"GOFLAGS", "-modfile=go.local.mod"})),
		op(0, "overlay-flag", Exotic, 2, always(setting{"GOFLAGS", "-overlay=/srv/build/overlay.json"})),
		op(38, "modules-off", Config, 3, always(setting{"GO111MODULE", "off"})),
		op(39, "cgo", Config, 4, goCgo),
		op(0, "modcache-moved", Dependency, 4, needs(setting{"GOMODCACHE", "/mnt/cache/gomod"}, setting{"GOPATH", "/mnt/cache/go"})),
		op(0, "cache-off", Config, 4, always(setting{"GOCACHE", "off"})),
		op(0, "tmp-missing", Config, 3, always(setting{"GOTMPDIR", "/mnt/scratch/go-build"})),
		op(0, "toolchain-pinned", Config, 5, always(setting{"GOTOOLCHAIN", "go1.21.13"}, setting{"GOTOOLCHAIN", "go1.99.1"})),
		op(0, "root-stale", Config, 4, always(setting{"GOROOT", "/usr/local/go1.20"})),
		op(0, "work-variable", Config, 4, always(setting{"GOWORK", "/srv/workspace/go.work"})),
		op(0, "experiment-unknown", Exotic, 2, always(setting{"GOEXPERIMENT", "rangefunc2"})),
	}
	for i := range all {
		switch all[i].Name {
		case "go-modules-off":
			all[i].Masked = "a package that imports nothing but the standard library builds without modules too"
		case "go-cgo":
			all[i].Masked = "a program without cgo asks for no C compiler where the standard library is built already"
		}
	}
	return all
}

type setting struct{ key, value string }

// goSetting makes an operator of settings: each of them in the user's own
// file, in the toolchain's, and in every carrier of the session.
func goSetting(o Operator, list func(g *Ground) []setting) Operator {
	return chosen(o, func(g *Ground) []choice {
		if g.near("go.mod") == "" {
			return nil
		}
		var all []choice
		for _, s := range list(g) {
			what := s.key + "=" + s.value
			if s.key != "GOROOT" { // which no file can set
				all = append(all, g.goFile(s, what)...)
			}
			all = append(all, g.carried(Payload{Name: what, File: "go", Why: "Go", Lines: []string{export(s.key, s.value)}, Tool: "go"})...)
		}
		return all
	})
}

func (g *Ground) goFile(s setting, what string) []choice {
	if _, ok := g.exported(s.key); ok {
		return nil // a variable goes before the files
	}
	files := []string{path.Join(g.Home(), ".config/go/env")}
	if root := goRoot(g); root != "" && g.Has(root+"/go.env") {
		files = append(files, root+"/go.env")
	}
	var all []choice
	for _, p := range files {
		was, ok := g.Text(p)
		if !ok && g.Has(p) || !g.Ours(p) {
			continue
		}
		was = without(was, regexp.MustCompile("^"+s.key+"="))
		if was != "" && !strings.HasSuffix(was, "\n") {
			was += "\n"
		}
		all = append(all, choice{Site{Path: p, What: what}, g.rewrite(p, rewrite{text: was + what + "\n"})})
	}
	return all
}

func goModFlag(g *Ground) []setting {
	if goVendored(g) {
		return []setting{{"GOFLAGS", "-mod=mod"}}
	}
	if len(goNeeds(g)) > 0 {
		return []setting{{"GOFLAGS", "-mod=vendor"}}
	}
	return nil
}

func goCgo(g *Ground) []setting {
	all := []setting{{"CC", "clang-11"}, {"CC", "x86_64-w64-mingw32-gcc"}}
	if slices.ContainsFunc(g.Sources(".go"), func(p string) bool {
		text, _ := g.Text(p)
		return strings.Contains(text, `import "C"`)
	}) {
		all = append(all, setting{"CGO_ENABLED", "0"})
	}
	return all
}
