package ns

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// attackMarker is argv[0] of this test binary as a hostile program inside.
const attackMarker = "assay-ns-attack"

func call(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func file(p string, flags int) func() error {
	return func() error {
		f, err := os.OpenFile(p, flags, 0)
		if err == nil {
			f.Close()
		}
		return err
	}
}

func unshare(flags int) func() error { return func() error { return unix.Unshare(flags) } }

// node makes a device; that the call says so is not enough.
func node(p string, mode uint32, dev uint64) func() error {
	return func() error {
		if err := unix.Mknod(p, mode, int(dev)); err != nil {
			return err
		}
		_, err := os.Lstat(p)
		return err
	}
}

// attacks try something and return nil if it worked, which is a hole.
func attacks() map[string]func() error {
	all := initAttacks()
	maps.Copy(all, kernelAttacks())
	return all
}

// initAttacks go for the sandbox's first process.
func initAttacks() map[string]func() error {
	return map[string]func() error{
		"ptrace attach to init": func() error {
			_, _, e := syscall.RawSyscall6(syscall.SYS_PTRACE, unix.PTRACE_ATTACH, 1, 0, 0, 0, 0)
			return call(e)
		},
		"ptrace seize init": func() error {
			_, _, e := syscall.RawSyscall6(syscall.SYS_PTRACE, 0x4206, 1, 0, 0, 0, 0)
			return call(e)
		},
		"read init's memory":  file("/proc/1/mem", os.O_RDONLY),
		"write init's memory": file("/proc/1/mem", os.O_RDWR),
		"init's environment":  func() error { _, err := os.ReadFile("/proc/1/environ"); return err },
		"init's descriptors": func() error { // their numbers can be listed, no more
			for i := range 16 {
				if _, err := os.Readlink(fmt.Sprint("/proc/1/fd/", i)); err == nil {
					return nil
				}
			}
			return errors.New("refused")
		},
		"init's root":             func() error { _, err := os.ReadDir("/proc/1/root/"); return err },
		"init's directory":        func() error { _, err := os.ReadDir("/proc/1/cwd/"); return err },
		"init's program":          file("/proc/1/exe", os.O_RDONLY),
		"write init's program":    file("/proc/1/exe", os.O_WRONLY),
		"init's namespaces":       file("/proc/1/ns/user", os.O_RDONLY),
		"init's descriptor by fd": func() error { _, err := unix.PidfdOpen(1, 0); return orGetfd(err) },
	}
}

// kernelAttacks go for namespaces, mounts and the machine.
func kernelAttacks() map[string]func() error {
	return map[string]func() error{
		"user namespace":         unshare(unix.CLONE_NEWUSER),
		"mount namespace":        unshare(unix.CLONE_NEWNS),
		"network namespace":      unshare(unix.CLONE_NEWNET),
		"user and mount":         unshare(unix.CLONE_NEWUSER | unix.CLONE_NEWNS),
		"more user namespaces":   func() error { return os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("100"), 0) },
		"mount tmpfs":            func() error { return unix.Mount("none", "/tmp", "tmpfs", 0, "") },
		"mount proc":             func() error { return unix.Mount("none", "/tmp", "proc", 0, "") },
		"bind":                   func() error { return unix.Mount("/", "/tmp", "", unix.MS_BIND, "") },
		"remount writable":       func() error { return unix.Mount("", "/usr", "", unix.MS_REMOUNT|unix.MS_BIND, "") },
		"unmount /usr":           func() error { return unix.Unmount("/usr", unix.MNT_DETACH) },
		"unmount a mask":         func() error { return unix.Unmount("/proc/keys", unix.MNT_DETACH) },
		"unmount /proc":          func() error { return unix.Unmount("/proc", unix.MNT_DETACH) },
		"pivot root":             func() error { return unix.PivotRoot("/tmp", "/tmp") },
		"new mount":              func() error { _, err := unix.Fsopen("tmpfs", 0); return err },
		"clone mounts":           func() error { _, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE); return err },
		"write a bind":           func() error { return os.WriteFile("/usr/planted", nil, 0o644) },
		"device node":            node("/tmp/dev", unix.S_IFCHR|0o666, unix.Mkdev(1, 1)),
		"block device":           node("/tmp/blk", unix.S_IFBLK|0o666, unix.Mkdev(8, 0)),
		"kernel memory":          file("/dev/mem", os.O_RDONLY),
		"kernel log":             func() error { _, err := unix.Klogctl(3, make([]byte, 10)); return err },
		"sysrq":                  func() error { return os.WriteFile("/proc/sysrq-trigger", []byte("h"), 0) },
		"host name":              func() error { return unix.Sethostname([]byte("evil")) },
		"kernel setting":         func() error { return os.WriteFile("/proc/sys/kernel/core_pattern", []byte("|/tmp/x"), 0) },
		"core pattern read-only": file("/proc/sys/kernel/core_pattern", os.O_WRONLY),
		"irq":                    file("/proc/irq/default_smp_affinity", os.O_WRONLY),
		"load module":            func() error { _, _, e := syscall.RawSyscall(unix.SYS_INIT_MODULE, 0, 0, 0); return call(e) },
		"reboot": func() error {
			_, _, e := syscall.RawSyscall6(unix.SYS_REBOOT, 0xfee1dead, 672274793, 0, 0, 0, 0)
			return call(e)
		},
		"set the clock": func() error { tv := unix.Timeval{}; return unix.Settimeofday(&tv) },
		"swap": func() error {
			_, _, e := syscall.RawSyscall(unix.SYS_SWAPOFF, uintptr(pointer(&[]byte("/x\x00")[0])), 0, 0)
			return call(e)
		},
		"open by handle": func() error {
			h := unix.NewFileHandle(1, make([]byte, 8))
			fd, err := unix.OpenByHandleAt(unix.AT_FDCWD, h, 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		},
		"interface": func() error {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
			if err != nil {
				return err
			}
			return loopbackDown(fd)
		},
		"more privileges": func() error {
			v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			if err == nil && v == 1 {
				return errors.New("not possible")
			}
			return err
		},
		"capability back": func() error { return unix.Prctl(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0) },
		"old trick with chroot": func() error { // a directory outside of a new root, and up
			if err := os.Mkdir("/tmp/jail", 0o755); err != nil {
				return err
			}
			root, err := os.Open("/")
			if err != nil {
				return err
			}
			if err := unix.Chroot("/tmp/jail"); err != nil {
				return err
			}
			if err := root.Chdir(); err != nil {
				return err
			}
			if err := unix.Chdir(strings.Repeat("../", 50)); err != nil {
				return err
			}
			if err := unix.Chroot("."); err != nil {
				return err
			}
			if _, err := os.Stat("/host"); err != nil {
				return err
			}
			return nil
		},
	}
}

