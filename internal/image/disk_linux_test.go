package image

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func commitAll(t *testing.T, s *Store, es ...Entry) LayerID {
	t.Helper()
	w, err := s.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range es {
		if err := w.Add(e, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// With an owner, everything that a sandbox of that user mounts is his and can
// be reached by him; the manifest keeps the true owners.
func TestOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	const uid, gid = 23456, 23457
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(HostPath(dir), Options{Owner: &Owner{uid, gid}, Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	id := commitAll(t, s,
		Entry{Path: "d/secret", Type: TypeFile, Mode: 0o4600, UID: 5, GID: 6},
		Entry{Path: "d/link", Type: TypeSymlink, Link: "/x"}, Entry{Path: "gone", Type: TypeWhiteout},
		Entry{Path: "p", Type: TypeFIFO, Mode: 0o600}, Entry{Path: "o", Type: TypeDir, Mode: 0o700, Opaque: true})
	err = filepath.WalkDir(string(s.Dir(id)), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		if st := fi.Sys().(*syscall.Stat_t); st.Uid != uid || st.Gid != gid {
			t.Errorf("%s belongs to %d:%d", p, st.Uid, st.Gid)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.View([]LayerID{id})
	if err != nil {
		t.Fatal(err)
	}
	if e, err := v.Lstat("d/secret"); err != nil || e.UID != 5 || e.GID != 6 || e.Mode != 0o4600 {
		t.Errorf("%+v, %v", e, err)
	}
	// The directories above the test's are root's alone; the store's let him pass.
	for p := string(s.Dir(id)); p != dir; {
		p = filepath.Dir(p)
		if fi, err := os.Stat(p); err != nil || fi.Mode().Perm()&0o011 != 0o011 {
			t.Errorf("%s: %v, %v", p, fi.Mode(), err)
		}
	}
	for _, d := range []string{imagesDir, leasesDir, cacheDir, trashDir} {
		if fi, err := os.Stat(filepath.Join(dir, d)); err != nil || fi.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v, %v", d, fi.Mode(), err)
		}
	}
}

// Where a file system refuses devices, whiteouts are attributes, which the
// kernel must read in the same way.
func TestXattrWhiteouts(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"low/d", "high/d", "upper", "work", "mnt"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"low/top", "low/d/gone", "low/d/stays"} {
		if err := os.WriteFile(filepath.Join(dir, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"high", "high/d"} {
		r, err := os.OpenRoot(filepath.Join(dir, p))
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		name := map[string]string{"high": "top", "high/d": "gone"}[p]
		if err := xattrWhiteout(r, name); err != nil {
			t.Skipf("no user attributes here: %v", err)
		}
		f, err := r.Open(".")
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := setOverlay(f, "opaque", "x"); err != nil {
			t.Fatal(err)
		}
	}
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("unshare", "-rm", "sh", "-c", "cd "+dir+
		" && mount -t overlay overlay -o lowerdir=high:low,upperdir=upper,workdir=work,userxattr mnt && cd mnt && find . | sort").CombinedOutput()
	if err != nil {
		t.Skipf("overlay cannot be mounted in a user namespace here: %v: %s", err, out)
	}
	if got := strings.Join(strings.Fields(string(out)), " "); got != ". ./d ./d/stays" {
		t.Errorf("Linux %s shows %s", unix.ByteSliceToString(u.Release[:]), got)
	}
}

// What a writer marks is what is on disk.
func TestMarksOnDisk(t *testing.T) {
	s, err := Open(HostPath(t.TempDir()), Options{Volatile: true})
	if err != nil {
		t.Fatal(err)
	}
	id := commitAll(t, s, Entry{Path: "o", Type: TypeDir, Mode: 0o500, Opaque: true, Xattrs: map[string]string{"user.k": "v", "trusted.t": "t"}},
		Entry{Path: "d/w", Type: TypeWhiteout})
	b := make([]byte, 16)
	for attr, want := range map[string]string{"user.overlay.opaque": "y", "user.k": "v"} {
		n, err := unix.Getxattr(filepath.Join(string(s.Dir(id)), "o"), attr, b)
		if err == unix.EOPNOTSUPP {
			t.Skip("no user attributes here")
		}
		if err != nil || string(b[:n]) != want {
			t.Errorf("%s is %q, %v", attr, b[:max(n, 0)], err)
		}
	}
	if _, err := unix.Getxattr(filepath.Join(string(s.Dir(id)), "o"), "trusted.t", b); err == nil {
		t.Error("a trusted attribute lies on disk")
	}
	fi, err := os.Lstat(filepath.Join(string(s.Dir(id)), "d/w"))
	if err != nil {
		t.Fatal(err)
	}
	if st := fi.Sys().(*syscall.Stat_t); fi.Mode()&fs.ModeCharDevice != 0 && st.Rdev != 0 {
		t.Errorf("the whiteout is device %d", st.Rdev)
	} else if fi.Mode()&fs.ModeCharDevice == 0 {
		if n, err := unix.Getxattr(filepath.Join(string(s.Dir(id)), "d"), "user.overlay.opaque", b); err != nil || string(b[:n]) != "x" {
			t.Errorf("a whiteout of mode %v in a directory that is marked %q, %v", fi.Mode(), b[:max(n, 0)], err)
		}
	}
}
