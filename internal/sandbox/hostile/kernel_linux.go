package hostile

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// kernelAttackers go for what belongs to the whole machine. Arguments are
// chosen so that a call that is granted does no harm.
func kernelAttackers() tries {
	null := func(nr uintptr, a ...uintptr) func([]string) error {
		return plain(func() error { return call(nr, a...) })
	}
	missing := []byte("/no/such/file\x00")
	return tries{
		"load a kernel module": null(unix.SYS_INIT_MODULE, 0, 0, 0),
		"load another kernel":  null(unix.SYS_KEXEC_LOAD, 0, 0, 0, 0),
		"control-alt-delete":   null(unix.SYS_REBOOT, 0xfee1dead, 672274793, 0, 0),
		"set the clock": plain(func() error {
			tv := unix.NsecToTimeval(time.Now().UnixNano())
			return unix.Settimeofday(&tv)
		}),
		"adjust the clock":                  plain(func() error { tx := unix.Timex{Modes: 0x4000, Tick: 10000}; _, err := unix.Adjtimex(&tx); return err }),
		"take swap away":                    plain(func() error { return orMissing(call(unix.SYS_SWAPOFF, ptr(&missing[0]))) }),
		"process accounting":                plain(func() error { return orMissing(call(unix.SYS_ACCT, ptr(&missing[0]))) }),
		"kernel log":                        plain(func() error { _, err := unix.Klogctl(3, make([]byte, 64)); return err }),
		"kernel memory":                     opens("/dev/mem", os.O_RDONLY),
		"kernel core":                       readsAny("/proc/kcore"),
		"kernel timers":                     readsAny("/proc/timer_list"),
		"kernel keys":                       readsAny("/proc/keys"),
		"system requests":                   plain(func() error { return writesReal("/proc/sysrq-trigger", "?") }),
		"core pattern":                      opens("/proc/sys/kernel/core_pattern", os.O_WRONLY),
		"module path":                       opens("/proc/sys/kernel/modprobe", os.O_WRONLY),
		"settings of the network":           opens("/proc/sys/net/ipv4/ip_forward", os.O_WRONLY),
		"interrupts":                        opens("/proc/irq/default_smp_affinity", os.O_WRONLY),
		"real-time priority":                plain(func() error { p := struct{ prio int32 }{50}; return call(unix.SYS_SCHED_SETSCHEDULER, 0, 1, ptr(&p)) }),
		"protection from the memory killer": plain(func() error { return os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0) }),
		"device node":                       plain(func() error { return mknod("/assay-mem", unix.S_IFCHR, 1, 1) }),
		"disk node":                         plain(func() error { return mknod("/assay-disk", unix.S_IFBLK, 8, 0) }),
		"file by handle": plain(func() error {
			h := unix.NewFileHandle(1, make([]byte, 8))
			fd, err := unix.OpenByHandleAt(unix.AT_FDCWD, h, 0)
			if err == nil {
				unix.Close(fd)
			}
			if err == unix.ESTALE {
				return nil // it was looked for
			}
			return err
		}),
		"BPF": plain(func() error {
			attr := [18]uint64{}
			attr[0] = 2 | 4<<32
			attr[1] = 8 | 1<<32
			return call(unix.SYS_BPF, 0, ptr(&attr), 48)
		}),
		"perf events": plain(func() error {
			a := unix.PerfEventAttr{Type: 1, Config: 1, Size: 112}
			_, err := unix.PerfEventOpen(&a, 0, -1, -1, 0)
			return err
		}),
		"userfaultfd": null(unix.SYS_USERFAULTFD, unix.O_CLOEXEC|1),
		"io_uring":    plain(func() error { p := [40]uint32{}; return call(unix.SYS_IO_URING_SETUP, 2, ptr(&p)) }),
		"a key of the starter": plain(func() error {
			id, err := unix.KeyctlSearch(unix.KEY_SPEC_SESSION_KEYRING, "user", baitKey, 0)
			if err != nil {
				return err
			}
			b := make([]byte, 64)
			n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, b, 0)
			if err == nil && string(b[:n]) != bait {
				err = errors.New("another key")
			}
			return err
		}),
		"keys": plain(func() error {
			_, err := unix.AddKey("user", "assay", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
			return err
		}),
		"kernel crypto":         plain(func() error { return socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0) }),
		"machine socket":        plain(func() error { return socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0) }),
		"another memory policy": null(unix.SYS_SET_MEMPOLICY, 0, 0, 0),
		"another personality":   null(unix.SYS_PERSONALITY, 0x0400000), // what can be read can be executed
		"compare kernel objects": plain(func() error {
			me := uintptr(os.Getpid())
			_, _, e := unix.RawSyscall6(unix.SYS_KCMP, me, me, 0, 0, 1, 0)
			return errno(e)
		}),
		"watch a file system": plain(func() error {
			fd, err := unix.FanotifyInit(unix.FAN_CLASS_NOTIF|unix.FAN_REPORT_FID|unix.FAN_CLOEXEC, 0)
			closeIf(fd, err)
			return err
		}),
		"ports of devices":      null(sysPorts, 3),
		"a better priority":     plain(func() error { return unix.Setpriority(unix.PRIO_PROCESS, 0, -20) }),
		"real-time disk access": null(unix.SYS_IOPRIO_SET, 1, 0, 1<<13),
		"packet filter": plain(func() error {
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			if err = unix.SetsockoptInt(fd, unix.SOL_IP, 64, 0); err == unix.EINVAL || err == unix.EFAULT {
				return nil // the table itself was read
			}
			return err
		}),
		"terminal injection": plain(func() error {
			f, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
			if err != nil {
				return err
			}
			defer f.Close()
			for _, c := range []byte("injected\n") {
				if err := unix.IoctlSetPointerInt(int(f.Fd()), unix.TIOCSTI, int(c)); err != nil {
					return err
				}
			}
			return errors.New("typed into a terminal of its own")
		}),
		// What a program of a sandbox whose terminal is new finds typed.
		"read the terminal": plain(func() error {
			if err := unix.SetNonblock(0, true); err != nil {
				return err
			}
			b := make([]byte, 64)
			if n, _ := unix.Read(0, b); n > 0 && strings.Contains(string(b[:n]), "injected") {
				return nil
			}
			return errors.New("nothing was typed")
		}),
	}
}

// orMissing takes "no such file" for what it is: the call was granted.
func orMissing(err error) error {
	if err == unix.ENOENT {
		return nil
	}
	return err
}

// writesReal writes to a file unless something else was put in its place.
func writesReal(path, text string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return err
	}
	if st.Type != unix.PROC_SUPER_MAGIC {
		return errors.New("masked")
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}

func mknod(path string, kind uint32, major, minor uint32) error {
	if err := unix.Mknod(path, kind|0o666, int(unix.Mkdev(major, minor))); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDONLY, 0) // where making it is faked it must not open
	if err != nil {
		return fmt.Errorf("made, but: %w", err)
	}
	f.Close()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err == nil && st.Mode&unix.S_IFMT != kind {
		return errors.New("not made")
	}
	return nil
}

func socket(family, kind, proto int) error {
	fd, err := unix.Socket(family, kind, proto)
	if err == nil {
		unix.Close(fd)
	}
	return err
}
