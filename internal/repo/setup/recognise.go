package setup

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"assay/internal/repo"
)

// plan is what is going to be tried: a choice out of the tables, which rungs of
// the ladder change, and a recipe is written from.
type plan struct {
	eco      *ecosystem
	shared   *ecosystem
	tool     int // of eco.Toolchains
	vars     map[string]string
	system   system
	runner   runner
	more     []string // Debian packages
	env      map[string]string
	base     string // instead of the toolchain's
	file     string // a Dockerfile instead
	theirEnv map[string]string
	subdir   string
	tests    []string // --test
	services []string
	secrets  []string
	ssh      []string
	runs     int
	timeout  float64
	build    float64
	name     string
}

func (p *plan) clone() *plan {
	c := *p
	c.vars, c.env = maps.Clone(p.vars), maps.Clone(p.env)
	c.more = slices.Clone(p.more)
	return &c
}

// recognise decides what a tree is. The reasons are for people.
func recognise(t *tree, subdir string) (p *plan, reasons []string, err error) {
	all, shared, err := ecosystems()
	if err != nil {
		return nil, nil, err
	}
	if subdir != "" && !t.dirs[subdir] {
		return nil, nil, fmt.Errorf("--subdir %q: the repository has no such directory", subdir)
	}
	at := t.below(subdir)
	eco := choose(all, at)
	if eco == nil && subdir == "" {
		// A repository whose only project lies deeper.
		if dirs := projects(all, t); len(dirs) == 1 {
			subdir, at = dirs[0], t.below(dirs[0])
			eco = choose(all, at)
			reasons = append(reasons, "the only project lies in "+subdir)
		} else if len(dirs) > 1 {
			return nil, nil, fmt.Errorf("several projects, none at the top: choose one with --subdir: %s", strings.Join(dirs[:min(8, len(dirs))], ", "))
		}
	}
	if eco == nil {
		return nil, nil, fmt.Errorf("not recognised: none of the files that %s leave at the top of a project; say how it is built with --image or --dockerfile, and how it is tested with --test", names(all))
	}
	p = &plan{eco: eco, shared: shared, subdir: subdir, vars: map[string]string{}, env: map[string]string{}}
	maps.Copy(p.vars, eco.Vars)
	reasons = append(reasons, eco.Name+" by "+strings.Join(marksOf(eco, at), ", "))
	for _, s := range eco.Systems {
		if holdsAll(s.When, at, s.Name) {
			p.system = s
			break
		}
	}
	for _, r := range eco.Runners {
		if holdsAll(r.When, at, p.system.Name) {
			p.runner = r
			break
		}
	}
	reasons = append(reasons, p.find(at)...)
	wants := constraints(eco.Wants, at)
	var why string
	p.tool, why = eco.pick(wants)
	reasons = append(reasons, why)
	return p, reasons, nil
}

func names(all []*ecosystem) string {
	var s []string
	for _, e := range all {
		s = append(s, strings.Join(e.Languages, ", "))
	}
	return strings.Join(s, ", ")
}

func marksOf(e *ecosystem, t *tree) []string {
	var out []string
	for _, m := range e.Marks {
		if f := t.match(m); len(f) > 0 {
			out = append(out, f[0])
		}
	}
	return out
}

// choose takes, of the ecosystems that have a mark at the top, the one that
// most of the sources are written in.
func choose(all []*ecosystem, t *tree) *ecosystem {
	var best *ecosystem
	var most int64 = -1
	for _, e := range all {
		if len(marksOf(e, t)) == 0 {
			continue
		}
		if n := t.bytes(e.Extensions); n > most {
			best, most = e, n
		}
	}
	if most == 0 && best != nil && len(t.files) > 0 {
		// Marks without sources: a Makefile of something else.
		for _, e := range all {
			if len(marksOf(e, t)) > 0 && e.Name != "c" {
				return e
			}
		}
		return nil
	}
	return best
}

