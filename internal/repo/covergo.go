package repo

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

//go:embed helpers/cover_go.sh
var helperGo []byte

// goFlags are those of a command's line that change what is compiled.
var goFlags = regexp.MustCompile(`(^|\s)(-(tags|mod|modfile)[= ]\S+|-race)`)

// coverGo runs each test function by itself, with the coverage of all of the
// module's packages. Functions for which there was no time have what their
// whole package covers.
func (r *suiteRun) coverGo(ctx context.Context, c Command, limit time.Duration) (*covered, error) {
	var list strings.Builder
	seen := map[string]bool{}
	for _, t := range r.suite.Tests {
		pkg, name, ok := strings.Cut(t.ID, "::")
		name, _, _ = strings.Cut(name, "/")
		if t.Command != c.Name || !ok || seen[pkg+" "+name] || strings.ContainsAny(pkg+name, " \n\t'") {
			continue
		}
		seen[pkg+" "+name] = true
		list.WriteString(pkg + " " + name + "\n")
	}
	t := trial{seed: r.c.Seed, limit: limit}
	sb, err := r.fork(ctx, t, map[string][]byte{coverDir[1:] + "/cover.sh": helperGo, coverDir[1:] + "/tests": []byte(list.String())})
	if err != nil {
		return nil, err
	}
	defer sb.Close()
	line := fmt.Sprintf("sh %s/cover.sh $(($(date +%%s) + %d))", coverDir, int(limit.Seconds()*0.9))
	for _, m := range goFlags.FindAllStringSubmatch(c.Run, -1) {
		line += " " + m[2]
	}
	cmd := c
	cmd.Report, cmd.Files, cmd.Run, cmd.Args = "", nil, line, nil
	if _, err := r.inside(ctx, sb, cmd, t, r.c.Env); err != nil {
		return nil, err
	}
	cmd.Files = []string{coverLog + ".go"}
	sources, err := r.gather(ctx, sb, cmd, r.c.Workdir)
	if err != nil || len(sources) == 0 {
		return nil, err
	}
	g := goCover{covered: newCovered(), workdir: r.c.Workdir, dir: path.Join(r.c.Workdir, c.Dir), packages: map[string]string{}, whole: map[string]map[string][]Range{}, blocks: map[string][]Range{}, exec: map[string]bool{}}
	g.read(sources[0].Data)
	return g.finish(c.Name, r.suite.Tests), nil
}

// goCover makes sense of the records of helpers/cover_go.sh: lines of packages
// ("P"), of test files that start programs ("X"), heads of a whole package's
// profile ("W") or of one test's ("T"), and lines of profiles behind these.
type goCover struct {
	*covered
	workdir, dir string
	packages     map[string]string // directory relative to workdir, by import path
	whole        map[string]map[string][]Range
	blocks       map[string][]Range // all there are, by file
	exec         map[string]bool    // directories
}

// goBlock is a line of a profile: FILE:LINE.COL,LINE.COL STATEMENTS COUNT.
var goBlock = regexp.MustCompile(`^(.+):(\d+)\.\d+,(\d+)\.\d+ \d+ (\d+)$`)

func (g *goCover) read(b []byte) {
	var into map[string][]Range
	whole := false
	for line := range bytes.Lines(b) {
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
		switch {
		case len(f) == 3 && f[0] == "P":
			if rel, ok := strings.CutPrefix(f[2], g.workdir); ok {
				g.packages[f[1]] = strings.TrimPrefix(rel, "/")
			}
		case len(f) == 2 && f[0] == "X":
			g.exec[path.Dir(path.Join(g.dir, f[1]))] = true
		case len(f) == 2 && f[0] == "W":
			into, whole = map[string][]Range{}, true
			g.whole[f[1]] = into
		case len(f) == 3 && f[0] == "T":
			into, whole = map[string][]Range{}, false
			g.tests[f[1]+"::"+f[2]] = into
		case len(f) == 1 && into != nil:
			g.block(f[0], into, whole)
		}
	}
}

func (g *goCover) block(line string, into map[string][]Range, whole bool) {
	m := goBlock.FindStringSubmatch(line)
	if m == nil {
		return
	}
	dir, ok := g.packages[path.Dir(m[1])]
	if !ok {
		return
	}
	file := path.Join(dir, path.Base(m[1]))
	from, err1 := strconv.Atoi(m[2])
	to, err2 := strconv.Atoi(m[3])
	if err1 != nil || err2 != nil || from < 1 || to < from || to > maxLine || !local(file) {
		return
	}
	if whole {
		g.blocks[file] = append(g.blocks[file], Range{from, to})
	}
	if m[4] != "0" {
		into[file] = append(into[file], Range{from, to})
	}
}

// finish gives subtests what their functions have, and the rest what their
// packages have.
func (g *goCover) finish(command string, tests []Test) *covered {
	functions := g.tests
	g.tests = map[string]map[string][]Range{}
	g.lines = true
	for _, m := range functions {
		for f, rs := range m {
			m[f] = merge(rs)
		}
	}
	for _, m := range g.whole {
		for f, rs := range m {
			m[f] = merge(rs)
		}
	}
	for _, t := range tests {
		pkg, name, _ := strings.Cut(t.ID, "::")
		name, _, _ = strings.Cut(name, "/")
		if t.Command != command {
			continue
		}
		found, ok := functions[pkg+"::"+name]
		if !ok {
			found, ok = g.whole[pkg]
		}
		if ok {
			g.tests[t.ID] = found
		}
		if g.exec[path.Join(g.workdir, g.packages[pkg])] {
			g.unknown[t.ID] = true // programs that it starts are not followed
		}
	}
	for f, rs := range g.blocks {
		g.static[f] = without(slices.Clone(rs))
	}
	return g.covered
}
