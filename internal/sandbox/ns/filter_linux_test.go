package ns

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// refusedCalls are made inside; nil or anything but the named error is a hole.
// All of them but the last reach the kernel's own checks when there is no
// filter, so the error tells who refused.
func refusedCalls() map[string]func() error {
	raw := func(want syscall.Errno, number uintptr, args ...uintptr) func() error {
		return func() error {
			var a [6]uintptr
			copy(a[:], args)
			if _, _, e := syscall.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); e != want {
				return fmt.Errorf("%v, not %v", e, want)
			}
			return nil
		}
	}
	family := func(f int) func() error {
		return func() error {
			fd, err := unix.Socket(f, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
			}
			if err != unix.EPERM {
				return fmt.Errorf("%v", err)
			}
			return nil
		}
	}
	all := map[string]func() error{
		"io_uring_setup":    raw(unix.EPERM, unix.SYS_IO_URING_SETUP, 1, 0),
		"userfaultfd":       raw(unix.EPERM, unix.SYS_USERFAULTFD, 0xffff),
		"bpf":               raw(unix.EPERM, unix.SYS_BPF, 99),
		"perf_event_open":   raw(unix.EPERM, unix.SYS_PERF_EVENT_OPEN),
		"keyctl":            raw(unix.EPERM, unix.SYS_KEYCTL, 99),
		"add_key":           raw(unix.EPERM, unix.SYS_ADD_KEY),
		"kcmp":              raw(unix.EPERM, unix.SYS_KCMP, 1<<30),
		"unshare":           raw(unix.EPERM, unix.SYS_UNSHARE, 0),
		"setns":             raw(unix.EPERM, unix.SYS_SETNS, ^uintptr(0)),
		"clone3":            raw(unix.ENOSYS, unix.SYS_CLONE3),
		"a call to come":    raw(unix.ENOSYS, 4000),
		"AF_ALG":            family(unix.AF_ALG),
		"AF_VSOCK":          family(unix.AF_VSOCK),
		"mount":             raw(unix.EPERM, unix.SYS_MOUNT),
		"fsopen":            raw(unix.EPERM, unix.SYS_FSOPEN),
		"pivot_root":        raw(unix.EPERM, unix.SYS_PIVOT_ROOT),
		"open_by_handle_at": raw(unix.EPERM, unix.SYS_OPEN_BY_HANDLE_AT, ^uintptr(0)),
		"pidfd_getfd":       raw(unix.EPERM, unix.SYS_PIDFD_GETFD, ^uintptr(0)),
		"sethostname":       raw(unix.EPERM, unix.SYS_SETHOSTNAME, 0, 65),
	}
	if runtime.GOARCH == "amd64" {
		all["x32"] = raw(unix.ENOSYS, 0x40000000|unix.SYS_GETPID)
	}
	return all
}

// A filter is inherited, so the program's status is enough to know that every
// child has it; the calls show what it says.
func TestFilteredCalls(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	if got := script(t, s, "grep -e ^Seccomp: -e NoNewPrivs /proc/self/status | tr '\\t\\n' ' '"); got != "NoNewPrivs: 1 Seccomp: 2" {
		t.Errorf("%q", got)
	}
	for _, name := range slices.Sorted(maps.Keys(refusedCalls())) {
		if out := assault(t, s, "refused "+name); out != "" {
			t.Error(strings.TrimSpace(out))
		}
	}
}

// Ordinary programs meet nothing of it: threads, children, pipes, sockets.
func TestFilterLetsProgramsWork(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	if out := assault(t, s, "ordinary"); out != "" {
		t.Error(out)
	}
	if got := script(t, s, "mkfifo /tmp/p && (echo through > /tmp/p &) && cat /tmp/p; setsid sh -c 'echo own session'"); got != "through\nown session" {
		t.Errorf("%q", got)
	}
}

