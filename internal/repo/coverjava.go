package repo

import (
	"bytes"
	"context"
	"path"
	"regexp"
	"strings"
	"time"

	"assay/internal/grade/report"
)

// classLoaded is a line of the JVM's log of classes that it loads.
var classLoaded = regexp.MustCompile(`\[class,load\s*\] (\S+) source: file:(\S+)`)

// coverJava lets Surefire start a JVM for each test class, and takes from the
// JVMs' own logs which of the project's classes each of them loads. What is
// loaded need not run, so that a test may be said to cover too much.
func (r *suiteRun) coverJava(ctx context.Context, c Command, limit time.Duration) (*covered, error) {
	if !strings.Contains(c.Run, " test") || c.Driver != "maven" {
		return nil, nil // Gradle has no such switch from outside
	}
	t := trial{seed: r.c.Seed, limit: limit, line: c.Run + " -DreuseForks=false -DforkCount=1"}
	sb, err := r.fork(ctx, t, nil)
	if err != nil {
		return nil, err
	}
	defer sb.Close()
	env := append(r.c.Env[:len(r.c.Env):len(r.c.Env)], "JAVA_TOOL_OPTIONS="+r.with("JAVA_TOOL_OPTIONS", " ", "-Xlog:class+load=info:file="+coverLog+".%p.jvm:uptime,tags:filecount=0"))
	plain := c
	plain.Report, plain.Files = "", nil
	if _, err := r.inside(ctx, sb, plain, t, env); err != nil {
		return nil, err
	}
	// The logs hold every class of the JVM: only those of the project's own
	// directories leave the sandbox.
	if _, err := r.shell(ctx, sb, `for f in `+coverLog+`.*.jvm; do grep -E 'source: file:[^ ]*/(test-)?classes/?$' "$f" >"$f.own"; rm -f "$f"; done; true`, "", nil, 2*time.Minute); err != nil {
		return nil, err
	}
	c.Files = []string{coverLog + ".*.own"}
	sources, err := r.gather(ctx, sb, c, r.c.Workdir)
	if err != nil {
		return nil, err
	}
	j := javaCover{covered: newCovered(), tests: map[string]bool{}, sources: map[string]string{}}
	for _, x := range r.suite.Tests {
		if x.Command == c.Name {
			class, _, _ := strings.Cut(x.ID, "::")
			class, _, _ = strings.Cut(class, "$")
			j.tests[class] = true
		}
	}
	for _, f := range r.files {
		if _, rest, ok := strings.Cut(f, "/java/"); ok && path.Ext(f) == ".java" {
			j.sources[strings.ReplaceAll(strings.TrimSuffix(rest, ".java"), "/", ".")] = f
		}
	}
	for _, s := range sources {
		j.jvm(s)
	}
	if len(j.byFile) == 0 {
		return nil, nil
	}
	return j.covered, nil
}

type javaCover struct {
	*covered
	tests   map[string]bool   // classes with tests
	sources map[string]string // files by class
}

// jvm takes in one JVM's classes: the first of the tests among them is whose
// JVM it is.
func (j *javaCover) jvm(s report.Source) {
	owner := ""
	files := map[string][][2]int{}
	for line := range bytes.Lines(s.Data) {
		m := classLoaded.FindSubmatch(line)
		if m == nil {
			continue
		}
		class, _, _ := strings.Cut(string(m[1]), "$")
		if owner == "" && j.tests[class] {
			owner = class
		}
		if f := j.sources[class]; f != "" {
			files[f] = nil
		}
	}
	if f := j.sources[owner]; owner != "" && f != "" {
		j.add(j.byFile, f, files)
	}
}
