package setup

import (
	"embed"
	"fmt"
	"path"
	"regexp"
	"sync"

	"assay/internal/strict"
)

//go:embed tables/*.toml
var tables embed.FS

// common is the table of what holds for every ecosystem.
const common = "common"

// ecosystem is one table: how projects of some languages are recognised, built
// and tested. Strings may hold "{name}", which a variable replaces.
type ecosystem struct {
	Name       string   `toml:"name"`
	Languages  []string `toml:"languages"`  // the first is that of a project whose files do not tell more
	Extensions []string `toml:"extensions"` // of source files
	Marks      []string `toml:"marks"`      // patterns of files that show the ecosystem; the first weigh most
	TestFiles  []string `toml:"test_files"`
	Products   []string `toml:"products"` // what a build leaves in the tree, as git's exclude patterns
	Packages   []string `toml:"packages"`

	Env     map[string]string `toml:"env"`     // of /etc/profile.d/project.sh
	Offline map[string]string `toml:"offline"` // added to it when everything is installed
	Vars    map[string]string `toml:"vars"`

	Toolchains []toolchain `toml:"toolchains"` // in order of preference
	Wants      []want      `toml:"wants"`
	Find       []find      `toml:"find"`
	Systems    []system    `toml:"systems"` // the first that fits
	Runners    []runner    `toml:"runners"` // the first that fits
	Rungs      []rung      `toml:"rungs"`   // in the order in which they are tried
}

// toolchain is one version of an ecosystem's tools, on one Debian release.
type toolchain struct {
	Base     string            `toml:"base"` // "trixie"
	Version  string            `toml:"version"`
	Packages []string          `toml:"packages"`
	Run      []string          `toml:"run"`
	Env      map[string]string `toml:"env"`
}

// want is where a project says which version it wants.
type want struct {
	File    string `toml:"file"` // a pattern
	Matches string `toml:"matches"`
	Value   string `toml:"value"` // the constraint; empty: the first group
	Kind    string `toml:"kind"`  // "min": a plain version is the least one; empty: the constraint says it
	Soft    bool   `toml:"soft"`  // a wish that may go unheard
}

// find sets a variable from what the project's files say; the first that finds
// something wins.
type find struct {
	Var     string   `toml:"var"`
	Files   []string `toml:"files"` // patterns, in order of preference
	Matches string   `toml:"matches"`
	Value   string   `toml:"value"` // "{1}" is the first group, "{file}" the file
	Strip   []string `toml:"strip"` // taken out of the groups
	Unless  string   `toml:"unless"`
	All     bool     `toml:"all"` // every match of every file, joined
}

// condition holds if every part of it that is set does.
type condition struct {
	Files   []string `toml:"files"` // any of these patterns names something
	File    string   `toml:"file"`  // with Matches
	Matches string   `toml:"matches"`
	System  string   `toml:"system"`
}

type system struct {
	Name     string      `toml:"name"`
	When     []condition `toml:"when"` // all of them
	Packages []string    `toml:"packages"`
	Install  []string    `toml:"install"`
}

// runner is how the suite is run: one that package repo knows by name, or a
// line of its own.
type runner struct {
	When    []condition `toml:"when"`
	Use     string      `toml:"use"` // of repo.Runners
	Program string      `toml:"program"`
	Args    string      `toml:"args"`

	Name   string   `toml:"name"`
	Run    string   `toml:"run"`
	Select string   `toml:"select"`
	Report string   `toml:"report"`
	Files  []string `toml:"files"`
}

// rung is one alternative of the ladder: when an attempt failed and its output
// matches, it changes what is tried next.
type rung struct {
	Name  string `toml:"name"`
	Stage string `toml:"stage"` // "install", "test", "any"
	Why   string `toml:"why"`   // "{1}" is what When found
	When  string `toml:"when"`
	// Cheap rungs change how the suite is run alone: they are tried also where
	// most of it passes.
	Cheap   bool     `toml:"cheap"`
	Repeat  int      `toml:"repeat"`  // how often, for different findings; 0: once
	Needs   string   `toml:"needs"`   // a variable that has to be set
	Systems []string `toml:"systems"` // empty: all

	Set       map[string]string `toml:"set"`
	Add       map[string]string `toml:"add"`    // appended
	Before    map[string]string `toml:"before"` // a command put before a variable's
	Env       map[string]string `toml:"env"`
	Packages  []string          `toml:"packages"`
	PackageOf map[string]string `toml:"package_of"` // Debian's package of what When found; else the rung does not fit
	Rename    map[string]string `toml:"rename"`     // of what When found, for Add
	Toolchain string            `toml:"toolchain"`  // "older", "newer"
	Theirs    bool              `toml:"theirs"`     // packages that the project's own files install
}

// ecosystems are all tables but the common one, and the common one. They are
// part of the program, so that a fault in them is the program's.
func ecosystems() (all []*ecosystem, shared *ecosystem, err error) {
	l := loaded()
	return l.all, l.shared, l.err
}

type loadedTables struct {
	all    []*ecosystem
	shared *ecosystem
	err    error
}

var loaded = sync.OnceValue(func() (l loadedTables) {
	files, err := tables.ReadDir("tables")
	if err != nil {
		return loadedTables{err: err}
	}
	for _, f := range files {
		b, err := tables.ReadFile(path.Join("tables", f.Name()))
		if err != nil {
			return loadedTables{err: err}
		}
		e, err := readTable(f.Name(), b)
		if err != nil {
			return loadedTables{err: err}
		}
		if e.Name == common {
			l.shared = e
		} else {
			l.all = append(l.all, e)
		}
	}
	return l
})

// readTable reads a table and compiles its expressions once, so that a wrong
// one is found by whoever writes it.
func readTable(name string, b []byte) (*ecosystem, error) {
	e := &ecosystem{}
	if f := strict.TOML(b, e); len(f) > 0 {
		return nil, strict.Errors("table "+name, f, "a table has no key %q")
	}
	var exprs []string
	for _, w := range e.Wants {
		exprs = append(exprs, w.Matches)
	}
	for _, f := range e.Find {
		exprs = append(append(exprs, f.Matches), f.Strip...)
	}
	for _, r := range e.Rungs {
		exprs = append(exprs, r.When)
	}
	for _, x := range exprs {
		if _, err := regexp.Compile(x); err != nil {
			return nil, fmt.Errorf("table %s: %w", name, err)
		}
	}
	return e, nil
}