// ordinary does what programs do; a result is a complaint.
func ordinary() error {
	done := make(chan int)
	for range 50 {
		go func() { runtime.LockOSThread(); done <- unix.Gettid() }()
	}
	for range 50 {
		<-done
	}
	p, err := os.StartProcess("/proc/self/exe", []string{attackMarker, "nothing"}, &os.ProcAttr{Env: []string{"GORACE=atexit_sleep_ms=0"}})
	if err != nil {
		return err
	}
	if st, err := p.Wait(); err != nil || !st.Success() {
		return fmt.Errorf("child: %v, %v", st, err)
	}
	for _, f := range []int{unix.AF_UNIX, unix.AF_INET, unix.AF_NETLINK} {
		fd, err := unix.Socket(f, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("socket family %d: %w", f, err)
		}
		unix.Close(fd)
	}
	return nil
}

// Programs that give files away or become somebody are told that they did.
func TestOwnersAreFaked(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	got := script(t, s, "cd /tmp && echo x > f && chown 33:33 f && chgrp 42 f && chown -h 5 f && stat -c %u:%g f && mknod d c 1 1 && ls d 2>&1 | grep -c 'No such'")
	if got != "0:0\n1" {
		t.Errorf("%q", got)
	}
	if out := assault(t, s, "pretend"); out != "" {
		t.Error(out)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range []tar.Header{{Name: "a/", Typeflag: tar.TypeDir, Mode: 0o755, Uid: 1000, Gid: 1000}, {Name: "a/f", Mode: 0o600, Uid: 7, Gid: 8}} {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"tar", "-C", "/tmp", "--same-owner", "-xpf", "-"}},
		sandbox.ExecOptions{Stdin: &buf, Timeout: time.Minute})
	if err != nil || r.Exit.Code != 0 {
		t.Errorf("tar that keeps owners: %v %+v %s", err, r.Exit, r.Stderr)
	}
}

// pretend calls everything that is faked.
func pretend() error {
	var empty unix.CapUserData
	h := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_1}
	f, err := os.Create("/tmp/mine")
	if err != nil {
		return err
	}
	defer f.Close()
	return errors.Join(unix.Fchown(int(f.Fd()), 1, 2), unix.Lchown("/tmp/mine", 3, 4), unix.Fchownat(unix.AT_FDCWD, "/tmp/mine", 5, 6, 0),
		unix.Setgroups([]int{9, 10}), unix.Setresgid(100, 100, 100), unix.Setresuid(100, 100, 100), unix.Setreuid(7, 7), unix.Setregid(7, 7),
		unix.Setuid(100), unix.Setgid(100), unix.Capset(&h, &empty))
}

// apt would look whether it is another user, and stop.
func TestAptKeepsItsUser(t *testing.T) {
	requireSandbox(t)
	b, st := open(t)
	layer := func(entries ...image.Entry) image.LayerID {
		w, err := st.NewLayer(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Abort()
		for _, e := range entries {
			if err := w.Add(e, nil); err != nil {
				t.Fatal(err)
			}
		}
		id, err := w.Commit()
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	with := func(l image.LayerID) func(*sandbox.Spec) {
		return func(sp *sandbox.Spec) { sp.Image.Layers = []image.LayerID{l} }
	}
	apt := arena(t, b, with(layer(image.Entry{Path: aptDir, Type: image.TypeDir, Mode: 0o755})))
	if got := script(t, apt, "cat /"+aptFile); got+"\n" != aptSetting {
		t.Errorf("%q", got)
	}
	snap, err := apt.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if id, err := b.Commit(t.Context(), snap); err != nil || id != "" {
		t.Errorf("the setting got into layer %q, %v", id, err)
	}
	other := arena(t, b, with(layer(image.Entry{Path: "etc/os-release", Type: image.TypeFile, Mode: 0o644})))
	if got := script(t, other, "ls /etc"); got != "os-release" {
		t.Errorf("an image without apt has %q", got)
	}
}

// Scripts write to their streams by name.
func TestStreamsByName(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", "cat /dev/stdin > /dev/stdout; echo bad > /dev/stderr"}},
		sandbox.ExecOptions{Stdin: strings.NewReader("good\n"), Timeout: time.Minute})
	if err != nil || string(r.Stdout) != "good\n" || string(r.Stderr) != "bad\n" {
		t.Errorf("%v %+v %q %q", err, r.Exit, r.Stdout, r.Stderr)
	}
}
