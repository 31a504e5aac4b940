package ns

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/image"
	"assay/internal/sandbox"
	"assay/internal/sandbox/sandboxtest"
)

// The mode with real owners obeys the same contract.
func TestConformanceRealOwners(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	if b.ids.mode == "" {
		t.Skipf("one user id only: %v", b.noIDs)
	}
	sandboxtest.Run(t, sandboxtest.Subject{
		New:   func(t testing.TB) sandbox.Backend { b, _ := open(t); return b },
		Image: hostImage(), Walls: true, UID: b.ids.mode,
	})
}

// owned opens a backend whose owners are real, and an image with some.
func owned(t *testing.T) (*Backend, *image.Store, sandbox.Spec) {
	t.Helper()
	requireSandbox(t)
	b, st := open(t)
	if b.ids.mode == "" {
		t.Skipf("one user id only: %v", b.noIDs)
	}
	w, err := st.NewLayer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Abort()
	for _, e := range []struct {
		image.Entry
		text string
	}{
		{image.Entry{Path: "etc/passwd", Type: image.TypeFile, Mode: 0o644}, "root:x:0:0::/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n"},
		{image.Entry{Path: "etc/group", Type: image.TypeFile, Mode: 0o644}, "root:x:0:\napp:x:1001:\ndata:x:2000:app\n"},
		{image.Entry{Path: "etc/shadow", Type: image.TypeFile, Mode: 0o640, GID: 42}, "secret"},
		{image.Entry{Path: "etc/sealed", Type: image.TypeFile, Mode: 0o000}, "sealed"},
		{image.Entry{Path: "home/app", Type: image.TypeDir, Mode: 0o2750, UID: 1000, GID: 1001}, ""},
		{image.Entry{Path: "home/app/a", Type: image.TypeFile, Mode: 0o600, UID: 1000, GID: 1001, Xattrs: map[string]string{"user.k": "v"}}, "app's"},
		{image.Entry{Path: "home/app/b", Type: image.TypeFile, Hardlink: "home/app/a"}, ""},
		{image.Entry{Path: "home/app/l", Type: image.TypeSymlink, Link: "/etc/shadow", UID: 1000, GID: 1001}, ""},
		{image.Entry{Path: "home/app/p", Type: image.TypeFIFO, Mode: 0o622, UID: 1000}, ""},
		{image.Entry{Path: "opt/far", Type: image.TypeFile, Mode: 0o644, UID: 5_000_000, GID: 7}, "far"},
		{image.Entry{Path: "opt/tool", Type: image.TypeFile, Mode: 0o4755}, "set-uid"},
		{image.Entry{Path: "opt/plain", Type: image.TypeFile, Mode: 0o644}, "root's"},
	} {
		if err := w.Add(e.Entry, strings.NewReader(e.text)); err != nil {
			t.Fatal(err)
		}
	}
	id, err := w.Commit()
	if err != nil {
		t.Fatal(err)
	}
	img := hostImage()
	img.Layers = []image.LayerID{id}
	return b, st, sandbox.Spec{Image: img, UID: b.ids.mode}
}

func make1(t *testing.T, b *Backend, spec sandbox.Spec) sandbox.Sandbox {
	t.Helper()
	s, err := b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func as(t *testing.T, s sandbox.Starter, user, text string) string {
	t.Helper()
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", text}, User: user}, sandbox.ExecOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatalf("%s as %s: %v", text, user, err)
	}
	return strings.TrimSpace(string(r.Stdout) + string(r.Stderr))
}

const listOwners = `cd /; stat -c '%n %u:%g %a' etc/shadow etc/sealed home home/app home/app/* opt/*`

const ownersOfImage = `etc/shadow 0:42 640
etc/sealed 0:0 0
home 0:0 755
home/app 1000:1001 2750
home/app/a 1000:1001 600
home/app/b 1000:1001 600
home/app/l 1000:1001 777
home/app/p 1000:0 622
opt/far 65534:7 644
opt/plain 0:0 644
opt/tool 0:0 4755`

