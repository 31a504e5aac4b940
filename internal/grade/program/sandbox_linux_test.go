package program

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"testing"

	"assay/internal/doctor"
	"assay/internal/grade/checks"
	"assay/internal/grade/report"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
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
	t   testing.TB
	b   sandbox.Backend
	img image.Image
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
	o := image.Options{Volatile: true}
	if os.Geteuid() == 0 {
		o.Owner = &image.Owner{UID: ns.DefaultRootUID, GID: ns.DefaultRootUID}
	}
	store, err := image.Open(image.HostPath(t.TempDir()), o)
	if err != nil {
		t.Fatal(err)
	}
	img, err := store.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: store, Scratch: image.HostPath(t.TempDir())})
	var refused *doctor.Refusal
	if errors.As(err, &refused) {
		t.Skipf("no sandbox on this machine: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return &place{t, b, img}
}

// with makes sandboxes that hold files below /app.
func (p *place) with(files map[string]string) func(context.Context) (sandbox.Sandbox, error) {
	return func(ctx context.Context) (sandbox.Sandbox, error) {
		sb, err := p.b.Create(ctx, sandbox.Spec{Image: p.img})
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

// suite reads cases that stand in a test.
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
	r := Request{Suite: s, Fresh: p.with(files), Pristine: p.with(nil), Workdir: "/app", Image: string(p.img.ID)}
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
