package bootstrap

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/doctor"
	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/ns"
)

func TestMain(m *testing.M) {
	if code, ok := ns.Main(os.Args); ok {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// What becomes an argument or a part of a script is checked first.
func TestRefused(t *testing.T) {
	for want, o := range map[string]Options{
		"only debian and ubuntu":  {Distro: "fedora"},
		"suite \"book$(id)\"":     {Distro: "debian", Suite: "book$(id)"},
		"suite \"--arch=x\"":      {Distro: "debian", Suite: "--arch=x"},
		"variant \"fakechroot\"":  {Distro: "debian", Variant: "fakechroot"},
		"mirror \"file:///etc\"":  {Distro: "debian", Mirror: "file:///etc"},
		"mirror \"http://a b\"":   {Distro: "debian", Mirror: "http://a b"},
		"mirror \"http://a/\\n\"": {Distro: "debian", Mirror: "http://a/\n"},
		"package \"-x\"":          {Distro: "debian", Include: []string{"git", "-x"}},
	} {
		if _, _, err := Make(t.Context(), o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %s", o, err, want)
		}
	}
}

func TestSources(t *testing.T) {
	for _, c := range []struct{ distro, suite, mirror, want string }{
		{"debian", "", "", "deb http://deb.debian.org/debian bookworm main\ndeb http://deb.debian.org/debian bookworm-updates main\n" +
			"deb http://deb.debian.org/debian-security bookworm-security main\n"},
		{"debian", "sid", "", "deb http://deb.debian.org/debian sid main\n"},
		{"debian", "trixie", "https://m.example/debian/", "deb https://m.example/debian trixie main\n"},
	} {
		o := Options{Distro: c.distro, Suite: c.suite, Mirror: c.mirror}
		if err := o.settle(); err != nil {
			t.Fatal(err)
		}
		if got := o.sources(); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got := withoutUser("https://dev:pw@m.example/debian"); got != "https://m.example/debian" {
		t.Error(got)
	}
}

// A mirror that does not answer is an error that says what debootstrap said
// and leaves no image.
func TestDeadMirror(t *testing.T) {
	o := world(t)
	o.Distro, o.Mirror, o.Name = "debian", "http://127.0.0.1:1/debian", "t/dead:1"
	_, _, err := Make(t.Context(), o)
	var missing *doctor.Refusal
	if errors.As(err, &missing) {
		t.Skip(missing.Finding.Detail)
	}
	if err == nil || !strings.Contains(err.Error(), "download") || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Fatal(err)
	}
	if _, err := o.Store.Resolve("t/dead:1"); err == nil {
		t.Error("an image was named")
	}
	left, _ := filepath.Glob(string(o.Store.Root()) + "/tmp/*")
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func world(t *testing.T) Options {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != filepath.Dir(d) && d != os.TempDir(); d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755) // sandboxes of root run as another user
	}
	s, err := image.Open(image.HostPath(dir+"/store"), image.Options{Owner: ns.Owner()})
	if err != nil {
		t.Fatal(err)
	}
	b, err := ns.Open(t.Context(), ns.Config{Store: s, Scratch: image.HostPath(dir + "/store/scratch")})
	if err != nil {
		var r *doctor.Refusal
		if errors.As(err, &r) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	host, err := s.Host(t.Context(), image.HostOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Store: s, Backend: b, Host: host, Cache: dir + "/cache", Progress: io.Discard,
		Now: func() time.Time { return time.Unix(1e9, 0) }}
}

// The real thing, from the network: ASSAY_LONG_BOOTSTRAP is where packages are
// kept.
func TestDebian(t *testing.T) {
	cache := os.Getenv("ASSAY_LONG_BOOTSTRAP")
	if cache == "" {
		t.Skip("ASSAY_LONG_BOOTSTRAP is not set")
	}
	o := world(t)
	o.Distro, o.Name, o.Cache = "debian", "t/debian:1", cache
	im, rec, err := Make(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(rec.Packages) < 60 || rec.Suite != "bookworm" || len(im.Layers) != 1 {
		t.Errorf("%+v", rec)
	}
	sb, err := o.Backend.Create(t.Context(), sandbox.Spec{Image: im})
	if err != nil {
		t.Fatal(err)
	}
	defer sb.Close()
	r, err := sandbox.Exec(t.Context(), sb, sandbox.Command{Args: []string{"/bin/sh", "-c", "dpkg --audit; test ! -e /debootstrap; apt-get check -qq && . /etc/os-release && echo $VERSION_CODENAME"}}, sandbox.ExecOptions{})
	if err != nil || string(r.Stdout) != "bookworm\n" {
		t.Errorf("%q %q %v", r.Stdout, r.Stderr, err)
	}
}
