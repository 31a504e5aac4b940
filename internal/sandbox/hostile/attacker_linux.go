package hostile

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func fields(b []byte) []string { return strings.Fields(string(b)) }

// attacker makes one attack from inside and prints what came of it.
func attacker(name string, args []string) int {
	try := attackers()[name]
	if try == nil {
		fmt.Fprintln(os.Stderr, "no such attack")
		return 2
	}
	if err := try(args); err != nil {
		fmt.Println("refused:", err)
		return 0
	}
	fmt.Println("worked")
	return 0
}

// tries are programs of attacks: nil means that the attack worked.
type tries map[string]func(args []string) error

func attackers() tries {
	all := tries{}
	for _, m := range []tries{processAttackers(), initAttackers(), kernelAttackers(), mountAttackers(), networkAttackers(), fileAttackers(), swappers(), proxyAttackers(), escapeAttackers(), foreignCalls()} {
		for k, v := range m {
			all[k] = v
		}
	}
	return all
}

func plain(f func() error) func([]string) error { return func([]string) error { return f() } }

func errno(e syscall.Errno) error {
	if e == 0 {
		return nil
	}
	return e
}

func call(nr uintptr, a ...uintptr) error {
	var v [6]uintptr
	copy(v[:], a)
	_, _, e := syscall.Syscall6(nr, v[0], v[1], v[2], v[3], v[4], v[5])
	return errno(e)
}

func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

func opens(path string, flags int) func([]string) error {
	return plain(func() error {
		f, err := os.OpenFile(path, flags, 0)
		if err == nil {
			f.Close()
		}
		return err
	})
}

// readsAny is whether a file holds anything to read.
func readsAny(path string) func([]string) error {
	return plain(func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		if n, err := f.Read(make([]byte, 64)); n == 0 {
			return fmt.Errorf("nothing in it: %w", err)
		}
		return nil
	})
}

// forks makes processes that do nothing until they are killed; it returns how
// many, at most n. The children share no Go runtime: raw calls only.
func forks(n int) int {
	for i := range n {
		pid, _, e := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		if e != 0 {
			return i
		}
		if pid == 0 {
			for {
				syscall.RawSyscall6(syscall.SYS_PPOLL, 0, 0, 0, 0, 0, 0)
			}
		}
	}
	return n
}

func processAttackers() tries {
	return tries{
		"fork bomb": plain(func() error {
			if n := forks(400); n < 200 {
				return fmt.Errorf("%d processes", n)
			}
			return nil
		}),
		"open files": plain(func() error {
			for i := range 600 {
				if _, err := unix.Dup(1); err != nil {
					return fmt.Errorf("%d descriptors: %w", i, err)
				}
			}
			return nil
		}),
		"memory bomb": plain(func() error {
			var hold [][]byte
			for range 24 { // 384 MiB
				b := make([]byte, 16<<20)
				for i := 0; i < len(b); i += 4096 {
					b[i] = 1
				}
				hold = append(hold, b)
				time.Sleep(50 * time.Millisecond)
			}
			if len(hold) == 0 {
				return errors.New("none")
			}
			return nil
		}),
		"output flood": plain(func() error {
			b := bytes.Repeat([]byte("flood\n"), 10_000)
			for range 300 { // 18 MB each
				_, err := os.Stdout.Write(b)
				if _, eerr := os.Stderr.Write(b); err != nil || eerr != nil {
					return errors.Join(err, eerr)
				}
			}
			return nil
		}),
		"core dump": plain(func() error {
			return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 20, Max: 1 << 20})
		}),
		"inherited descriptors": plain(func() error {
			for fd := 3; fd < 1024; fd++ {
				fl, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				to, _ := os.Readlink(fmt.Sprint("/proc/self/fd/", fd))
				// The runtime's own are close-on-exec; what was inherited is not.
				if err == nil && fl&unix.FD_CLOEXEC == 0 {
					return nil
				}
				_ = to
			}
			return errors.New("none is open")
		}),
		"processes of others": plain(func() error {
			dirs, _ := filepath.Glob("/proc/[0-9]*")
			for _, d := range dirs {
				b, err := os.ReadFile(d + "/cmdline")
				if err == nil && strings.Contains(string(b), "victim") {
					return nil
				}
			}
			return fmt.Errorf("%d processes, none of them a victim", len(dirs))
		}),
		"files of others": plain(func() error {
			roots, _ := filepath.Glob("/proc/[0-9]*/cwd/victims-secret")
			for _, p := range roots {
				if b, err := os.ReadFile(p); err == nil && string(b) == bait {
					return nil
				}
			}
			return errors.New("no way to them")
		}),
		"kill everybody": plain(func() error {
			dirs, _ := filepath.Glob("/proc/[0-9]*")
			for _, d := range dirs {
				pid, err := strconv.Atoi(filepath.Base(d))
				b, rerr := os.ReadFile(d + "/cmdline")
				if err == nil && rerr == nil && strings.Contains(string(b), "victim") {
					_ = unix.Kill(pid, unix.SIGKILL)
				}
			}
			_ = unix.Kill(-os.Getppid(), 0)
			return errors.New("whoever can be seen was killed")
		}),
		// Not an attack: who suffers.
		"victim": func(args []string) error {
			if err := os.Chdir(args[0]); err == nil {
				_ = os.WriteFile("victims-secret", []byte(bait), 0o666)
			}
			fmt.Println("ready")
			time.Sleep(time.Minute)
			return errors.New("nobody killed it")
		},
		// A process of its own session that hears nothing and beats its heart.
		"daemon": func(args []string) error {
			if len(args) == 1 {
				c := bareCommand("daemon", args[0], "child")
				if err := c.Start(); err != nil {
					return err
				}
				for range 500 {
					if _, err := os.Stat(args[0]); err == nil {
						return errors.New("it runs")
					}
					time.Sleep(10 * time.Millisecond)
				}
				return errors.New("it does not run")
			}
			signal.Ignore(syscall.SIGTERM, syscall.SIGHUP, syscall.SIGINT)
			f, err := os.Create(args[0]) // an open file stays with the tree that it was opened in
			if err != nil {
				return err
			}
			defer f.Close()
			for i := range 1500 {
				if _, err := f.WriteAt([]byte(strconv.Itoa(1000+i)), 0); err != nil {
					return err
				}
				time.Sleep(20 * time.Millisecond)
			}
			return nil
		},
	}
}