// Owners of an image are there; users are who they say, and bound by it.
func TestRealOwners(t *testing.T) {
	b, _, spec := owned(t)
	s := make1(t, b, spec)
	if got := script(t, s, listOwners); got != ownersOfImage {
		t.Errorf("as they appear:\n%s", got)
	}
	for _, c := range []struct{ user, text, want string }{
		{"app", "id -u; id -g; id -G; echo $HOME; cat ~/a; cat ~/b", "1000\n1001\n1001 2000\n/home/app\napp'sapp's"},
		{"app:data", "id -u; id -g; id -G", "1000\n2000\n2000"},
		{"77:78", "id -u; id -g; id -G; echo $HOME", "77\n78\n78\n/"},
		{"root", "id -u; id -G; cat /etc/shadow", "0\n0\nsecret"},
		{"", "setpriv --reuid 1000 --regid 1001 --clear-groups sh -c 'id -u; id -G; cat /etc/shadow; echo x >> /opt/plain'", "1000\n1001\n" +
			"cat: /etc/shadow: Permission denied\nsh: 1: cannot create /opt/plain: Permission denied"},
		{"app", "cat /etc/sealed; rm /opt/plain; grep CapEff /proc/self/status; kill -9 1 && echo killed; chown 0 ~/a; echo hi > /dev/stdout",
			"cat: /etc/sealed: Permission denied\nrm: cannot remove '/opt/plain': Permission denied\nCapEff:\t0000000000000000\n" +
				"sh: 1: kill: Operation not permitted\n\nchown: changing ownership of '/home/app/a': Operation not permitted\nhi"},
		{"", "echo mine > /tmp/f; chown 1000:1001 /tmp/f; chmod 600 /tmp/f; stat -c %u:%g /tmp/f", "1000:1001"},
		{"app", "cat /tmp/f; echo more >> /tmp/f; cat /tmp/f", "mine\nmine\nmore"},
		{"77", "cat /tmp/f", "cat: /tmp/f: Permission denied"},
	} {
		got := as(t, s, c.user, c.text)
		sorted := func(x string) []string { l := strings.Split(x, "\n"); slices.Sort(l); return l } // two streams have no order
		if !slices.Equal(slices.DeleteFunc(sorted(got), isEmpty), slices.DeleteFunc(sorted(c.want), isEmpty)) {
			t.Errorf("%s as %q: %q", c.text, c.user, got)
		}
	}
	for _, user := range []string{"nobody-of-that-name", "app:none", "4294967296", "70000"} {
		_, err := s.Start(t.Context(), sandbox.Command{Args: []string{"true"}, User: user})
		if !errors.Is(err, sandbox.ErrNotStarted) {
			t.Errorf("user %s: %v", user, err)
		}
	}
	p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "test -t 0; echo is terminal $?; echo by name > /dev/tty; stat -c %u $(tty)"}, User: "app", TTY: &sandbox.Size{Rows: 9, Cols: 99}})
	if err != nil {
		t.Fatal(err)
	}
	out, _ := io.ReadAll(p.Stdout())
	p.Close()
	if got := string(out); got != "is terminal 0\r\nby name\r\n1000\r\n" {
		t.Errorf("terminal: %q", got)
	}
	if _, unheld := s.(sandbox.Held).Held(); slices.ContainsFunc(unheld, func(u string) bool { return strings.HasPrefix(u, "user") }) {
		t.Errorf("a user is said not to be had: %q", unheld)
	}
	// The same image with one id shows nothing of it, and shares the layer.
	one := spec
	one.UID = sandbox.UIDSingle
	if got := script(t, make1(t, b, one), "stat -c %u:%g /home/app /home/app/a; id -u"); got != "0:0\n0:0\n0" {
		t.Errorf("with one id: %q", got)
	}
}

func isEmpty(s string) bool { return s == "" }

