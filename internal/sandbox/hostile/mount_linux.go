package hostile

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountAttackers go for namespaces, mounts and rights.
func mountAttackers() tries {
	unshare := func(flags int) func([]string) error { return plain(func() error { return unix.Unshare(flags) }) }
	mount := func(src, at, fs string, flags uintptr, data string) func([]string) error {
		return plain(func() error { return unix.Mount(src, at, fs, flags, data) })
	}
	return tries{
		"user namespace":           clones(unix.CLONE_NEWUSER),
		"user and mount namespace": clones(unix.CLONE_NEWUSER | unix.CLONE_NEWNS),
		"mount namespace":          unshare(unix.CLONE_NEWNS),
		"network namespace":        unshare(unix.CLONE_NEWNET),
		"process namespace":        unshare(unix.CLONE_NEWPID),
		"IPC namespace":            unshare(unix.CLONE_NEWIPC),
		"time namespace":           unshare(unix.CLONE_NEWTIME),
		"control group namespace":  unshare(unix.CLONE_NEWCGROUP),
		"user namespace by clone3": plain(func() error {
			args := [11]uint64{0: unix.CLONE_NEWUSER, 4: uint64(unix.SIGCHLD)} // struct clone_args: flags, …, exit_signal
			pid, _, e := unix.RawSyscall(unix.SYS_CLONE3, ptr(&args), 88, 0)
			if e != 0 {
				return e
			}
			if pid == 0 {
				for {
					unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
				}
			}
			_, err := unix.Wait4(int(pid), nil, 0, nil)
			return err
		}),
		"raise the limit of namespaces": plain(func() error {
			if err := os.WriteFile("/proc/sys/user/max_user_namespaces", []byte("100"), 0); err != nil {
				return err
			}
			return clones(unix.CLONE_NEWUSER)(nil)
		}),
		"mount a tmpfs":      mount("none", "/tmp", "tmpfs", 0, ""),
		"mount another proc": mount("none", "/tmp", "proc", 0, ""),
		"mount interpreters": mount("none", "/tmp", "binfmt_misc", 0, ""),
		"mount an overlay":   mount("none", "/tmp", "overlay", 0, "lowerdir=/usr:/tmp"),
		"mount a disk":       mount("/dev/vda", "/tmp", "ext4", unix.MS_RDONLY, ""),
		"bind":               mount("/", "/tmp", "", unix.MS_BIND, ""),
		"remount /proc/sys":  plain(func() error { return unix.Mount("", "/proc/sys", "", unix.MS_REMOUNT|unix.MS_BIND, "") }),
		"unmount a mask":     plain(func() error { return unix.Unmount("/proc/keys", unix.MNT_DETACH) }),
		"unmount /proc/sys":  plain(func() error { return unix.Unmount("/proc/sys", unix.MNT_DETACH) }),
		"unmount /usr":       plain(func() error { return unix.Unmount("/usr", unix.MNT_DETACH) }),
		"pivot the root": plain(func() error {
			if err := unix.Mount("none", "/tmp", "tmpfs", 0, ""); err != nil {
				return errors.Join(err, unix.PivotRoot("/", "/"))
			}
			if err := os.Mkdir("/tmp/old", 0o755); err != nil {
				return err
			}
			return unix.PivotRoot("/tmp", "/tmp/old")
		}),
		"new mount": plain(func() error { fd, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC); closeIf(fd, err); return err }),
		"clone a mount": plain(func() error {
			fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			closeIf(fd, err)
			return err
		}),
		"release agent": plain(func() error {
			if err := os.MkdirAll("/tmp/cg", 0o755); err != nil {
				return err
			}
			if err := unix.Mount("none", "/tmp/cg", "cgroup", 0, "pids"); err != nil {
				return err
			}
			return os.WriteFile("/tmp/cg/release_agent", []byte("/bin/true"), 0)
		}),
		"host name":   plain(func() error { return unix.Sethostname([]byte("evil")) }),
		"domain name": plain(func() error { return unix.Setdomainname([]byte("evil")) }),
		"capabilities": plain(func() error {
			for c := range uintptr(41) {
				// Docker's default set is what may be left.
				const kept = 1<<0 | 1<<1 | 1<<3 | 1<<4 | 1<<5 | 1<<6 | 1<<7 | 1<<8 | 1<<10 | 1<<13 | 1<<18 | 1<<27 | 1<<29 | 1<<31
				if v, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); err == nil && v == 1 && uint64(kept)>>c&1 == 0 {
					return nil
				}
			}
			return errors.New("none beyond the default set")
		}),
		"new privileges": plain(func() error {
			v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
			if err == nil && v == 1 {
				err = errors.New("programs gain none")
			}
			return err
		}),
		"above the root": plain(func() error {
			for _, p := range []string{"/../hostdev", "/../../hostdev", "/../new"} {
				if _, err := os.Stat(p); err == nil {
					return nil
				}
			}
			return errors.New("nothing is there")
		}),
		"escape a chroot": plain(func() error {
			if err := os.MkdirAll("/tmp/jail", 0o755); err != nil {
				return err
			}
			root, err := os.Open("/")
			if err != nil {
				return err
			}
			defer root.Close()
			if err := unix.Chroot("/tmp/jail"); err != nil {
				return err
			}
			if err := root.Chdir(); err != nil {
				return err
			}
			if err := unix.Chdir(strings.Repeat("../", 60)); err != nil {
				return err
			}
			if err := unix.Chroot("."); err != nil {
				return err
			}
			for _, p := range []string{"/hostdev", "/../hostdev", "/../new", "/host"} {
				if _, err := os.Stat(p); err == nil {
					return nil
				}
			}
			return errors.New("only the sandbox's own root is there")
		}),
		"node in a mount":         opens("/mnt-null", os.O_RDWR),
		"write a read-only mount": plain(func() error { return os.WriteFile("/bait/planted", []byte("x"), 0o666) }),
		"remount and write": plain(func() error {
			if err := unix.Mount("", "/bait", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
				return err
			}
			return os.WriteFile("/bait/planted", []byte("x"), 0o666)
		}),
		"hide below a whiteout": plain(func() error {
			if err := unix.Mknod("/assay-whiteout", unix.S_IFCHR, 0); err != nil {
				return err
			}
			_, err := os.Lstat("/assay-whiteout") // where making nodes is faked nothing is there
			return err
		}),
	}
}

func closeIf(fd int, err error) {
	if err == nil {
		unix.Close(fd)
	}
}

// clones makes a child in new namespaces that ends at once. A process of
// several threads cannot leave its user namespace itself.
func clones(flags uintptr) func([]string) error {
	return plain(func() error {
		pid, _, e := unix.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if e != 0 {
			return e
		}
		if pid == 0 {
			for {
				unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
			}
		}
		_, err := unix.Wait4(int(pid), nil, 0, nil)
		return err
	})
}