// orGetfd goes on to take a descriptor of init's.
func orGetfd(err error) error {
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return err
	}
	for i := range 16 {
		if _, err := unix.PidfdGetfd(fd, i, 0); err == nil {
			return nil
		}
	}
	return errors.New("no descriptor to be had")
}

func loopbackDown(fd int) error {
	defer unix.Close(fd)
	ifr, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifr.SetUint16(0)
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	defer unix.Close(s)
	_, _, e := syscall.Syscall(unix.SYS_IOCTL, uintptr(s), unix.SIOCSIFFLAGS, uintptr(pointer(ifr)))
	if e != 0 {
		return e
	}
	return nil
}

// attack runs one of them and prints a line that begins with HOLE if it works.
func attack(args []string) int {
	if args[1] == "signals" {
		for sig := 1; sig <= 64; sig++ {
			_ = unix.Kill(1, syscall.Signal(sig)) // whether it is refused or ignored is the same
		}
		return 0
	}
	switch name, refused := strings.CutPrefix(args[1], "refused "); {
	case refused:
		if err := refusedCalls()[name](); err != nil {
			fmt.Println("HOLE:", name, err)
		}
		return 0
	case name == "ordinary" || name == "pretend":
		if err := map[string]func() error{"ordinary": ordinary, "pretend": pretend}[name](); err != nil {
			fmt.Println(name, err)
		}
		return 0
	case name == "pester":
		if err := pester(); err != nil {
			fmt.Println(err)
		}
		return 0
	case name == "nothing":
		return 0
	}
	if mib, ok := strings.CutPrefix(args[1], "hog "); ok || args[1] == "reserve" {
		err := reserve
		if ok {
			err = func() error { return hog(mib) }
		}
		if err := err(); err != nil {
			fmt.Println(err)
		}
		return 0
	}
	if args[1] == "capability back" {
		if v, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, unix.CAP_SYS_ADMIN, 0, 0, 0); err == nil && v == 0 {
			return 0
		}
	}
	if err := attacks()[args[1]](); err == nil {
		fmt.Println("HOLE:", args[1])
	}
	return 0
}