// projects are the directories, at most three levels down, that have a mark of
// an ecosystem that is certain, and none above them has.
func projects(all []*ecosystem, t *tree) []string {
	var out []string
	for _, f := range t.files {
		dir := path.Dir(f)
		if dir == "." || strings.Count(dir, "/") > 2 || aside(f) || slices.ContainsFunc(out, func(o string) bool { return dir == o || strings.HasPrefix(dir, o+"/") }) {
			continue
		}
		for _, e := range all {
			if slices.ContainsFunc(e.Marks[:min(2, len(e.Marks))], func(m string) bool {
				ok, err := path.Match(m, path.Base(f))
				return ok && err == nil && !strings.Contains(m, "*")
			}) {
				out = append(out, dir)
				break
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func holdsAll(when []condition, t *tree, system string) bool {
	for _, c := range when {
		if c.System != "" && c.System != system ||
			len(c.Files) > 0 && !slices.ContainsFunc(c.Files, t.has) ||
			c.File != "" && !slices.ContainsFunc(t.match(c.File), func(f string) bool { return regexp.MustCompile(c.Matches).MatchString(t.text(f)) }) {
			return false
		}
	}
	return true
}

// find sets the variables that the project's files say.
func (p *plan) find(t *tree) []string {
	var said []string
	found := map[string]bool{}
	for _, f := range p.eco.Find {
		if found[f.Var] || f.Unless != "" && found[f.Unless] {
			continue
		}
		if v, from, ok := f.value(t); ok {
			p.vars[f.Var], found[f.Var] = v, true
			said = append(said, fmt.Sprintf("%s %q by %s", f.Var, strings.TrimSpace(v), from))
		}
	}
	return said
}

func (f find) value(t *tree) (value, from string, ok bool) {
	for _, pattern := range f.Files {
		if f.Matches == "" && t.dirs[pattern] {
			return f.Value, pattern, true
		}
		for _, file := range t.match(pattern) {
			groups := [][]string{{""}}
			if f.Matches != "" {
				n := 1
				if f.All {
					n = 20
				}
				groups = regexp.MustCompile(f.Matches).FindAllStringSubmatch(t.text(file), n)
			}
			for _, g := range groups {
				if v, fit := f.fill(g, file); fit && !(f.All && strings.Contains(value, v)) {
					value, from, ok = value+v, file, true
				}
			}
			if ok && !f.All {
				return value, from, true
			}
		}
	}
	return value, from, ok
}

// fill puts what was found into the value. Text with control characters would
// be more than a part of a command.
func (f find) fill(groups []string, file string) (string, bool) {
	v := strings.ReplaceAll(f.Value, "{file}", repo.Quote(file))
	for i, g := range groups[min(1, len(groups)):] {
		g = strings.ReplaceAll(g, `\"`, `"`)
		for _, s := range f.Strip {
			g = regexp.MustCompile(s).ReplaceAllString(g, " ")
		}
		v = strings.ReplaceAll(v, fmt.Sprintf("{%d}", i+1), g)
	}
	return v, oneCommand("x "+v) == nil
}

var variable = regexp.MustCompile(`\{([a-z_]+)\}`)

// expand replaces the variables in a line. One that is not set is nothing;
// those that package repo fills stay.
func (p *plan) expand(s string) string {
	for range 3 { // a variable's value may name another
		s = variable.ReplaceAllStringFunc(s, func(v string) string {
			n := v[1 : len(v)-1]
			switch n {
			case "tests", "pattern", "files", "packages", "targets":
				if _, ok := p.vars[n]; !ok {
					return v
				}
			case "name":
				return p.name
			case "workdir":
				return path.Join(workdir, p.subdir)
			case "version":
				if p.vars[n] == "" {
					return "1.0.0"
				}
			case "suite_timeout":
				return fmt.Sprint(int(p.timeout))
			}
			return p.vars[n]
		})
	}
	return strings.TrimSpace(strings.Join(strings.Fields(s), " "))
}

// recipe writes down what the plan does.
func (p *plan) recipe() (*Recipe, error) {
	r := &Recipe{Version: 1, Name: p.name, Subdir: p.subdir, Env: map[string]string{}, Offline: map[string]string{}, More: p.more,
		Services: p.services, Secrets: p.secrets, SSH: p.ssh, Dockerfile: p.file, Base: p.base,
		Suite: RecipeSuite{Runs: p.runs, TimeoutSec: p.timeout, BuildSec: p.build}}
	put := func(to, from map[string]string) {
		for k, v := range from {
			to[k] = p.expandEnv(v)
		}
	}
	put(r.Env, p.shared.Env)
	if p.eco != nil {
		r.Ecosystem, r.System = p.eco.Name, cmp.Or(p.vars["system"], p.system.Name)
		r.Suite.TestFiles, r.Products = p.eco.TestFiles, p.eco.Products
		own := p.base == "" && p.file == ""
		if own {
			t := p.eco.Toolchains[p.tool]
			r.Base = "debian:" + t.Base
			r.Packages = slices.Concat(p.shared.Packages, p.eco.Packages, t.Packages, p.system.Packages)
			r.Toolchain = t.Run
			put(r.Env, p.eco.Env)
			put(r.Env, t.Env)
			for k, v := range t.Env { // both may lead PATH
				if e, ok := p.eco.Env[k]; ok && k == "PATH" {
					r.Env[k] = strings.TrimSuffix(p.expandEnv(e), "$PATH") + v
				}
			}
			for _, l := range p.system.Install {
				if l = p.expand(l); l != "" {
					r.Install = append(r.Install, l)
				}
			}
			put(r.Offline, p.eco.Offline)
		}
	}
	put(r.Env, p.env)
	return r, p.suite(r)
}

// expandEnv is expand for a variable's value: blanks stay.
func (p *plan) expandEnv(v string) string {
	return strings.ReplaceAll(v, "{workdir}", path.Join(workdir, p.subdir))
}

// suite writes the test commands: the user's own, or the runner's.
func (p *plan) suite(r *Recipe) error {
	for i, line := range p.tests {
		name := "test"
		if i > 0 {
			name = fmt.Sprintf("test%d", i+1)
		}
		r.Tests = append(r.Tests, ownTest(name, line, p.subdir))
	}
	if len(p.tests) > 0 || p.eco == nil {
		return nil
	}
	w := p.runner
	if w.Use == "" {
		if w.Run == "" {
			return nil
		}
		t := RecipeTest{Name: w.Name, Run: p.expand(w.Run), Dir: p.subdir, Report: w.Report, Select: p.expand(w.Select)}
		for _, f := range w.Files {
			t.Files = append(t.Files, p.expand(f))
		}
		r.Tests = append(r.Tests, t)
		return nil
	}
	known, err := repo.RunnerNamed(w.Use)
	if err != nil {
		return err
	}
	c := known.Command(repo.RunnerOptions{Program: p.expand(w.Program), Args: p.expand(w.Args), Dir: p.subdir})
	r.Tests = append(r.Tests, RecipeTest{Name: c.Name, Run: c.Run, Dir: c.Dir, Report: string(c.Report), Files: c.Files, Build: c.Build, Select: c.Select, Driver: c.Driver})
	return nil
}

// ownTest is a command of the user's: of a runner that leaves a report by
// itself, with that report.
func ownTest(name, line, dir string) RecipeTest {
	t := RecipeTest{Name: name, Run: ". /etc/profile; " + line, Dir: dir}
	f := strings.Fields(line)
	at := func(words ...string) bool {
		return len(f) >= len(words) && slices.Equal(f[:len(words)], words)
	}
	var use, program string
	var rest int
	switch {
	case at("pytest"):
		use, program, rest = "pytest", "python3", 1
	case at("python", "-m", "pytest"), at("python3", "-m", "pytest"):
		use, program, rest = "pytest", f[0], 3
	case at("python", "-m", "unittest"), at("python3", "-m", "unittest"):
		use, program, rest = "unittest", f[0], 3
	case at("cargo", "test"):
		use, program, rest = "cargo", "cargo", 2
	case at("go", "test") && !slices.Contains(f, "-json"):
		t.Run, t.Report, t.Driver = ". /etc/profile; go test -json -count=1 "+strings.Join(f[2:], " "), "go-test", "go"
		return t
	case at("npx", "jest"), at("npx", "mocha"), at("npx", "vitest"), at("npx", "tape"):
		use, program, rest = f[1], "node_modules/.bin/"+f[1], 2
	case at("jest"), at("mocha"), at("vitest"), at("tape"):
		use, program, rest = f[0], "node_modules/.bin/"+f[0], 1
	case at("mvn"):
		t.Report, t.Files = "junit", []string{"**/target/surefire-reports/TEST-*.xml"}
		return t
	case at("ctest"):
		t.Run, t.Report, t.Files = ". /etc/profile; "+line+" --output-junit /tmp/assay-ctest.xml", "ctest", []string{"/tmp/assay-ctest.xml"}
		return t
	default:
		return t
	}
	known, err := repo.RunnerNamed(use)
	if err != nil {
		return t
	}
	args := strings.Join(f[rest:], " ")
	if args == "" {
		args = " "
	}
	c := known.Command(repo.RunnerOptions{Name: name, Program: program, Args: args, Dir: dir})
	return RecipeTest{Name: name, Run: c.Run, Dir: dir, Report: string(c.Report), Files: c.Files, Select: c.Select, Driver: c.Driver}
}
