package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/grade/checks"
	"assay/internal/grade/program/drivers"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
	"assay/internal/sandbox/ns/nstest"
)

// TestMain lets the test binary be the sandbox's own processes.
func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// place is a backend with this machine's tools as image.
type place struct {
	t      testing.TB
	b      sandbox.Backend
	img    image.Image
	env    []string
	mounts []sandbox.Mount
	limits sandbox.Limits
	lines  string // the cases' file of the last suite
}

func newPlace(t testing.TB, needs ...string) *place {
	t.Helper()
	for _, n := range needs {
		if _, err := exec.LookPath("/usr/bin/" + n); err != nil {
			if _, err := os.Stat("/usr/local/bin/" + n); err != nil {
				t.Skipf("no %s below /usr: %v", n, err)
			}
		}
	}
	dir := nstest.Dir(t)
	store, b := nstest.Open(t, dir, filepath.Join(dir, "store"))
	var host image.HostOptions
	if root, err := exec.Command("go", "env", "GOROOT").Output(); err == nil && !strings.HasPrefix(string(root), "/usr/lib") {
		host.Toolchains = []image.HostPath{image.HostPath(strings.TrimSpace(string(root)))}
	}
	img, err := store.Host(t.Context(), host)
	if err != nil {
		t.Fatal(err)
	}
	return &place{t: t, b: b, img: img}
}

// with makes sandboxes that hold files below /app.
func (p *place) with(files map[string]string) func(context.Context) (sandbox.Sandbox, error) {
	return func(ctx context.Context) (sandbox.Sandbox, error) {
		sb, err := p.b.Create(ctx, sandbox.Spec{Image: p.img, Mounts: p.mounts, Limits: p.limits})
		if err != nil {
			return nil, err
		}
		if err := put(ctx, sb, "/app", files); err != nil {
			sb.Close()
			return nil, err
		}
		return sb, nil
	}
}

func (p *place) suite(g checks.Cases, reference string, lines string) Suite {
	p.t.Helper()
	p.lines = lines
	return suite(p.t, g, reference, lines)
}

func suite(t testing.TB, g checks.Cases, reference string, lines string) Suite {
	t.Helper()
	if g.Name == "" {
		g.Name = "cases"
	}
	if reference != "" {
		g.Reference = "reference"
	}
	all, err := Parse([]byte(lines), g)
	if err != nil {
		t.Fatal(err)
	}
	s := Suite{Group: g, Cases: all}
	if reference != "" {
		s.Reference = []byte(reference)
	}
	return s
}

// run tries cases on a candidate's files.
func (p *place) run(s Suite, files map[string]string) map[string]report.Test {
	p.t.Helper()
	r := Request{Suite: s, Fresh: p.with(files), Pristine: p.with(nil), Workdir: "/app", Env: p.env, Image: string(p.img.ID)}
	ran, err := Run(p.t.Context(), r)
	if err != nil || ran.Err != "" {
		p.t.Fatalf("%v %s", err, ran.Err)
	}
	all := map[string]report.Test{}
	for i, t := range ran.Tests {
		if t.ID != s.Cases[i].ID {
			p.t.Errorf("test %d is %q, not %q", i, t.ID, s.Cases[i].ID)
		}
		all[t.ID] = t
	}
	return all
}

// tool runs a shell command in a sandbox of its own.
func (p *place) tool(script string) (string, error) {
	p.t.Helper()
	sb, err := p.b.Create(p.t.Context(), sandbox.Spec{Image: p.img})
	if err != nil {
		p.t.Fatal(err)
	}
	defer sb.Close()
	res, err := sandbox.Exec(p.t.Context(), sb, sandbox.Command{Args: []string{"/bin/sh", "-c", script}}, sandbox.ExecOptions{})
	if err == nil && res.Exit.Code != 0 {
		err = fmt.Errorf("status %d: %s", res.Exit.Code, res.Stderr)
	}
	return string(res.Stdout), err
}

// warmGo gives sandboxes this machine's cache of compiled packages, read-only,
// as a task's image would bring its own.
func (p *place) warmGo() {
	p.t.Helper()
	if _, err := p.tool("go version"); err != nil {
		p.t.Skipf("no go in a sandbox: %v", err)
	}
	dir := p.t.TempDir()
	driver := drivers.GoDriver("warm", nil)
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "warm_test.go"), []byte(driver), 0o644), os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module warm\n\ngo 1.24\n"), 0o644)); err != nil {
		p.t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-o", os.DevNull, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("%v: %s", err, out)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		p.t.Fatal(err)
	}
	p.mounts = []sandbox.Mount{{Host: image.HostPath(strings.TrimSpace(string(cache))), Target: "/gocache", ReadOnly: true}}
	p.env = []string{"GOCACHE=/gocache"}
}