// arena is a sandbox with this test binary as /attack.
func arena(t *testing.T, b *Backend, change ...func(*sandbox.Spec)) sandbox.Sandbox {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	spec := sandbox.Spec{Image: hostImage(), Mounts: []sandbox.Mount{{Host: image.HostPath(exe), Target: "/attack", ReadOnly: true}}}
	for _, f := range change {
		f(&spec)
	}
	s, err := b.Create(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func assault(t *testing.T, s sandbox.Starter, name string) string {
	t.Helper()
	p := sandbox.Command{Args: []string{"/attack", name}, Env: []string{"ASSAY_ATTACK=1", "GORACE=atexit_sleep_ms=0"}}
	r, err := sandbox.Exec(t.Context(), s, p, sandbox.ExecOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if r.Exit.Code != 0 {
		t.Errorf("the attack itself ended with %+v: %s%s", r.Exit, r.Stdout, r.Stderr)
	}
	return string(r.Stdout)
}

func script(t *testing.T, s sandbox.Starter, text string) string {
	t.Helper()
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", text}}, sandbox.ExecOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(r.Stdout))
}

func TestAttacksFromInside(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	for name := range attacks() {
		if out := assault(t, s, name); out != "" {
			t.Error(strings.TrimSpace(out))
		}
	}
	if got := script(t, s, "echo alive"); got != "alive" {
		t.Errorf("after all attacks: %q", got)
	}
}

func TestInitIsDeaf(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	for range 3 {
		assault(t, s, "signals")
	}
	if got := script(t, s, "echo alive"); got != "alive" {
		t.Errorf("after all signals to process 1: %q", got)
	}
	p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "kill -TERM $$; echo survived"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if e, err := p.Wait(t.Context()); err != nil || e.Signal != syscall.SIGTERM {
		t.Errorf("a program inherits deafness: %+v, %v", e, err)
	}
}

func TestNoDescriptorOfTheHost(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	got := script(t, s, "ls /proc/self/fd; readlink /proc/self/fd/0")
	// 3 is ls's own.
	if got != "0\n1\n2\n3\n/dev/null" {
		t.Errorf("%q", got)
	}
}

// The root inside is nobody special outside.
func TestRootIsNotRoot(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	want := os.Geteuid()
	if realRoot() {
		want = DefaultRootUID
	}
	p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"sleep", "4321"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	found := 0
	all := processes(t)
	for pid := range descendants(t, os.Getpid()) {
		cmd := all[pid]
		if cmd == "" {
			continue
		}
		var st unix.Stat_t
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil || unix.Stat(fmt.Sprintf("/proc/%d", pid), &st) != nil {
			continue
		}
		found++
		if !strings.Contains(string(status), fmt.Sprintf("\nUid:\t%[1]d\t%[1]d\t%[1]d\t%[1]d\n", want)) {
			t.Errorf("%s runs as\n%s", cmd, status)
		}
	}
	if found < 3 {
		t.Errorf("%d processes found; keeper, init and program were expected", found)
	}
}

// processes lists the machine's by their command lines.
func processes(t testing.TB) map[int]string {
	t.Helper()
	out := map[int]string{}
	dirs, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range dirs {
		b, err := os.ReadFile(p)
		if err != nil || len(b) == 0 {
			continue // it ended
		}
		var pid int
		fmt.Sscanf(p, "/proc/%d/", &pid)
		out[pid] = strings.TrimSpace(strings.ReplaceAll(string(b), "\x00", " "))
	}
	return out
}

func TestForkBomb(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b, func(sp *sandbox.Spec) { sp.Limits.Pids = 50 })
	p, err := s.Start(t.Context(), sandbox.Command{Args: []string{"sh", "-c", "f() { f | f & }; f; sleep 600"}})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	time.Sleep(300 * time.Millisecond)
	// Whether another program finds a free number is luck; the init must live.
	if _, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"true"}}, sandbox.ExecOptions{Timeout: 10 * time.Second}); errors.Is(err, sandbox.ErrLost) {
		t.Error(err)
	}
	begin := time.Now()
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if d := time.Since(begin); d > 5*time.Second {
		t.Errorf("killing it took %v", d)
	}
	if got := script(t, s, "echo /proc/[0-9]*"); len(strings.Fields(got)) > 2 {
		t.Errorf("left after kill: %s", got)
	}
}

