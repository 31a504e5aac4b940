package external

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/model"
	"assay/internal/strict"

	"github.com/pelletier/go-toml/v2"
)

const (
	maxRecipe = 256 << 10 // bytes of a recipe file
	maxList   = 200       // entries of one list
)

// Error is a fault of a recipe file.
type Error struct {
	File string
	Line int    // 0: of no one line
	Key  string // dotted; may be empty
	Err  error
}

func (e *Error) Error() string {
	at := e.File
	if e.Line > 0 {
		at += ":" + strconv.Itoa(e.Line)
	}
	if e.Key != "" {
		at += ": " + e.Key
	}
	return at + ": " + e.Err.Error()
}

func (e *Error) Unwrap() error { return e.Err }

// Parse reads a recipe. Errors are *Error; a key that no recipe has is one.
func Parse(file string, b []byte) (Recipe, error) {
	var r Recipe
	if len(b) > maxRecipe {
		return r, &Error{File: file, Err: fmt.Errorf("larger than %d bytes", maxRecipe)}
	}
	if faults := strict.TOML(b, &r); len(faults) > 0 {
		f := faults[0]
		if f.Unknown {
			f.Err = errors.New("no such key; 'assay agent show codex' prints a recipe to start from")
		}
		return r, &Error{File: file, Line: f.Line, Key: strings.Join(f.Key, "."), Err: f.Err}
	}
	if key, err := r.check(); err != nil {
		return r, &Error{File: file, Line: line(b, key), Key: key, Err: err}
	}
	return r, nil
}

// line finds the line of a key by its last name; 0 when nothing looks like it.
func line(b []byte, key string) int {
	name := key[strings.LastIndexByte(key, '.')+1:]
	name, _, _ = strings.Cut(name, "[")
	if name == "" {
		return 0
	}
	re := regexp.MustCompile(`^\s*(\[+[^\]]*\b)?"?` + regexp.QuoteMeta(name) + `"?\s*[=\]]`)
	n := 0
	for l := range bytes.Lines(b) {
		n++
		if re.Match(l) {
			return n
		}
	}
	return 0
}

// Format writes a recipe as a file that Parse reads.
func (r Recipe) Format() ([]byte, error) {
	var b bytes.Buffer
	e := toml.NewEncoder(&b)
	e.SetArraysMultiline(false)
	if err := e.Encode(r); err != nil {
		return nil, fmt.Errorf("write recipe %q: %w", r.Name, err)
	}
	return b.Bytes(), nil
}

var (
	nameRE = regexp.MustCompile(`^[a-z][a-z0-9-]{0,39}$`)
	// versionRE has room for pre-releases and no room for a path or a blank.
	versionRE = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z.+_-]{0,59}$`)
	npmRE     = regexp.MustCompile(`^(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~-][A-Za-z0-9._~-]*(@([0-9A-Za-z][0-9A-Za-z.+_-]*))?$`)
	pipRE     = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(\[[A-Za-z0-9,._-]+\])?(==([0-9A-Za-z][0-9A-Za-z.+!_-]*))?$`)
	envRE     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// check returns the key at fault.
func (r Recipe) check() (string, error) {
	switch {
	case !nameRE.MatchString(r.Name):
		return "name", fmt.Errorf("%q: a name is lower-case letters, digits and dashes, at most 40", r.Name)
	case !versionRE.MatchString(r.Version):
		return "version", fmt.Errorf("%q is no version; name the one that is installed", r.Version)
	case len(r.Run.Command) == 0:
		return "run.command", errors.New("missing: the program and its arguments")
	}
	if err := dialects(r.Dialects); err != nil {
		return "dialects", err
	}
	if key, err := r.Install.check(); err != nil {
		return "install." + key, err
	}
	for _, name := range slices.Sorted(maps.Keys(r.Variants)) {
		if !nameRE.MatchString(name) {
			return "variant." + name, fmt.Errorf("%q: a name is lower-case letters, digits and dashes", name)
		}
		if err := dialects(r.Variants[name].Dialects); err != nil {
			return "variant." + name + ".dialects", err
		}
	}
	if key, err := checkGlobs(r.Logs, r.Clean); err != nil {
		return key, err
	}
	return r.checkTemplates()
}

// checkGlobs refuses what would leave its directory, cost without bound to
// match, or be several words to the shell that cleans.
func checkGlobs(l Logs, c Clean) (string, error) {
	for key, list := range map[string][]string{"logs.home": l.Home, "logs.workdir": l.Workdir, "clean.workdir": c.Workdir, "clean.tmp": c.Tmp} {
		if len(list) > maxList {
			return key, fmt.Errorf("a list of %d entries; at most %d", len(list), maxList)
		}
		for _, g := range list {
			_, err := path.Match(g, "")
			switch {
			case err != nil:
				return key, fmt.Errorf("%q: %w", g, err)
			case !local(g) || strings.ContainsAny(g, " \t\n\\"):
				return key, fmt.Errorf("%q: a glob without blanks that stays below its directory is needed", g)
			case strings.Count(g, "**") > 2 || strings.HasPrefix(key, "clean.") && strings.Contains(g, "**"):
				return key, fmt.Errorf("%q: ** may stand twice in the globs of logs, and not in others", g)
			}
		}
	}
	return "", nil
}

func dialects(list []model.Dialect) error {
	for _, d := range list {
		if !slices.Contains(model.Dialects(), d) {
			return fmt.Errorf("no dialect is named %q; there are %v", d, model.Dialects())
		}
	}
	return nil
}

func (in Install) check() (string, error) {
	pin := npmRE
	switch in.Runtime {
	case RuntimeNode:
	case RuntimePython:
		pin = pipRE
	case RuntimeNone:
		if len(in.Packages)+len(in.Loose) > 0 {
			return "packages", errors.New("runtime none has no package manager")
		}
	default:
		return "runtime", fmt.Errorf("%q is not node, python or none", in.Runtime)
	}
	if in.RuntimeVersion != "" && !versionRE.MatchString(in.RuntimeVersion) {
		return "runtime_version", fmt.Errorf("%q is no version", in.RuntimeVersion)
	}
	for _, p := range in.Packages {
		m := pin.FindStringSubmatch(p)
		if m == nil {
			return "packages", fmt.Errorf("%q is no package of %s", p, in.Runtime)
		}
		if m[len(m)-1] == "" || m[len(m)-1] == "latest" {
			return "packages", fmt.Errorf("%q has no exact version", p)
		}
	}
	for _, p := range in.Loose {
		if !pin.MatchString(p) {
			return "loose", fmt.Errorf("%q is no package of %s", p, in.Runtime)
		}
	}
	for key, list := range map[string][]string{"copy": in.Copy, "prune": in.Prune, "programs": slices.Collect(maps.Values(in.Programs))} {
		for _, p := range list {
			if !local(p) {
				return key, fmt.Errorf("%q: a path that stays below its directory is needed", p)
			}
		}
	}
	for _, n := range []int{len(in.Packages), len(in.Loose), len(in.Copy), len(in.Steps), len(in.Prune), len(in.Programs)} {
		if n > maxList {
			return "", fmt.Errorf("a list of %d entries; at most %d", n, maxList)
		}
	}
	return "", nil
}

// local reports whether a slash-separated path or glob stays below where it
// begins.
func local(p string) bool {
	return p != "" && !path.IsAbs(p) && !slices.Contains(strings.Split(p, "/"), "..") && !strings.ContainsRune(p, 0)
}