func initAttackers() tries {
	pid1 := func(name string) string { return "/proc/1/" + name }
	return tries{
		"signals to init": plain(func() error {
			for range 3 {
				for sig := 1; sig <= 64; sig++ {
					_ = unix.Kill(1, syscall.Signal(sig)) // whether it is refused or ignored is the same
				}
			}
			time.Sleep(50 * time.Millisecond)
			return errors.New("all of them sent")
		}),
		// An init without descriptors starts nothing any more, which looks like a
		// fault of the machine.
		"limits of init": plain(func() error {
			return unix.Prlimit(1, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: 3}, nil)
		}),
		"trace init": plain(func() error {
			runtime.LockOSThread() // a tracer is a thread
			defer runtime.UnlockOSThread()
			if err := call(syscall.SYS_PTRACE, unix.PTRACE_ATTACH, 1); err != nil {
				return err
			}
			_, err := unix.Wait4(1, nil, unix.WALL, nil)
			return errors.Join(err, call(syscall.SYS_PTRACE, unix.PTRACE_DETACH, 1)) // or nobody would hear of it
		}),
		"seize init":     plain(func() error { return call(syscall.SYS_PTRACE, 0x4206, 1) }),
		"memory of init": opens(pid1("mem"), os.O_RDWR),
		"environment of init": plain(func() error {
			_, err := os.ReadFile(pid1("environ"))
			return err
		}),
		"root of init":    plain(func() error { _, err := os.ReadDir(pid1("root/")); return err }),
		"program of init": opens(pid1("exe"), os.O_RDONLY),
		"descriptors of init": plain(func() error {
			for i := range 32 {
				if _, err := os.Readlink(fmt.Sprint("/proc/1/fd/", i)); err == nil {
					return nil
				}
			}
			return errors.New("none can be read")
		}),
		"take a descriptor of init": plain(func() error {
			fd, err := unix.PidfdOpen(1, 0)
			if err != nil {
				return err
			}
			for i := range 32 {
				if _, err = unix.PidfdGetfd(fd, i, 0); err == nil {
					return nil
				}
			}
			return err
		}),
		"read init with process_vm_readv": plain(func() error {
			// An address that is mapped in nobody fails with EFAULT once access is granted.
			var b [8]byte
			local := unix.Iovec{Base: &b[0], Len: 8}
			remote := unix.RemoteIovec{Base: 8, Len: 8}
			_, err := unix.ProcessVMReadv(1, []unix.Iovec{local}, []unix.RemoteIovec{remote}, 0)
			if err == unix.EFAULT {
				return nil
			}
			return err
		}),
		"namespaces of init": plain(func() error {
			fd, err := unix.Open(pid1("ns/mnt"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}),
	}
}