func TestDaemonsDie(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	script(t, s, "for i in 1 2 3 4 5; do (trap '' TERM HUP INT; setsid sh -c 'trap \"\" TERM; sleep 600 & sleep 600' > /dev/null 2>&1 &) ; done; true")
	if got := script(t, s, "grep -c sleep /proc/[0-9]*/comm | grep -c :1"); got == "0" {
		t.Error("the daemons do not run")
	}
	if err := s.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := script(t, s, "cat /proc/[0-9]*/comm"); strings.Contains(got, "sleep") {
		t.Errorf("left after kill: %q", got)
	}
}

func TestOutputFlood(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"sh", "-c", "head -c 200000000 /dev/zero; echo x >&2"}},
		sandbox.ExecOptions{Cap: 1 << 16, Timeout: time.Minute})
	if err != nil || r.Exit.Code != 0 || len(r.Stdout) != 1<<16 || r.Dropped != 200000000-1<<16 {
		t.Errorf("%v %+v, %d kept, %d dropped", err, r.Exit, len(r.Stdout), r.Dropped)
	}
}

func TestOtherUsersAreSaid(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	s := arena(t, b)
	r, err := sandbox.Exec(t.Context(), s, sandbox.Command{Args: []string{"id", "-u"}, User: "alice"}, sandbox.ExecOptions{})
	if err != nil || string(r.Stdout) != "0\n" {
		t.Fatalf("%v %q", err, r.Stdout)
	}
	_, unheld := s.(sandbox.Held).Held()
	if !slices.ContainsFunc(unheld, func(u string) bool { return strings.Contains(u, `"alice"`) }) {
		t.Errorf("nobody said it: %v", unheld)
	}
}

// Host directories are mounted as asked, and only as asked.
func TestHostMounts(t *testing.T) {
	requireSandbox(t)
	b, _ := open(t)
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/f", []byte("host"), 0o644), os.Mkdir(dir+"/rw", 0o777), os.Chmod(dir+"/rw", 0o777),
		os.Symlink("/etc/shadow", dir+"/link")); err != nil {
		t.Fatal(err)
	}
	s := arena(t, b, func(sp *sandbox.Spec) {
		sp.Mounts = append(sp.Mounts, sandbox.Mount{Host: image.HostPath(dir), Target: "/mnt/ro", ReadOnly: true},
			sandbox.Mount{Host: image.HostPath(dir + "/rw"), Target: "/mnt/rw"})
	})
	if got := script(t, s, "cat /mnt/ro/f; echo x > /mnt/ro/f || echo refused; echo mine > /mnt/rw/g; test -e /mnt/ro/link || echo dangles"); got != "hostrefused\ndangles" {
		t.Errorf("%q", got)
	}
	if data, err := os.ReadFile(dir + "/rw/g"); err != nil || string(data) != "mine\n" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := b.Create(t.Context(), sandbox.Spec{Image: hostImage(), Mounts: []sandbox.Mount{{Host: "/no/such", Target: "/x"}}}); err == nil {
		t.Error("a missing directory was mounted")
	}
}
