package image_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"assay/internal/image"
)

const secret = "TOP-SECRET-TOKEN"

// fakeHost is a root directory with tools below /usr and secrets elsewhere.
func fakeHost(t testing.TB) string {
	t.Helper()
	root := t.TempDir()
	put := func(p, text string, mode fs.FileMode) {
		p = filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(p, time.Unix(1e9, 0), time.Unix(1e9, 0)); err != nil {
			t.Fatal(err)
		}
	}
	ln := func(to, p string) {
		p = filepath.Join(root, p)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(to, p); err != nil {
			t.Fatal(err)
		}
	}
	for p, mode := range map[string]fs.FileMode{
		"root/.aws/credentials": 0o600, "root/.bashrc": 0o644, "home/ann/.ssh/id_rsa": 0o600, "home/ann/notes": 0o644,
		"var/lib/db/data": 0o644, "var/log/auth.log": 0o644, "var/tmp/x": 0o644, "tmp/x": 0o644, "run/secrets/token": 0o644,
		"etc/shadow": 0o640, "etc/npmrc": 0o644, "etc/pip.conf": 0o644, "etc/gitconfig": 0o644, "etc/environment": 0o644,
		"etc/ssl/private/key.pem": 0o644, "etc/ssl/certs/own.pem": 0o644, "etc/apt/auth.conf": 0o644, "etc/resolv.conf": 0o644,
		"etc/hostname": 0o644, "etc/hosts": 0o644, "etc/passwd.bak": 0o644, "etc/maven/settings.xml": 0o644,
		"etc/java-17-openjdk/management/jmxremote.password": 0o600, "etc/alternatives/plain-file": 0o644,
		"srv/x": 0o644, "opt/other/token": 0o644, "boot/x": 0o644, "mnt/x": 0o644, "data/x": 0o644, ".env": 0o644,
		"srv/people/bob/token": 0o644,
	} {
		put(p, secret, mode)
	}
	put("etc/ssl/certs/ca-certificates.crt", "-----BEGIN PRIVATE KEY-----\n"+secret, 0o644)
	put("etc/passwd", "root:x:0:0:"+secret+":/root:/bin/sh\nbob:x:1000:1000::/srv/people/bob:/bin/sh\nwww:x:33:33::/opt/go:/bin/sh\n", 0o644)
	put("usr/bin/python3", "interpreter", 0o755)
	put("usr/lib/libc.so.6", "libc", 0o644)
	put("opt/go/bin/go", "go tool", 0o755)
	put("opt/go/VERSION", "go1.26", 0o644)
	put("etc/java-17-openjdk/security/java.security", "policy", 0o644)
	put("etc/ld.so.cache", "cache", 0o644)
	put("etc/debian_version", "12", 0o644)
	ln("usr/bin", "bin")
	ln("/usr/lib", "lib")
	ln("/usr/bin/python3", "etc/alternatives/python")
	ln("/root/.aws/credentials", "etc/alternatives/creds")
	ln("../../home/ann/notes", "etc/java-17-openjdk/notes")
	ln("/var/lib/db/data", "etc/fonts/fonts.conf")
	ln("../usr/lib/os-release", "etc/os-release")
	ln("/home/ann", "opt/ann")
	put("usr/lib/os-release", "ID=test\nPRETTY_NAME=\"Test OS 1\"\n", 0o644)
	return root
}