// Owners survive snapshots, forks, peeks, commits and copies.
func TestOwnersAreKept(t *testing.T) {
	b, st, spec := owned(t)
	s := make1(t, b, spec)
	snapshot := func(s sandbox.Sandbox) sandbox.Snapshot {
		t.Helper()
		snap, err := s.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return snap
	}
	commit := func(snap sandbox.Snapshot) image.LayerID {
		t.Helper()
		id, err := b.Commit(t.Context(), snap)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	script(t, s, "cd /home/app; cp a x; echo y > a; cat x > a; rm x; chown 5:6 /opt/tool; chown 0:0 /opt/tool; chmod 4755 /opt/tool")
	if id := commit(snapshot(s)); id != "" {
		for e, err := range st.Entries(id) {
			t.Errorf("unchanged, but committed: %+v %v", e, err)
		}
	}
	script(t, s, "chown -h 8:9 /home/app/l; chown 3:4 /opt/far; mkdir -p /srv/d; echo new > /srv/d/f; chown -R 1000:2000 /srv; chmod 2770 /srv/d; ln /srv/d/f /srv/g; chmod u-s /opt/tool; setfattr -n user.z -v 1 /srv/d/f 2>/dev/null; true")
	first := snapshot(s)
	want := script(t, s, listOwners+"; stat -c '%n %u:%g %a' srv srv/*; stat -c '%n %u:%g %a %h' srv/d/*")
	if !strings.Contains(want, "srv/d/f 1000:2000 644 2") || !strings.Contains(want, "home/app/l 8:9") || !strings.Contains(want, "opt/far 3:4") {
		t.Errorf("before:\n%s", want)
	}
	id := commit(first)
	owners := map[string]string{}
	for e, err := range st.Entries(id) {
		if err != nil {
			t.Fatal(err)
		}
		owners[e.Path] = fmt.Sprintf("%d:%d %o", e.UID, e.GID, e.Mode)
	}
	for p, w := range map[string]string{"home/app/l": "8:9 0", "opt/far": "3:4 644", "srv": "1000:2000 755", "srv/d": "1000:2000 2770",
		"srv/d/f": "1000:2000 644", "srv/g": "1000:2000 644", "opt/tool": "0:0 755", "home/app": "1000:1001 2750"} {
		if owners[p] != w {
			t.Errorf("manifest: %s is %q, not %q", p, owners[p], w)
		}
	}
	forkOf := func(layers []image.LayerID, snap sandbox.Snapshot) sandbox.Sandbox {
		f := spec
		f.Image.Layers, f.From = layers, snap
		return make1(t, b, f)
	}
	onLayer := forkOf([]image.LayerID{spec.Image.Layers[0], id}, "")
	peek, err := s.Peek(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	forks := map[string]sandbox.Sandbox{"the layer": onLayer, "the snapshot": forkOf(spec.Image.Layers, first), "a peek": forkOf(spec.Image.Layers, peek)}
	if err := s.Reset(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	forks["a reset"] = s
	for name, f := range forks {
		if got := script(t, f, listOwners+"; stat -c '%n %u:%g %a' srv srv/*; stat -c '%n %u:%g %a %h' srv/d/*"); got != want {
			t.Errorf("%s:\n%s\ninstead of\n%s", name, got, want)
		}
	}
	script(t, onLayer, "chown 1:1 /opt/far; chown 3:4 /opt/far; touch /home/app/a; chmod u+s /opt/tool; chmod u-s /opt/tool")
	if id := commit(snapshot(onLayer)); id != "" {
		t.Error("nothing changed upon the layer, but it was committed")
	}
	// A copy out and in again.
	var tar bytes.Buffer
	if err := s.Get(t.Context(), "/home", &tar, 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "/copy", &tar); err != nil {
		t.Fatal(err)
	}
	if got := script(t, s, "cd /copy; stat -c '%n %u:%g %a' app app/a app/l app/p"); got != "app 1000:1001 2750\napp/a 1000:1001 600\napp/l 8:9 777\napp/p 1000:0 622" {
		t.Errorf("copied:\n%s", got)
	}
	one := spec
	one.UID, one.From = sandbox.UIDSingle, first
	if s, err := b.Create(t.Context(), one); err == nil {
		s.Close()
		t.Error("a snapshot was taken into another uid mode")
	}
}

// Merged snapshots, on disk and in memory, keep owners too.
func TestOwnersOfMergedSnapshots(t *testing.T) {
	b, _, spec := owned(t)
	for _, disk := range []int64{0, 1 << 40} {
		spec.Limits.DiskBytes = disk
		s := make1(t, b, spec)
		script(t, s, "mkfifo /pipe; chown 4:4 /pipe; ln -s x /link; chown -h 3:3 /link; mkdir /dir; chown 2:2 /dir; chmod 3775 /dir")
		for i := range maxFrozen + 2 {
			script(t, s, fmt.Sprintf("echo %d > /f%d; chown %d:%d /f%d", i, i, i, i+1, i))
			if _, err := s.Snapshot(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if got := script(t, s, "stat -c '%n %u:%g %a' /pipe /link /dir /f1 /f49 | tr '\\n' ' '; cat /f1"); got != "/pipe 4:4 644 /link 3:3 777 /dir 2:2 3775 /f1 1:2 644 /f49 49:50 644 1" {
			t.Errorf("%q", got)
		}
	}
}

// Companions of layers that nobody needs any more go, and those of others stay
// however many come; a layer may lie elsewhere the next time.
func TestCompanionsComeAndGo(t *testing.T) {
	b, st, spec := owned(t)
	b.conf.covers = 2
	base := spec.Image.Layers
	first := make1(t, b, spec)
	snap, err := first.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	end, err := make1(t, b, spec).(sandbox.Ender).End(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	layer := func(tmp *image.Temporary, n int) image.LayerID {
		t.Helper()
		w, err := tmp.NewLayer(t.Context(), base...)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		if err := w.Add(image.Entry{Path: "n", Type: image.TypeFile, Mode: 0o640, UID: n, GID: n + 1}, strings.NewReader("n")); err != nil {
			t.Fatal(err)
		}
		id, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	for round := range 3 {
		var wait sync.WaitGroup
		for n := 1; n < 8; n++ {
			wait.Go(func() {
				tmp := st.Temporary()
				defer tmp.Close()
				sp := spec
				sp.Extra = []image.LayerID{layer(tmp, n)}
				s, err := b.Create(t.Context(), sp)
				if err != nil {
					t.Error(err)
					return
				}
				defer s.Close()
				if got := script(t, s, "stat -c %u:%g:%a /n /home/app"); got != fmt.Sprintf("%d:%d:640\n1000:1001:2750", n, n+1) {
					t.Errorf("round %d: layer %d: %s", round, n, got)
				}
			})
		}
		wait.Wait()
	}
	b.mu.Lock()
	known := len(b.owners)
	b.mu.Unlock()
	if known > 8 { // seven were needed at once at the end, and each end of one lets one go
		t.Errorf("%d layers are remembered", known)
	}
	if err := first.Reset(t.Context(), snap); err != nil {
		t.Fatal(err)
	}
	if got := script(t, first, listOwners); got != ownersOfImage {
		t.Errorf("a sandbox of before:\n%s", got)
	}
	if err := errors.Join(first.Close(), b.Drop(snap)); err != nil {
		t.Fatal(err)
	}
	for n := range 12 { // of another image, until the companions of this one are let go
		tmp := st.Temporary()
		sp := sandbox.Spec{Image: hostImage(), UID: spec.UID, Extra: []image.LayerID{layer(tmp, n+1)}}
		if err := errors.Join(make1(t, b, sp).Close(), tmp.Close()); err != nil {
			t.Fatal(err)
		}
	}
	spec.From = end
	if got := script(t, make1(t, b, spec), listOwners); got != ownersOfImage {
		t.Errorf("the end of one of before:\n%s", got)
	}
}

// The walls are the same ones, for root inside and for whoever is not.
func TestAttacksWithRealOwners(t *testing.T) {
	b, _, _ := owned(t)
	s := arena(t, b, func(sp *sandbox.Spec) { sp.UID = b.ids.mode })
	for name := range attacks() {
		if out := assault(t, s, name); out != "" {
			t.Error(strings.TrimSpace(out))
		}
		for _, user := range []string{"1000:1000", "65535"} {
			p := sandbox.Command{Args: []string{"/attack", name}, Env: []string{"ASSAY_ATTACK=1", "GORACE=atexit_sleep_ms=0"}, User: user}
			r, err := sandbox.Exec(t.Context(), s, p, sandbox.ExecOptions{Timeout: 30 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			if r.Exit.Code != 0 {
				t.Errorf("%s as %s: %s%s", name, user, r.Stdout, r.Stderr)
			}
		}
	}
	if got := script(t, s, "echo alive; grep -c . /proc/self/uid_map; cat /proc/sys/user/max_user_namespaces"); got != "alive\n2\n0" {
		t.Errorf("after all attacks: %q", got)
	}
	// What is a device for the archive's sake is none.
	if got := script(t, s, "mknod /tmp/kmsg c 1 11 && ls /tmp/kmsg"); got != "" {
		t.Errorf("a device was made: %q", got)
	}
	// Rights that files carry are nobody's.
	if got := as(t, s, "1000", "cp /bin/cat /tmp/cat; exec /tmp/cat /proc/self/status"); !strings.Contains(got, "NoNewPrivs:\t1") || !strings.Contains(got, "CapPrm:\t0000000000000000") {
		t.Errorf("%s", got)
	}
	script(t, s, "cp /usr/bin/id /tmp/id; chmod 4755 /tmp/id")
	if got := as(t, s, "1000", "/tmp/id"); got != "uid=1000 gid=0 groups=0" {
		t.Errorf("a set-uid program: %s", got)
	}
}

// An ordinary user is rid of what other ids left in a cache mount, once the
// store has let it go.
func TestTrashOfOtherIDs(t *testing.T) {
	b, st, spec := owned(t)
	if b.ids.mode != sandbox.UIDSub {
		t.Skip("real root removes everything itself")
	}
	gone := filepath.Join(string(st.Trash()), "let-go")
	if err := os.Mkdir(gone, 0o777); err != nil {
		t.Fatal(err)
	}
	spec.Mounts = []sandbox.Mount{{Host: image.HostPath(gone), Target: "/cache"}}
	s := make1(t, b, spec)
	script(t, s, "mkdir /cache/d; echo x > /cache/d/f; chown -R 42:42 /cache/d; chmod 700 /cache/d")
	s.Close()
	if err := os.RemoveAll(gone); err == nil {
		t.Fatal("the user could remove it alone: the test is none")
	}
	next, err := Open(t.Context(), Config{Store: st})
	if err != nil {
		t.Fatal(err)
	}
	if err := next.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(gone); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
}
