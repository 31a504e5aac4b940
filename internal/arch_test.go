package internal_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lattice says which rooms of this module a room may import. Nothing else is
// allowed. Do not relax it to make a build pass: write a decision record first.
//
// A child (image/dockerfile) may import its parent and whatever its own line
// names, never a sibling. Test files may import more, but never cross a
// forbidden edge below.
const lattice = `
trial:
task:
trajectory:

internal/stats:
internal/remove:
internal/image:               internal/remove
internal/sandbox:            internal/image
internal/image/dockerfile:   internal/image internal/sandbox
internal/sandbox/ns:         internal/sandbox internal/image internal/doctor internal/sandbox/ns/pid1 internal/sandbox/ns/seccomp internal/sandbox/ns/cgroup
internal/image/bootstrap:    internal/image internal/sandbox internal/doctor
internal/image/registry:     internal/image
internal/sandbox/ns/cgroup:
internal/inlet:
internal/strict:
internal/egress:              internal/inlet
internal/egress/netstack:    internal/egress
internal/sandbox/ns/pid1:
internal/sandbox/ns/seccomp:
internal/sandbox/ns/nstest:   internal/sandbox/ns internal/image internal/doctor internal/remove
internal/sandbox/docker:     internal/sandbox internal/image internal/doctor internal/sandbox/docker/inside internal/sandbox/docker/wire
internal/sandbox/docker/inside: internal/sandbox/docker/wire
internal/sandbox/docker/wire:
internal/sandbox/fake:       internal/sandbox internal/image
internal/sandbox/sandboxtest: internal/sandbox internal/image
internal/sandbox/hostile:    internal/sandbox internal/image
internal/sandbox/bench:      internal/sandbox internal/image

internal/model:
internal/model/openai:       internal/model
internal/model/anthropic:    internal/model
internal/model/gemini:       internal/model
internal/model/scripted:     internal/model
internal/model/replay:       internal/model internal/gateway
internal/model/catalog:      internal/model internal/strict
internal/model/modeltest:    internal/model
internal/gateway:            internal/model internal/inlet
internal/gateway/overhead:      internal/gateway internal/model
internal/gateway/atif:       internal/gateway internal/model trajectory trial

internal/agent:              task trajectory trial internal/sandbox internal/image
internal/agent/oracle:       internal/agent internal/sandbox task trial
internal/agent/nop:          internal/agent task trial
internal/agent/prediction:   internal/agent internal/sandbox internal/image task trial
internal/agent/script:       internal/agent internal/sandbox internal/image task trial
internal/agent/command:      internal/agent internal/sandbox internal/image task trial
internal/agent/external:     internal/agent internal/model internal/sandbox internal/image task trajectory trial internal/strict
internal/agent/builtin:      internal/agent internal/model internal/sandbox internal/image task trajectory trial internal/strict
internal/toolserver:         internal/agent internal/inlet
internal/agent/agenttest:    internal/agent internal/sandbox internal/image task trajectory trial

internal/grade/report:
internal/grade/checks:       internal/grade/report internal/strict trial internal/grade/program/drivers
internal/grade/program:      internal/grade/checks internal/grade/report internal/sandbox internal/image internal/grade/program/drivers
internal/grade/program/drivers:
internal/grade/exploit:      internal/grade/checks internal/grade/report
internal/grade:              task trial internal/sandbox internal/image internal/grade/checks internal/grade/report internal/grade/program
internal/leak:               internal/image
internal/syntax:
internal/syntax/syntaxtest:  internal/syntax
internal/gitdir:
internal/repo:              internal/grade/checks internal/grade/report internal/image internal/sandbox internal/strict internal/syntax
internal/repo/setup:        internal/repo internal/syntax internal/grade/checks internal/grade/report internal/image internal/sandbox internal/image/dockerfile internal/strict internal/leak
internal/forge/decide:      internal/repo internal/grade/checks internal/grade/report internal/image internal/sandbox
internal/forge:             task internal/gitdir internal/repo internal/image internal/sandbox internal/job internal/store internal/proof internal/draft internal/grade/checks
internal/forge/mutate:      internal/forge internal/forge/decide internal/repo internal/image internal/syntax internal/grade/checks
internal/forge/invert:      internal/forge internal/repo internal/image internal/sandbox
internal/forge/history:     internal/forge internal/forge/decide internal/repo internal/image internal/syntax
internal/label:             task internal/image internal/syntax internal/grade/checks
internal/foreign:            task trial internal/job internal/store internal/image internal/sandbox
internal/draft:              task internal/job internal/store internal/image internal/grade/checks internal/grade/report
internal/proof:              task trial internal/job internal/store internal/image internal/sandbox internal/grade/checks internal/leak

internal/compare:            trial internal/stats internal/store
internal/exchange:           task trial internal/store internal/grade/checks internal/grade/report

internal/store:              trial trajectory internal/remove
internal/job:                task trial trajectory internal/model internal/image internal/sandbox internal/agent internal/grade internal/store internal/stats

internal/importer:           task
internal/importer/humaneval: internal/importer task
internal/importer/swebench:  internal/importer task internal/exchange internal/grade/checks internal/grade/report
internal/importer/programs:  internal/importer internal/grade/checks internal/grade/program
internal/importer/harbor:     internal/importer task
internal/importer/terminalbench: internal/importer task

internal/audit:              trial internal/store internal/gateway internal/egress
internal/dataset:            trial trajectory internal/store

internal/web:                task trial trajectory internal/store internal/stats internal/compare
internal/mirrors:
internal/doctor:
internal/cli:                *
cmd/assay:                   internal/cli
`