func TestHostImageHoldsNoSecrets(t *testing.T) {
	root := fakeHost(t)
	s := open(t)
	im, err := s.Host(t.Context(), image.HostOptions{Root: image.HostPath(root), Toolchains: []image.HostPath{"/opt/go"}})
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.View(im.Layers)
	if err != nil {
		t.Fatal(err)
	}
	check := func(where string, b []byte) {
		if strings.Contains(string(b), secret) {
			t.Errorf("%s holds a secret: %q", where, b)
		}
	}
	var all []string
	v.Walk(".", func(e image.Entry) error {
		all = append(all, e.Path)
		check("a name", []byte(e.Path+e.Link))
		if e.Type == image.TypeFile {
			b, err := v.ReadFile(e.Path, 1<<20)
			if err != nil {
				t.Error(err)
			}
			check(e.Path, b)
		}
		return nil
	})
	var targets []string
	for _, b := range im.Binds {
		targets = append(targets, string(b.Target))
		if string(b.Source) != filepath.Join(root, string(b.Target)) {
			t.Errorf("%s is bound to %s", b.Target, b.Source)
		}
		filepath.WalkDir(string(b.Source), func(p string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				c, err := os.ReadFile(p)
				if err != nil {
					t.Error(err)
				}
				check(p, c)
			}
			return nil
		})
	}
	if got := strings.Join(targets, " "); got != "/usr /opt/go" {
		t.Errorf("binds of %s", got)
	}
	for _, p := range []string{"etc/alternatives/python", "etc/java-17-openjdk/security/java.security", "etc/ld.so.cache",
		"etc/os-release", "etc/passwd", "etc/hosts", "bin", "lib", "tmp", "root", "proc", "opt/go", "var/tmp"} {
		if _, err := v.Lstat(p); err != nil {
			t.Errorf("%s is missing from %v", p, all)
		}
	}
	for p, mode := range map[string]uint32{"tmp": 0o1777, "root": 0o700, "var/tmp": 0o1777} {
		if e, _ := v.Lstat(p); e.Mode != mode {
			t.Errorf("%s has mode %o", p, e.Mode)
		}
		if es, _ := v.ReadDir(p); len(es) > 0 {
			t.Errorf("%s is not empty: %v", p, es)
		}
	}
	if got := im.Config.Env[0]; !strings.HasPrefix(got, "PATH=/opt/go/bin:/usr/local/sbin:") {
		t.Error(got)
	}
	if got, err := s.Resolve("host"); err != nil || got.ID != im.ID {
		t.Errorf("%v, %v", got, err)
	}
}

func TestHostRefusesToolchains(t *testing.T) {
	root := fakeHost(t)
	s := open(t)
	for _, p := range []string{"/", "/.", "//", "/home", "/home/ann", "/var", "/var/lib/db", "/etc", "/root", "/root/.aws", "/opt/../root",
		"/opt/ann", "/srv/people", "/srv/people/bob", "/srv", "/tmp", "/run/secrets", "/proc", "/missing", "/usr/lib/libc.so.6", "opt/go", "/../.."} {
		if im, err := s.Host(t.Context(), image.HostOptions{Root: image.HostPath(root), Toolchains: []image.HostPath{image.HostPath(p)}}); err == nil {
			t.Errorf("toolchain %s gives %v", p, im.Binds)
		}
	}
}

func TestHostRefusesOddRoots(t *testing.T) {
	s := open(t)
	for name, change := range map[string]func(root string) error{
		"no /usr": func(r string) error { return os.RemoveAll(filepath.Join(r, "usr")) },
		"/bin to /root": func(r string) error {
			os.Remove(filepath.Join(r, "bin"))
			return os.Symlink("root", filepath.Join(r, "bin"))
		},
		"/bin up": func(r string) error {
			os.Remove(filepath.Join(r, "bin"))
			return os.Symlink("usr/../home", filepath.Join(r, "bin"))
		},
		"/usr is a link": func(r string) error {
			os.Rename(filepath.Join(r, "usr"), filepath.Join(r, "u"))
			return os.Symlink("u", filepath.Join(r, "usr"))
		},
	} {
		root := fakeHost(t)
		if err := change(root); err != nil {
			t.Fatal(err)
		}
		if im, err := s.Host(t.Context(), image.HostOptions{Root: image.HostPath(root)}); err == nil {
			t.Errorf("%s: %v", name, im.Binds)
		}
	}
}

func TestHostIDFollowsToolsAndList(t *testing.T) {
	root := fakeHost(t)
	s := open(t)
	id := func(tools ...image.HostPath) image.ID {
		im, err := s.Host(t.Context(), image.HostOptions{Root: image.HostPath(root), Toolchains: tools})
		if err != nil {
			t.Fatal(err)
		}
		return im.ID
	}
	was := id()
	same := func(what string, want bool) {
		t.Helper()
		if now := id(); (now == was) != want {
			t.Errorf("%s: id %s, before %s", what, now, was)
		} else {
			was = now
		}
	}
	same("nothing changed", true)
	write := func(p, text string) {
		if err := os.WriteFile(filepath.Join(root, p), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("var/lib/db/data", "other")
	write("usr/bin/unknown-tool", "x")
	same("a file outside and an unknown tool", true)
	write("usr/bin/python3", "interpreter 2")
	same("another interpreter", false)
	write("usr/lib/libc.so.6", "libc 2")
	same("another C library", false)
	write("usr/lib/os-release", "ID=test\nPRETTY_NAME=\"Test OS 2\"\n")
	same("another system", false)
	if id("/opt/go") == was {
		t.Error("a toolchain does not change the id")
	}
	with := id("/opt/go")
	write("opt/go/VERSION", "go1.27")
	if id("/opt/go") == with {
		t.Error("another version of a toolchain does not change the id")
	}
}
