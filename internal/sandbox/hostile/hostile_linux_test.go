package hostile_test

import (
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/egress"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/hostile"
	"assay/internal/sandbox/ns"
)

func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	if code, ok := hostile.Main(os.Args, hostile.Host{Open: open, Gate: gate}); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

func open(ctx context.Context, dir image.HostPath, without sandbox.Defences) (sandbox.Backend, error) {
	st, err := image.Open(image.HostPath(filepath.Join(string(dir), "store")), image.Options{Owner: ns.Owner(), Volatile: true})
	if err != nil {
		return nil, err
	}
	return ns.Open(ctx, ns.Config{Store: st, Without: without})
}

func gate(rules []string, names hostile.Lookup) (sandbox.Egress, error) {
	parsed, err := egress.ParseRules(rules, false)
	if err != nil {
		return nil, err
	}
	return egress.New(egress.Config{Rules: parsed, Resolver: table(names)}), nil
}

type table func(name string) []netip.Addr

func (t table) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if found := t(strings.TrimSuffix(host, ".")); len(found) > 0 {
		return found, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// place is where attacks are made, and from what image.
func place(t *testing.T) (string, image.Image) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range ns.Probe(t.Context(), ns.Config{Scratch: image.HostPath(dir)}) {
		if !f.OK {
			t.Skipf("no sandboxes here: %s: %s", f.Name, f.Detail)
		}
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	img := image.Image{Name: "host"}
	for _, d := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin"} {
		if _, err := os.Stat(d); err == nil {
			img.Binds = append(img.Binds, image.Bind{Source: image.HostPath(d), Target: image.Path(d)})
		}
	}
	return dir, img
}

// Every attack is contained, and has teeth where a wall of ours holds it.
func TestEveryAttackIsContained(t *testing.T) {
	dir, img := place(t)
	made := 0
	err := hostile.Run(t.Context(), hostile.Options{Open: open, Dir: image.HostPath(dir), Image: img}, func(r hostile.Result) {
		made++
		switch {
		case !r.Contained && r.Class == "kernel surface" && !filtered(t, dir, img):
			t.Logf("waits for a filter of system calls: %s", r.Attack)
		case !r.Contained:
			t.Errorf("not contained: %+v", r)
		case r.Bites == false:
			t.Errorf("has no teeth: %+v", r)
		case r.Bites == true && r.Walls == "":
			t.Errorf("bites although no wall is said to hold it: %+v", r)
		}
	})
	if err != nil || made < 140 {
		t.Errorf("%d attacks, want at least 140: %v", made, err)
	}
}

// filtered reports whether programs in a sandbox run under a seccomp filter.
func filtered(t *testing.T, dir string, img image.Image) bool {
	b, err := open(t.Context(), image.HostPath(dir), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	s, err := b.Create(t.Context(), sandbox.Spec{Image: img})
	if err != nil {
		t.Fatal(err)
	}
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"cat", "/proc/self/status"}}, sandbox.ExecOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(r.Stdout), "Seccomp:\t2\n")
}

func TestAttackersRefuseToRunOutside(t *testing.T) {
	if code, handled := hostile.Main([]string{"/.assay-attack", "fork bomb"}, hostile.Host{}); !handled || code != 2 {
		b, _ := os.ReadFile("/proc/self/uid_map")
		if strings.Join(strings.Fields(string(b)), " ") == "0 0 4294967295" {
			t.Errorf("code %d, handled %v", code, handled)
		}
	}
}

// Where a sandbox has many users, what gains rights by changing between them is
// contained as well.
func TestAttacksWithManyUsers(t *testing.T) {
	dir, img := place(t)
	b, err := open(t.Context(), image.HostPath(dir), 0)
	if err != nil {
		t.Fatal(err)
	}
	modes := b.Capabilities().UIDModes
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if len(modes) < 2 {
		t.Skipf("uid modes here: %v", modes)
	}
	o := hostile.Options{Open: open, Dir: image.HostPath(dir), Image: img, UID: modes[1], Match: func(a string) bool {
		return slices.Contains([]string{"set-id program", "capabilities of a file", "new privileges", "capabilities", "trace init", "memory of init",
			"program of init by its interpreter", "user namespace", "mount a tmpfs", "device node", "signals to init", "fork bomb", "put upon a planted link"}, a)
	}}
	made := 0
	err = hostile.Run(t.Context(), o, func(r hostile.Result) {
		made++
		if !r.Contained || r.Bites == false || r.Attack == "set-id program" && r.Bites != true {
			t.Errorf("%+v", r)
		}
	})
	if err != nil || made != 13 {
		t.Errorf("%d attacks, %v", made, err)
	}
}