// banned edges carry their reason, so that the failure teaches.
var banned = []struct{ from, to, why string }{
	{"internal/agent", "internal/grade", "an agent that can reach the grader can cheat by accident"},
	{"internal/grade", "internal/agent", "the grader judges outcomes and must not know who made them"},
	{"internal/web", "internal/job", "pages are made from a job's directory and events alone"},
	{"internal/image", "internal/sandbox", "layers are below sandboxes; the Dockerfile executor is a child of its own"},
}

func TestLattice(t *testing.T) {
	allowed := map[string][]string{}
	for line := range strings.Lines(lattice) {
		room, list, ok := strings.Cut(strings.TrimSpace(line), ":")
		if ok {
			allowed[room] = strings.Fields(list)
		}
	}
	for pkg, f := range rooms(t) {
		list, ok := allowed[pkg]
		if !ok {
			t.Errorf("room %s is not in the lattice", pkg)
			continue
		}
		for _, imp := range f.imports {
			if slices.Contains(list, "*") || slices.Contains(list, imp) {
				continue
			}
			why := "the lattice does not allow it; a new edge needs a decision record"
			for _, b := range banned {
				if under(pkg, b.from) && under(imp, b.to) {
					why = b.why
				}
			}
			t.Errorf("%s imports %s: %s", pkg, imp, why)
		}
		if n := len(f.imports); n > 10 && pkg != "internal/cli" {
			t.Errorf("%s imports %d rooms; more than 10 is a god room", pkg, n)
		}
	}
}

func TestPackageDocs(t *testing.T) {
	for pkg, f := range rooms(t) {
		if len(f.doc) < 80 {
			t.Errorf("%s has no package comment that says what it is and what it never does", pkg)
		}
	}
}

func TestNoInitNoGlobals(t *testing.T) {
	for pkg, f := range rooms(t) {
		for _, bad := range f.inits {
			t.Errorf("%s: %s: no init functions and no blank imports", pkg, bad)
		}
	}
}

// ./check names a room's test binary after the last part of its path.
func TestRoomsOfTestsHaveNamesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == "testdata" || p != ".." && strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if err != nil || !strings.HasSuffix(p, ".go") {
			return err
		}
		dir := filepath.Dir(p)
		if was := seen[filepath.Base(dir)]; was != "" && was != dir {
			t.Errorf("%s and %s would share a test binary: rename one", was, dir)
		}
		seen[filepath.Base(dir)] = dir
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Only the command layer exits, reads the environment or parses flags.
func TestOnlyCLITouchesTheProcess(t *testing.T) {
	for pkg, f := range rooms(t) {
		if pkg == "internal/cli" || pkg == "cmd/assay" {
			continue
		}
		for _, c := range f.process {
			t.Errorf("%s: %s belongs to internal/cli", pkg, c)
		}
	}
}

func TestNoReplaceDirectives(t *testing.T) {
	b, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "\nreplace ") {
		t.Error("go.mod has a replace directive: go install would ignore it")
	}
}

// Walls come down for the hostile self-test alone.
func TestOnlyTheSelftestTakesWallsDown(t *testing.T) {
	down := regexp.MustCompile(`\bsandbox\.(Def[A-Z]|AllDefences|Defences\b)|\bWithout:`)
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		rel := filepath.ToSlash(strings.TrimPrefix(p, "../"))
		if err != nil || d.IsDir() || !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") ||
			strings.HasPrefix(rel, "internal/sandbox/ns/") || strings.HasPrefix(rel, "internal/sandbox/hostile/") ||
			rel == "internal/cli/sandbox_selftest.go" {
			return err
		}
		b, err := os.ReadFile(p)
		if m := down.Find(b); m != nil {
			t.Errorf("%s has %q: only the self-test names the walls of a sandbox", rel, m)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// What needs no sandbox builds on macOS too.
func TestCrossCompiles(t *testing.T) {
	if testing.Short() {
		t.Skip("cross compilation is slow")
	}
	cmd := exec.Command("go", "build", "-o", os.DevNull, "./cmd/assay")
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), "GOOS=darwin", "GOARCH=arm64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("darwin/arm64: %v\n%s", err, out)
	}
}

func under(pkg, room string) bool { return pkg == room || strings.HasPrefix(pkg, room+"/") }

type room struct {
	imports, inits, process []string
	doc                     string
}

// rooms parses every package of the module but its tests.
func rooms(t *testing.T) map[string]*room {
	t.Helper()
	all := map[string]*room{}
	fset := token.NewFileSet()
	err := filepath.WalkDir("..", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if n := d.Name(); p != ".." && (strings.HasPrefix(n, ".") || n == "testdata" || n == "examples") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(p, ".go") || strings.HasSuffix(p, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel("..", filepath.Dir(p))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		if all[pkg] == nil {
			all[pkg] = &room{}
		}
		all[pkg].add(fset, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (r *room) add(fset *token.FileSet, f *ast.File) {
	if f.Doc != nil {
		r.doc += f.Doc.Text()
	}
	for _, im := range f.Imports {
		p := strings.Trim(im.Path.Value, `"`)
		if im.Name != nil && im.Name.Name == "_" && p != "embed" {
			r.inits = append(r.inits, "blank import of "+p)
		}
		if rest, ok := strings.CutPrefix(p, "assay/"); ok && !slices.Contains(r.imports, rest) {
			r.imports = append(r.imports, rest)
		}
	}
	for _, d := range f.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" {
			r.inits = append(r.inits, fset.Position(fn.Pos()).String())
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok {
			name := x.Name + "." + sel.Sel.Name
			if slices.Contains([]string{"os.Exit", "os.Getenv", "os.LookupEnv", "os.Environ", "log.Fatal", "log.Fatalf", "flag.Parse"}, name) {
				pos := fset.Position(n.Pos())
				r.process = append(r.process, path.Base(pos.Filename)+": "+name)
			}
		}
		return true
	})
}
